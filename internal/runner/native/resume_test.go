package native

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/scripted"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

func isTool(phase turn.Phase) func(turn.Event) bool {
	return func(e turn.Event) bool { return e.Tool != nil && e.Tool.Phase == phase }
}

func TestStopKeepsTheTextThereWas(t *testing.T) {
	m := scripted.New(info,
		scripted.Step{Text: []string{"First."}, Calls: []llm.Call{scripted.Call("echo", `{}`)}},
		scripted.Hang("half an ans"),
		scripted.Text("fine"))
	b := newBed(t, one(m), tools(echo("echo")))
	ctx, cancel := context.WithCancelCause(t.Context())
	s, done := b.started(ctx, b.accept("go"))
	s.Wait(func(e turn.Event) bool { return e.Partial && strings.HasPrefix(e.Text, "half") })
	cancel(runner.ErrStopped)
	if err := <-done; err != nil {
		t.Fatalf("Run = %v", err)
	}
	if end := s.End(); !end.Stopped || end.Text != "First.\nhalf an ans" {
		t.Errorf("end = %+v", end)
	}
	b.restart()
	b.say("next")
	got := dump(last(t, m).Messages)
	for _, want := range []string{": go", "half an ans", ": next"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the history:\n%s", want, got)
		}
	}
	valid(t, m.Requests()...)
}

// §16 #6: stop works in the pause between two attempts.
func TestStopDuringARetryPause(t *testing.T) {
	pause := make(chan struct{}, 1)
	m := scripted.New(info, scripted.Fail(llm.ClassOverloaded, "busy"), scripted.Text("late"))
	b := newBed(t, one(m), func(o *Options) {
		o.Retry.Sleep = func(ctx context.Context, _ time.Duration) error {
			pause <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	s, done := b.started(ctx, b.accept("go"))
	<-pause
	cancel(runner.ErrStopped)
	if err := <-done; err != nil {
		t.Fatalf("Run = %v", err)
	}
	if end := s.End(); !end.Stopped || len(m.Requests()) != 1 {
		t.Errorf("end = %+v after %d requests", end, len(m.Requests()))
	}
}

func TestStopDuringATool(t *testing.T) {
	m := scripted.New(info, scripted.Tools(scripted.Call("wait", `{}`), scripted.Call("wait", `{}`)), scripted.Text("next"))
	b := newBed(t, one(m), tools(fakeTool{"wait", func(ctx context.Context, _ tool.Call) tool.Result {
		<-ctx.Done()
		return tool.Fail("aborted")
	}}))
	ctx, cancel := context.WithCancelCause(t.Context())
	s, done := b.started(ctx, b.accept("go"))
	s.Wait(isTool(turn.Start))
	cancel(runner.ErrStopped)
	if err := <-done; err != nil || !s.End().Stopped {
		t.Fatalf("Run = %v, end %+v", err, s.End())
	}
	b.say("again")
	valid(t, m.Requests()...)
	for _, r := range results(last(t, m).Messages) {
		if !r.IsError || r.Text == llm.Interrupted {
			t.Errorf("result = %+v, want the tool's own words or that it did not run", r)
		}
	}
}

// Promise 4 of the design, killed at every event and every checkpoint: nothing
// runs twice, and each turn still comes to its end.
func TestKilledAnywhereNothingRunsTwice(t *testing.T) {
	killed := errors.New("killed")
	for at := 1; ; at++ {
		runs := map[string]int{}
		step := fakeTool{"step", func(_ context.Context, c tool.Call) tool.Result {
			runs[string(c.Args)]++
			return tool.Result{Text: "did " + string(c.Args)}
		}}
		m := scripted.Func(info, func(_ int, req llm.Request) scripted.Step {
			switch n := len(results(req.Messages)); {
			case n == 0:
				return scripted.Step{Text: []string{"one"}, Calls: []llm.Call{scripted.Call("step", `{"n":1}`)}}
			case n == 1:
				return scripted.Tools(scripted.Call("step", `{"n":2}`))
			}
			return scripted.Text("done")
		})
		b := newBed(t, one(m), tools(step))
		req := b.accept("go")
		s := b.sink(req)
		left := at
		s.before = func(string) error {
			if left--; left <= 0 {
				return killed // and so is all that follows
			}
			return nil
		}
		err := b.n.Run(t.Context(), req, s)
		if err == nil {
			if at < 10 {
				t.Fatalf("the turn took %d writes", at)
			}
			return
		}
		if !errors.Is(err, killed) {
			t.Fatalf("at %d: Run = %v", at, err)
		}
		asked := len(m.Requests())
		finalSaved := strings.Contains(string(mustRead(t, filepath.Join(b.root, room.Dir(), "context.jsonl"))), `"text":"done"`)
		b.restart()
		req.Attempt, req.Resume, req.Text = 2, s.States(), s.Said()
		again, err := b.run(req)
		if err != nil || again.End() == nil || again.End().Text != "done" {
			t.Fatalf("at %d: second attempt: Run = %v, end %+v", at, err, again.End())
		}
		for args, n := range runs {
			if n > 1 {
				t.Errorf("at %d: %s ran %d times", at, args, n)
			}
		}
		if finalSaved && len(m.Requests()) != asked {
			t.Errorf("at %d: the model was asked again although the answer was there", at)
		}
		valid(t, m.Requests()...)
		if got := strings.Count(dump(last(t, m).Messages), ": go"); got != 1 {
			t.Errorf("at %d: the message stands %d times in the history", at, got)
		}
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return data
}

// F27: a history that was cut at any byte loads, and the next request is one
// that providers take.
func TestHistoryCutAtEveryByte(t *testing.T) {
	m := scripted.New(info,
		scripted.Step{Thinking: []string{"t"}, Text: []string{"a"}, Calls: []llm.Call{scripted.Call("echo", `{"n":1}`), scripted.Call("echo", `{"n":2}`)}},
		scripted.Text("b"),
		scripted.Tools(scripted.Call("echo", `{"n":3}`)),
		scripted.Text("c"))
	b := newBed(t, one(m), tools(echo("echo")))
	b.say("first")
	b.say("second")
	file := filepath.Join(b.root, room.Dir(), "context.jsonl")
	whole := mustRead(t, file)
	step := 13 // a prime: with the ends of lines below, every place in a line is met
	cuts := map[int]bool{len(whole): true}
	for i := 0; i < len(whole); i += step {
		cuts[i] = true
	}
	for i, c := range whole {
		if c == '\n' {
			cuts[i], cuts[i+1] = true, true
		}
	}
	for cut := range cuts {
		if err := os.WriteFile(file, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		next := scripted.New(info, scripted.Text("went on"), scripted.Text("and on"))
		b.opts.Models = func(context.Context) ([]llm.Model, error) { return one(next), nil }
		b.restart()
		s, err := b.run(b.accept(fmt.Sprint("after ", cut)))
		if err != nil || s.End().Text != "went on" {
			t.Fatalf("cut at %d: Run = %v", cut, err)
		}
		valid(t, next.Requests()...)
	}
}

// F27: damage of other kinds than a cut: entries missing from the middle.
func TestHistoryWithoutAnyOneEntry(t *testing.T) {
	m := scripted.New(info,
		scripted.Tools(scripted.Call("echo", `{"n":1}`), scripted.Call("echo", `{"n":2}`)), scripted.Text("b"),
		scripted.Tools(scripted.Call("echo", `{"n":3}`)), scripted.Text("c"))
	b := newBed(t, one(m), tools(echo("echo")))
	b.say("first")
	b.say("second")
	file := filepath.Join(b.root, room.Dir(), "context.jsonl")
	lines := strings.SplitAfter(string(mustRead(t, file)), "\n")
	for i := 1; i < len(lines)-1; i++ {
		left := append(append([]string{}, lines[:i]...), lines[i+1:]...)
		if err := os.WriteFile(file, []byte(strings.Join(left, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		next := scripted.New(info, scripted.Text("went on"))
		b.opts.Models = func(context.Context) ([]llm.Model, error) { return one(next), nil }
		b.restart()
		if _, err := b.run(b.accept("after")); err != nil {
			t.Fatalf("without line %d: Run = %v", i, err)
		}
		valid(t, next.Requests()...)
	}
}
