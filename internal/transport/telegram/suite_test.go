package telegram

import (
	"strconv"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/delivery/deliverytest"
	"github.com/iris-operator/iris/internal/transport/telegram/telegramtest"
	"github.com/iris-operator/iris/internal/turn"
)

// TestSuite holds what every platform owes to the courier.
func TestSuite(t *testing.T) {
	for name, conv := range map[string]chat.Address{
		"private": {Space: chat.Telegram, ID: "7"}, "topic of a group": {Space: chat.Telegram, ID: "-100200", Thread: "5"},
	} {
		t.Run(name, func(t *testing.T) {
			deliverytest.Run(t, func(t *testing.T) deliverytest.Bench {
				s := setUp(t, nil)
				id, err := strconv.ParseInt(conv.ID, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				next := func(b telegramtest.Break) {
					for _, method := range []string{"sendMessage"} {
						s.server.Next(method, b)
					}
				}
				return deliverytest.Bench{
					Platform: s.tg, Conversation: conv, Foreign: chat.Address{Space: chat.Slack, ID: "C1"},
					Accepted: &turn.Accepted{Message: chat.Message{ID: "1", Text: "hi"}},
					Shown: func() []deliverytest.Shown {
						var out []deliverytest.Shown
						for _, m := range s.server.Messages(id) {
							x := deliverytest.Shown{ID: strconv.Itoa(m.ID), Text: m.Text + m.Caption}
							if m.Document != nil {
								x.File = m.Document.FileName
							}
							out = append(out, x)
						}
						return out
					},
					Limit: func(d time.Duration) { next(telegramtest.Break{Status: 429, After: int(d / time.Second)}) },
					Lose:  func() { next(telegramtest.Break{How: telegramtest.EOF, Applied: true}) },
				}
			})
		})
	}
}
