package delivery_test

import (
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/delivery/deliverytest"
	"github.com/iris-operator/iris/internal/turn"
)

func TestAReplyReplacesItsPlaceholder(t *testing.T) {
	play(t, deliverytest.FakeOptions{}, nil, func(s *stage) {
		id := s.accept(general, "hi")
		s.begin(general, id)
		time.Sleep(100 * time.Millisecond)
		s.expect(general, "_Thinking_ ...")
		s.event(general, id, turn.Event{Kind: turn.Status, Label: "reading notes.md"})
		time.Sleep(100 * time.Millisecond)
		s.expect(general, "_reading notes.md_ ...")
		s.event(general, id, final("hello"))
		time.Sleep(time.Minute)
		s.expect(general, "hello")
		if n := s.c.Open(); n != 0 {
			t.Errorf("%d things are open", n)
		}
		if n := len(s.fake.Calls()); n != 3 {
			t.Errorf("%d calls, want 3", n)
		}
	})
}
