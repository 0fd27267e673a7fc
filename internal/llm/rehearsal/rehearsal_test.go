package rehearsal

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/iris-operator/iris/internal/llm"
)

var allTools = []llm.ToolSpec{{Name: "bash", Description: "Run a command.\nMore."}, {Name: "read"}, {Name: "write"}, {Name: "edit"}, {Name: "attach"}}

func user(text string) llm.Message {
	return llm.Message{Role: llm.User, Parts: []llm.Part{{Kind: llm.TextPart, Text: text}}}
}

// reply consumes one answer, checks its shape and returns the message.
func reply(t testing.TB, req llm.Request) llm.Message {
	t.Helper()
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	var done *llm.Message
	for e, err := range m.Stream(context.Background(), req) {
		if err != nil || done != nil {
			t.Fatalf("event %+v, %v (done: %v)", e, err, done != nil)
		}
		if e.Done != nil {
			done = &e.Done.Message
		}
		if !utf8.ValidString(e.Text) {
			t.Fatalf("piece %q is not UTF-8", e.Text)
		}
		text.WriteString(e.Text)
	}
	if done == nil || said(*done) != text.String() {
		t.Fatalf("message %+v does not match the pieces %q", done, text.String())
	}
	return *done
}

func said(m llm.Message) string {
	for _, p := range m.Parts {
		if p.Kind == llm.TextPart {
			return p.Text
		}
	}
	return ""
}

// called lists the calls as name and arguments without their labels.
func called(t testing.TB, m llm.Message) []string {
	t.Helper()
	var all []string
	for _, p := range m.Parts {
		if p.Kind != llm.CallPart {
			continue
		}
		var args map[string]any
		if err := json.Unmarshal(p.Call.Args, &args); err != nil {
			t.Fatalf("args %s: %v", p.Call.Args, err)
		}
		s := p.Call.Name
		for _, k := range []string{"command", "path", "content", "oldText", "newText", "cron", "text", "action"} {
			if v, ok := args[k].(string); ok {
				s += " " + k + "=" + v
			}
		}
		all = append(all, s)
	}
	return all
}

func TestSentencesBecomeCalls(t *testing.T) {
	bash := func(lines ...string) (all []string) {
		for _, l := range lines {
			all = append(all, "bash command="+l)
		}
		return all
	}
	for text, want := range map[string][]string{
		"what is in this folder and how big is it?":         bash("ls -la", "du -sh ."),
		"What's in here, and how big is it?":                bash("ls -la", "du -sh ."),
		"list files":                                        bash("ls -la"),
		"show me the files in /tmp please":                  bash("ls -la /tmp"),
		"what files are in the docs folder?":                bash("ls -la docs"),
		"what is in docs?":                                  bash("ls -la docs"),
		"how big is this directory":                         bash("du -sh ."),
		"How big is src?":                                   bash("du -sh src"),
		"how many files are there?":                         bash("find . -type f | wc -l"),
		"run df -h":                                         bash("df -h"),
		"Run df -h.":                                        bash("df -h"),
		"run du -sh .":                                      bash("du -sh ."),
		"run `rm -rf /etc`":                                 bash("rm -rf /etc"),
		"run `date` and `uptime`":                           bash("date", "uptime"),
		"run df -h and uptime":                              bash("df -h", "uptime"),
		"run echo salt and pepper":                          bash("echo salt and pepper"),
		"please run \"echo hi\" for me":                     bash("echo hi"),
		"could you please execute: ls -la":                  bash("ls -la"),
		"run the command uname -a":                          bash("uname -a"),
		"run ```sh\nfor i in 1 2; do\n  echo $i\ndone\n```": bash("for i in 1 2; do\n  echo $i\ndone"),
		"`ls`":                                             bash("ls"),
		"$ git log -1":                                     bash("git log -1"),
		"git status":                                       bash("git status"),
		"df -h":                                            bash("df -h"),
		"uptime":                                           bash("uptime"),
		"./build.sh fast":                                  bash("./build.sh fast"),
		"hi iris, run uptime":                              bash("uptime"),
		"<@U123> run uptime":                               bash("uptime"),
		"how much disk space is left?":                     bash("df -h"),
		"how much memory is free":                          bash("free -h"),
		"disk space and memory used?":                      bash("df -h", "free -h"),
		"what time is it?":                                 bash("date"),
		"who am i":                                         bash("id"),
		"where are you?":                                   bash("pwd"),
		"which system is this?":                            bash("uname -a", "head -n 4 /etc/os-release"),
		"what is running":                                  bash("ps aux --sort=-%mem | head -n 12"),
		"read notes.md":                                    {"read path=notes.md"},
		"read notes":                                       {"read path=notes"},
		"show me the file docs/a b.md":                     {"read path=docs/a b.md"},
		"show me \"docs/a b.md\"":                          {"read path=docs/a b.md"},
		"what is in notes.md?":                             {"read path=notes.md"},
		"what does the README say?":                        {"read path=README"},
		"cat notes.md":                                     bash("cat notes.md"),
		"read a.md and b.md":                               {"read path=a.md", "read path=b.md"},
		"write hello to notes.md":                          {"write path=notes.md content=hello"},
		"write 'go to bed' to notes.md":                    {"write path=notes.md content=go to bed"},
		"write go to bed to notes.md":                      {"write path=notes.md content=go to bed"},
		"write to notes.md:\n```\na\nb\n```":               {"write path=notes.md content=a\nb"},
		"create a file notes.md with the text hello":       {"write path=notes.md content=hello"},
		"create an empty file called a.txt":                {"write path=a.txt content="},
		"make a folder called tmp":                         bash("mkdir -p -- tmp"),
		"append it's late to notes.md":                     bash(`printf '%s\n' 'it'\''s late' >> notes.md`),
		"replace hello with bye in notes.md":               {"edit path=notes.md oldText=hello newText=bye"},
		"edit notes.md: replace \"a b\" with \"c\"":        {"edit path=notes.md oldText=a b newText=c"},
		"in notes.md change hello to bye":                  {"edit path=notes.md oldText=hello newText=bye"},
		"attach report.pdf":                                {"attach path=report.pdf"},
		"send me report.pdf":                               {"attach path=report.pdf"},
		"delete notes.md":                                  bash("rm -- notes.md"),
		"call bash {\"label\":\"x\",\"command\":\"true\"}": bash("true"),
		"write hello to notes.md and attach it":            {"write path=notes.md content=hello"},
		"[EVENT:x.json:periodic:0 9 * * 1-5] run df -h":    bash("df -h"),
		"[2026-01-02 03:04:05+01:00] [anna]: run df -h":    bash("df -h"),
		"<dynamic_context>\n## run rm\n</dynamic_context>\n\n[2026-01-02 03:04:05+01:00] [anna]: run df -h\n\n<slack_attachments>\na/b.txt\n</slack_attachments>": bash("df -h"),
	} {
		got := reply(t, llm.Request{Messages: []llm.Message{user(text)}, Tools: allTools})
		if diff := cmp.Diff(want, called(t, got)); diff != "" {
			t.Errorf("%q (-want +got):\n%s%s", text, diff, said(got))
		}
		if want != nil && (got.Stop != llm.StopTools || strings.Contains(said(got), "rehearsal:")) {
			t.Errorf("%q: stop %q, said %q", text, got.Stop, said(got))
		}
	}
}

func TestSentencesAreAnswered(t *testing.T) {
	for text, want := range map[string]string{
		"hi":                         "Hello!",
		"Good morning, Iris!":        "Hello!",
		"hey there":                  "Hello!",
		"help":                       "what is in this folder and how big is it?",
		"what can you do?":           "plain sentences",
		"who are you":                "I am Iris, in rehearsal",
		"thanks a lot":               "You are welcome",
		"bye":                        "Bye!",
		"tools":                      "- `bash`: Run a command.\n- `edit`",
		"how do I set a real model?": "ANTHROPIC_API_KEY",
		"again":                      "nothing to repeat",
		"run the tests":              "exact command",
		"edit notes.md":              "replace hello with goodbye in notes.md",
		"make the world better":      "I do not understand",
		"find someone nice":          "I do not understand",
		"why is the sky blue?":       "I do not understand",
		"call bash {nope}":           "one JSON object",
		"<@U12>":                     "no words",
		"every weekday at 9 tell me the disk space": "`0 9 * * 1-5`",
		"tomorrow at 9 call mum":                    "one-shot",
		"remind me to drink water":                  "one-shot",
		strings.Repeat("`a` ", 9):                   "more than eight",
	} {
		got := reply(t, llm.Request{Messages: []llm.Message{user(text)}, Tools: allTools})
		if !strings.Contains(said(got), want) || len(called(t, got)) != 0 || got.Stop != llm.StopEnd {
			t.Errorf("%q: said %q, calls %q, stop %q", text, said(got), called(t, got), got.Stop)
		}
	}
}

func TestEveryReplySaysWhatItIs(t *testing.T) {
	req := llm.Request{Tools: allTools}
	for _, text := range []string{"hi", "help", "what?", "every day at 8 x"} {
		req.Messages = []llm.Message{user(text)}
		if s := said(reply(t, req)); !strings.HasSuffix(s, defaultNotice) || strings.Count(s, "(rehearsal:") != 1 {
			t.Errorf("%q: said %q", text, s)
		}
	}
	if s := converse(t, "run df -h", result("ok", false)); !strings.HasSuffix(s, defaultNotice) {
		t.Errorf("report: said %q", s)
	}
	m, err := New(Options{Notice: "(mine)"})
	if err != nil || m.Info().Provider != Name || m.Info().Images {
		t.Fatalf("New = %+v, %v", m, err)
	}
	for e := range m.Stream(t.Context(), req) {
		if e.Done != nil && !strings.HasSuffix(said(e.Done.Message), "(mine)") {
			t.Errorf("said %q", said(e.Done.Message))
		}
	}
}

func TestOnlyOfferedTools(t *testing.T) {
	for text, want := range map[string]string{
		"run df -h":               `tool "bash"`,
		"write hello to notes.md": `tool "write"`,
		"attach report.pdf":       `tool "attach"`,
		"read notes.md":           `tool "read"`,
		"list files":              `tool "bash"`,
		"tools":                   "No tools",
		"call bash {}":            "do not understand",
		"summarize this":          "Asked so far:\n\n- run make",
	} {
		got := reply(t, llm.Request{Messages: []llm.Message{user("run make"), {Role: llm.Assistant}, user(text)}})
		if !strings.Contains(said(got), want) || len(called(t, got)) != 0 {
			t.Errorf("%q: said %q, calls %q", text, said(got), called(t, got))
		}
	}
	got := reply(t, llm.Request{Messages: []llm.Message{user("read my notes.md")}, Tools: allTools[:1]})
	if diff := cmp.Diff([]string{"bash command=cat -- notes.md"}, called(t, got)); diff != "" {
		t.Errorf("read by bash:\n%s", diff)
	}
}

// result answers a call.
func result(text string, bad bool) llm.Result { return llm.Result{Text: text, IsError: bad} }

// converse asks, answers each round of calls with the next results, and
// returns the final text.
func converse(t testing.TB, text string, results ...llm.Result) string {
	s, _ := talk(t, []llm.Message{user(text)}, results...)
	return s
}

func talk(t testing.TB, history []llm.Message, results ...llm.Result) (string, []llm.Message) {
	t.Helper()
	for {
		m := reply(t, llm.Request{Messages: history, Tools: allTools})
		history = append(history, m)
		if m.Stop == llm.StopEnd {
			if len(results) != 0 {
				t.Fatalf("%d results left after %q", len(results), said(m))
			}
			return said(m), history
		}
		var parts []llm.Part
		for _, p := range m.Parts {
			if p.Kind != llm.CallPart {
				continue
			}
			if len(results) == 0 {
				t.Fatalf("no result for %s", p.Call.Args)
			}
			r := results[0]
			r.ID, r.Name = p.Call.ID, p.Call.Name
			results = results[1:]
			parts = append(parts, llm.Part{Kind: llm.ResultPart, Result: &r})
		}
		history = append(history, llm.Message{Role: llm.User, Parts: parts})
		if err := llm.Valid(history); err != nil {
			t.Fatal(err)
		}
	}
}

const listingOf3 = `total 24
drwxr-xr-x 3 anna anna  4096 Jan  2 10:00 .
drwxr-xr-x 9 anna anna  4096 Jan  2 10:00 ..
drwxr-xr-x 2 anna anna  4096 Jan  2 10:00 docs
-rw-r--r-- 1 anna anna 12345 Jan  2 10:00 my report.pdf
-rw-r--r-- 1 anna anna   120 Jan  2  2024 notes.md
lrwxrwxrwx 1 anna anna     8 Jan  2 10:00 link -> notes.md`

func TestReports(t *testing.T) {
	for name, c := range map[string]struct {
		ask     string
		results []llm.Result
		want    []string
	}{
		"folder": {"what is in this folder and how big is it?", []llm.Result{result(listingOf3, false), result("24K\t.", false)},
			[]string{"This folder has 1 folder and 2 files, and 1 other entry; the largest is `my report.pdf` (12.1 KiB). Everything together takes 24K.", "```\ntotal 24\n"}},
		"empty folder":   {"list files", []llm.Result{result("total 0\ndrwxr-xr-x 3 a a 4096 Jan 2 10:00 .", false)}, []string{"This folder is empty."}},
		"size":           {"how big is src?", []llm.Result{result("1.2M\tsrc", false)}, []string{"`src` takes 1.2M."}},
		"folder missing": {"what is in docs?", []llm.Result{result("ls: no such file\n\nCommand exited with code 2", true)}, []string{"`ls -la docs` did not work:", "exited with code 2"}},
		"strange ls":     {"list files", []llm.Result{result("who knows", false)}, []string{"`ls -la` says:\n\n```\nwho knows\n```"}},
		"command":        {"run df -h", []llm.Result{result("Filesystem\n", false)}, []string{"`df -h` says:\n\n```\nFilesystem\n```"}},
		"silent":         {"run true", []llm.Result{result("(no output)", false)}, []string{"printed nothing"}},
		"fences":         {"read a.md", []llm.Result{result("```\nx\n```", false)}, []string{"a.md:\n\n````\n```\nx\n```\n````"}},
		"two": {"run `a` and `b`", []llm.Result{result("1", false), result("2", true)},
			[]string{"`a` says:\n\n```\n1\n```", "`b` did not work:\n\n```\n2\n```"}},
		"write":  {"write hello to notes.md", []llm.Result{result("Successfully wrote 5 bytes to notes.md", false)}, []string{"Done: Successfully wrote 5 bytes"}},
		"attach": {"attach a.pdf", []llm.Result{result("Attached file: a.pdf", false)}, []string{"attached: a.pdf"}},
		"denied": {"run `cat .env`", []llm.Result{result("Command refused by bash policy: names a secret. This command cannot be run.", true)},
			[]string{"was refused:\n\n> Command refused"}},
		"long":          {"run `seq 500`", []llm.Result{result(strings.Repeat("line\n", 500), false)}, []string{"(and 420 more lines)"}},
		"one long line": {"run x", []llm.Result{result(strings.Repeat("é", 9000), false)}, []string{"é…"}},
		"steps": {"write hello to notes.md, then read it and attach it",
			[]llm.Result{result("wrote 5", false), result("hello", false), result("ok", false)},
			[]string{"Done: wrote 5", "notes.md:\n\n```\nhello\n```", "attached: notes.md"}},
		"steps stop": {"run false then run true", []llm.Result{result("code 1", true)}, []string{"did not work", "left the rest undone"}},
		"step talk":  {"run true, then tell me a joke", []llm.Result{result("", false)}, []string{"printed nothing", "I do not understand"}},
		"other tool": {"call bash", []llm.Result{result("x", false)}, []string{"`` says"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := converse(t, c.ask, c.results...)
			for _, w := range c.want {
				if !strings.Contains(got, w) {
					t.Errorf("said %q, want %q in it", got, w)
				}
			}
		})
	}
}

func TestHeldCommandWaitsForYes(t *testing.T) {
	held := result("This command is destructive. Ask the user in chat and end the turn.", true)
	text, history := talk(t, []llm.Message{user("run `rm -rf /etc`")}, held)
	if !strings.Contains(text, "needs a yes") || !strings.Contains(text, "> This command is destructive.") || strings.Contains(text, "Ask the user") {
		t.Fatalf("said %q", text)
	}
	ask := func(word string) llm.Message {
		return reply(t, llm.Request{Messages: append(history[:len(history):len(history)], user(word)), Tools: allTools})
	}
	for _, word := range []string{"yes", "Go ahead!", "The command was approved by anna: run it now"} {
		if diff := cmp.Diff([]string{"bash command=rm -rf /etc"}, called(t, ask(word))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", word, diff)
		}
	}
	for word, want := range map[string]string{"no": "leave it alone", "the command was denied": "leave it alone", "hi": "Hello"} {
		if m := ask(word); len(called(t, m)) != 0 || !strings.Contains(said(m), want) {
			t.Errorf("%q: said %q, calls %q", word, said(m), called(t, m))
		}
	}
	if diff := cmp.Diff([]string{"bash command=uptime"}, called(t, ask("run uptime"))); diff != "" {
		t.Errorf("another request:\n%s", diff)
	}
	if m := reply(t, llm.Request{Messages: append(history, user("yes"))}); len(called(t, m)) != 0 {
		t.Errorf("calls %q without tools", called(t, m))
	}
}

func TestAgainRepeats(t *testing.T) {
	_, history := talk(t, []llm.Message{user("run `a` and `b`")}, result("1", false), result("2", false))
	m := reply(t, llm.Request{Messages: append(history, user("again")), Tools: allTools})
	if diff := cmp.Diff([]string{"bash command=a", "bash command=b"}, called(t, m)); diff != "" {
		t.Errorf("again (-want +got):\n%s", diff)
	}
	ids := map[string]bool{}
	for _, msg := range append(history, m) {
		for _, p := range msg.Parts {
			if p.Kind == llm.CallPart {
				if ids[p.Call.ID] {
					t.Errorf("id %q is used twice", p.Call.ID)
				}
				ids[p.Call.ID] = true
			}
		}
	}
}

func TestCron(t *testing.T) {
	for text, want := range map[string][2]string{
		"every weekday at 9 tell me the disk space":   {"0 9 * * 1-5", "tell me the disk space"},
		"every weekday at 9":                          {"0 9 * * 1-5", "say hello"},
		"every day at 18:30, run df -h":               {"30 18 * * *", "run df -h"},
		"send me the news every monday at 7pm":        {"0 19 * * 1", "send me the news"},
		"each friday remind the team at 4 pm":         {"0 16 * * 5", "remind the team"},
		"every morning say good morning":              {"0 8 * * *", "say good morning"},
		"daily at 12 am: clean up":                    {"0 0 * * *", "clean up"},
		"hourly check the queue":                      {"0 * * * *", "check the queue"},
		"every 15 minutes check the queue":            {"*/15 * * * *", "check the queue"},
		"every hour check the queue":                  {"0 * * * *", "check the queue"},
		"every 2 hours check the queue":               {"0 */2 * * *", "check the queue"},
		"every month pay rent":                        {"0 9 1 * *", "pay rent"},
		"every weekend at 25 sleep":                   {"0 9 * * 0,6", "at 25 sleep"},
		"remind me to stretch every weekday at 10.15": {"15 10 * * 1-5", "stretch"},
	} {
		cron, task, ok := cronOf(text)
		if !ok || cron != want[0] || task != want[1] {
			t.Errorf("cronOf(%q) = %q, %q, %v, want %q", text, cron, task, ok, want)
		}
	}
	for _, text := range []string{"list every file", "every 0 minutes x", "run df -h", "everyone at 9"} {
		if cron, _, ok := cronOf(text); ok {
			t.Errorf("cronOf(%q) = %q, want none", text, cron)
		}
	}
}

func TestScheduleTool(t *testing.T) {
	const schema = `{"type":"object","properties":{"label":{},"action":{"enum":["list","create"]},"cron":{"type":"string"},"text":{"type":"string"}},"required":["label","cron","text"]}`
	offer := func(schema string) []llm.ToolSpec {
		return append([]llm.ToolSpec{{Name: "schedule", Schema: json.RawMessage(schema)}}, allTools...)
	}
	req := llm.Request{Messages: []llm.Message{user("every weekday at 9 tell me the disk space")}, Tools: offer(schema)}
	want := []string{"schedule cron=0 9 * * 1-5 text=tell me the disk space action=create"}
	if diff := cmp.Diff(want, called(t, reply(t, req))); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	for name, s := range map[string]string{"unknown required": strings.Replace(schema, `"required":[`, `"required":["owner",`, 1), "broken": `{`, "no cron": `{"properties":{"text":{}}}`} {
		req.Tools = offer(s)
		if m := reply(t, req); len(called(t, m)) != 0 || !strings.Contains(said(m), `"type": "periodic"`) {
			t.Errorf("%s: said %q, calls %q", name, said(m), called(t, m))
		}
	}
}

func TestStreamEndsWithCtx(t *testing.T) {
	m, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	n := 0
	for _, err := range m.Stream(ctx, llm.Request{Messages: []llm.Message{user("help")}}) {
		n++
		if n == 3 {
			cancel(stopped)
		}
		if n > 3 && !errors.Is(err, stopped) {
			t.Errorf("event %d: err = %v", n, err)
		}
	}
	if n != 4 {
		t.Errorf("%d events, want 4", n)
	}
	for range m.Stream(t.Context(), llm.Request{Messages: []llm.Message{user("help")}}) {
		break
	}
	for _, err := range m.Stream(ctx, llm.Request{}) {
		if !errors.Is(err, stopped) {
			t.Errorf("err = %v", err)
		}
	}
}

func TestNoWordsAtAll(t *testing.T) {
	for name, messages := range map[string][]llm.Message{
		"none":      nil,
		"assistant": {{Role: llm.Assistant, Parts: []llm.Part{{Kind: llm.TextPart, Text: "x"}}}},
		"blank":     {user(" \n")},
	} {
		if s := said(reply(t, llm.Request{Messages: messages, Tools: allTools})); !strings.HasPrefix(s, "Hello!") {
			t.Errorf("%s: said %q", name, s)
		}
	}
}

func TestPieces(t *testing.T) {
	for _, text := range []string{"", "a", strings.Repeat("wort ", 500), strings.Repeat("ü", 4000), strings.Repeat("x", 30)} {
		all := pieces(text)
		if strings.Join(all, "") != text || len(all) > 64 {
			t.Errorf("pieces of %d bytes: %d pieces", len(text), len(all))
		}
		for _, p := range all {
			if p == "" || !utf8.ValidString(p) {
				t.Errorf("piece %q", p)
			}
		}
	}
}

// FuzzAnswer feeds any sentence and any result: the answer is well formed, its
// calls are offered ones, and the report follows.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{"run `a` and `b`", "every 5 minutes x", "write a to b.c", "what's in here", "```\n```", "then then", "\xff`", "run the", "$ ", "and then ", "every day at 99"} {
		f.Add(s, "total 0\n-rw-r--r-- 1 a a 99999999999999999999 Jan 1 1 x", true)
	}
	f.Fuzz(func(t *testing.T, text, out string, bad bool) {
		history := []llm.Message{user(text)}
		for range 12 {
			m := reply(t, llm.Request{Messages: history, Tools: allTools})
			history = append(history, m)
			var parts []llm.Part
			for _, p := range m.Parts {
				if p.Kind != llm.CallPart {
					continue
				}
				var args map[string]any
				if err := json.Unmarshal(p.Call.Args, &args); err != nil || args == nil {
					t.Fatalf("args %q: %v", p.Call.Args, err)
				}
				parts = append(parts, llm.Part{Kind: llm.ResultPart, Result: &llm.Result{ID: p.Call.ID, Name: p.Call.Name, Text: out, IsError: bad}})
			}
			if len(parts) == 0 {
				if !strings.Contains(said(m), "(rehearsal:") {
					t.Fatalf("said %q", said(m))
				}
				return
			}
			history = append(history, llm.Message{Role: llm.User, Parts: parts})
			bad = bad && len(history) < 6
		}
	})
}
