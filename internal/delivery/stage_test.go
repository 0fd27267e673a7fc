package delivery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/delivery"
	"github.com/iris-operator/iris/internal/delivery/deliverytest"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A stage is a courier between two disks and a platform.
type stage struct {
	t         *testing.T
	main, out *deliverytest.Disk
	fake      *deliverytest.Fake
	opts      delivery.CourierOptions
	told      []string

	c      *delivery.Courier
	cancel context.CancelFunc
	ended  chan error
}

// play runs f in a bubble with a courier that serves.
func play(t *testing.T, fake deliverytest.FakeOptions, set func(*delivery.CourierOptions), f func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{t: t, main: deliverytest.NewDisk(), out: deliverytest.NewDisk(), fake: deliverytest.NewFake(fake)}
		s.opts = delivery.CourierOptions{
			Platform: s.fake,
			Tell:     func(_ context.Context, text string) { s.told = append(s.told, text) },
		}
		if set != nil {
			set(&s.opts)
		}
		s.start()
		f(s)
		s.stop()
		for _, w := range s.fake.Wrong() {
			t.Errorf("the platform complains: %s", w)
		}
	})
}

func (s *stage) start() {
	s.t.Helper()
	s.opts.Journal, s.opts.Outbox = s.main, s.out
	c, err := delivery.NewCourier(s.opts)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan struct{})
	s.c, s.cancel, s.ended = c, cancel, make(chan error, 1)
	go func() { s.ended <- c.Serve(ctx, func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-s.ended:
		s.t.Fatalf("Serve = %v before it was ready", err)
	}
}

func (s *stage) stop() {
	s.t.Helper()
	s.cancel()
	if err := <-s.ended; err != nil {
		s.t.Errorf("Serve = %v", err)
	}
	synctest.Wait()
}

// write appends a record of a conversation.
func (s *stage) write(conv chat.Address, rec turn.Record) {
	s.t.Helper()
	data, err := json.Marshal(rec)
	if err == nil {
		_, err = s.main.Append(context.Background(), conv.Channel(), journal.Any, journal.Entry{Data: data})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) accept(conv chat.Address, text string) turn.ID {
	id := turn.NewID()
	s.write(conv, turn.Record{Turn: id, Accepted: &turn.Accepted{Origin: turn.FromChat, Runner: "native",
		Message: chat.Message{ID: string(id), Text: text, From: chat.Person{ID: "U1", Name: "ann"}}}})
	return id
}

func (s *stage) begin(conv chat.Address, id turn.ID) {
	s.write(conv, turn.Record{Turn: id, Begun: &turn.Begun{Attempt: 1}})
}

func (s *stage) event(conv chat.Address, id turn.ID, ev turn.Event) {
	ev.Turn = id
	s.write(conv, turn.Record{Turn: id, Event: &ev})
}

// turn is a whole turn that takes a second.
func (s *stage) turn(conv chat.Address, end turn.Event) turn.ID {
	id := s.accept(conv, "hi")
	s.begin(conv, id)
	time.Sleep(time.Second)
	s.event(conv, id, end)
	return id
}

// texts is what people see in a chat.
func (s *stage) texts(conv chat.Address) string {
	var all []string
	for _, m := range s.fake.Shown(conv.ID) {
		text := m.Text
		if m.File != "" {
			text = fmt.Sprintf("<%s: %d bytes>", m.File, len(m.Source))
		}
		if m.Repeat {
			text = "REPEAT " + strings.TrimPrefix(text, transport.RepeatLabel+"\n")
		}
		all = append(all, text)
	}
	return strings.Join(all, " | ")
}

func (s *stage) expect(conv chat.Address, want string) {
	s.t.Helper()
	if got := s.texts(conv); got != want {
		s.t.Errorf("%s shows\n\t%s, want\n\t%s", conv, got, want)
	}
}

// calls counts the calls of a verb.
func (s *stage) calls(verb string) int {
	n := 0
	for _, c := range s.fake.Calls() {
		if c.Verb == verb {
			n++
		}
	}
	return n
}

var (
	general = chat.Address{Space: chat.Slack, ID: "C1"}
	random  = chat.Address{Space: chat.Slack, ID: "C2"}
)

func final(text string) turn.Event { return turn.Event{Kind: turn.Final, Text: text} }
