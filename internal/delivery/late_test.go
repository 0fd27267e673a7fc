package delivery_test

import (
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/delivery/deliverytest"
	"github.com/iris-operator/iris/internal/turn"
)

// TestALateReplySaysSo: who wrote long before the message came in reads so above
// the reply, also after a restart in between; who did not, does not.
func TestALateReplySaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		age    time.Duration
		origin turn.Origin
		end    turn.Event
		want   string
	}{
		"new":       {time.Minute, turn.FromChat, final("done"), "done"},
		"late":      {29 * time.Minute, turn.FromChat, final("done"), "_Late: this answers what was said 30 minutes ago._\n\ndone"},
		"hours":     {3 * time.Hour, turn.FromChat, final("done"), "_Late: this answers what was said 3 hours ago._\n\ndone"},
		"days":      {50 * time.Hour, turn.FromChat, final("done"), "_Late: this answers what was said 2 days ago._\n\ndone"},
		"nothing":   {29 * time.Minute, turn.FromChat, final(""), "_Late: this answers what was said 30 minutes ago._\n_(no response)_"},
		"silent":    {29 * time.Minute, turn.FromChat, turn.Event{Kind: turn.Final, Silent: true}, ""},
		"schedule":  {29 * time.Minute, turn.FromSchedule, final("done"), "done"},
		"no moment": {0, turn.FromChat, final("done"), "done"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, deliverytest.FakeOptions{}, nil, func(s *stage) {
				id := turn.NewID()
				m := chat.Message{ID: string(id), Text: "hi", From: chat.Person{ID: "U1"}}
				if c.age > 0 {
					m.At = time.Now().Add(-c.age)
				}
				s.write(general, turn.Record{Turn: id, Accepted: &turn.Accepted{Origin: c.origin, Runner: "native", Message: m}})
				s.begin(general, id)
				time.Sleep(time.Second)
				s.stop()
				time.Sleep(time.Minute)
				s.start()
				s.event(general, id, c.end)
				time.Sleep(time.Minute)
				s.expect(general, c.want)
			})
		})
	}
}
