package native

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/runner/runnertest"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/turn"
)

// instant answers at once and looks at nothing, so that what is measured is
// the runner.
type instant struct{}

func (instant) Info() llm.Info {
	return llm.Info{Provider: "p", Model: "m", Window: 1 << 40}
}

func (instant) Stream(context.Context, llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if !yield(llm.Event{Text: "A short answer."}, nil) {
			return
		}
		yield(llm.Event{Done: &llm.Done{Message: llm.Message{
			Role: llm.Assistant, Provider: "p", Model: "m", Stop: llm.StopEnd, Usage: &llm.Usage{Input: 10, Output: 5},
			Parts: []llm.Part{{Kind: llm.TextPart, Text: "A short answer."}},
		}}}, nil)
	}
}

// loaded is an archive that gives a history of so many turns once.
type loaded struct {
	memory
	turns int
}

func (l *loaded) Entries(_ context.Context, _ chat.Address, after string) (all []session.Entry, err error) {
	if after != "" {
		return nil, nil
	}
	for i := range l.turns {
		for k, m := range []llm.Message{
			{Role: llm.User, Parts: []llm.Part{{Kind: llm.TextPart, Text: fmt.Sprintf("[2026-01-02 12:00:00+00:00] [ada]: question %d of some length", i)}}},
			{Role: llm.Assistant, Parts: []llm.Part{{Kind: llm.TextPart, Text: "A short answer."}}},
		} {
			body, err := json.Marshal(m)
			if err != nil {
				return nil, err
			}
			all = append(all, session.Entry{ID: fmt.Sprint(i, "-", k), Type: session.Said, Turn: fmt.Sprint(i), Body: body})
		}
	}
	return all, nil
}

type nobody struct{}

func (nobody) Emit(turn.Event) error                 { return nil }
func (nobody) Checkpoint(context.Context, any) error { return nil }

// BenchmarkTurn is the runner's own time for a turn whose model answers at
// once. It must not grow with the history: the goal is 300 µs at 20 turns and
// 1 ms at 1,000.
func BenchmarkTurn(b *testing.B) {
	for _, turns := range []int{0, 20, 1000} {
		b.Run(fmt.Sprintf("history=%d", turns), func(b *testing.B) {
			n, err := New(Options{
				Archive: &loaded{turns: turns}, Workspace: "/ws",
				Models: func(context.Context) ([]llm.Model, error) { return []llm.Model{instant{}}, nil },
			})
			if err != nil {
				b.Fatal(err)
			}
			run := func(conv chat.Address) {
				if err := n.Run(b.Context(), runnertest.Request(conv, "hello"), nobody{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i%100 == 0 { // the history must not grow far beyond its length
					b.StopTimer()
					n.shelf.take(room)
					run(room)
					b.StartTimer()
				}
				run(room)
			}
		})
	}
}

// BenchmarkLoad is the first turn after a start.
func BenchmarkLoad(b *testing.B) {
	n, err := New(Options{
		Archive: &loaded{turns: 1000}, Workspace: "/ws",
		Models: func(context.Context) ([]llm.Model, error) { return []llm.Model{instant{}}, nil },
	})
	if err != nil {
		b.Fatal(err)
	}
	entries, err := n.opts.Archive.Entries(b.Context(), room, "")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		h := newHistory()
		if err := h.takeAll(entries, ""); err != nil {
			b.Fatal(err)
		}
		h.check()
	}
}
