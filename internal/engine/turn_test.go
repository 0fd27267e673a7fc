package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

func text(s string) turn.Event { return turn.Event{Kind: turn.Text, Text: s} }

// Spec 3.14, 16 #2, 16 #10, 16 #13, 16.1 6a: every way to return has exactly
// one end, and its text is the final text.
func TestEndsOfATurn(t *testing.T) {
	for name, c := range map[string]struct {
		run  enginetest.Runner
		want turn.Event
	}{
		"final text alone is the reply": {func(_ context.Context, _ turn.Request, s turn.Sink) error {
			_ = s.Emit(text("working on it"))
			return s.Emit(turn.Event{Kind: turn.Final, Text: "answer", Usage: &turn.Usage{Calls: 2}})
		}, turn.Event{Kind: turn.Final, Text: "answer", Usage: &turn.Usage{Calls: 2}}},
		"a turn that never ends itself answers with what it said": {func(_ context.Context, _ turn.Request, s turn.Sink) error {
			_ = s.Emit(turn.Event{Kind: turn.Status, Label: "reading"})
			_ = s.Emit(text("*one*"))
			return s.Emit(text("_two_"))
		}, turn.Event{Kind: turn.Final, Text: "*one*\n\n_two_"}},
		"a turn that says nothing failed": {func(context.Context, turn.Request, turn.Sink) error { return nil },
			turn.Event{Kind: turn.Failed, Code: turn.CodeFailed, Error: "run failed: no response"}},
		"an error": {func(context.Context, turn.Request, turn.Sink) error { return errors.New("no luck") },
			turn.Event{Kind: turn.Failed, Code: turn.CodeFailed, Error: "run failed: no luck"}},
		"an error keeps the text there was": {func(_ context.Context, _ turn.Request, s turn.Sink) error {
			_ = s.Emit(text("half"))
			return errors.New("no luck")
		}, turn.Event{Kind: turn.Failed, Code: turn.CodeFailed, Error: "run failed: no luck", Text: "half"}},
		"an error with a code": {func(context.Context, turn.Request, turn.Sink) error {
			return fmt.Errorf("x: %w", &runner.Error{Code: turn.CodeModel, Text: "the model is overloaded", Err: errors.New("529")})
		}, turn.Event{Kind: turn.Failed, Code: turn.CodeModel, Error: "the model is overloaded"}},
		"interrupted": {func(context.Context, turn.Request, turn.Sink) error { return runner.ErrInterrupted },
			turn.Event{Kind: turn.Failed, Code: turn.CodeInterrupted, Error: "interrupted by a restart"}},
		"a panic": {func(context.Context, turn.Request, turn.Sink) error { panic("secret words") },
			turn.Event{Kind: turn.Failed, Code: turn.CodePanic, Error: "run failed: an internal error; the log of this server says more"}},
		"a goroutine that ends": {func(context.Context, turn.Request, turn.Sink) error { runtime.Goexit(); return nil },
			turn.Event{Kind: turn.Failed, Code: turn.CodePanic, Error: "run failed: an internal error; the log of this server says more"}},
		"failed without a reason": {func(_ context.Context, _ turn.Request, s turn.Sink) error {
			return s.Emit(turn.Event{Kind: turn.Failed})
		},
			turn.Event{Kind: turn.Failed, Code: turn.CodeFailed, Error: "run failed"}},
		"an error after the end changes nothing": {func(_ context.Context, _ turn.Request, s turn.Sink) error {
			_ = s.Emit(turn.Event{Kind: turn.Final, Text: "answer"})
			return errors.New("late")
		}, turn.Event{Kind: turn.Final, Text: "answer"}},
		"a panic after the end changes nothing": {func(_ context.Context, _ turn.Request, s turn.Sink) error {
			_ = s.Emit(turn.Event{Kind: turn.Final, Text: "answer"})
			panic("late")
		}, turn.Event{Kind: turn.Final, Text: "answer"}},
		"silent": {func(_ context.Context, _ turn.Request, s turn.Sink) error {
			return s.Emit(turn.Event{Kind: turn.Final, Text: " [SILENT] nothing to say"})
		}, turn.Event{Kind: turn.Final, Silent: true}},
		"silent by default": {func(_ context.Context, _ turn.Request, s turn.Sink) error { return s.Emit(text("[SILENT]")) },
			turn.Event{Kind: turn.Final, Silent: true}},
		"pieces": {func(_ context.Context, _ turn.Request, s turn.Sink) error {
			for _, ev := range []turn.Event{
				text("whole"), {Kind: turn.Text, Text: "wro", Partial: true}, {Kind: turn.Text, Void: true},
				{Kind: turn.Text, Text: "ri", Partial: true}, {Kind: turn.Text, Text: "ght", Partial: true},
			} {
				_ = s.Emit(ev)
			}
			return nil
		}, turn.Event{Kind: turn.Final, Text: "whole\n\nright"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := enginetest.NewJournal()
			e, stop := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(c.run)})
			r := say(t, e, sess, "m", "hi")
			got := end(t, e, r.Turn)
			c.want.Turn = r.Turn
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("end (-want +got):\n%s", diff)
			}
			stop()
			if n := ends(records(t, j, sess)); n[r.Turn] != 1 || len(j.Pins()) != 0 {
				t.Errorf("%d terminal events, pins %v", n[r.Turn], j.Pins())
			}
		})
	}
}

// ends counts terminal events by turn.
func ends(all []turn.Record) map[turn.ID]int {
	n := map[turn.ID]int{}
	for _, r := range all {
		if r.Event != nil && r.Event.Terminal() {
			n[r.Turn]++
		}
	}
	return n
}

func TestNothingIsWrittenAfterTheEnd(t *testing.T) {
	j := enginetest.NewJournal()
	after := make(chan error, 3)
	e, stop := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(func(ctx context.Context, _ turn.Request, s turn.Sink) error {
		if err := s.Emit(turn.Event{Kind: "nonsense"}); err == nil {
			t.Error("an unknown kind was taken")
		}
		_ = s.Emit(turn.Event{Kind: turn.Final, Text: "a"})
		after <- s.Emit(text("more"))
		after <- s.Emit(turn.Event{Kind: turn.Final, Text: "b"})
		after <- s.Checkpoint(ctx, 1) // a state may still be saved
		return nil
	})})
	r := say(t, e, sess, "m", "hi")
	if ev := end(t, e, r.Turn); ev.Text != "a" {
		t.Errorf("end = %+v", ev)
	}
	if e1, e2, e3 := <-after, <-after, <-after; e1 == nil || e2 == nil || e3 != nil {
		t.Errorf("after the end: %v, %v, %v", e1, e2, e3)
	}
	stop()
	if diff := cmp.Diff([]string{"accepted", "begun", "started", "final", "checkpoint"}, kinds(records(t, j, sess))); diff != "" {
		t.Error(diff)
	}
}

func TestExactlyOneEndWhenEverybodyEnds(t *testing.T) {
	j := enginetest.NewJournal()
	e, stop := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(func(_ context.Context, _ turn.Request, s turn.Sink) error {
		var wg sync.WaitGroup
		var won atomic.Int32
		for i := range 20 {
			wg.Go(func() {
				_ = s.Emit(text("x"))
				if s.Emit(turn.Event{Kind: turn.Final, Text: fmt.Sprint(i)}) == nil {
					won.Add(1)
				}
				if s.Emit(text("late")) == nil {
					t.Error("text after the end")
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%d terminal events were taken", won.Load())
		}
		return nil
	})})
	end(t, e, say(t, e, sess, "m", "hi").Turn)
	stop()
	all := records(t, j, sess)
	if all[len(all)-1].Event == nil || !all[len(all)-1].Event.Terminal() {
		t.Errorf("last record %+v", all[len(all)-1])
	}
}

// F23: whatever happens at whichever point, the next message starts.
func TestLaneIsReleasedWhateverTheRunnerDoes(t *testing.T) {
	points := []string{"at once", "after a text", "after a tool start", "after a checkpoint", "after the end"}
	faults := map[string]func(ctx context.Context) error{
		"panic":            func(context.Context) error { panic("boom") },
		"error":            func(context.Context) error { return errors.New("500") },
		"goexit":           func(context.Context) error { runtime.Goexit(); return nil },
		"timeout":          func(context.Context) error { return context.DeadlineExceeded },
		"cancel":           func(context.Context) error { return context.Canceled },
		"stop, obeyed":     func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"stop, then panic": func(ctx context.Context) error { <-ctx.Done(); panic("late") },
	}
	for _, point := range points {
		for fault, f := range faults {
			t.Run(point+"/"+fault, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e, _ := enginetest.Start(t, engine.Options{Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
						if req.Message.Text == "next" {
							return enginetest.Echo(ctx, req, s)
						}
						for _, p := range points {
							switch p {
							case "after a text":
								_ = s.Emit(text("said"))
							case "after a tool start":
								_ = s.Emit(turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "1", Phase: turn.Start}})
							case "after a checkpoint":
								_ = s.Checkpoint(ctx, 1)
							case "after the end":
								_ = s.Emit(turn.Event{Kind: turn.Final, Text: "ok"})
							}
							if p == point {
								return f(ctx)
							}
						}
						return nil
					})})
					first := say(t, e, sess, "1", "first")
					next := say(t, e, sess, "2", "next")
					synctest.Wait()
					if strings.HasPrefix(fault, "stop") {
						if _, err := e.Command(ctx, transport.Command{Conversation: sess, Verb: transport.Stop}); err != nil {
							t.Fatal(err)
						}
					}
					began := time.Now()
					if ev := end(t, e, next.Turn); ev.Text != "next" {
						t.Errorf("next: %+v", ev)
					}
					if d := time.Since(began); d > time.Second {
						t.Errorf("the next message started after %s", d)
					}
					if ev := end(t, e, first.Turn); !ev.Terminal() {
						t.Errorf("first: %+v", ev)
					}
				})
			})
		}
	}
}

// A runner that ignores everything keeps neither its lane nor its voice.
func TestAStuckRunnerLosesItsLane(t *testing.T) {
	for name, emitEnd := range map[string]bool{"stopped": false, "after its end": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log lockedBuffer
				release := make(chan struct{})
				late := make(chan error, 2)
				j := enginetest.NewJournal()
				e, _ := enginetest.Start(t, engine.Options{
					Journal: j, StopLimit: 7 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
					Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
						if req.Message.Text == "next" {
							return enginetest.Echo(ctx, req, s)
						}
						_ = s.Emit(text("half"))
						if emitEnd {
							_ = s.Emit(turn.Event{Kind: turn.Final, Text: "half"})
						}
						<-release
						late <- s.Emit(text("late"))
						late <- s.Checkpoint(ctx, 1)
						return nil
					})})
				first, next := say(t, e, sess, "1", "first"), say(t, e, sess, "2", "next")
				synctest.Wait()
				began := time.Now()
				if !emitEnd {
					_, _ = e.Command(ctx, transport.Command{Conversation: sess, Verb: transport.Stop})
				}
				if ev := end(t, e, next.Turn); ev.Text != "next" || time.Since(began) != 7*time.Second {
					t.Errorf("next %+v after %s", ev, time.Since(began))
				}
				if ev := end(t, e, first.Turn); ev.Text != "half" || ev.Stopped == emitEnd {
					t.Errorf("first: %+v", ev)
				}
				close(release)
				if e1, e2 := <-late, <-late; e1 == nil || e2 == nil {
					t.Errorf("late words: %v, %v", e1, e2)
				}
				if !strings.Contains(log.String(), "does not return") || !strings.Contains(log.String(), string(first.Turn)) {
					t.Errorf("log: %s", log.String())
				}
			})
		})
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// What a turn puts on disk, and when: tool starts, questions and the end.
func TestSyncPoints(t *testing.T) {
	j := enginetest.NewJournal()
	var at []int
	e, stop := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(func(ctx context.Context, _ turn.Request, s turn.Sink) error {
		for _, ev := range []turn.Event{
			{Kind: turn.Status, Label: "x"}, {Kind: turn.Thinking, Text: "x"}, text("x"),
			{Kind: turn.ToolUse, Tool: &turn.Tool{Phase: turn.Start}}, {Kind: turn.ToolUse, Tool: &turn.Tool{Phase: turn.End}},
			{Kind: turn.FileOut, Local: "x"}, {Kind: turn.AskFor, Ask: &turn.Ask{ID: "1"}}, {Kind: turn.Final, Text: "x"},
		} {
			before := j.Syncs()
			if err := s.Emit(ev); err != nil {
				return err
			}
			at = append(at, j.Syncs()-before)
		}
		return nil
	})})
	end(t, e, say(t, e, sess, "m", "x").Turn)
	stop()
	if diff := cmp.Diff([]int{0, 0, 0, 1, 0, 0, 1, 1}, at); diff != "" {
		t.Errorf("syncs by event (-want +got):\n%s", diff)
	}
	j2 := enginetest.NewJournal()
	e, stop = enginetest.Start(t, engine.Options{Journal: j2})
	end(t, e, say(t, e, sess, "m", "x").Turn)
	stop()
	if n := j2.Syncs(); n != 2 {
		t.Errorf("an instant turn costs %d syncs, want 2", n)
	}
}

// A broken disk ends Serve with the reason, and no promise is given on top.
func TestABrokenJournalEndsServe(t *testing.T) {
	for name, breakIt := range map[string]func(j *enginetest.Journal, err error){
		"sync": func(j *enginetest.Journal, err error) { j.FailSync = func() error { return err } },
		"append": func(j *enginetest.Journal, err error) {
			j.FailAppend = func(string, []journal.Entry) error { return err }
		},
	} {
		t.Run(name, func(t *testing.T) {
			full := errors.New("no space left on device")
			j := enginetest.NewJournal()
			breakIt(j, full)
			e, err := engine.New(engine.Options{Journal: j, Runners: runners(enginetest.Echo)})
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- e.Serve(ctx) }()
			if _, err := e.Submit(ctx, submission(sess, "m", "x")); !errors.Is(err, full) {
				t.Errorf("Submit: %v", err)
			}
			if err := <-served; !errors.Is(err, full) {
				t.Errorf("Serve: %v", err)
			}
			if _, err := e.Submit(ctx, submission(sess, "m2", "x")); !errors.Is(err, transport.ErrClosing) {
				t.Errorf("Submit after the end: %v", err)
			}
		})
	}
}

// An archive that fails loses nothing: it is caught up before it sees more.
func TestAFailingArchiveCatchesUp(t *testing.T) {
	var broken atomic.Bool
	a := &enginetest.Archive{Fail: func(_ chat.Address, catchUp bool) error {
		if broken.Load() {
			if catchUp {
				panic("corrupt")
			}
			return errors.New("corrupt")
		}
		return nil
	}}
	e, _ := enginetest.Start(t, engine.Options{Archive: a})
	end(t, e, say(t, e, sess, "1", "x").Turn)
	broken.Store(true)
	if ev := end(t, e, say(t, e, sess, "2", "x").Turn); ev.Text != "x" {
		t.Errorf("a turn with a broken archive: %+v", ev)
	}
	broken.Store(false)
	end(t, e, say(t, e, sess, "3", "x").Turn)
	if n := a.CaughtUp(sess); n != 1 {
		t.Errorf("caught up %d times, want once after the failure", n)
	}
}

// F49: a full disk refuses messages, and a turn that cannot end yet ends with
// its own reply when there is room again.
func TestAFullDiskRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		j := enginetest.NewJournal()
		j.FailAppend = func(string, []journal.Entry) error {
			if full.Load() {
				return fmt.Errorf("append: %w", syscall.ENOSPC)
			}
			return nil
		}
		g := newGate()
		e, _ := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(g.run)})
		r := say(t, e, sess, "1", "x")
		synctest.Wait()
		full.Store(true)
		if _, err := e.Submit(ctx, submission(web, "1", "x")); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Submit on a full disk: %v", err)
		}
		close(g.let)
		time.Sleep(time.Minute)
		if st, err := e.Turn(ctx, r.Turn); err != nil || st.Status != engine.Running {
			t.Errorf("on a full disk: %+v, %v", st, err)
		}
		full.Store(false)
		if ev := end(t, e, r.Turn); ev.Kind != turn.Final || ev.Text != "re: x" {
			t.Errorf("end = %+v", ev)
		}
		if ev := end(t, e, say(t, e, web, "1", "x").Turn); ev.Kind != turn.Final {
			t.Errorf("after the full disk: %+v", ev)
		}
	})
}

func TestHooksAndLogCarryNoText(t *testing.T) {
	var log lockedBuffer
	var mu sync.Mutex
	var seen []string
	hook := func(what string) func(engine.TurnInfo) {
		return func(i engine.TurnInfo) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprint(what, " ", i.Runner, " ", i.Code, " ", i.Stopped, " ", i.Usage != nil))
		}
	}
	e, stop := enginetest.Start(t, engine.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Hooks:  engine.Hooks{TurnStarted: hook("started"), TurnEnded: hook("ended"), Panicked: hook("panicked")},
		Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
			if req.Message.ID == "2" {
				panic("boom")
			}
			return s.Emit(turn.Event{Kind: turn.Final, Text: "canary-out", Usage: &turn.Usage{Calls: 1}})
		})})
	end(t, e, say(t, e, sess, "1", "canary-in").Turn)
	end(t, e, say(t, e, sess, "2", "canary-in").Turn)
	stop()
	want := []string{"started native  false false", "ended native  false true", "started native  false false", "panicked native  false false", "ended native panic false false"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	if out := log.String(); strings.Contains(out, "canary") || strings.Count(out, "turn started") != 2 || strings.Count(out, "turn ended") != 2 || !strings.Contains(out, "turn_test.go") {
		t.Errorf("log: %s", out)
	}
}
