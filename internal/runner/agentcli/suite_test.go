package agentcli_test

import (
	"context"
	"testing"

	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/runnertest"
	"github.com/iris-operator/iris/internal/turn"
)

// TestRunner passes the suite of runners. What it is asked is what the fake
// program does: it waits for an interrupt when it is told to "work".
func TestRunner(t *testing.T) {
	runnertest.Run(t, runnertest.Kit{
		Answering: func(t *testing.T) runner.Runner { return newStage(t, nil).r },
		Blocking: func(t *testing.T) (runner.Runner, <-chan struct{}) {
			s := newStage(t, nil)
			busy := make(chan struct{}, 8)
			return &working{s, busy}, busy
		},
		Failing: func(t *testing.T) runner.Runner {
			return newStage(t, func(o *agentcli.Options) { o.Projects[0].Bin = "/nowhere/agent" }).r
		},
	})
}

// working tells when the program works.
type working struct {
	s    *stage
	busy chan struct{}
}

func (w *working) Run(ctx context.Context, req turn.Request, sink turn.Sink) error {
	req.Message.Text = "WAIT"
	return w.s.r.Run(ctx, req, &watching{sink, w.busy})
}

type watching struct {
	turn.Sink
	busy chan struct{}
}

func (s *watching) Emit(e turn.Event) error {
	err := s.Sink.Emit(e)
	if hasText("waiting")(e) {
		s.busy <- struct{}{}
	}
	return err
}
