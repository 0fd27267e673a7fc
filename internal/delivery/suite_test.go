package delivery_test

import (
	"io"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/delivery/deliverytest"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// TestSuite holds the suite against the fake that the other tests trust.
func TestSuite(t *testing.T) {
	deliverytest.Run(t, func(t *testing.T) deliverytest.Bench {
		var next deliverytest.Fate
		fake := deliverytest.NewFake(deliverytest.FakeOptions{Burst: 1000, Fault: func(deliverytest.Call) deliverytest.Fate {
			f := next
			next = deliverytest.Fate{}
			return f
		}})
		return deliverytest.Bench{
			Platform: fake, Conversation: general, Foreign: chat.Address{Space: chat.Web, ID: "x"},
			Accepted: &turn.Accepted{Message: chat.Message{ID: "1", Text: "hi"}},
			Shown:    func() []deliverytest.Shown { return fake.Shown(general.ID) },
			Limit: func(d time.Duration) {
				next.Err = &transport.SendError{Fault: transport.Limited, After: d, Err: io.EOF}
			},
			Lose: func() { next.Err, next.Applied = io.ErrUnexpectedEOF, true },
		}
	})
}
