package route

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

func TestDecide(t *testing.T) {
	slack := chat.Address{Space: chat.Slack, ID: "C1"}
	tg := chat.Address{Space: chat.Telegram, ID: "5"}
	web := chat.Address{Space: chat.Web, ID: "a"}
	sess := chat.Address{Space: chat.Session, ID: "1"}
	bridge := chat.Address{Space: chat.Bridge, ID: "k"}
	room := chat.Address{Space: chat.Session, ID: "room"}
	snap := Snapshot{Default: "native", Agents: []string{"billing"}}
	said := func(a chat.Address, text string, more ...func(*transport.Submission)) transport.Submission {
		s := transport.Submission{Address: a, Message: chat.Message{Text: text}, Origin: turn.FromChat}
		for _, m := range more {
			m(&s)
		}
		return s
	}
	direct := func(s *transport.Submission) { s.Direct = true }
	mention := func(s *transport.Submission) { s.Mention = true }
	reply := func(s *transport.Submission) { s.Reply = true }
	bot := func(s *transport.Submission) { s.Message.From.Bot = true }
	from := func(o turn.Origin) func(*transport.Submission) {
		return func(s *transport.Submission) { s.Origin = o }
	}

	for name, c := range map[string]struct {
		in   transport.Submission
		snap Snapshot
		want Decision
	}{
		"direct message":                      {said(slack, "hi", direct), snap, Decision{Kind: Run, Conversation: slack, Runner: "native"}},
		"mention":                             {said(slack, "hi", mention), snap, Decision{Kind: Run, Conversation: slack, Runner: "native"}},
		"chatter":                             {said(slack, "hi"), snap, Decision{Kind: Log, Conversation: slack, Runner: "native"}},
		"thread chatter":                      {said(slack, "stop", reply), snap, Decision{Kind: Log, Conversation: slack, Runner: "native"}},
		"bare stop at the top":                {said(slack, "stop"), snap, Decision{Kind: Command, Conversation: slack, Runner: "native", Verb: transport.Stop}},
		"bare help is a word":                 {said(slack, "help"), snap, Decision{Kind: Log, Conversation: slack, Runner: "native"}},
		"clear":                               {said(tg, "/clear", direct), snap, Decision{Kind: Command, Conversation: tg, Runner: "native", Verb: transport.Reset}},
		"verbose":                             {said(slack, "Verbose ON", mention), snap, Decision{Kind: Command, Conversation: slack, Runner: "native", Verb: transport.Verbose, Argument: "on"}},
		"the page is always direct":           {said(web, "hi"), snap, Decision{Kind: Run, Conversation: web, Runner: "native"}},
		"command on the page":                 {said(web, "help"), snap, Decision{Kind: Command, Conversation: web, Runner: "native", Verb: transport.Help}},
		"command by API to the page":          {said(web, "stop", from(turn.FromAPI)), snap, Decision{Kind: Command, Conversation: web, Runner: "native", Verb: transport.Stop}},
		"session text is no command":          {said(sess, "stop", from(turn.FromAPI)), snap, Decision{Kind: Run, Conversation: sess, Runner: "native"}},
		"agent in a session":                  {said(sess, "@billing hi", from(turn.FromAPI)), snap, Decision{Kind: Run, Conversation: sess, Runner: "billing", Prompt: "hi"}},
		"unknown agent in a session":          {said(sess, "@nobody hi", from(turn.FromAPI)), snap, Decision{Kind: Run, Conversation: sess, Runner: "native"}},
		"an event in a session is no mention": {said(sess, "@billing hi", from(turn.FromEvent)), snap, Decision{Kind: Run, Conversation: sess, Runner: "native"}},
		"bridge text is no mention":           {said(chat.Address{Space: chat.Bridge, ID: "k"}, "@billing hi", from(turn.FromBridge)), snap, Decision{Kind: Run, Conversation: chat.Address{Space: chat.Bridge, ID: "k"}, Runner: "native"}},
		"bridge":                              {said(bridge, "reset", from(turn.FromBridge)), snap, Decision{Kind: Run, Conversation: bridge, Runner: "native"}},
		"a schedule never commands":           {said(slack, "stop", from(turn.FromSchedule)), snap, Decision{Kind: Run, Conversation: slack, Runner: "native"}},
		"an answer never commands":            {said(tg, "stop", from(turn.FromApproval)), snap, Decision{Kind: Run, Conversation: tg, Runner: "native"}},
		"bot":                                 {said(slack, "stop", bot, mention), snap, Decision{Kind: Log, Conversation: slack, Runner: "native"}},
		"agent":                               {said(slack, "@Billing: how much?"), snap, Decision{Kind: Run, Conversation: slack, Runner: "billing", Prompt: "how much?"}},
		"agent without a query":               {said(slack, "@billing"), snap, Decision{Kind: Run, Conversation: slack, Runner: "billing"}},
		"unknown agent, unaddressed":          {said(slack, "@other hi"), snap, Decision{Kind: Log, Conversation: slack, Runner: "native"}},
		"unknown agent, addressed":            {said(tg, "@other hi", direct), snap, Decision{Kind: Run, Conversation: tg, Runner: "native"}},
		"runner of the session":               {said(sess, "hi"), Snapshot{Default: "native", Runner: "claude"}, Decision{Kind: Run, Conversation: sess, Runner: "claude"}},
		"runner of the submission": {said(sess, "hi", func(s *transport.Submission) { s.Runner = "pi" }),
			Snapshot{Default: "native", Runner: "claude"}, Decision{Kind: Run, Conversation: sess, Runner: "pi"}},
		"private line of a room":             {said(tg, "hi", direct), Snapshot{Default: "native", Conversation: room}, Decision{Kind: Run, Conversation: room, Runner: "native"}},
		"a room hears what is not addressed": {said(slack, "hi"), Snapshot{Default: "native", Runner: "council", Hears: true, Agents: []string{"billing"}}, Decision{Kind: Run, Conversation: slack, Runner: "council"}},
		"a room is told, not the agent":      {said(slack, "@billing hi"), Snapshot{Default: "native", Runner: "council", Hears: true, Agents: []string{"billing"}}, Decision{Kind: Run, Conversation: slack, Runner: "council"}},
		"nor in a session":                   {said(sess, "@billing hi", from(turn.FromAPI)), Snapshot{Default: "native", Runner: "council", Hears: true, Agents: []string{"billing"}}, Decision{Kind: Run, Conversation: sess, Runner: "council"}},
		"a room can be stopped":              {said(slack, "stop"), Snapshot{Default: "native", Hears: true}, Decision{Kind: Command, Conversation: slack, Runner: "native", Verb: transport.Stop}},
		"nothing said":                       {said(tg, "  \n", direct), snap, Decision{Kind: Ignore, Conversation: tg, Runner: "native"}},
		"a file and no word": {said(tg, "", direct, func(s *transport.Submission) { s.Message.Files = []chat.File{{Local: "x"}} }),
			snap, Decision{Kind: Run, Conversation: tg, Runner: "native"}},
	} {
		if diff := cmp.Diff(c.want, Decide(c.in, c.snap)); diff != "" {
			t.Errorf("%s: Decide (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseCommand(t *testing.T) {
	type got struct {
		verb transport.Verb
		arg  string
		ok   bool
	}
	for text, want := range map[string]got{
		"stop": {transport.Stop, "", true}, " /STOP\n": {transport.Stop, "", true}, "compact": {transport.Compact, "", true},
		"/reset": {transport.Reset, "", true}, "clear": {transport.Reset, "", true}, "help": {transport.Help, "", true},
		"verbose": {transport.Verbose, "status", true}, "/verbose off": {transport.Verbose, "off", true},
		"verbose maybe": {}, "stop it": {}, "please stop": {}, "": {}, "/": {}, "//stop": {}, "stopp": {}, "verbose on now": {},
	} {
		verb, arg, ok := ParseCommand(text)
		if (got{verb, arg, ok}) != want {
			t.Errorf("ParseCommand(%q) = %q, %q, %v, want %+v", text, verb, arg, ok, want)
		}
	}
}

func TestMention(t *testing.T) {
	agents := []string{"billing", "Self-Heal", "a_1"}
	for _, c := range []struct{ text, name, query, why string }{
		{"@billing how much?", "billing", "how much?", "plain"},
		{"  @billing how much?  ", "billing", "how much?", "trimmed"},
		{"@BILLING: how", "billing", "how", "case does not matter, the registry's spelling returns"},
		{"@self-heal, go", "Self-Heal", "go", "dashes and a comma"},
		{"@a_1 x\ny", "a_1", "x\ny", "the query may have lines"},
		{"@billing\nhow", "billing", "how", "a newline is space"},
		{"@billing:how", "billing", "how", "the mark ends the name"},
		{"@billing", "billing", "@billing", "no query: the whole text"},
		{"@billing: ", "billing", "@billing:", "no query after a mark: the whole text"},
		{"@nobody hi", "", "", "unknown"},
		{"ask @billing", "", "", "in the middle"},
		{"@billing.com hi", "", "", "an address, not a name"},
		{"@billingé hi", "", "", "not a word character"},
		{"@", "", "", "no name"},
		{"@ billing", "", "", "a space before the name"},
		{"billing hi", "", "", "no at sign"},
		{"", "", "", "nothing"},
	} {
		name, query, ok := Mention(c.text, agents)
		if name != c.name || query != c.query || ok != (c.name != "") {
			t.Errorf("Mention(%q) = %q, %q, %v, want %q, %q: %s", c.text, name, query, ok, c.name, c.query, c.why)
		}
	}
	if _, _, ok := Mention("@billing hi", nil); ok {
		t.Error("Mention with an empty registry found somebody")
	}
}

func FuzzMention(f *testing.F) {
	f.Add("@billing: x")
	f.Add("@billing")
	f.Fuzz(func(t *testing.T, text string) {
		name, query, ok := Mention(text, []string{"billing"})
		if ok && (name != "billing" || query == "") || !ok && (name != "" || query != "") {
			t.Fatalf("Mention(%q) = %q, %q, %v", text, name, query, ok)
		}
	})
}

func FuzzParseCommand(f *testing.F) {
	f.Add("/verbose on")
	f.Fuzz(func(t *testing.T, text string) {
		verb, arg, ok := ParseCommand(text)
		if ok != (verb != "") || arg != "" && verb != transport.Verbose {
			t.Fatalf("ParseCommand(%q) = %q, %q, %v", text, verb, arg, ok)
		}
	})
}
