package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

var bridged = chat.Address{Space: chat.Bridge, ID: "key"}

// A newer request ends the older ones at once, running and waiting, with their
// own code; it runs when the runner of the older one has returned, also when
// the lane was full.
func TestASupersedingTurnEndsTheOlderOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		e, _ := enginetest.Start(t, engine.Options{Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
			if req.Message.Text != "old" {
				return enginetest.Echo(ctx, req, s)
			}
			_ = s.Emit(text("half"))
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), runner.ErrSuperseded) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			<-let // it tidies up
			return s.Emit(turn.Event{Kind: turn.Final, Text: "too late"})
		})})
		var older []turn.ID
		for range 6 {
			older = append(older, say(t, e, bridged, "", "old").Turn)
		}
		synctest.Wait()
		s := submission(bridged, "", "new")
		s.Supersedes = true
		told := 0
		s.Accepted = func(r transport.Receipt) {
			told++
			if st, err := e.Turn(ctx, r.Turn); err != nil || st.Status != engine.Waiting {
				t.Errorf("told when the turn is %v, %v: want before it can run", st.Status, err)
			}
		}
		r, err := e.Submit(ctx, s)
		if err != nil || told != 1 {
			t.Fatalf("Submit = %v, told %d times", err, told)
		}
		for _, id := range older {
			want := turn.Event{Kind: turn.Failed, Turn: id, Code: turn.CodeSuperseded, Error: "superseded by a newer request"}
			if id == older[0] {
				want.Text = "half"
			}
			if got := end(t, e, id); got != want {
				t.Errorf("an older turn ends with %+v, want %+v", got, want)
			}
		}
		close(let)
		if got := end(t, e, r.Turn); got.Kind != turn.Final || got.Text != "new" {
			t.Errorf("the newer one ends with %+v", got)
		}
		if lanes, turns, _ := e.Sizes(); turns != 0 || lanes > 1 {
			t.Errorf("%d lanes and %d turns are left", lanes, turns)
		}
	})
}

// The same turn again is no newer request.
func TestARepeatSupersedesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		e, _ := enginetest.Start(t, engine.Options{Runners: runners(g.run)})
		s := submission(bridged, "", "once")
		s.Supersedes, s.Turn = true, turn.NewID()
		s.Accepted = func(transport.Receipt) {}
		first, err := e.Submit(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.Accepted = func(transport.Receipt) { t.Error("a repeat was told as accepted") }
		again, err := e.Submit(ctx, s)
		if err != nil || !again.Duplicate || again.Turn != first.Turn {
			t.Fatalf("Submit again = %+v, %v", again, err)
		}
		close(g.let)
		if got := end(t, e, first.Turn); got.Kind != turn.Final {
			t.Errorf("the turn ends with %+v", got)
		}
	})
}

// A crash between the newer message and the ends it brings about.
func TestRecoverySupersedes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := enginetest.NewJournal()
		var ids []turn.ID
		for n := range 3 {
			id := turn.NewID()
			ids = append(ids, id)
			rec := turn.Record{Turn: id, Accepted: &turn.Accepted{
				Message: chat.Message{ID: string(id), Text: "ask"}, Origin: turn.FromBridge, Runner: "native", Supersedes: n == 2,
			}}
			data, err := json.Marshal(rec)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := j.Append(ctx, bridged.Channel(), journal.Any, journal.Entry{Data: data, Pin: string(id)}); err != nil {
				t.Fatal(err)
			}
		}
		older, newer := ids[:2], ids[2]
		ran := map[turn.ID]int{}
		e, _ := enginetest.Start(t, engine.Options{Journal: j, Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
			ran[req.ID]++
			return enginetest.Echo(ctx, req, s)
		})})
		// With the end of the last turn nobody counts any more.
		if got := end(t, e, newer); got.Kind != turn.Final || ran[newer] != 1 {
			t.Errorf("the newer turn ran %d times and ends with %+v", ran[newer], got)
		}
		for _, id := range older {
			if got := end(t, e, id); got.Code != turn.CodeSuperseded || ran[id] != 0 {
				t.Errorf("an older turn ran %d times and ends with %+v", ran[id], got)
			}
		}
	})
}

// Fail ends one turn at once, with the code and the sentence given, whatever its
// runner does.
func TestFailEndsATurnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		let := make(chan struct{})
		e, _ := enginetest.Start(t, engine.Options{Runners: runners(func(ctx context.Context, req turn.Request, s turn.Sink) error {
			if req.Message.Text == "next" {
				return enginetest.Echo(ctx, req, s)
			}
			<-ctx.Done()
			<-let
			return errors.New("something else")
		})})
		first, second, third := say(t, e, bridged, "", "first"), say(t, e, bridged, "", "second"), say(t, e, bridged, "", "next")
		synctest.Wait()
		fail := func(conv chat.Address, id turn.ID) bool {
			r, err := e.Command(ctx, transport.Command{Conversation: conv, Verb: transport.Fail, Turn: id, Code: turn.CodeIdle, Argument: "no progress for 3s"})
			if err != nil {
				t.Fatal(err)
			}
			return r.Running
		}
		if fail(chat.Address{Space: chat.Bridge, ID: "other"}, first.Turn) || fail(bridged, turn.NewID()) {
			t.Error("Fail found a turn where there is none")
		}
		for _, id := range []turn.ID{first.Turn, second.Turn} {
			if !fail(bridged, id) {
				t.Error("Fail did not find the turn")
			}
			if got := end(t, e, id); got.Kind != turn.Failed || got.Code != turn.CodeIdle || got.Error != "no progress for 3s" {
				t.Errorf("the turn ends with %+v", got)
			}
			if fail(bridged, id) {
				t.Error("Fail found a turn that has ended")
			}
		}
		close(let)
		if got := end(t, e, third.Turn); got.Kind != turn.Final {
			t.Errorf("the next turn ends with %+v", got)
		}
	})
}

// Runners may come and go.
func TestRunnersThatComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := map[string]runner.Runner{}
		e, _ := enginetest.Start(t, engine.Options{Runner: func(name string) (runner.Runner, bool) {
			r, ok := live[name]
			return r, ok
		}})
		ask := func() (transport.Receipt, error) {
			s := submission(bridged, "", "hello")
			s.Runner = "billing"
			return e.Submit(ctx, s)
		}
		if _, err := ask(); !errors.Is(err, transport.ErrUnknownRunner) {
			t.Errorf("Submit before it came: %v", err)
		}
		live["billing"] = enginetest.Runner(enginetest.Echo)
		r, err := ask()
		if err != nil {
			t.Fatal(err)
		}
		if got := end(t, e, r.Turn); got.Text != "hello" {
			t.Errorf("the turn ends with %+v", got)
		}
		live["billing"] = enginetest.Runner(func(ctx context.Context, _ turn.Request, s turn.Sink) error {
			delete(live, "billing")
			return s.Emit(turn.Event{Kind: turn.Final, Text: "last words"})
		})
		if _, err := ask(); err != nil {
			t.Fatal(err)
		}
		if r, err = ask(); err == nil {
			if got := end(t, e, r.Turn); got.Kind != turn.Failed {
				t.Errorf("a turn whose runner went ends with %+v", got)
			}
		}
	})
}
