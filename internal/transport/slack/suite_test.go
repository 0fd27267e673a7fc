package slack

import (
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/delivery/deliverytest"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport/slack/slacktest"
	"github.com/iris-operator/iris/internal/turn"
)

// TestPlatformSuite has Slack pass what every platform does, at the top level and
// in a thread.
func TestPlatformSuite(t *testing.T) {
	for name, thread := range map[string]bool{"top": false, "thread": true} {
		t.Run(name, func(t *testing.T) {
			deliverytest.Run(t, func(t *testing.T) deliverytest.Bench {
				server := slacktest.New(slacktest.Options{})
				t.Cleanup(server.Close)
				server.AddChannel("C1", "general")
				s, err := New(Options{AppToken: secret.New(slacktest.AppToken), BotToken: secret.New(slacktest.BotToken), API: server.URL()})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.http.CloseIdleConnections)
				root := server.Put("C1", slacktest.Message{User: "U1", Text: "hi"})
				a := &turn.Accepted{Runner: "native", Message: chat.Message{ID: root.TS}}
				conv := chat.Address{Space: chat.Slack, ID: "C1"}
				if thread {
					conv = chat.ThreadSession("C1", root.TS)
				}
				return deliverytest.Bench{Platform: s, Conversation: conv, Foreign: chat.Address{Space: chat.Telegram, ID: "1"}, Accepted: a,
					Shown: func() (all []deliverytest.Shown) {
						for _, m := range server.Own("C1") {
							if (m.ThreadTS == root.TS) != thread {
								t.Errorf("%q is in the thread %q", m.Text, m.ThreadTS)
							}
							x := deliverytest.Shown{ID: m.TS, Text: m.Text}
							for _, f := range m.Files {
								x.File = f.Name
							}
							all = append(all, x)
						}
						return all
					},
					Limit: func(d time.Duration) { server.Fault(first("chat.postMessage", slacktest.Fault{RetryAfter: d})) },
					Lose:  func() { server.Fault(first("chat.postMessage", slacktest.Fault{Lose: true})) },
				}
			})
		})
	}
}
