package route

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

func TestParseProgram(t *testing.T) {
	verb := func(v transport.Verb, arg string) Said { return Said{Verb: v, Argument: arg} }
	for text, want := range map[string]Said{
		"/help":                       verb(transport.Help, ""),
		" /HELP ":                     verb(transport.Help, ""),
		"help":                        verb(transport.Help, ""),
		"stop":                        verb(transport.Stop, ""),
		"/stop now, please":           verb(transport.Stop, ""),
		"/mode":                       verb(transport.Mode, ""),
		"/Mode acceptEdits":           verb(transport.Mode, "acceptEdits"),
		"/model claude-opus-4":        verb(transport.Model, "claude-opus-4"),
		"/status":                     verb(transport.Status, ""),
		"/usage":                      verb(transport.Usage, ""),
		"/sessions":                   verb(transport.Sessions, ""),
		"/resume":                     verb(transport.Resume, ""),
		"/resume 1a2b":                verb(transport.Resume, "1a2b"),
		"/switch -":                   verb(transport.Switch, "-"),
		"/switch web app":             verb(transport.Switch, "web app"),
		"/restart":                    verb(transport.Restart, ""),
		"/clear":                      verb(transport.Reset, ""),
		"/new":                        verb(transport.Reset, ""),
		"/reset":                      verb(transport.Reset, ""),
		"reset":                       verb(transport.Reset, ""),
		"/compact":                    verb(transport.Compact, ""),
		"/verbose on":                 verb(transport.Verbose, "on"),
		"/verbose":                    verb(transport.Verbose, "status"),
		"/summary":                    {Prompt: strings.TrimSpace(summaryText)},
		"/summary the\nrisks":         {Prompt: strings.TrimSpace(summaryText) + "\n\nthe\nrisks"},
		"/cc:review":                  {Prompt: "/review"},
		"/CC:Review the\n  second":    {Prompt: "/Review the\n  second"},
		"/cc:mcp:tool x":              {Prompt: "/mcp:tool x"},
		"/nosuch":                     verb(transport.Unknown, "nosuch"),
		"/cc:":                        verb(transport.Unknown, "cc:"),
		"/nosuch do it":               {},
		"/clear the cache of images":  {},
		"/status of the build?":       {},
		"/new page for the shop":      {},
		"/opt/foo.txt":                {},
		"/opt/foo.txt explain":        {},
		"/":                           {},
		"//":                          {},
		"/ü":                          {},
		"":                            {},
		"restart":                     {},
		"please /stop":                {},
		"/verbose loud":               {},
		"/" + strings.Repeat("x", 65): {},
	} {
		got, ok := ParseProgram(chat.Message{Text: text})
		got.slash = false
		if got != want || ok != (want != Said{}) {
			t.Errorf("ParseProgram(%q) = %+v, %t, want %+v", text, got, ok, want)
		}
	}
	if got, ok := ParseProgram(chat.Message{Text: "/stop", Files: []chat.File{{}}}); ok {
		t.Errorf("a message with files is %+v", got)
	}
}

// TestHelpIsTheTable: whatever is in the table is understood, and in the help.
func TestHelpIsTheTable(t *testing.T) {
	help := ProgramHelp("Claude Code")
	for _, w := range Words() {
		for _, name := range []string{w.Name, w.Also} {
			if name == "" {
				continue
			}
			said, ok := ParseProgram(chat.Message{Text: "/" + name})
			if !ok || w.prompt == nil && said.Verb != w.Verb || w.prompt != nil && said.Prompt == "" {
				t.Errorf("/%s is %+v, %t", name, said, ok)
			}
			if !strings.Contains(help, "/"+name) || !strings.Contains(help, w.Help) {
				t.Errorf("/%s is not in the help:\n%s", name, help)
			}
		}
	}
	if !strings.Contains(help, "/cc:NAME") || !strings.Contains(help, "Claude Code itself") {
		t.Errorf("help:\n%s", help)
	}
}

// TestCommandsOfPrograms: where an agent program answers, its words are commands;
// elsewhere they are what they were.
func TestCommandsOfPrograms(t *testing.T) {
	slack := chat.Address{Space: chat.Slack, ID: "C1"}
	dm := chat.Address{Space: chat.Slack, ID: "D1"}
	tg := chat.Address{Space: chat.Telegram, ID: "5"}
	web := chat.Address{Space: chat.Web, ID: "a"}
	ses := chat.Address{Space: chat.Session, ID: "s"}
	registered := chat.ThreadSession("C1", "1.0")
	threads := &Channel{Mode: InteractiveThread}
	leads := &Channel{Mode: Leads}
	for name, c := range map[string]struct {
		s      transport.Submission
		ch     *Channel
		runner string
		want   Decision
	}{
		"slack, mentioned":          {transport.Submission{Address: slack, Mention: true, Message: chat.Message{Text: "/status"}}, nil, "claude", Decision{Kind: Command, Verb: transport.Status, Conversation: slack, Runner: "claude"}},
		"slack, leading space":      {transport.Submission{Address: dm, Direct: true, Message: chat.Message{Text: " /mode auto"}}, nil, "claude", Decision{Kind: Command, Verb: transport.Mode, Argument: "auto", Conversation: dm, Runner: "claude"}},
		"slack, to nobody":          {transport.Submission{Address: slack, Message: chat.Message{Text: "/status"}}, nil, "claude", Decision{Kind: Log, Conversation: slack, Runner: "claude"}},
		"slack, a bot":              {transport.Submission{Address: slack, Mention: true, Message: chat.Message{Text: "/mode auto", From: chat.Person{Bot: true}}}, nil, "claude", Decision{Kind: Log, Conversation: slack, Runner: "claude"}},
		"slack, in its thread":      {transport.Submission{Address: slack, Reply: true, Message: chat.Message{Text: "/restart", Thread: "1.0"}}, threads, "claude", Decision{Kind: Command, Verb: transport.Restart, Conversation: registered, Runner: "claude"}},
		"slack, words in a thread":  {transport.Submission{Address: slack, Reply: true, Message: chat.Message{Text: "/cc:review x", Thread: "1.0"}}, threads, "claude", Decision{Kind: Run, Prompt: "/review x", Conversation: registered, Runner: "claude"}},
		"slack, leads":              {transport.Submission{Address: slack, Message: chat.Message{Text: "/usage"}}, leads, "claude", Decision{Kind: Command, Verb: transport.Usage, Conversation: slack, Runner: "claude"}},
		"telegram":                  {transport.Submission{Address: tg, Direct: true, Message: chat.Message{Text: "/resume ab"}}, nil, "pi", Decision{Kind: Command, Verb: transport.Resume, Argument: "ab", Conversation: tg, Runner: "pi"}},
		"the page":                  {transport.Submission{Address: web, Message: chat.Message{Text: "/nosuch"}}, nil, "pi", Decision{Kind: Command, Verb: transport.Unknown, Argument: "nosuch", Conversation: web, Runner: "pi"}},
		"the page, more text":       {transport.Submission{Address: web, Message: chat.Message{Text: "/nosuch x"}}, nil, "pi", Decision{Kind: Run, Conversation: web, Runner: "pi"}},
		"the page, a summary":       {transport.Submission{Address: web, Message: chat.Message{Text: "/summary"}}, nil, "pi", Decision{Kind: Run, Prompt: strings.TrimSpace(summaryText), Conversation: web, Runner: "pi"}},
		"the page, no program":      {transport.Submission{Address: web, Message: chat.Message{Text: "/status"}}, nil, "native", Decision{Kind: Run, Conversation: web, Runner: "native"}},
		"no program, a summary":     {transport.Submission{Address: web, Message: chat.Message{Text: "/summary"}}, nil, "native", Decision{Kind: Run, Conversation: web, Runner: "native"}},
		"a session, by its API":     {transport.Submission{Address: ses, Origin: turn.FromAPI, Message: chat.Message{Text: "/status"}}, nil, "pi", Decision{Kind: Run, Conversation: ses, Runner: "pi"}},
		"a schedule":                {transport.Submission{Address: web, Origin: turn.FromSchedule, Message: chat.Message{Text: "/summary"}}, nil, "pi", Decision{Kind: Run, Conversation: web, Runner: "pi"}},
		"said while nobody listens": {transport.Submission{Address: web, Late: true, Message: chat.Message{Text: "/restart"}}, nil, "pi", Decision{Kind: Log, Conversation: web, Runner: "pi"}},
	} {
		t.Run(name, func(t *testing.T) {
			snap := Snapshot{Default: "native", Runner: c.runner, Programs: []string{"claude", "pi"}, Channel: c.ch,
				Session: func(string) (chat.Address, bool) { return registered, true }}
			if diff := cmp.Diff(c.want, Decide(c.s, snap)); diff != "" {
				t.Errorf("Decide (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseProgram(f *testing.F) {
	for _, s := range []string{"/help", "/cc:x y", "/resume a", "/\x00", "/summary ü", "stop"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		said, ok := ParseProgram(chat.Message{Text: text})
		if ok == (said.Verb == "" && said.Prompt == "") || said.Verb != "" && said.Prompt != "" {
			t.Errorf("ParseProgram(%q) = %+v, %t", text, said, ok)
		}
	})
}
