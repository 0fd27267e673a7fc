package native

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/scripted"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/runner/runnertest"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

// The suite runs twice: blocked in the model, and blocked in a tool.
func TestRunnerSuite(t *testing.T) {
	for _, where := range []string{"model", "tool"} {
		t.Run(where, func(t *testing.T) { suite(t, where == "tool") })
	}
}

func suite(t *testing.T, inTool bool) {
	var mu sync.Mutex
	var latest *bed // of the test that runs now: the suite's tests do not overlap
	bedFor := func(t *testing.T, m llm.Model, more ...tool.Tool) *bed {
		mu.Lock()
		defer mu.Unlock()
		latest = newBed(t, one(m), tools(more...))
		return latest
	}
	always := func(step scripted.Step) llm.Model {
		return scripted.Func(info, func(int, llm.Request) scripted.Step { return step })
	}
	blocking := func(t *testing.T) (runner.Runner, <-chan struct{}, func()) {
		busy := make(chan struct{}, 16) // more than there are turns: nobody waits to send
		var answers atomic.Bool
		m := scripted.Func(info, func(int, llm.Request) scripted.Step {
			switch {
			case answers.Load():
				return scripted.Text("answered")
			case inTool:
				return scripted.Tools(scripted.Call("wait", `{}`))
			}
			busy <- struct{}{}
			return scripted.Hang("working")
		})
		b := bedFor(t, m, fakeTool{"wait", func(ctx context.Context, _ tool.Call) tool.Result {
			busy <- struct{}{}
			<-ctx.Done()
			return tool.Fail("aborted")
		}})
		return b.n, busy, func() { answers.Store(true) }
	}
	runnertest.Run(t, runnertest.Kit{
		Answering: func(t *testing.T) runner.Runner { return bedFor(t, always(scripted.Text("hello"))).n },
		Failing:   func(t *testing.T) runner.Runner { return bedFor(t, always(scripted.Fail(llm.ClassAuth, "no key"))).n },
		Blocking: func(t *testing.T) (runner.Runner, <-chan struct{}) {
			r, busy, _ := blocking(t)
			return r, busy
		},
		Resuming: blocking,
		Sink: func(req turn.Request, inner *runnertest.Sink) turn.Sink {
			mu.Lock()
			defer mu.Unlock()
			return &sink{Sink: inner, b: latest, req: req}
		},
	})
}
