package delivery_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/delivery"
	"github.com/iris-operator/iris/internal/delivery/deliverytest"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// TestQuestions are put with buttons and taken away: answered, withdrawn, over.
func TestQuestions(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(s *stage, id turn.ID)
		want string
	}{
		"answered": {func(s *stage, _ turn.ID) {
			next := turn.NewID()
			s.write(general, turn.Record{Turn: next, Accepted: &turn.Accepted{Origin: turn.FromApproval, Answers: "q1", Message: chat.Message{ID: "2", Text: "yes", From: chat.Person{Name: "ann"}}}})
		}, "_Approved, once by ann_"},
		"withdrawn by a reset": {func(s *stage, _ turn.ID) {
			s.write(general, turn.Record{Notice: &turn.Notice{At: time.Now(), Reset: true}})
		}, "_Withdrawn_"},
		"withdrawn by its turn": {func(s *stage, id turn.ID) {
			next := s.accept(general, "and")
			s.event(general, next, turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: "q1", Outcome: "withdrawn"}})
		}, "_Withdrawn_"},
		"expired": {func(s *stage, _ turn.ID) { time.Sleep(time.Hour) }, "_Nobody answered in time_"},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := func(o *delivery.CourierOptions) { o.Outcome = func(string) string { return "approved" } }
			play(t, deliverytest.FakeOptions{}, outcome, func(s *stage) {
				id := s.accept(general, "hi")
				s.event(general, id, turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: "q1", Text: "Really?", Until: time.Now().Add(30 * time.Minute)}})
				s.event(general, id, final("asked"))
				time.Sleep(10 * time.Second)
				s.expect(general, "Really? [yes] [no] | asked")
				s.stop() // buttons outlive a restart
				s.start()
				c.end(s, id)
				time.Sleep(time.Minute)
				s.expect(general, "Really?\n"+c.want+" | asked")
			})
		})
	}
}

// TestTheEndOfAQuestionSaysWhoAndWhen: the question of an agent loses its buttons and
// says who decided, when, and what.
func TestTheEndOfAQuestionSaysWhoAndWhen(t *testing.T) {
	for name, c := range map[string]struct {
		ask  turn.Ask
		want string
	}{
		"once":    {turn.Ask{Outcome: "approved", By: "ann"}, "Approved, once by ann at "},
		"always":  {turn.Ask{Outcome: "approved", By: "ann", Picked: "always"}, "Approved for this session by ann at "},
		"denied":  {turn.Ask{Outcome: "declined", By: "ann"}, "Declined by ann at "},
		"picked":  {turn.Ask{Outcome: "answered", By: "ann", Picked: "Red"}, "Answered by ann at "},
		"expired": {turn.Ask{Outcome: "expired"}, "Nobody answered in time"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, deliverytest.FakeOptions{}, nil, func(s *stage) {
				id := s.accept(general, "hi")
				ask := turn.Ask{ID: "q1", Text: "Really?", Tool: "Bash", Until: time.Now().Add(30 * time.Minute)}
				s.event(general, id, turn.Event{Kind: turn.AskFor, Ask: &ask})
				time.Sleep(10 * time.Second)
				over := c.ask
				over.ID, over.Text, over.Tool = ask.ID, ask.Text, ask.Tool
				at := time.Now()
				s.event(general, id, turn.Event{Kind: turn.AskFor, Ask: &over})
				s.event(general, id, final("done"))
				time.Sleep(time.Minute)
				want := c.want
				if c.ask.By != "" {
					want += at.Format("15:04 MST")
				}
				if c.ask.Picked == "Red" {
					want += ": Red"
				}
				s.expect(general, "Really?\n_"+want+"_ | done")
			})
		})
	}
}

// TestTheSamePlaceholderGoesOn: a restart in the middle of a turn continues with
// the placeholder that is there.
func TestTheSamePlaceholderGoesOn(t *testing.T) {
	play(t, deliverytest.FakeOptions{CannotTell: true}, nil, func(s *stage) {
		id := s.accept(general, "hi")
		s.begin(general, id)
		time.Sleep(time.Second)
		s.stop()
		s.start()
		s.write(general, turn.Record{Turn: id, Begun: &turn.Begun{Attempt: 2}})
		s.event(general, id, turn.Event{Kind: turn.Status, Label: "again"})
		time.Sleep(10 * time.Second)
		s.expect(general, "_again_ ...")
		s.event(general, id, final("done"))
		time.Sleep(time.Minute)
		s.expect(general, "done")
		if n := s.calls("post"); n != 1 {
			t.Errorf("%d posts, want 1", n)
		}
	})
}

// TestFilesAndDetails come before the reply; a file that is not there is a line.
func TestFilesAndDetails(t *testing.T) {
	open := func(o *delivery.CourierOptions) {
		o.Verbose = func(chat.Address) bool { return true }
		o.Open = func(local string) (io.ReadCloser, int64, error) {
			if local != "a.txt" {
				return nil, 0, errors.New("no such file")
			}
			return io.NopCloser(strings.NewReader("abc")), 3, nil
		}
	}
	play(t, deliverytest.FakeOptions{Traits: transport.Traits{RestInThread: true}}, open, func(s *stage) {
		id := s.accept(general, "hi")
		s.begin(general, id)
		time.Sleep(time.Second)
		s.event(general, id, turn.Event{Kind: turn.FileOut, Local: "a.txt", Filename: "b.txt"})
		s.event(general, id, turn.Event{Kind: turn.FileOut, Local: "gone.txt"})
		s.event(general, id, turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{Name: "bash", Label: "list", Phase: turn.End, Result: "x"}})
		s.event(general, id, final("done"))
		time.Sleep(time.Minute)
		s.expect(general, "done | <b.txt: 3 bytes> | _The file gone.txt could not be sent (no such file)._ | **✓ bash**: list (0.0s)\n**Result:**\n```\nx\n```\n")
		for _, m := range s.fake.Shown("C1")[1:] {
			if m.Place.Thread != "m1" {
				t.Errorf("%q is in thread %q, want that of the reply", m.Text, m.Place.Thread)
			}
		}
	})
}

// TestFreshReplies come below what was said since, where the platform wants it.
func TestFreshReplies(t *testing.T) {
	for name, c := range map[string]struct {
		fresh transport.Fresh
		heard bool
		want  string
	}{
		"never":                  {transport.FreshNever, false, "reply | note"},
		"after own":              {transport.FreshAfterOwn, false, "note | reply"},
		"after own, others talk": {transport.FreshAfterOwn, true, "reply"},
		"after any, others talk": {transport.FreshAfterAny, true, "reply"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, deliverytest.FakeOptions{Traits: transport.Traits{Fresh: c.fresh}}, nil, func(s *stage) {
				id := s.accept(general, "hi")
				s.begin(general, id)
				time.Sleep(time.Second)
				if c.heard {
					s.write(general, turn.Record{Heard: &chat.Message{ID: "9", Text: "chatter"}})
				} else {
					s.write(general, turn.Record{Notice: &turn.Notice{Text: "note", At: time.Now()}})
				}
				time.Sleep(5 * time.Second)
				s.event(general, id, final("reply"))
				time.Sleep(time.Minute)
				s.expect(general, c.want)
				if n, fresh := s.calls("delete"), c.fresh == transport.FreshAfterAny || c.fresh == transport.FreshAfterOwn && !c.heard; (n == 1) != fresh {
					t.Errorf("%d deletions", n)
				}
			})
		})
	}
}

// TestAPreviewForgetsWhatIsVoid shows text while it comes, without what a second
// answer replaces.
func TestAPreviewForgetsWhatIsVoid(t *testing.T) {
	play(t, deliverytest.FakeOptions{Traits: transport.Traits{Preview: true}}, nil, func(s *stage) {
		id := s.accept(general, "hi")
		s.begin(general, id)
		for _, ev := range []turn.Event{{Text: "first"}, {Text: "wrong", Partial: true}, {Void: true}, {Text: "ri", Partial: true}, {Text: "ght", Partial: true}} {
			ev.Kind = turn.Text
			s.event(general, id, ev)
		}
		time.Sleep(10 * time.Second)
		s.expect(general, "first\n\nright\n_Thinking_ ...")
		s.event(general, id, final("reply"))
		time.Sleep(10 * time.Second)
		s.expect(general, "reply")
	})
}
