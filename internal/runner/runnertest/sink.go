package runnertest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/turn"
)

type state = json.RawMessage

var _ turn.Sink = (*Sink)(nil)

// NewSink returns a sink that reports to t.
func NewSink(t testing.TB) *Sink { return &Sink{t: t, more: make(chan struct{})} }

// Refuse makes every further call fail with err.
func (s *Sink) Refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse = err
}

// Emit records an event.
func (s *Sink) Emit(e turn.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return s.refuse
	}
	if n := len(s.events); n > 0 && s.events[n-1].Terminal() {
		s.t.Errorf("event %+v after the terminal event", e)
	}
	s.events = append(s.events, e)
	close(s.more)
	s.more = make(chan struct{})
	return nil
}

// Checkpoint records a state in its JSON form.
func (s *Sink) Checkpoint(_ context.Context, v any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return s.refuse
	}
	data, err := json.Marshal(v)
	if err != nil {
		s.t.Errorf("state %T has no JSON form: %v", v, err)
		return err
	}
	if n := len(s.events); n > 0 && s.events[n-1].Terminal() {
		s.t.Errorf("state %s after the terminal event", data)
	}
	s.states = append(s.states, data)
	return nil
}

// Events returns what came so far.
func (s *Sink) Events() []turn.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.events)
}

// States returns what was saved so far.
func (s *Sink) States() []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.states)
}

// End returns the terminal event, nil if there is none yet.
func (s *Sink) End() *turn.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.events); n > 0 && s.events[n-1].Terminal() {
		e := s.events[n-1]
		return &e
	}
	return nil
}

// Said joins the intermediate texts, as the engine does for Request.Text.
func (s *Sink) Said() string {
	var said []string
	for _, e := range s.Events() {
		if e.Kind == turn.Text && !e.Partial && !e.Void {
			said = append(said, e.Text)
		}
	}
	return strings.Join(said, "\n")
}

// Wait returns the first event that match accepts; the test fails when none
// comes.
func (s *Sink) Wait(match func(turn.Event) bool) turn.Event {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		i, more := slices.IndexFunc(s.events, match), s.more
		var e turn.Event
		if i >= 0 {
			e = s.events[i]
		}
		s.mu.Unlock()
		if i >= 0 {
			return e
		}
		select {
		case <-more:
		case <-deadline:
			s.t.Fatalf("the event did not come within %s; events: %+v", patience, s.Events())
		}
	}
}
