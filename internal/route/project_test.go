package route

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// TestProjectRouting: first match wins, channel and person, a private chat by the
// person, and nobody else (agent-cli A2, A15-2, A15-3).
func TestProjectRouting(t *testing.T) {
	const own, root, foreign = "1700000000.000002", "1700000000.000001", "1700000000.000009"
	type said = transport.Submission
	say := func(channel, user, text string, more ...func(*said)) said {
		s := said{Address: chat.Address{Space: chat.Slack, ID: channel}, Origin: turn.FromChat,
			Message: chat.Message{ID: own, Text: text, From: chat.Person{ID: user}}, Direct: strings.HasPrefix(channel, "D")}
		for _, m := range more {
			m(&s)
		}
		return s
	}
	mention := func(s *said) { s.Mention = true }
	reply := func(s *said) { s.Reply, s.Message.Thread = true, root }
	elsewhere := func(s *said) { s.Reply, s.Message.Thread = true, foreign }
	bot := func(s *said) { s.Message.From.Bot = true }
	file := func(s *said) { s.Message.Files = []chat.File{{Original: "a.png"}} }
	telegram := func(s *said) { s.Address.Space, s.Direct = chat.Telegram, true }

	snap := Snapshot{Default: "native", Agents: []string{"billing"}, Projects: []Project{
		{Name: "none"},
		{Name: "web", Channels: []string{"C1"}, Users: []string{"U1"}},
		{Name: "all", Channels: []string{"C1", "C2", "-100", "tg-77"}},
		{Name: "mine", Users: []string{"U1", "42"}},
	}}
	snap.Session = func(thread string) (chat.Address, bool) {
		return chat.ThreadSession("C1", thread), thread == root
	}
	agentMode, named, listed := &Channel{Mode: Agent}, &Channel{Mode: Agent, Project: "WEB", Listed: true}, &Channel{Mode: Chat, Listed: true}

	opened, thread := chat.ThreadSession("C1", own), chat.ThreadSession("C1", root)
	for name, c := range map[string]struct {
		said    said
		channel *Channel
		want    string
	}{
		"mention opens":                   {say("C1", "U1", "hi", mention), agentMode, "run web " + opened.String()},
		"first match, by person":          {say("C1", "U2", "hi", mention), agentMode, "run all " + opened.String()},
		"no mention, no thread":           {say("C1", "U1", "hi"), agentMode, "ignore"},
		"reply in her thread":             {say("C1", "U1", "hi", reply), agentMode, "run web " + thread.String()},
		"reply in a foreign thread":       {say("C1", "U1", "hi", elsewhere), agentMode, "ignore"},
		"mention in a foreign thread":     {say("C1", "U1", "hi", elsewhere, mention), agentMode, "run web " + chat.ThreadSession("C1", foreign).String()},
		"bots on every path":              {say("C1", "U1", "hi", mention, bot), agentMode, "ignore"},
		"a bot in her thread":             {say("C1", "U1", "hi", reply, bot), agentMode, "ignore"},
		"a mention with a file alone":     {say("C1", "U1", "", mention, file), agentMode, "run web " + opened.String()},
		"a mention of nothing":            {say("C1", "U1", "", mention), agentMode, "ignore"},
		"a command":                       {say("C1", "U1", "stop", mention, reply), agentMode, "command web " + thread.String()},
		"a command in her thread":         {say("C1", "U1", "/stop", reply), agentMode, "command web " + thread.String()},
		"a file is no command":            {say("C1", "U1", "/stop", reply, file), agentMode, "run web " + thread.String()},
		"a command of a stranger":         {say("C3", "U2", "stop", mention), agentMode, "ignore"},
		"default deny":                    {say("C3", "U1", "hi", mention), agentMode, "ignore"},
		"private chat":                    {say("D1", "U1", "hi"), nil, "run web D1"},
		"command in a private chat":       {say("D1", "U1", "/compact"), nil, "command web D1"},
		"bot in a private chat":           {say("D1", "U1", "hi", bot), nil, "ignore"},
		"private chat of a stranger":      {say("D1", "U2", "hi"), nil, "run native D1"},
		"private chat that is listed":     {say("D1", "U1", "hi"), listed, "run native D1"},
		"private chat named":              {say("D1", "U1", "hi"), named, "run web D1"},
		"private chat named, a stranger":  {say("D1", "U2", "hi"), named, "ignore"},
		"channels.json first":             {say("C9", "U1", "hi", mention), named, "run web " + chat.ThreadSession("C9", own).String()},
		"channels.json, a stranger":       {say("C9", "U2", "hi", mention), named, "ignore"},
		"channels.json, unknown project":  {say("C9", "U2", "hi", mention), &Channel{Mode: Agent, Project: "gone"}, "run gone " + chat.ThreadSession("C9", own).String()},
		"telegram, the person":            {say("42", "42", "hi", telegram), nil, "run mine tg-42"},
		"telegram, a stranger":            {say("43", "43", "hi", telegram), nil, "run native tg-43"},
		"telegram, a group":               {say("-100", "43", "hi", telegram), nil, "run all tg-n100"},
		"telegram, a chat as it is shown": {say("77", "43", "hi", telegram), nil, "run all tg-77"},
		"telegram, a command":             {say("42", "42", "/stop", telegram), nil, "command mine tg-42"},
	} {
		snap := snap
		snap.Channel = c.channel
		d := Decide(c.said, snap)
		got := string(d.Kind)
		if d.Kind != Ignore {
			got += " " + d.Runner + " " + d.Conversation.String()
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}

	// A thread stays with the project it began with, whoever replies; a person whom
	// that project does not take is not heard.
	snap.Channel = agentMode
	snap.With = func(string) string { return "all" }
	if d := Decide(say("C1", "U1", "hi", reply), snap); d.Kind != Run || d.Runner != "all" {
		t.Errorf("a reply of somebody of another project: %+v", d)
	}
	snap.With = func(string) string { return "web" }
	if d := Decide(say("C1", "U2", "hi", reply, mention), snap); d.Kind != Ignore {
		t.Errorf("a reply of a stranger: %+v", d)
	}
}

// TestSessionKeysHaveTheChannel: two channels may have threads of one time
// (agent-cli A15-20).
func TestSessionKeysHaveTheChannel(t *testing.T) {
	snap := Snapshot{Channel: &Channel{Mode: Agent, Project: "p"}}
	seen := map[chat.Address]bool{}
	for _, channel := range []string{"C1", "C2"} {
		d := Decide(transport.Submission{Address: chat.Address{Space: chat.Slack, ID: channel}, Mention: true, Message: chat.Message{ID: "1700000000.000001", Text: "hi"}}, snap)
		seen[d.Conversation] = true
	}
	if len(seen) != 2 {
		t.Errorf("the conversations are %v", seen)
	}
}

func TestAgentModeInChannelsFile(t *testing.T) {
	all, warnings, err := ParseChannels([]byte(`{"C1":{"mode":"agent","project":"web"},"C2":{"mode":"agent"}}`))
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], `"C2" is ignored: mode agent needs`) {
		t.Errorf("%q, %v", warnings, err)
	}
	if c := all.For("C1"); c.Mode != Agent || c.Project != "web" || !c.Listed || !c.Sessions() || c.Bots() {
		t.Errorf("C1 is %+v", c)
	}
	if c := all.For("C2"); c.Listed || c.Mode != Chat {
		t.Errorf("C2 is %+v", c)
	}
}
