package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// watch collects what a watcher sees until it has seen n or stop says so.
func watch(t testing.TB, e *engine.Engine, since int64, until func(transport.Seen) bool) (all []transport.Seen) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for s, err := range e.Watch(ctx, sess, since) {
		if err != nil {
			t.Fatalf("Watch(%d): %v", since, err)
		}
		all = append(all, s)
		if until(s) {
			return all
		}
	}
	return all
}

func last(s transport.Seen) bool { return s.Record.Event != nil && s.Record.Event.Terminal() }

// F22, promise 5: the watcher is cut off at every event of a long turn and
// comes back with the number it saw last; the transcript is the same.
func TestWatchCutAtEveryEvent(t *testing.T) {
	const events = 500
	e, _ := enginetest.Start(t, engine.Options{Runners: runners(func(ctx context.Context, _ turn.Request, s turn.Sink) error {
		for i := range events {
			if err := s.Emit(turn.Event{Kind: turn.Text, Text: fmt.Sprint(i), Partial: true}); err != nil {
				return err
			}
			if i%100 == 0 {
				_ = s.Checkpoint(ctx, i)
			}
		}
		return s.Emit(turn.Event{Kind: turn.Final, Text: "done"})
	})})
	// One watcher is cut after every single event while the turn runs.
	cut := make(chan []transport.Seen)
	go func() {
		var all []transport.Seen
		since := int64(0)
		for len(all) == 0 || !last(all[len(all)-1]) {
			got := watch(t, e, since, func(transport.Seen) bool { return true })
			all = append(all, got...)
			since = got[len(got)-1].Seq
		}
		cut <- all
	}()
	end(t, e, say(t, e, sess, "m", "x").Turn)
	whole := watch(t, e, 0, last)
	if len(whole) != events+4 {
		t.Fatalf("%d records, want %d: accepted, begun, started, %d texts, final", len(whole), events+4, events)
	}
	if diff := cmp.Diff(whole, <-cut); diff != "" {
		t.Errorf("cut at every event (-whole +cut):\n%s", diff)
	}
	for i, s := range whole[:len(whole)-1] {
		rest := watch(t, e, s.Seq, last)
		if len(rest) != len(whole)-i-1 || rest[0].Seq != whole[i+1].Seq || cmp.Diff(whole[len(whole)-1], rest[len(rest)-1]) != "" {
			t.Fatalf("cut after record %d: %d records follow, want %d", s.Seq, len(rest), len(whole)-i-1)
		}
	}
}

// A late joiner sees the running turn from its start, who waits, and nothing of
// what had ended before.
func TestWatchNowShowsTheRunningTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan struct{})
		e, _ := enginetest.Start(t, engine.Options{Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
			_ = s.Emit(turn.Event{Kind: turn.Status, Label: req.Message.Text})
			<-step
			return s.Emit(turn.Event{Kind: turn.Final, Text: req.Message.Text})
		})})
		old := say(t, e, sess, "0", "old")
		second := say(t, e, sess, "1", "second") // accepted while old runs
		synctest.Wait()
		step <- struct{}{}
		end(t, e, old.Turn)
		synctest.Wait()
		third := say(t, e, sess, "2", "third")
		got := make(chan []transport.Seen)
		go func() { got <- watch(t, e, transport.Now, last) }()
		synctest.Wait()
		step <- struct{}{}
		var words []string
		for _, s := range <-got {
			if s.Record.Turn == old.Turn {
				t.Errorf("of the turn before: %+v", s)
			}
			words = append(words, string(s.Record.Turn[len(s.Record.Turn)-4:])+" "+kinds([]turn.Record{s.Record})[0])
		}
		id := func(r transport.Receipt) string { return string(r.Turn[len(r.Turn)-4:]) }
		want := []string{id(second) + " accepted", id(second) + " begun", id(second) + " started", id(second) + " status", id(third) + " accepted", id(second) + " final"}
		if diff := cmp.Diff(want, words); diff != "" {
			t.Errorf("seen (-want +got):\n%s", diff)
		}
		step <- struct{}{}
		end(t, e, third.Turn)
		// When nothing runs there is only what follows.
		go func() { got <- watch(t, e, transport.Now, func(transport.Seen) bool { return true }) }()
		synctest.Wait()
		_ = e.Notice(ctx, sess, "later")
		if all := <-got; len(all) != 1 || all[0].Record.Notice == nil {
			t.Errorf("seen when idle: %+v", all)
		}
	})
}

// forgetful is a journal whose retention has dropped records, and that can
// break while somebody follows.
type forgetful struct {
	*enginetest.Journal
	first error
}

func (f forgetful) Follow(ctx context.Context, stream string, since int64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		if !yield(journal.Record{}, f.first) || !errors.Is(f.first, journal.ErrTruncated) {
			return
		}
		f.Journal.Follow(ctx, stream, since)(yield)
	}
}

func TestWatchErrors(t *testing.T) {
	collect := func(e *engine.Engine, since int64, n int) (errs []error, seen int) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		for _, err := range e.Watch(ctx, sess, since) {
			if err != nil {
				errs = append(errs, err)
			} else {
				seen++
			}
			if n--; n == 0 {
				break
			}
		}
		return errs, seen
	}
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		first, want error
		n, seen     int
	}{
		"older events are gone": {journal.ErrTruncated, transport.ErrTruncated, 3, 2},
		"the journal is closed": {journal.ErrClosed, transport.ErrClosing, 9, 0},
		"something else":        {boom, boom, 9, 0},
	} {
		e, _ := enginetest.Start(t, engine.Options{Journal: forgetful{enginetest.NewJournal(), c.first}})
		end(t, e, say(t, e, sess, "", "x").Turn)
		if errs, seen := collect(e, 0, c.n); len(errs) != 1 || !errors.Is(errs[0], c.want) || seen != c.seen {
			t.Errorf("%s: %v and %d records, want %v first and %d", name, errs, seen, c.want, c.seen)
		}
	}
	j, g := enginetest.NewJournal(), newGate()
	defer close(g.let)
	e, _ := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(g.run)})
	say(t, e, sess, "", "x")
	<-g.began
	if errs, seen := collect(e, 1<<40, 4); len(errs) != 1 || !errors.Is(errs[0], transport.ErrTruncated) || seen != 3 {
		t.Errorf("from beyond the end: %v and %d records of the running turn", errs, seen)
	}
	if _, err := j.Append(ctx, sess.Channel(), journal.Any, journal.Entry{Data: []byte(`"x"`)}); err != nil {
		t.Fatal(err)
	}
	if errs, _ := collect(e, j.Last(sess.Channel())-1, 9); len(errs) != 1 {
		t.Errorf("a record that is none: %v", errs)
	}
}

// Promise 7: a watcher that does not read, and a conversation that hangs in its
// archive, delay nobody.
func TestASlowWatcherDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := enginetest.Start(t, engine.Options{})
		ctx, cancel := context.WithCancel(context.Background())
		hold := make(chan struct{})
		done := make(chan int)
		go func() {
			n := 0
			for range e.Watch(ctx, sess, 0) {
				n++
				<-hold
			}
			done <- n
		}()
		synctest.Wait()
		for i := range 20 {
			end(t, e, say(t, e, sess, "", fmt.Sprint(i)).Turn)
		}
		close(hold)
		synctest.Wait()
		cancel()
		if n := <-done; n != 80 {
			t.Errorf("the slow watcher saw %d records, want all 80", n)
		}
	})
}

func TestASlowArchiveDelaysNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		a := &enginetest.Archive{Fail: func(conv chat.Address, _ bool) error {
			if conv == web {
				<-hold
			}
			return nil
		}}
		e, _ := enginetest.Start(t, engine.Options{Archive: a})
		slow := make(chan transport.Receipt)
		go func() { slow <- say(t, e, web, "", "slow") }()
		synctest.Wait()
		if ev := end(t, e, say(t, e, sess, "", "quick").Turn); ev.Text != "quick" {
			t.Errorf("beside a slow archive: %+v", ev)
		}
		close(hold)
		end(t, e, (<-slow).Turn)
	})
}

// A row of records ends for watchers too when its last one is not shown.
func TestWatchTellsWhereARowEnds(t *testing.T) {
	record := func(seq int64, rec turn.Record, more bool) journal.Record {
		data, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		return journal.Record{Seq: seq, Stream: sess.Channel(), Data: data, More: more}
	}
	shown := turn.Record{Event: &turn.Event{Kind: turn.Text, Text: "x"}}
	hidden := turn.Record{Checkpoint: json.RawMessage("1")}
	j := rows{enginetest.NewJournal(), []journal.Record{
		record(1, shown, true), record(2, shown, true), record(3, hidden, false),
		record(4, hidden, true), record(5, shown, false), record(6, hidden, false), record(7, shown, false),
	}}
	e, _ := enginetest.Start(t, engine.Options{Journal: j})
	type place struct {
		Seq         int64
		More, Shown bool
	}
	var got []place
	for s, err := range e.Watch(t.Context(), sess, 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, place{s.Seq, s.More, s.Record.Event != nil})
	}
	want := []place{{1, true, true}, {2, true, true}, {3, false, false}, {5, false, true}, {7, false, true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
}

// rows is a journal whose followers get these records and no more.
type rows struct {
	*enginetest.Journal
	all []journal.Record
}

func (r rows) Follow(context.Context, string, int64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for _, rec := range r.all {
			if !yield(rec, nil) {
				return
			}
		}
	}
}
