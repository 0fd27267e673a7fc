package facilitator_test

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/runner/facilitator"
	"github.com/iris-operator/iris/internal/runner/runnertest"
	"github.com/iris-operator/iris/internal/transport"
)

func suiteRoom(t *testing.T, model func(context.Context) flow.Model) runner.Runner {
	t.Helper()
	rooms, err := facilitator.New(facilitator.Options{
		Dir: t.TempDir(), Model: model,
		Submit: func(context.Context, transport.Submission) (transport.Receipt, error) {
			return transport.Receipt{}, transport.ErrClosing
		},
	})
	must(t, err)
	t.Cleanup(func() { must(t, rooms.Close()) })
	_, err = rooms.Create(facilitator.Spec{ID: "suite", Participants: []facilitator.Person{{ID: "ada", User: "U1"}, {ID: "ben"}}})
	must(t, err)
	r, _ := rooms.Runner("suite")
	return r
}

// blocked is a room whose model does not answer until answer is called.
func blocked(t *testing.T) (r runner.Runner, busy chan struct{}, answer func()) {
	busy = make(chan struct{}, 64)
	var open atomic.Bool
	wait := func(ctx context.Context, _ flow.Request) (flow.Response, error) {
		if open.Load() {
			return flow.Response{Text: `{"items":[],"summary":null}`}, nil
		}
		busy <- struct{}{}
		<-ctx.Done()
		return flow.Response{}, ctx.Err()
	}
	return suiteRoom(t, func(context.Context) flow.Model { return wait }), busy, func() { open.Store(true) }
}

func TestSuite(t *testing.T) {
	runnertest.Run(t, runnertest.Kit{
		Answering: func(t *testing.T) runner.Runner { return suiteRoom(t, nil) },
		Blocking: func(t *testing.T) (runner.Runner, <-chan struct{}) {
			r, busy, _ := blocked(t)
			return r, busy
		},
		Resuming: func(t *testing.T) (runner.Runner, <-chan struct{}, func()) {
			r, busy, answer := blocked(t)
			return r, busy, answer
		},
	})
}

// A speaker is a model with one answer.
type speaker struct {
	events []llm.Event
	err    error
	asked  llm.Request
}

func (s *speaker) Info() llm.Info { return llm.Info{} }

func (s *speaker) Stream(_ context.Context, r llm.Request) iter.Seq2[llm.Event, error] {
	s.asked = r
	return func(yield func(llm.Event, error) bool) {
		for _, e := range s.events {
			if !yield(e, nil) {
				return
			}
		}
		if s.err != nil {
			yield(llm.Event{}, s.err)
		}
	}
}

func TestModel(t *testing.T) {
	done := llm.Event{Done: &llm.Done{Message: llm.Message{Role: llm.Assistant, Usage: &llm.Usage{Input: 3, CacheRead: 4, Output: 5},
		Parts: []llm.Part{{Kind: llm.ThinkingPart, Text: "hm"}, {Kind: llm.TextPart, Text: `{"a"`}, {Kind: llm.TextPart, Text: `:1}`}}}}}
	s := &speaker{events: []llm.Event{{Text: "{"}, done}}
	r, err := facilitator.Model(s)(t.Context(), flow.Request{System: "be brief", Prompt: "the room", Schema: []byte(`{"type":"object"}`), MaxTokens: 9})
	if err != nil || r.Text != `{"a":1}` || r.Usage != (flow.Usage{In: 7, Out: 5}) {
		t.Errorf("answer = %+v, %v", r, err)
	}
	if s.asked.MaxTokens != 9 || s.asked.CacheKey != "" || s.asked.Messages[0].Parts[0].Text != "the room" {
		t.Errorf("asked = %+v", s.asked)
	}
	broken := errors.New("cut")
	if _, err := facilitator.Model(&speaker{err: broken})(t.Context(), flow.Request{}); !errors.Is(err, broken) {
		t.Errorf("a broken answer = %v", err)
	}
	if _, err := facilitator.Model(&speaker{})(t.Context(), flow.Request{}); err == nil {
		t.Error("an answer without an end is one")
	}
}
