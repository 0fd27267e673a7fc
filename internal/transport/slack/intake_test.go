package slack

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

func TestADirectMessageIsSubmittedAndThenAcknowledged(t *testing.T) {
	c := set(t, slacktest.Options{}, nil)
	m := c.say("D1", slacktest.Message{User: "U1", Text: "hello &lt;there&gt; &amp; <https://example.org|all>"})
	got := c.box.all()
	if len(got) != 1 {
		t.Fatalf("%d submissions", len(got))
	}
	s := got[0]
	if s.Message.ID != m.TS || s.Message.Text != "hello <there> & all (https://example.org)" || !s.Direct || !s.Proven || s.Mention || s.Reply || s.Late {
		t.Errorf("submitted %+v", s)
	}
	if s.Address != (chat.Address{Space: chat.Slack, ID: "D1"}) || s.Message.From.ID != "U1" {
		t.Errorf("from %+v at %v", s.Message.From, s.Address)
	}
	if w := c.slack.Wrong(); len(w) > 0 {
		t.Error(w)
	}
}

func TestAMentionIsOneTurnWithStrippedText(t *testing.T) {
	c := set(t, slacktest.Options{}, nil)
	root := c.say("C1", slacktest.Message{User: "U1", Text: "<@" + slacktest.BotUser + "> look at <@U2>'s idea"})
	c.until("the directory", func() bool { return c.iris.people.person("U2").Name == "bob" })
	c.say("C1", slacktest.Message{User: "U2", Text: "<@" + slacktest.BotUser + "> and <@U1>?", ThreadTS: root.TS})
	got := c.box.all()
	if len(got) != 2 {
		t.Fatalf("%d submissions, want 2: a message and its mention are one", len(got))
	}
	if !got[0].Mention || got[0].Reply || !strings.HasPrefix(got[0].Message.Text, "look at <@U2") {
		t.Errorf("submitted %+v", got[0])
	}
	if s := got[1]; s.Message.Text != "and <@U1|ann>?" || !s.Reply || s.Message.Thread != root.TS || s.Message.From.Display != "Bob Ray" {
		t.Errorf("in the thread: %+v", s)
	}
}

// TestEditsSubtypesAndBotsAreIgnored has everything that is no new message of a
// person acknowledged and nothing submitted.
func TestEditsSubtypesAndBotsAreIgnored(t *testing.T) {
	c := set(t, slacktest.Options{}, nil)
	for _, subtype := range []string{"message_changed", "message_deleted", "channel_join", "channel_topic", "reminder_add"} {
		c.say("C1", slacktest.Message{User: "U1", Text: "x", Subtype: subtype})
	}
	c.say("C1", slacktest.Message{User: slacktest.BotUser, BotID: slacktest.BotID, Text: "mine"})
	c.say("C1", slacktest.Message{BotID: "B9", Subtype: "bot_message", Text: "of a bot"})
	c.acked(c.slack.Event(map[string]any{"type": "reaction_added", "user": "U1"}))
	c.acked(c.slack.Event(map[string]any{"type": "channel_rename", "channel": map[string]any{"id": "C1", "name": "x"}}))
	c.acked(c.slack.Send("events_api", "no object", false))
	c.acked(c.slack.Send("something_new", map[string]any{}, false))
	if got := c.box.all(); len(got) != 0 {
		t.Errorf("submitted %+v", got)
	}
	if w := c.slack.Wrong(); len(w) > 0 {
		t.Error(w)
	}
}

func TestOnlyListedChannelsCount(t *testing.T) {
	c := set(t, slacktest.Options{}, func(o *Options) { o.Channels = []string{"C1"} })
	c.say("D1", slacktest.Message{User: "U1", Text: "hi"})
	if got := c.box.all(); len(got) != 0 {
		t.Errorf("submitted %+v", got)
	}
	if _, ok := c.iris.Place(chat.Address{Space: chat.Slack, ID: "D1"}, nil); ok {
		t.Error("what is said elsewhere is shown there")
	}
}

// TestLeadsTakesBotsBlocksAndMails has a channel for leads.
func TestLeadsTakesBotsBlocksAndMails(t *testing.T) {
	c := set(t, slacktest.Options{}, func(o *Options) {
		o.Channel = func(string) route.Channel { return route.Channel{Mode: route.Leads} }
	})
	c.say("C1", slacktest.Message{BotID: "B9", Subtype: "bot_message", Text: "short",
		Blocks: []byte(`[{"type":"section","text":{"type":"mrkdwn","text":"a new lead: Ann"},"fields":[{"type":"mrkdwn","text":"budget 3"}]}]`)})
	c.say("C1", slacktest.Message{User: "U1", Subtype: "file_share", Text: "", Files: []slacktest.File{{ID: "F1", Filetype: "email", Subject: "Offer", Plain: "Dear Iris"}}})
	got := c.box.all()
	if len(got) != 2 {
		t.Fatalf("%d submissions", len(got))
	}
	if got[0].Message.Text != "a new lead: Ann\nbudget 3" || !got[0].Message.From.Bot {
		t.Errorf("of a bot: %+v", got[0].Message)
	}
	if got[1].Message.Text != "Subject: Offer\nDear Iris" || len(got[1].Message.Files) != 0 {
		t.Errorf("a mail: %+v", got[1].Message)
	}
}

// TestAFullQueueIsSaidInItsOwnWords: silent in leads, by the kind of place else.
func TestAFullQueueIsSaidInItsOwnWords(t *testing.T) {
	for mode, want := range map[route.Mode]string{
		route.Chat: "C1/: _Too many messages queued. Say `stop` to cancel._", route.InteractiveThread: "C1/: _Too many messages queued. Please wait._", route.Leads: "",
	} {
		t.Run(string(mode), func(t *testing.T) {
			c := set(t, slacktest.Options{}, func(o *Options) {
				o.Channel = func(string) route.Channel { return route.Channel{Mode: mode} }
			})
			c.box.fail = func(transport.Submission) (transport.Receipt, error) { return transport.Receipt{}, transport.ErrBusy }
			c.say("C1", slacktest.Message{User: "U1", Text: "<@" + slacktest.BotUser + "> hi"})
			got := ""
			if all := c.lines(); len(all) > 0 {
				got = all[0]
			}
			if got != want {
				t.Errorf("said %q, want %q", got, want)
			}
		})
	}
}

// TestAcknowledgedOnceEvenOnPanic has a defect in the way of a message.
func TestAcknowledgedOnceEvenOnPanic(t *testing.T) {
	c := set(t, slacktest.Options{}, nil)
	c.box.fail = func(s transport.Submission) (transport.Receipt, error) {
		if s.Message.Text == "poison" {
			panic("boom")
		}
		return transport.Receipt{}, nil
	}
	c.say("D1", slacktest.Message{User: "U1", Text: "poison"})
	c.say("D1", slacktest.Message{User: "U1", Text: "fine"})
	if got := c.box.all(); len(got) != 1 || got[0].Message.Text != "fine" {
		t.Errorf("submitted %+v", got)
	}
	if w := c.slack.Wrong(); len(w) > 0 {
		t.Error(w)
	}
}

// TestWhatIsNotOnDiskIsNotAcknowledged has the disk fail: the message comes again
// and is acknowledged when it is kept.
func TestWhatIsNotOnDiskIsNotAcknowledged(t *testing.T) {
	c := set(t, slacktest.Options{AckWait: 300 * time.Millisecond, Retries: 20}, nil)
	n := 0
	c.box.fail = func(transport.Submission) (transport.Receipt, error) {
		if n++; n <= 2*tries {
			return transport.Receipt{}, errors.New("no space left on device")
		}
		return transport.Receipt{}, nil
	}
	_, ids := c.slack.Say("D1", slacktest.Message{User: "U1", Text: "hi"})
	c.until("the message", func() bool { return len(c.box.all()) == 1 })
	c.acked(ids[0])
	if w := c.slack.Wrong(); len(w) > 0 { // every delivery at most once
		t.Error(w)
	}
}

// TestALostAcknowledgementIsOneTurn is F7's other half: what comes again was
// taken before.
func TestALostAcknowledgementIsOneTurn(t *testing.T) {
	c := set(t, slacktest.Options{AckWait: 50 * time.Millisecond}, nil)
	_, ids := c.slack.Say("D1", slacktest.Message{User: "U1", Text: "hi"})
	c.slack.LoseAcks(ids[0], 1)
	c.until("a second delivery", func() bool { n, _ := c.slack.Acks(ids[0]); return n >= 1 })
	if got := c.box.all(); len(got) != 1 {
		t.Errorf("%d turns", len(got))
	}
}

func TestCommandsAnswerWhereTheyWereGiven(t *testing.T) {
	c := set(t, slacktest.Options{}, nil)
	c.say("D1", slacktest.Message{User: "U1", Text: "stop"})
	m := c.say("C1", slacktest.Message{User: "U1", Text: "x"})
	c.say("C1", slacktest.Message{User: "U1", ThreadTS: m.TS, Text: "<@" + slacktest.BotUser + "> verbose on"})
	got := strings.Join(c.lines(), "\n")
	if want := "D1/: _stop _\nC1/" + m.TS + ": _verbose on_"; got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}

// TestSlashCommands has every refusal, and each answered in its acknowledgement.
func TestSlashCommands(t *testing.T) {
	c := set(t, slacktest.Options{}, func(o *Options) {
		o.Channels = []string{"C1", "C2", "C3", "D1"}
		o.Channel = func(id string) route.Channel {
			return route.Channel{Mode: map[string]route.Mode{"C2": route.Passthrough, "C3": route.InteractiveThread}[id]}
		}
	})
	for _, x := range []struct{ channel, command, text, want string }{
		{"C1", "/stop", "now please", "_stop _"},
		{"C1", "/clear", "", "_reset _"},
		{"C1", "/verbose", "", "_verbose status_"},
		{"C1", "/verbose", "on", "_verbose on_"},
		{"D1", "/compact", "", "_compact _"},
		{"C9", "/stop", "", notHere},
		{"C2", "/stop", "", forwarded},
		{"C3", "/stop", "", inThreads},
		{"C1", "/dance", "", unknownWord},
		{"C1", "/verbose", "maybe", unknownWord},
	} {
		answer := c.acked(c.slack.Slash(x.channel, "U1", x.command, x.text))
		if !strings.Contains(answer, x.want) || !strings.Contains(answer, "ephemeral") {
			t.Errorf("%s %s in %s: %s, want %q", x.command, x.text, x.channel, answer, x.want)
		}
	}
	c.acked(c.slack.Send("slash_commands", "malformed", true))
	if w := c.slack.Wrong(); len(w) > 0 {
		t.Error(w)
	}
}

// TestButtonsAnswerWithWhoPressedThem is F35 on Slack: the person is the
// platform's, and who may not answer is told so alone.
func TestButtonsAnswerWithWhoPressedThem(t *testing.T) {
	c := set(t, slacktest.Options{}, nil)
	c.until("the directory", func() bool { return c.iris.people.person("U2").Name == "bob" })
	m := c.slack.Put("C1", slacktest.Message{User: slacktest.BotUser, BotID: slacktest.BotID, Text: "may I?"})
	c.acked(c.slack.Press("C1", "U2", m, pressPrefix+"yes", "ask-1"))
	c.acked(c.slack.Press("C1", "U2", m, "of_somebody_else", "ask-1"))
	c.box.mu.Lock()
	answers := c.box.answers
	c.box.refuse = transport.ErrNotAllowed
	c.box.mu.Unlock()
	if len(answers) != 1 || answers[0].Ask != "ask-1" || !answers[0].Yes || answers[0].From.ID != "U2" || answers[0].From.Name != "bob" {
		t.Errorf("answers %+v", answers)
	}
	c.acked(c.slack.Press("C1", "U1", m, pressPrefix+"no", "ask-1"))
	if e := c.slack.Ephemerals(); len(e) != 1 || e[0].User != "U1" || !strings.Contains(e[0].Text, "may not answer") {
		t.Errorf("whispered %+v", e)
	}
}
