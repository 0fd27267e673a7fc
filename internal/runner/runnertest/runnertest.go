// Package runnertest holds the suite that every runner passes (see the rules on
// runner.Runner), and the sink that it and the runners' own tests watch a turn
// with. It knows nothing about how a runner answers.
package runnertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// patience is how long the suite waits for what must come: far longer than a
// busy machine needs, so that only a hang fails.
const patience = 30 * time.Second

// A Kit makes runners for the suite. Each function makes a new one with nothing
// behind it that another test uses, and cleans up with t.Cleanup.
type Kit struct {
	// Answering returns a runner that answers any request. Required.
	Answering func(t *testing.T) runner.Runner
	// Blocking returns a runner that works on any request until its ctx ends,
	// and a channel that gets a value, or is closed, each time it has begun.
	// Required.
	Blocking func(t *testing.T) (r runner.Runner, busy <-chan struct{})
	// Failing returns a runner that cannot answer. nil: there is no such case.
	Failing func(t *testing.T) runner.Runner
	// Resuming returns a runner as Blocking does, and a function that makes it
	// answer what it is given from then on, as after a restart. nil: the runner
	// cannot resume, and says so with ErrInterrupted.
	Resuming func(t *testing.T) (r runner.Runner, busy <-chan struct{}, answer func())
	// Address makes the address of the n-th conversation. nil: web threads.
	Address func(n int) chat.Address
	// Sink, when not nil, is asked for the sink of a turn, so that a runner
	// whose store is fed by checkpoints gets them. It must wrap what it is
	// given.
	Sink func(req turn.Request, inner *Sink) turn.Sink
}

// Run runs the suite.
func Run(t *testing.T, kit Kit) {
	if kit.Address == nil {
		kit.Address = func(n int) chat.Address { return chat.Address{Space: chat.Web, ID: fmt.Sprintf("suite-%d", n)} }
	}
	t.Run("answers with one terminal event", kit.answers)
	t.Run("turn after turn in one conversation", kit.again)
	t.Run("many conversations at once", kit.many)
	t.Run("stop ends the turn", kit.stop)
	t.Run("stopped before it began", kit.stoppedBefore)
	t.Run("leaving gives the turn back", kit.leave)
	t.Run("superseded", kit.superseded)
	t.Run("a failing sink ends the run", kit.deafSink)
	if kit.Failing != nil {
		t.Run("failure has words", kit.fails)
	}
	t.Run("resume", kit.resume)
}

// Request makes a turn for a conversation.
func Request(conv chat.Address, text string) turn.Request {
	id := turn.NewID()
	now := time.Now()
	return turn.Request{
		ID: id, Conversation: conv, Origin: turn.FromChat, Started: now, Attempt: 1,
		Message: chat.Message{ID: "m-" + string(id), From: chat.Person{ID: "U1", Name: "ada"}, Text: text, At: now},
	}
}

func (k Kit) sink(t *testing.T, req turn.Request) (*Sink, turn.Sink) {
	s := NewSink(t)
	if k.Sink == nil {
		return s, s
	}
	return s, k.Sink(req, s)
}

// start runs a turn in the background.
func (k Kit) start(t *testing.T, ctx context.Context, r runner.Runner, req turn.Request) (*Sink, <-chan error) {
	seen, sink := k.sink(t, req)
	done := make(chan error, 1) // one value, when Run has returned
	go func() { done <- r.Run(ctx, req, sink) }()
	return seen, done
}

func wait[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s: nothing within %s", what, patience)
	}
	return v
}

func (k Kit) answers(t *testing.T) {
	r := k.Answering(t)
	s, done := k.start(t, t.Context(), r, Request(k.Address(1), "hello"))
	if err := wait(t, "the answer", done); err != nil {
		t.Fatalf("Run = %v", err)
	}
	if end := s.End(); end == nil || end.Kind != turn.Final {
		t.Errorf("terminal event = %+v, want a final", end)
	}
}

func (k Kit) again(t *testing.T) {
	r := k.Answering(t)
	for i := range 3 {
		s, done := k.start(t, t.Context(), r, Request(k.Address(1), fmt.Sprintf("message %d", i)))
		if err := wait(t, "the answer", done); err != nil || s.End() == nil {
			t.Fatalf("turn %d: Run = %v, end = %+v", i, err, s.End())
		}
	}
}

func (k Kit) many(t *testing.T) {
	r := k.Answering(t)
	var sinks []*Sink
	var ends []<-chan error
	for n := range 8 {
		s, done := k.start(t, t.Context(), r, Request(k.Address(n), "hello"))
		sinks, ends = append(sinks, s), append(ends, done)
	}
	for n, done := range ends {
		if err := wait(t, "the answer", done); err != nil || sinks[n].End() == nil {
			t.Errorf("conversation %d: Run = %v, end = %+v", n, err, sinks[n].End())
		}
	}
}

// end runs a blocking turn and ends its context with cause.
func (k Kit) end(t *testing.T, cause error) (*Sink, error) {
	r, busy := k.Blocking(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	s, done := k.start(t, ctx, r, Request(k.Address(1), "work"))
	wait(t, "the start of the work", busy)
	cancel(cause)
	return s, wait(t, "Run to return", done)
}

func (k Kit) stop(t *testing.T) {
	s, err := k.end(t, runner.ErrStopped)
	end := s.End()
	switch {
	case end == nil && err == nil:
		t.Error("Run = nil without a terminal event: the engine cannot tell how it ended")
	case end != nil && (end.Kind != turn.Final || !end.Stopped):
		t.Errorf("terminal event = %+v, want a stopped final", end)
	}
}

func (k Kit) stoppedBefore(t *testing.T) {
	r := k.Answering(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(runner.ErrStopped)
	s, done := k.start(t, ctx, r, Request(k.Address(1), "hello"))
	if err := wait(t, "Run to return", done); err == nil && s.End() == nil {
		t.Error("Run = nil without a terminal event")
	}
	if end := s.End(); end != nil && !end.Stopped {
		t.Errorf("terminal event = %+v, want a stopped one", end)
	}
}

func (k Kit) leave(t *testing.T) {
	s, err := k.end(t, runner.ErrLeaving)
	if !errors.Is(err, runner.ErrLeaving) {
		t.Errorf("Run = %v, want ErrLeaving", err)
	}
	if end := s.End(); end != nil {
		t.Errorf("terminal event %+v: the turn is to be given back", end)
	}
}

func (k Kit) superseded(t *testing.T) {
	s, err := k.end(t, runner.ErrSuperseded)
	if err == nil && s.End() == nil {
		t.Error("Run = nil without a terminal event")
	}
	if end := s.End(); end != nil && end.Kind == turn.Final && !end.Stopped {
		t.Errorf("terminal event = %+v: a turn that was cut off has no final answer", end)
	}
}

var errDeaf = errors.New("nobody takes events")

func (k Kit) deafSink(t *testing.T) {
	r := k.Answering(t)
	req := Request(k.Address(1), "hello")
	seen, sink := k.sink(t, req)
	seen.Refuse(errDeaf)
	done := make(chan error, 1) // one value, when Run has returned
	go func() { done <- r.Run(t.Context(), req, sink) }()
	if err := wait(t, "Run to return", done); err == nil {
		t.Error("Run = nil although every event was refused")
	}
}

func (k Kit) fails(t *testing.T) {
	r := k.Failing(t)
	s, done := k.start(t, t.Context(), r, Request(k.Address(1), "hello"))
	err := wait(t, "Run to return", done)
	end := s.End()
	switch {
	case end == nil && err == nil:
		t.Error("Run = nil without a terminal event")
	case end != nil && (end.Kind != turn.Failed || end.Error == "" || end.Code == ""):
		t.Errorf("terminal event = %+v, want a failure with words and a code", end)
	case end == nil && err.Error() == "":
		t.Error("the error has no words")
	}
}

func (k Kit) resume(t *testing.T) {
	var (
		r      runner.Runner
		busy   <-chan struct{}
		answer func()
	)
	if k.Resuming != nil {
		r, busy, answer = k.Resuming(t)
	} else {
		r, busy = k.Blocking(t)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	req := Request(k.Address(1), "work")
	s, done := k.start(t, ctx, r, req)
	wait(t, "the start of the work", busy)
	cancel(runner.ErrLeaving)
	if err := wait(t, "Run to return", done); !errors.Is(err, runner.ErrLeaving) {
		t.Fatalf("Run = %v, want ErrLeaving", err)
	}
	req.Attempt, req.Resume, req.Text = 2, s.States(), s.Said()
	if k.Resuming == nil {
		next, done := k.start(t, t.Context(), r, req)
		if err := wait(t, "Run to return", done); !errors.Is(err, runner.ErrInterrupted) {
			t.Errorf("second attempt: Run = %v, want ErrInterrupted", err)
		}
		if end := next.End(); end != nil {
			t.Errorf("terminal event %+v beside ErrInterrupted", end)
		}
		return
	}
	answer()
	next, done := k.start(t, t.Context(), r, req)
	if err := wait(t, "the answer", done); err != nil || next.End() == nil || next.End().Kind != turn.Final {
		t.Errorf("second attempt: Run = %v, end = %+v, want a final", err, next.End())
	}
}

// A Sink records a turn. It fails the test when something comes after the end.
type Sink struct {
	t testing.TB

	// mu guards the fields below.
	mu     sync.Mutex
	events []turn.Event
	states []state
	refuse error
	more   chan struct{} // closed and renewed at each event
}
