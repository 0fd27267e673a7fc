package slack

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
)

// TestReconnects is F18: whatever ends a connection, there is another one, alone.
func TestReconnects(t *testing.T) {
	for name, ending := range map[string]func(c *scene){
		"cut":               func(c *scene) { c.slack.Cut() },
		"warning":           func(c *scene) { c.slack.Disconnect("warning") },
		"refresh requested": func(c *scene) { c.slack.Disconnect("refresh_requested") },
		"half open":         func(c *scene) { c.slack.Freeze() },
	} {
		t.Run(name, func(t *testing.T) {
			c := set(t, slacktest.Options{}, func(o *Options) { o.PingEvery, o.PingLimit = 100*time.Millisecond, 100*time.Millisecond })
			for i := range 3 {
				_, before := c.slack.Conns()
				ending(c)
				c.until("a new connection", func() bool { n, all := c.slack.Conns(); return n == 1 && all > before })
				c.say("D1", slacktest.Message{User: "U1", Text: "still there?"})
				if got := len(c.box.all()); got != i+1 {
					t.Fatalf("%d messages, want %d", got, i+1)
				}
			}
			if w := c.slack.Wrong(); len(w) > 0 {
				t.Error(w)
			}
		})
	}
}

// TestManyRestartsLeaveOneConnection is the rest of F18.
func TestManyRestartsLeaveOneConnection(t *testing.T) {
	c := set(t, slacktest.Options{}, nil)
	for range 30 {
		c.end()
		c.begin(nil)
	}
	c.until("one connection", func() bool { n, _ := c.slack.Conns(); return n == 1 })
	if w := c.slack.Wrong(); len(w) > 0 {
		t.Error(w)
	}
}

// TestAnOutageIsSeenAndOutlasted has Slack be away.
func TestAnOutageIsSeenAndOutlasted(t *testing.T) {
	c := set(t, slacktest.Options{}, nil)
	c.slack.Fault(func(m string, _ url.Values) slacktest.Fault { return slacktest.Fault{Status: 503} })
	c.slack.Cut()
	c.until("red readiness", func() bool {
		err := c.iris.Ready()
		return err != nil && strings.Contains(err.Error(), "no connection")
	})
	c.slack.Fault(nil)
	c.until("green readiness", func() bool { return c.iris.Ready() == nil })
	c.say("D1", slacktest.Message{User: "U1", Text: "back"})
}

func TestARefusedTokenIsSaid(t *testing.T) {
	server := slacktest.New(slacktest.Options{})
	defer server.Close()
	for _, x := range []struct{ app, bot, want string }{
		{slacktest.AppToken, "xoxb-wrong", "IRIS_SLACK_BOT_TOKEN"},
		{slacktest.BotToken, slacktest.BotToken, "IRIS_SLACK_APP_TOKEN"},
	} {
		s, err := New(Options{AppToken: secret.New(x.app), BotToken: secret.New(x.bot), API: server.URL(), Inbox: &inbox{}})
		if err != nil {
			t.Fatal(err)
		}
		err = s.Serve(t.Context(), func() { t.Error("ready") })
		var refused *tokenError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), x.bot) {
			t.Errorf("Serve = %v, want one that names %s", err, x.want)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := New(Options{BotToken: secret.New("b")}); err == nil {
		t.Error("New without an app token")
	}
	if _, err := New(Options{AppToken: secret.New("a")}); err == nil {
		t.Error("New without a bot token")
	}
}

func FuzzFrame(f *testing.F) {
	f.Add("events_api", []byte(`{"event":{"type":"message","channel":"C1","ts":"1.000001","user":"U1","text":"<@U0BOT> <https://x|y> &amp;"}}`))
	f.Add("slash_commands", []byte(`{"command":"/stop"}`))
	f.Add("interactive", []byte(`{"actions":[{"action_id":"iris_yes","value":"x"}]}`))
	f.Fuzz(func(t *testing.T, typ string, payload []byte) {
		if _, err := parseFrame(payload); err != nil {
			return
		}
		e, err := parseEnvelope(frame{Type: typ, Payload: payload})
		if err == nil && e.event != nil {
			d := directory{}
			e.event.submission(identity{user: "U0BOT"}, d.person)
			e.event.counts(identity{user: "U0BOT"})
		}
		if err == nil && e.press != nil {
			e.press.answer()
		}
	})
}
