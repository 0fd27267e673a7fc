package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// F5, 16 #10, 16.1 #14: the process is told to end at 50 points of a turn; the
// turn has exactly one end, now or after the next start, and so have those that
// waited.
func TestTermInTheMiddleOfATurn(t *testing.T) {
	for n := range 50 {
		synctest.Test(t, func(t *testing.T) {
			j := enginetest.NewJournal()
			// 30 steps of a second; the end comes in step n, some turns are done
			// by then, some finish in the grace period, some are stopped.
			long := func(ctx context.Context, req turn.Request, s turn.Sink) error {
				for i := range 30 {
					if err := s.Emit(text(fmt.Sprint(i))); err != nil {
						return err
					}
					select {
					case <-time.After(time.Second):
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				return s.Emit(turn.Event{Kind: turn.Final, Text: "whole"})
			}
			e, stop := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(long)})
			first, next := say(t, e, sess, "1", "a"), say(t, e, sess, "2", "b")
			time.Sleep(time.Duration(n)*time.Second + time.Millisecond)
			began := time.Now()
			stop()
			if d := time.Since(began); d > 16*time.Second {
				t.Errorf("n=%d: the end took %s", n, d)
			}
			if _, err := e.Submit(ctx, submission(sess, "3", "c")); !errors.Is(err, transport.ErrClosing) {
				t.Errorf("n=%d: Submit after the end: %v", n, err)
			}
			e, stop = enginetest.Start(t, engine.Options{Journal: j, Runners: runners(enginetest.Echo)})
			a, b := end(t, e, first.Turn), end(t, e, next.Turn)
			stop()
			got := ends(records(t, j, sess))
			if got[first.Turn] != 1 || got[next.Turn] != 1 || len(j.Pins()) != 0 {
				t.Errorf("n=%d: ends %v, pins %v", n, got, j.Pins())
			}
			if want := n >= 20; (a.Text == "whole") != want || a.Stopped == want {
				t.Errorf("n=%d: first ended %+v", n, a)
			}
			if n < 20 && b.Text != "b" { // it had not started
				t.Errorf("n=%d: next ended %+v", n, b)
			}
		})
	}
}

// A turn that ignores everything stays open and is given back.
func TestShutdownLeavesTheStuckOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := enginetest.NewJournal()
		release := make(chan struct{})
		e, stop := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(func(ctx context.Context, _ turn.Request, s turn.Sink) error {
			_ = s.Emit(text("half"))
			<-release
			if s.Emit(turn.Event{Kind: turn.Final, Text: "too late"}) == nil {
				t.Error("an end after the process gave up")
			}
			return nil
		})})
		r := say(t, e, sess, "1", "a")
		wait := make(chan error, 1)
		go func() {
			_, err := e.Wait(ctx, r.Turn)
			wait <- err
		}()
		synctest.Wait()
		began := time.Now()
		stop()
		if d := time.Since(began); d != 16*time.Second {
			t.Errorf("ended after %s, want grace 10 s, salvage 5 s and 1 s to leave", d)
		}
		if err := <-wait; !errors.Is(err, transport.ErrClosing) {
			t.Errorf("Wait = %v, want ErrClosing", err)
		}
		close(release)
		synctest.Wait()
		var got turn.Request
		e, _ = enginetest.Start(t, engine.Options{Journal: j, Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
			got = req
			return enginetest.Echo(ctx, req, s)
		})})
		if ev := end(t, e, r.Turn); ev.Text != "a" || got.Attempt != 2 || got.Text != "half" {
			t.Errorf("after the restart: %+v, request %+v", ev, got)
		}
	})
}

func TestLeaveSavesAndGoes(t *testing.T) {
	for name, when := range map[string]time.Duration{"at once": 0, "in the grace period": 3 * time.Second, "while salvaging": 12 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := enginetest.NewJournal()
				e, stop := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(func(ctx context.Context, _ turn.Request, s turn.Sink) error {
					<-ctx.Done()
					if errors.Is(context.Cause(ctx), runner.ErrLeaving) {
						if s.Emit(text("x")) == nil {
							t.Error("words while leaving")
						}
						if s.Emit(turn.Event{Kind: turn.Failed, Code: turn.CodeModel}) == nil {
							t.Error("a failure while leaving")
						}
						if err := s.Checkpoint(ctx, "saved"); err != nil {
							t.Errorf("Checkpoint while leaving: %v", err)
						}
						return runner.ErrLeaving
					}
					time.Sleep(time.Hour) // deaf to a stop
					return nil
				})})
				r := say(t, e, sess, "1", "a")
				synctest.Wait()
				began := time.Now()
				time.AfterFunc(when, func() { e.Leave(); e.Leave() })
				if when > 0 {
					stop()
				} else {
					time.Sleep(time.Millisecond)
					stop()
				}
				if d := time.Since(began); d > when+time.Second+time.Millisecond {
					t.Errorf("left after %s", d)
				}
				var got turn.Request
				e, _ = enginetest.Start(t, engine.Options{Journal: j, Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
					got = req
					return enginetest.Echo(ctx, req, s)
				})})
				end(t, e, r.Turn)
				if saved := len(got.Resume); saved != 1 && when < 10*time.Second || saved != 0 && when > 10*time.Second {
					t.Errorf("resumed with %s", got.Resume)
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// open writes an accepted turn the way a dead process leaves it.
type open struct {
	id    turn.ID
	text  string
	seq   int64
	inner []turn.Record
}

func (o *open) write(t *testing.T, j *enginetest.Journal) {
	t.Helper()
	o.id = turn.NewID()
	put := func(r turn.Record, pin string) {
		r.Turn = o.id
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		seq, err := j.Append(ctx, sess.Channel(), journal.Any, journal.Entry{Data: data, Pin: pin})
		if err != nil {
			t.Fatal(err)
		}
		if pin != "" {
			o.seq = seq
		}
	}
	put(turn.Record{Accepted: &turn.Accepted{Message: submission(sess, o.text, o.text).Message, Origin: turn.FromAPI, Runner: "native"}}, string(o.id))
	for _, r := range o.inner {
		put(r, "")
	}
}

// Promise 2, spec 3.7, 16 #9: open turns run again, in order, with what was
// saved and said.
func TestRecoveryResumes(t *testing.T) {
	j := enginetest.NewJournal()
	begun := func(n int) turn.Record { return turn.Record{Begun: &turn.Begun{Attempt: n}} }
	ev := func(e turn.Event) turn.Record { return turn.Record{Event: &e} }
	first := &open{text: "first", inner: []turn.Record{
		begun(1), ev(text("one")), {Checkpoint: json.RawMessage(`{"n":1}`)}, begun(2), {Checkpoint: json.RawMessage(`{"n":2}`)},
		ev(turn.Event{Kind: turn.Text, Text: "tw", Partial: true}),
	}}
	second, third := &open{text: "second"}, &open{text: "third"}
	first.write(t, j)
	second.write(t, j)
	third.write(t, j)
	reqs := make(chan turn.Request, 3)
	a := &enginetest.Archive{}
	e, stop := enginetest.Start(t, engine.Options{Journal: j, Archive: a, Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
		reqs <- req
		return enginetest.Echo(ctx, req, s)
	})})
	if a.CaughtUp(sess) != 1 {
		t.Error("the archive was not caught up before the runner")
	}
	for i, o := range []*open{first, second, third} {
		got := <-reqs
		if got.ID != o.id || got.Message.Text != o.text || got.Origin != turn.FromAPI || got.Conversation != sess {
			t.Errorf("turn %d: %+v", i, got)
		}
		if want := []int{3, 1, 1}[i]; got.Attempt != want {
			t.Errorf("turn %d: attempt %d, want %d", i, got.Attempt, want)
		}
		if i == 0 {
			if want := []json.RawMessage{json.RawMessage(`{"n":1}`), json.RawMessage(`{"n":2}`)}; cmp.Diff(want, got.Resume) != "" || got.Text != "one" {
				t.Errorf("resume %s, text %q", got.Resume, got.Text)
			}
		}
		end(t, e, o.id)
	}
	// The sender repeats what it got no receipt for.
	if r := say(t, e, sess, "new", "new"); r.Duplicate {
		t.Errorf("a new message: %+v", r)
	}
	stop()
	want := []string{"text", "begun", "started", "final", "begun", "started", "final"}
	if diff := cmp.Diff(want, kinds(records(t, j, sess))[9:16]); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	if v := records(t, j, sess)[9].Event; !v.Void {
		t.Errorf("the pieces of the dead attempt are not void: %+v", v)
	}
}

func TestRecoveryEndsWhatCannotRun(t *testing.T) {
	for name, c := range map[string]struct {
		inner []turn.Record
		opts  engine.Options
		want  string
		text  string
	}{
		"no runner any more": {nil, engine.Options{Runners: map[string]runner.Runner{"other": enginetest.Runner(enginetest.Echo)}}, `there is no runner "native"`, ""},
		"too old":            {nil, engine.Options{Now: func() time.Time { return time.Now().Add(5 * time.Hour) }}, "interrupted by a restart 5h0m0s ago", ""},
		"too many attempts": {[]turn.Record{{Begun: &turn.Begun{Attempt: 5}}, {Event: &turn.Event{Kind: turn.Text, Text: "half"}}},
			engine.Options{}, "interrupted by a restart 5 times", "half"},
		"the runner cannot resume": {[]turn.Record{{Begun: &turn.Begun{Attempt: 1}}},
			engine.Options{Runners: runners(func(_ context.Context, r turn.Request, _ turn.Sink) error {
				if r.Attempt > 1 {
					return runner.ErrInterrupted
				}
				return nil
			})}, "interrupted by a restart", ""},
	} {
		t.Run(name, func(t *testing.T) {
			j, a := enginetest.NewJournal(), &enginetest.Archive{}
			o := &open{text: "x", inner: c.inner}
			o.write(t, j)
			c.opts.Journal, c.opts.Archive = j, a
			e, stop := enginetest.Start(t, c.opts)
			ev := end(t, e, o.id)
			if ev.Kind != turn.Failed || ev.Code != turn.CodeInterrupted || !strings.Contains(ev.Error, c.want) || ev.Text != c.text {
				t.Errorf("end = %+v, want %q", ev, c.want)
			}
			stop()
			if got := a.Of(sess); len(got) != 1 || got[0].Record.Event == nil {
				t.Errorf("the archive was not told: %+v", got)
			}
			if len(j.Pins()) != 0 || ends(records(t, j, sess))[o.id] != 1 {
				t.Errorf("pins %v", j.Pins())
			}
		})
	}
}

// A turn that ends the process every time is given up after five attempts.
func TestATurnThatKillsTheProcessIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := enginetest.NewJournal()
		var runs atomic.Int32
		var id turn.ID
		for range 8 {
			e, stop := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(func(ctx context.Context, _ turn.Request, s turn.Sink) error {
				runs.Add(1)
				<-ctx.Done()
				return context.Cause(ctx)
			})})
			if id == "" {
				id = say(t, e, sess, "m", "x").Turn
			}
			synctest.Wait()
			e.Leave() // as far as the journal can tell, a crash
			stop()
		}
		e, _ := enginetest.Start(t, engine.Options{Journal: j})
		if ev := end(t, e, id); ev.Code != turn.CodeInterrupted || runs.Load() != 5 {
			t.Errorf("after %d runs: %+v", runs.Load(), ev)
		}
	})
}

// counting counts the records that recovery reads.
type counting struct {
	*enginetest.Journal
	read *atomic.Int64
}

func TestRecoveryReadsOnlyWhatWasOpen(t *testing.T) {
	j := enginetest.NewJournal()
	e, stop := enginetest.Start(t, engine.Options{Journal: j})
	for i := range 200 {
		end(t, e, say(t, e, sess, "", fmt.Sprint(i)).Turn)
	}
	stop()
	o := &open{text: "open"}
	o.write(t, j)
	c := counting{j, &atomic.Int64{}}
	e, _ = enginetest.Start(t, engine.Options{Journal: c})
	if n := c.read.Load(); n != 1 {
		t.Errorf("recovery read %d records, want the one that was open", n)
	}
	end(t, e, o.id)
}

func (c counting) Read(ctx context.Context, stream string, since int64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for r, err := range c.Journal.Read(ctx, stream, since) {
			c.read.Add(1)
			if !yield(r, err) {
				return
			}
		}
	}
}

func TestRecoveryRefusesAJournalItCannotRead(t *testing.T) {
	j := enginetest.NewJournal()
	if _, err := j.Append(ctx, sess.Channel(), journal.Any, journal.Entry{Data: []byte(`"x"`), Pin: "p"}); err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Options{Journal: j})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Serve(ctx); err == nil || !strings.Contains(err.Error(), "SESSION-1") {
		t.Errorf("Serve = %v", err)
	}
	if _, err := e.Submit(ctx, submission(sess, "", "x")); !errors.Is(err, transport.ErrClosing) {
		t.Errorf("Submit = %v", err)
	}
	if err := e.Serve(ctx); err == nil {
		t.Error("served twice")
	}
	if _, err := engine.New(engine.Options{}); err == nil {
		t.Error("New without a journal")
	}
}

func TestUnknownTurnsAndImpatientCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		e, _ := enginetest.Start(t, engine.Options{Runners: runners(g.run)})
		if _, err := e.Wait(ctx, turn.NewID()); !errors.Is(err, transport.ErrUnknownTurn) {
			t.Errorf("Wait: %v", err)
		}
		if _, err := e.Turn(ctx, turn.NewID()); !errors.Is(err, transport.ErrUnknownTurn) {
			t.Errorf("Turn: %v", err)
		}
		r := say(t, e, sess, "", "x")
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := e.Wait(short, r.Turn); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: %v", err)
		}
		if st, err := e.Turn(ctx, r.Turn); err != nil || st.Status != engine.Running || !e.Running(sess) {
			t.Errorf("the turn goes on: %+v, %v", st, err)
		}
		close(g.let)
		end(t, e, r.Turn)
	})
	e, err := engine.New(engine.Options{Journal: enginetest.NewJournal()})
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := e.Submit(gone, submission(sess, "", "x")); !errors.Is(err, context.Canceled) {
		t.Errorf("Submit before Serve: %v", err)
	}
	for range e.Watch(gone, sess, 0) {
		t.Error("Watch before Serve yielded something")
	}
}
