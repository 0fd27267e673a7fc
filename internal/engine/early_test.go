package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// early is a runner that says how far it came: it thinks, calls a tool, ends.
func early(at func(string)) enginetest.Runner {
	return func(_ context.Context, _ turn.Request, s turn.Sink) error {
		at("begun")
		for _, step := range []struct {
			name string
			ev   turn.Event
		}{
			{"thought", turn.Event{Kind: turn.Thinking, Text: "hm"}},
			{"said", text("well")},
			{"tool", turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "1", Phase: turn.Start}}},
			{"ended", turn.Event{Kind: turn.Final, Text: "done"}},
		} {
			if err := s.Emit(step.ev); err != nil {
				return err
			}
			at(step.name)
		}
		return nil
	}
}

// What may happen before a message is on disk: its turn begins and asks its
// model. No tool runs, no end is told, and the sender has no receipt.
func TestAnEarlyTurnWaitsForItsMessageBeforeATool(t *testing.T) {
	for name, c := range map[string]struct {
		early    bool
		accepted func(transport.Receipt)
		before   string
	}{
		"early":                  {true, nil, "said"},
		"not early":              {false, nil, ""},
		"somebody is told first": {true, func(transport.Receipt) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j := enginetest.NewJournal()
				hold := make(chan struct{})
				j.FailSync = func() error { <-hold; return nil }
				var mu sync.Mutex
				var at string
				e, _ := enginetest.Start(t, engine.Options{
					Journal: j, Early: func(name string) bool { return c.early && name == "native" },
					Runners: runners(early(func(s string) { mu.Lock(); defer mu.Unlock(); at = s })),
				})
				s := submission(sess, "m", "x")
				s.Accepted = c.accepted
				var r transport.Receipt
				go func() {
					var err error
					if r, err = e.Submit(ctx, s); err != nil {
						t.Errorf("Submit: %v", err)
					}
				}()
				synctest.Wait()
				mu.Lock()
				if at != c.before || r.Turn != "" {
					t.Errorf("before the fsync the turn came to %q with the receipt %+v, want %q and none", at, r, c.before)
				}
				mu.Unlock()
				close(hold)
				synctest.Wait()
				if at != "ended" || r.Turn == "" {
					t.Fatalf("after the fsync the turn came to %q, receipt %+v", at, r)
				}
				if ev := end(t, e, r.Turn); ev.Text != "done" {
					t.Errorf("the end is %+v", ev)
				}
			})
		})
	}
}

// The disk fails under a turn that has begun: the sender is told so, nobody gets
// an end, and the engine ends with the reason.
func TestAnEarlyTurnIsLostWithItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("the disk is gone")
		j := enginetest.NewJournal()
		hold := make(chan struct{})
		j.FailSync = func() error { <-hold; return full }
		begun := make(chan struct{}, 1)
		e, err := engine.New(engine.Options{
			Journal: j, Early: func(string) bool { return true },
			Runners: runners(early(func(s string) {
				switch s {
				case "begun":
					begun <- struct{}{}
				case "tool", "ended":
					t.Errorf("the turn came to %q", s)
				}
			})),
		})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- e.Serve(ctx) }()
		s := submission(sess, "m", "x")
		s.Turn = turn.NewID()
		submitted, waited := make(chan error, 1), make(chan error, 1)
		go func() { _, err := e.Submit(ctx, s); submitted <- err }()
		<-begun
		go func() { _, err := e.Wait(ctx, s.Turn); waited <- err }()
		synctest.Wait()
		close(hold)
		for name, c := range map[string]chan error{"Submit": submitted, "Serve": served} {
			if err := <-c; !errors.Is(err, full) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := <-waited; err == nil {
			t.Error("Wait returned an end")
		}
	})
}
