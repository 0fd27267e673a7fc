// Package enginetest helps to test what stands on an engine: a journal in
// memory, an archive that remembers, runners made of a function, and a real
// engine on top of them. It is for tests only.
package enginetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// A Runner is a function that answers turns.
type Runner func(ctx context.Context, req turn.Request, sink turn.Sink) error

// Run calls r.
func (r Runner) Run(ctx context.Context, req turn.Request, sink turn.Sink) error {
	return r(ctx, req, sink)
}

// Echo answers every turn with its own text.
func Echo(_ context.Context, req turn.Request, sink turn.Sink) error {
	return sink.Emit(turn.Event{Kind: turn.Final, Text: req.Message.Text})
}

// A Projected is one call of Archive.Project.
type Projected struct {
	Seq    int64
	Record turn.Record
}

// An Archive remembers what was projected. Fail, when set, is asked before
// every call.
type Archive struct {
	Fail func(conv chat.Address, catchUp bool) error

	mu     sync.Mutex
	seen   map[chat.Address][]Projected
	caught map[chat.Address]int
}

// Project remembers a record, unless it has its number or a later one.
func (a *Archive) Project(_ context.Context, conv chat.Address, seq int64, _ time.Time, rec turn.Record) error {
	if a.Fail != nil {
		if err := a.Fail(conv, false); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = map[chat.Address][]Projected{}
	}
	all := a.seen[conv]
	if len(all) == 0 || all[len(all)-1].Seq < seq {
		a.seen[conv] = append(all, Projected{seq, rec})
	}
	return nil
}

// CatchUp counts its calls.
func (a *Archive) CatchUp(_ context.Context, conv chat.Address) error {
	if a.Fail != nil {
		if err := a.Fail(conv, true); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.caught == nil {
		a.caught = map[chat.Address]int{}
	}
	a.caught[conv]++
	return nil
}

// Of returns what was projected of a conversation.
func (a *Archive) Of(conv chat.Address) []Projected {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Projected(nil), a.seen[conv]...)
}

// CaughtUp returns how often a conversation was caught up.
func (a *Archive) CaughtUp(conv chat.Address) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.caught[conv]
}

// Start serves an engine until the test ends, or until the returned function
// is called, which waits for its end. Without a journal it gets one in memory,
// without runners "native" echoes.
func Start(t testing.TB, opts engine.Options) (*engine.Engine, func()) {
	t.Helper()
	if opts.Journal == nil {
		opts.Journal = NewJournal()
	}
	if opts.Runners == nil {
		opts.Runners = map[string]runner.Runner{"native": Runner(Echo)}
	}
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			if err := <-served; err != nil {
				t.Errorf("Serve: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	select {
	case <-e.Ready():
	case err := <-served:
		served <- nil
		t.Fatalf("Serve: %v", err)
	}
	return e, stop
}
