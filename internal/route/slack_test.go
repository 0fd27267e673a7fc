package route

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// TestSlackDecisionTable has every row of the table of modes, and who says what
// where in each of them.
func TestSlackDecisionTable(t *testing.T) {
	const own, root = "1700000000.000002", "1700000000.000001"
	channel := chat.Address{Space: chat.Slack, ID: "C1"}
	dm := chat.Address{Space: chat.Slack, ID: "D1"}
	opened := chat.ThreadSession("C1", own)
	inThread := chat.ThreadSession("C1", root)
	registered := chat.Address{Space: chat.Session, ID: "0192"}

	type said = transport.Submission
	say := func(text string, more ...func(*said)) said {
		s := said{Address: channel, Origin: turn.FromChat, Message: chat.Message{ID: own, Text: text}}
		for _, m := range more {
			m(&s)
		}
		return s
	}
	mention := func(s *said) { s.Mention = true }
	direct := func(s *said) { s.Direct, s.Address = true, dm }
	reply := func(s *said) { s.Reply, s.Message.Thread = true, root }
	bot := func(s *said) { s.Message.From.Bot = true }
	late := func(s *said) { s.Late = true }
	stale := func(s *said) { s.Stale = true }
	from := func(o turn.Origin) func(*said) { return func(s *said) { s.Origin = o } }

	run := func(conv chat.Address) Decision { return Decision{Kind: Run, Conversation: conv, Runner: "native"} }
	kind := func(k Kind, conv chat.Address) Decision {
		return Decision{Kind: k, Conversation: conv, Runner: "native"}
	}
	command := func(conv chat.Address, v transport.Verb, arg string) Decision {
		return Decision{Kind: Command, Conversation: conv, Runner: "native", Verb: v, Argument: arg}
	}
	agent := func(conv chat.Address) Decision {
		return Decision{Kind: Run, Conversation: conv, Runner: "billing", Prompt: "hi"}
	}
	relay := func(runner string, conv chat.Address) Decision {
		return Decision{Kind: Run, Conversation: conv, Runner: runner}
	}

	chatMode := &Channel{Mode: Chat}
	leads := &Channel{Mode: Leads}
	api := &Channel{Mode: Thread}
	open := &Channel{Mode: InteractiveThread}
	gated := &Channel{Mode: InteractiveThread, MentionForTop: true}
	pass := &Channel{Mode: Passthrough, URL: "http://127.0.0.1/"}
	passGated := &Channel{Mode: Passthrough, URL: "http://127.0.0.1/", MentionForTop: true}
	passNowhere := &Channel{Mode: Passthrough}

	for _, c := range []struct {
		name  string
		mode  *Channel
		in    said
		known bool // the thread is that of a registered session
		want  Decision
	}{
		{"no entry: a mention", nil, say("hi", mention), false, run(channel)},
		{"no entry: chatter", nil, say("hi"), false, kind(Log, channel)},

		{"relay: no url", passNowhere, say("hi", direct), false, kind(Log, dm)},
		{"relay: all at the top", pass, say("hi"), false, relay(RelayQuiet, channel)},
		{"relay: a mention", pass, say("hi", mention), false, relay(Relay, channel)},
		{"relay: direct", pass, say("hi", direct), false, relay(Relay, dm)},
		{"relay: gated top", passGated, say("hi"), false, kind(Ignore, channel)},
		{"relay: gated mention", passGated, say("hi", mention), false, relay(Relay, channel)},
		{"relay: gated thread", passGated, say("hi", reply), false, relay(RelayQuiet, channel)},
		{"relay: stop is forwarded", pass, say("stop", direct), false, relay(Relay, dm)},
		{"relay: before @agent", pass, say("@billing hi"), false, relay(RelayQuiet, channel)},
		{"relay: before verbose", pass, say("verbose on", mention), false, relay(Relay, channel)},
		{"relay: a bot", pass, say("hi", bot), false, kind(Log, channel)},
		{"relay: a schedule is refused", pass, say("hi", from(turn.FromSchedule)), false, kind(Ignore, channel)},

		{"chat: command in a DM", chatMode, say("stop", direct), false, command(dm, transport.Stop, "")},
		{"chat: clear is reset", chatMode, say("clear", mention), false, command(channel, transport.Reset, "")},
		{"chat: @iris /stop", chatMode, say("/stop", mention), false, command(channel, transport.Stop, "")},
		{"chat: @iris /stop in a thread", chatMode, say("/stop", mention, reply), false, command(channel, transport.Stop, "")},
		{"chat: bare at the top", chatMode, say("compact"), false, command(channel, transport.Compact, "")},
		{"chat: bare in a thread", chatMode, say("stop", reply), false, kind(Log, channel)},
		{"chat: verbose with a mention", chatMode, say("verbose on", mention), false, command(channel, transport.Verbose, "on")},
		{"chat: verbose in a DM", chatMode, say("verbose", direct), false, command(dm, transport.Verbose, "status")},
		{"chat: bare verbose", chatMode, say("verbose on"), false, kind(Log, channel)},
		{"chat: DM", chatMode, say("hi", direct), false, run(dm)},
		{"chat: mention in a thread", chatMode, say("hi", mention, reply), false, run(channel)},
		{"chat: thread chatter", chatMode, say("hi", reply), false, kind(Log, channel)},
		{"chat: a bot", chatMode, say("hi", bot, mention), false, kind(Log, channel)},
		{"chat: @agent", chatMode, say("@billing hi"), false, agent(channel)},
		{"chat: a schedule", chatMode, say("stop", from(turn.FromSchedule)), false, run(channel)},

		{"leads: top", leads, say("hi"), false, run(channel)},
		{"leads: a bot at the top", leads, say("hi", bot), false, run(channel)},
		{"leads: a bot in a thread", leads, say("hi", bot, reply), false, kind(Log, channel)},
		{"leads: thread chatter", leads, say("hi", reply), false, kind(Log, channel)},
		{"leads: mention in a thread", leads, say("hi", reply, mention), false, run(channel)},
		{"leads: bare stop is a lead", leads, say("stop"), false, run(channel)},
		{"leads: stop with a mention", leads, say("stop", mention), false, command(channel, transport.Stop, "")},
		{"leads: before @agent", leads, say("@billing hi", reply), false, kind(Log, channel)},
		{"leads: @agent of a bot is text", leads, say("@billing hi", bot), false, run(channel)},

		{"sessions: DM", open, say("hi", direct), false, run(dm)},
		{"sessions: command in a DM", open, say("stop", direct), false, command(dm, transport.Stop, "")},
		{"sessions: reply, registered", open, say("hi", reply), true, run(registered)},
		{"sessions: command, registered", open, say("stop", reply), true, command(registered, transport.Stop, "")},
		{"sessions: verbose, registered", open, say("verbose on", reply, mention), true, command(registered, transport.Verbose, "on")},
		{"sessions: bare verbose is text", open, say("verbose on", reply), true, run(registered)},
		{"sessions: reply opens", open, say("hi", reply), false, run(inThread)},
		{"sessions: a bot's reply", open, say("hi", reply, bot), false, kind(Ignore, inThread)},
		{"sessions: top opens", open, say("hi"), false, run(opened)},
		{"sessions: mention opens", open, say("hi", mention), false, run(opened)},
		{"sessions: a bot at the top", open, say("hi", bot), false, kind(Log, channel)},
		{"sessions: @agent opens", open, say("@billing hi"), false, agent(opened)},
		{"sessions: verbose at the top", open, say("verbose off", mention), false, command(channel, transport.Verbose, "off")},
		{"sessions: gated top", gated, say("hi"), false, kind(Ignore, opened)},
		{"sessions: gated mention", gated, say("hi", mention), false, run(opened)},
		{"sessions: gated reply opens", gated, say("hi", reply), false, run(inThread)},
		{"sessions: an answer by words", open, say("yes", reply, from(turn.FromApproval)), true, run(registered)},
		{"api only: top", api, say("hi"), false, kind(Ignore, opened)},
		{"api only: mention", api, say("hi", mention), false, kind(Ignore, opened)},
		{"api only: reply, unregistered", api, say("hi", reply), false, kind(Ignore, inThread)},
		{"api only: reply, registered", api, say("hi", reply), true, run(registered)},
		{"api only: a bot", api, say("hi", bot), false, kind(Ignore, opened)},
		{"api only: verbose in any mode", api, say("verbose on", mention), false, command(channel, transport.Verbose, "on")},

		{"late: a turn", chatMode, say("hi", direct, late), false, run(dm)},
		{"late: no command", chatMode, say("stop", direct, late), false, kind(Log, dm)},
		{"stale: only logged", chatMode, say("hi", direct, stale), false, kind(Log, dm)},
	} {
		t.Run(c.name, func(t *testing.T) {
			snap := Snapshot{Default: "native", Agents: []string{"billing"}, Channel: c.mode,
				Session: func(thread string) (chat.Address, bool) { return registered, c.known && thread == root }}
			if diff := cmp.Diff(c.want, Decide(c.in, snap)); diff != "" {
				t.Errorf("Decide (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChannelWildcardsCarryAllSettings(t *testing.T) {
	all, warnings, err := ParseChannels([]byte(`{
		"C*": {"mode":"passthrough","url":"http://x/","secretName":"k","payload":{"t":"{{text}}"},"replyPrefix":"> ","requireMentionForTopLevel":true},
		"CAB*": {"mode":"leads"}, "CABC": {"mode":"admin"}, "CBAD": {"mode":"nonsense"}, "CNO": 3}`))
	if err != nil || len(warnings) != 2 {
		t.Fatalf("ParseChannels = %v, %v", warnings, err)
	}
	wide := all.For("CX")
	if wide.Mode != Passthrough || wide.URL == "" || wide.SecretName != "k" || len(wide.Payload) == 0 || wide.ReplyPrefix != "> " || !wide.MentionForTop {
		t.Errorf("For(CX) = %+v", wide)
	}
	for id, want := range map[string]Mode{"CABD": Leads, "CABC": Chat, "CBAD": Passthrough, "D1": Chat} {
		if got := all.For(id).Mode; got != want {
			t.Errorf("For(%s) = %q, want %q", id, got, want)
		}
	}
	if _, _, err := ParseChannels([]byte(`[]`)); err == nil {
		t.Error("a list is no channels.json")
	}
}

func FuzzParseChannels(f *testing.F) {
	f.Add([]byte(`{"C*":{"mode":"dm"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, _, err := ParseChannels(data)
		if err == nil && all.For("C1").Mode == "" {
			t.Fatal("a channel without a mode")
		}
	})
}
