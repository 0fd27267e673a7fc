package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/delivery"
	"github.com/iris-operator/iris/internal/delivery/deliverytest"
	"github.com/iris-operator/iris/internal/lease"
	"github.com/iris-operator/iris/internal/transport"
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

// TestEndings has every way a turn can end, and what people see of it.
func TestEndings(t *testing.T) {
	long := strings.Repeat("0123456789 ", 60)
	for name, c := range map[string]struct {
		end  turn.Event
		want string
	}{
		"final":           {final("hello"), "hello"},
		"silent":          {turn.Event{Kind: turn.Final, Silent: true}, ""},
		"empty":           {final("  "), "_(no response)_"},
		"stopped":         {turn.Event{Kind: turn.Final, Text: "half", Stopped: true}, "half\n_Stopped_"},
		"stopped at once": {turn.Event{Kind: turn.Final, Stopped: true}, "_Stopped_"},
		"failed":          {turn.Event{Kind: turn.Failed, Code: turn.CodeModel, Error: "the model\nis away"}, "_Sorry, something went wrong: the model is away (model)_"},
		"interrupted":     {turn.Event{Kind: turn.Failed, Code: turn.CodeInterrupted, Error: "restarted", Text: "so far"}, "so far\n_Sorry, something went wrong: restarted (interrupted)_"},
		"long":            {final(long), long[:319] + " | " + long[319:638] + " | " + long[638:]},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, deliverytest.FakeOptions{}, nil, func(s *stage) {
				s.turn(general, c.end)
				time.Sleep(time.Minute)
				if got := s.texts(general); name != "long" || len(s.fake.Shown("C1")) != 3 {
					s.expect(general, c.want)
				} else if strings.ReplaceAll(got, " | ", "") != long {
					t.Errorf("the parts are %q", got)
				}
				if s.c.Open() != 0 {
					t.Error("the turn is still open")
				}
			})
		})
	}
}

// TestProgressIsCoalescedAndNeverLate is F19: ten thousand ticks are one edit
// per three seconds, the reply does not wait for them, and none comes after it.
func TestProgressIsCoalescedAndNeverLate(t *testing.T) {
	pace := func(transport.Place) transport.Pace { return transport.Pace{Gap: time.Second, Burst: 1} }
	play(t, deliverytest.FakeOptions{Burst: 1, Traits: transport.Traits{Pace: pace}}, nil, func(s *stage) {
		id := s.accept(general, "hi")
		s.begin(general, id)
		for i := range 10_000 {
			s.event(general, id, turn.Event{Kind: turn.Status, Label: fmt.Sprintf("tick %d", i)})
			time.Sleep(3 * time.Millisecond)
		}
		ended := time.Now()
		s.event(general, id, final("done"))
		for s.texts(general) != "done" && time.Since(ended) < time.Minute {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(ended); took > 1200*time.Millisecond {
			t.Errorf("the reply took %v", took)
		}
		if n := s.calls("edit"); n > 13 {
			t.Errorf("%d edits in 30 s", n)
		}
		time.Sleep(time.Hour)
		s.expect(general, "done")
	})
}

// TestALateEditCannotOverwriteTheReply loses the answer to an edit, which then
// comes after the reply.
func TestALateEditCannotOverwriteTheReply(t *testing.T) {
	var late atomic.Bool
	fate := func(c deliverytest.Call) deliverytest.Fate {
		if c.Verb == "edit" && c.Mark.Part == "0" && late.CompareAndSwap(false, true) {
			return deliverytest.Fate{Err: io.ErrUnexpectedEOF, Applied: true, Late: 3 * time.Second}
		}
		return deliverytest.Fate{}
	}
	play(t, deliverytest.FakeOptions{Fault: fate}, nil, func(s *stage) {
		id := s.accept(general, "hi")
		s.begin(general, id)
		time.Sleep(time.Second)
		s.event(general, id, turn.Event{Kind: turn.Status, Label: "late"})
		time.Sleep(100 * time.Millisecond)
		s.event(general, id, final("reply"))
		time.Sleep(time.Minute)
		if !late.Load() {
			t.Fatal("no edit was late")
		}
		s.expect(general, "reply")
	})
}

// TestRetryAfterIsHonoured: no call inside the wait, neither of the chat nor,
// when it holds everywhere, of any other.
func TestRetryAfterIsHonoured(t *testing.T) {
	for _, everywhere := range []bool{false, true} {
		var from atomic.Int64
		var inside, others atomic.Int32
		fate := func(c deliverytest.Call) deliverytest.Fate {
			now := time.Now().UnixNano()
			if from.CompareAndSwap(0, now) {
				return deliverytest.Fate{Err: &transport.SendError{Fault: transport.Limited, After: time.Hour, Everywhere: everywhere, Err: errors.New("429")}}
			}
			if now < from.Load()+int64(time.Hour) {
				if c.Chat == "C2" {
					others.Add(1)
				} else {
					inside.Add(1)
				}
			}
			return deliverytest.Fate{}
		}
		play(t, deliverytest.FakeOptions{Fault: fate}, nil, func(s *stage) {
			s.turn(general, final("one"))
			s.turn(random, final("two"))
			time.Sleep(50 * time.Minute)
			if n := inside.Load(); n != 0 {
				t.Errorf("everywhere=%v: %d calls inside the wait", everywhere, n)
			}
			if n := others.Load(); (n == 0) != everywhere {
				t.Errorf("everywhere=%v: %d calls of another chat inside the wait", everywhere, n)
			}
			time.Sleep(time.Hour)
			s.expect(general, "one")
			s.expect(random, "two")
		})
	}
}

// TestALongWaitOutlivesARestart: a new process does not ask before the time is
// over either.
func TestALongWaitOutlivesARestart(t *testing.T) {
	for _, everywhere := range []bool{false, true} {
		var once atomic.Bool
		fate := func(c deliverytest.Call) deliverytest.Fate {
			if once.CompareAndSwap(false, true) {
				return deliverytest.Fate{Err: &transport.SendError{Fault: transport.Limited, After: 13938 * time.Second, Everywhere: everywhere, Err: errors.New("429")}}
			}
			return deliverytest.Fate{}
		}
		play(t, deliverytest.FakeOptions{Fault: fate}, nil, func(s *stage) {
			began := time.Now()
			s.turn(general, final("one"))
			for range 3 {
				s.stop()
				time.Sleep(time.Minute)
				s.start()
			}
			time.Sleep(3 * time.Hour)
			if n := len(s.fake.Calls()); n != 1 {
				t.Errorf("everywhere=%v: %d calls inside the wait", everywhere, n-1)
			}
			time.Sleep(time.Until(began.Add(14000 * time.Second)))
			s.expect(general, "one")
			s.stop()
			s.start() // the wait is over and forgotten
			for _, p := range s.out.Pins() {
				if strings.HasPrefix(p.Name, "wait:") {
					t.Errorf("%s is still kept", p.Name)
				}
			}
		})
	}
}

// TestALostAnswer is F1 and F7: read back where the platform tells, else a
// repeat that says so.
func TestALostAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		cannot, applied bool
		want            string
	}{
		"it arrived and is found":          {false, true, "by the way"},
		"it did not arrive":                {false, false, "by the way"},
		"nobody can tell, it arrived":      {true, true, "by the way | REPEAT by the way"},
		"nobody can tell, it had not come": {true, false, "REPEAT by the way"},
	} {
		t.Run(name, func(t *testing.T) {
			var once atomic.Bool
			fate := func(c2 deliverytest.Call) deliverytest.Fate {
				if c2.Verb == "post" && once.CompareAndSwap(false, true) {
					return deliverytest.Fate{Err: io.ErrUnexpectedEOF, Applied: c.applied}
				}
				return deliverytest.Fate{}
			}
			play(t, deliverytest.FakeOptions{CannotTell: c.cannot, Fault: fate}, nil, func(s *stage) {
				s.write(general, turn.Record{Notice: &turn.Notice{Text: "by the way", At: time.Now()}})
				time.Sleep(time.Minute)
				s.expect(general, c.want)
			})
		})
	}
}

// refusing refuses by the format and the length of what is sent.
func refusing(fault transport.Fault, when func(c deliverytest.Call) bool) func(deliverytest.Call) deliverytest.Fate {
	return func(c deliverytest.Call) deliverytest.Fate {
		if (c.Verb == "post" || c.Verb == "edit" || c.Verb == "upload") && c.Mark.Part != "0" && when(c) {
			return deliverytest.Fate{Err: &transport.SendError{Fault: fault, Err: errors.New("no_such_luck")}}
		}
		return deliverytest.Fate{}
	}
}

// TestWhatIsRefusedIsSentDifferently walks down the ladder.
func TestWhatIsRefusedIsSentDifferently(t *testing.T) {
	text := strings.TrimSpace(strings.Repeat("word ", 60))
	isText := func(c deliverytest.Call) bool { return strings.Contains(c.Body.Text, "word") }
	for name, c := range map[string]struct {
		fault transport.Fault
		when  func(deliverytest.Call) bool
		noFil bool
		want  func(shown []deliverytest.Shown) bool
	}{
		"bad entities: plain": {transport.BadFormat, func(c deliverytest.Call) bool { return isText(c) && c.Body.Format != "plain" }, false,
			func(m []deliverytest.Shown) bool { return len(m) == 1 && m[0].Source == text && m[0].Format == "plain" }},
		"too long: smaller": {transport.TooLong, func(c deliverytest.Call) bool { return len(c.Body.Text) > 150 }, false,
			func(m []deliverytest.Shown) bool {
				return len(m) > 2 && join(m) == text
			}},
		"too long at any length: a file": {transport.TooLong, isText, false,
			func(m []deliverytest.Shown) bool {
				return len(m) == 2 && strings.Contains(m[0].Text, "Fake rejected this reply as a message (no_such_luck)") && m[1].File == "iris-reply.md" && m[1].Source == text
			}},
		"refused, and the file too: a line": {transport.Refused, func(c deliverytest.Call) bool { return isText(c) || c.Verb == "upload" }, false,
			func(m []deliverytest.Shown) bool {
				return len(m) == 2 && strings.Contains(m[1].Text, "Failed to post the reply (no_such_luck). See the runtime log for details.")
			}},
		"refused where there are no files": {transport.Refused, isText, true,
			func(m []deliverytest.Shown) bool {
				return len(m) == 1 && strings.Contains(m[0].Text, "Failed to post the reply")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, deliverytest.FakeOptions{Fault: refusing(c.fault, c.when), Traits: transport.Traits{NoFiles: c.noFil}}, nil, func(s *stage) {
				s.turn(general, final(text))
				time.Sleep(time.Minute)
				if !c.want(s.fake.Shown("C1")) {
					t.Errorf("people see %s", s.texts(general))
				}
				if s.c.Open() != 0 {
					t.Error("the turn is still open")
				}
			})
		})
	}
}

func join(all []deliverytest.Shown) string {
	text := ""
	for _, m := range all {
		text += m.Source
	}
	return text
}

// TestWhatIsLostIsTold: a chat that is gone and an outage longer than the age
// end with the operator being told, in few words.
func TestWhatIsLostIsTold(t *testing.T) {
	out := func(c deliverytest.Call) deliverytest.Fate {
		return deliverytest.Fate{Err: &transport.SendError{Fault: transport.Unreachable, Err: errors.New("502")}}
	}
	missing := func(c deliverytest.Call) deliverytest.Fate {
		if c.Verb == "post" {
			return deliverytest.Fate{Err: &transport.SendError{Fault: transport.Gone, Err: errors.New("channel_not_found")}}
		}
		return deliverytest.Fate{}
	}
	for name, c := range map[string]struct {
		fate func(deliverytest.Call) deliverytest.Fate
		want string
	}{
		"gone":    {missing, "fake: a notice in C1 was not delivered: gone: channel_not_found."},
		"expired": {out, "fake: a notice in C1 was not delivered: not delivered in time."},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, deliverytest.FakeOptions{Fault: c.fate}, nil, func(s *stage) {
				for range 50 {
					s.write(general, turn.Record{Notice: &turn.Notice{Text: "x", At: time.Now()}})
				}
				time.Sleep(48 * time.Hour)
				if s.c.Open() != 0 {
					t.Errorf("%d things are open", s.c.Open())
				}
				if len(s.told) == 0 || len(s.told) > 40 || !strings.HasPrefix(s.told[0], c.want) {
					t.Errorf("the operator is told %d times, first %q", len(s.told), s.told)
				}
			})
		})
	}
}

// TestOneBrokenChatDelaysNobody: a chat whose calls hang, and one that fails,
// while another one is answered at once.
func TestOneBrokenChatDelaysNobody(t *testing.T) {
	fate := func(c deliverytest.Call) deliverytest.Fate {
		switch c.Chat {
		case "C7":
			return deliverytest.Fate{Takes: 25 * time.Second}
		case "C8":
			return deliverytest.Fate{Err: &transport.SendError{Fault: transport.Unreachable, Err: errors.New("500")}}
		}
		return deliverytest.Fate{}
	}
	play(t, deliverytest.FakeOptions{Fault: fate}, nil, func(s *stage) {
		for range 10 {
			for _, id := range []string{"C7", "C8"} {
				s.write(chat.Address{Space: chat.Slack, ID: id}, turn.Record{Notice: &turn.Notice{Text: "x", At: time.Now()}})
			}
		}
		time.Sleep(10 * time.Second)
		id := s.accept(general, "hi")
		s.begin(general, id)
		s.event(general, id, final("quick"))
		time.Sleep(500 * time.Millisecond)
		s.expect(general, "quick")
		if err := s.c.Ready(); err != nil {
			t.Errorf("Ready = %v, though the platform works", err)
		}
		time.Sleep(25 * time.Hour)
	})
}

// TestAnOutageIsHeldAndBounded has ten thousand chats and a platform that is out
// for hours: few calls meanwhile, little memory, red readiness, and then
// everything arrives.
func TestAnOutageIsHeldAndBounded(t *testing.T) {
	chats := 10_000
	if detector {
		chats = 2500
	}
	var out atomic.Bool
	out.Store(true)
	fate := func(c deliverytest.Call) deliverytest.Fate {
		if out.Load() {
			return deliverytest.Fate{Err: &transport.SendError{Fault: transport.Unreachable, Err: errors.New("503")}}
		}
		return deliverytest.Fate{}
	}
	play(t, deliverytest.FakeOptions{Fault: fate}, func(o *delivery.CourierOptions) { o.MaxOpen = 2000 }, func(s *stage) {
		for i := range chats {
			s.write(chat.Address{Space: chat.Slack, ID: fmt.Sprintf("C%d", i)}, turn.Record{Notice: &turn.Notice{Text: "x", At: time.Now()}})
		}
		time.Sleep(4 * time.Hour)
		if n := s.c.Open(); n > 2000+256 {
			t.Errorf("%d things are in memory, want at most about 2,000", n)
		}
		if err := s.c.Ready(); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("Ready = %v, want the reason", err)
		}
		if n := len(s.fake.Calls()); n > 1000 {
			t.Errorf("%d calls in four hours of outage", n)
		}
		out.Store(false)
		time.Sleep(time.Hour)
		if err := s.c.Ready(); err != nil {
			t.Errorf("Ready = %v after the outage", err)
		}
		for i := range chats {
			if len(s.fake.Shown(fmt.Sprintf("C%d", i))) != 1 {
				t.Fatalf("chat %d shows %d messages, want 1", i, len(s.fake.Shown(fmt.Sprintf("C%d", i))))
			}
		}
	})
}

func TestSayIsBoundedAndNotKept(t *testing.T) {
	play(t, deliverytest.FakeOptions{}, nil, func(s *stage) {
		place := transport.Place{Chat: "C1"}
		var err error
		n := 0
		for ; err == nil && n < 100; n++ {
			err = s.c.Say(place, "a line")
		}
		if !errors.Is(err, delivery.ErrNotSaid) || n > 20 {
			t.Errorf("after %d lines: %v, want ErrNotSaid", n, err)
		}
		time.Sleep(time.Minute)
		if got := len(s.fake.Shown("C1")); got != n-1 {
			t.Errorf("%d lines, want %d", got, n-1)
		}
		s.stop()
		if err := s.c.Say(place, "x"); !errors.Is(err, delivery.ErrNotSaid) {
			t.Errorf("Say after the end = %v", err)
		}
		s.start()
	})
}

// keeper hands out one lease, and takes it away.
type keeper struct {
	taken  atomic.Int32
	lost   atomic.Pointer[chan struct{}]
	held   atomic.Bool
	stolen atomic.Bool
}

func (k *keeper) Acquire(context.Context, string) (lease.Lease, error) {
	if !k.held.CompareAndSwap(false, true) {
		return nil, &lease.HeldError{Name: "x"}
	}
	k.taken.Add(1)
	return k, nil
}
func (k *keeper) Fence() int64          { return int64(k.taken.Load()) }
func (k *keeper) Lost() <-chan struct{} { return *k.lost.Load() }
func (k *keeper) Release() error {
	if !k.stolen.Load() {
		k.held.Store(false)
	}
	return nil
}

// TestNothingIsSentWithoutTheLease: a courier waits for it, and goes on when it
// has it again.
func TestNothingIsSentWithoutTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &keeper{}
		lose := func() (lost chan struct{}) {
			if old := k.lost.Load(); old != nil {
				lost = *old
			}
			fresh := make(chan struct{})
			k.lost.Store(&fresh)
			return lost
		}
		lose()
		k.held.Store(true) // by somebody else
		s := &stage{t: t, main: deliverytest.NewDisk(), out: deliverytest.NewDisk(), fake: deliverytest.NewFake(deliverytest.FakeOptions{})}
		s.opts = delivery.CourierOptions{Platform: s.fake, Lease: k}
		go func() {
			time.Sleep(time.Hour)
			k.held.Store(false)
		}()
		s.start()
		s.turn(general, final("one"))
		time.Sleep(time.Minute)
		s.expect(general, "one")
		k.stolen.Store(true)
		close(lose())
		time.Sleep(10 * time.Second)
		if err := s.c.Ready(); err == nil {
			t.Error("ready without the lease")
		}
		calls := len(s.fake.Calls())
		s.turn(general, final("two"))
		time.Sleep(time.Minute)
		if n := len(s.fake.Calls()); n != calls {
			t.Errorf("%d calls without the lease", n-calls)
		}
		k.held.Store(false)
		time.Sleep(time.Minute)
		s.expect(general, "one | two")
		s.stop()
	})
}
