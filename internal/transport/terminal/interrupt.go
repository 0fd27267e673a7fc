package terminal

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/turn"
)

// interrupts knows what Ctrl-C means at the moment.
type interrupts struct {
	mu      sync.Mutex
	running bool    // a turn runs that Ctrl-C stops
	id      turn.ID // which one
	stopped bool    // it was told to stop
	ever    bool    // some turn was told to stop
	at      time.Time
	same    time.Duration // samePress, but in tests
}

// samePress is how long after a Ctrl-C another one is the same: a key that is
// held down repeats, and on a busy machine one press has been seen to arrive
// twice while a command was being started.
const samePress = 500 * time.Millisecond

func (i *interrupts) begin(id turn.ID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running, i.id = true, id
}

func (i *interrupts) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.running, i.id, i.stopped = false, "", false
}

func (i *interrupts) current() turn.ID {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.id
}

// pressed reports whether the person interrupted a turn.
func (i *interrupts) pressed() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ever
}

// A reaction is what a Ctrl-C brings about.
type reaction int

const (
	leave reaction = iota
	stopIt
	nothing
)

// press takes in one Ctrl-C. With stopIt, id is the turn to stop.
func (i *interrupts) press(now time.Time) (id turn.ID, r reaction) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case !i.at.IsZero() && now.Sub(i.at) < i.same:
		return "", nothing
	case !i.running || i.stopped:
		return "", leave
	}
	i.stopped, i.ever, i.at = true, true, now
	return i.id, stopIt
}

// catch makes Ctrl-C stop the running turn. One while nothing runs, or a later one
// while the turn has not ended, ends the returned context with ErrInterrupted.
// stop must be called; it waits for the goroutine behind this.
func (i *interrupts) catch(ctx context.Context, stopTurn func(context.Context, turn.ID)) (inner context.Context, stop func()) {
	inner, cancel := context.WithCancelCause(ctx)
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case <-inner.Done():
				return
			case <-c:
			}
			switch id, what := i.press(time.Now()); what {
			case leave:
				cancel(ErrInterrupted)
				return
			case stopIt:
				running.Go(func() { stopTurn(inner, id) })
			}
		}
	})
	return inner, func() {
		signal.Stop(c)
		cancel(nil)
		running.Wait()
	}
}

// interrupted stops the turn for a Ctrl-C.
func (t *talk) interrupted(ctx context.Context, id turn.ID) {
	t.screen.interrupted("(stopping; Ctrl-C again leaves)")
	if _, err := t.opts.Client.Stop(ctx, t.session, id); err != nil && ctx.Err() == nil {
		t.screen.trouble(fmt.Errorf("stop: %w", err))
	}
}
