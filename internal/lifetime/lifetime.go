// Package lifetime starts the long-lived parts of a process in order and stops
// them in reverse. It owns the order and the waiting; what a part does, and how
// it ends its own work, is the part's matter.
//
// A part is a function that serves until its context ends. The context of a part
// ends only when every part started after it has returned, so a part may use
// those before it until its very end.
package lifetime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// A Part is something that lives as long as the process.
type Part struct {
	Name string
	// Serve blocks until ctx ends and leaves nothing behind. It calls ready
	// once, when the parts after it may start. Returning before ctx ends stops
	// the whole group; a nil error then means that the part wants that.
	Serve func(ctx context.Context, ready func()) error
	// Check returns nil when the part does its work, else why not in one
	// sentence. Nil means: ready once started.
	Check func() error
	// Grace is how long the part may take to return after its context has
	// ended; 0 means DefaultGrace.
	Grace time.Duration
}

// DefaultGrace is enough to flush files and close sockets.
const DefaultGrace = 5 * time.Second

// State is what a part says of itself.
type State struct {
	Name string
	Err  error // nil: ready
}

// errStarting is the state of a part that has not called ready.
var errStarting = errors.New("starting")

// errWaiting is the state of a part whose turn to start has not come.
var errWaiting = errors.New("waiting for the parts before it")

// A Group runs parts. Make one with New.
type Group struct {
	parts []Part

	// mu guards state.
	mu    sync.Mutex
	state []error
}

// New returns a group of the parts, in the order in which they start.
func New(parts ...Part) *Group {
	g := &Group{parts: parts, state: make([]error, len(parts))}
	for i := range g.state {
		g.state[i] = errWaiting
	}
	return g
}

// running is one part in flight.
type running struct {
	part   Part
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
}

// Run starts the parts and blocks until ctx has ended, or a part has, and every
// part has returned or used up its grace. It returns the errors of the parts.
// Run may be called once.
func (g *Group) Run(ctx context.Context) error {
	// ended is closed when the first part returns.
	ended := make(chan struct{})
	var once sync.Once
	fell := func() { once.Do(func() { close(ended) }) }
	var started []*running
	var errs []error
start:
	for i, p := range g.parts {
		r, ready := g.start(ctx, i, p, fell)
		started = append(started, r)
		select {
		case <-ready:
		case <-ended:
			break start
		case <-ctx.Done():
			break start
		}
	}
	if len(started) == len(g.parts) {
		select {
		case <-ctx.Done():
		case <-ended:
		}
	}
	for i := len(started) - 1; i >= 0; i-- {
		if err := started[i].stop(); err != nil {
			errs = append(errs, err)
		}
		g.set(i, errors.New("stopped"))
	}
	return errors.Join(errs...)
}

// start runs a part on a context that outlives ctx: only stop ends it.
func (g *Group) start(ctx context.Context, i int, p Part, fell func()) (*running, <-chan struct{}) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &running{part: p, cancel: cancel, done: make(chan struct{})}
	ready := make(chan struct{})
	var once sync.Once
	g.set(i, errStarting)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				r.err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			}
			close(r.done)
			fell()
		}()
		r.err = p.Serve(own, func() {
			once.Do(func() {
				g.set(i, nil)
				close(ready)
			})
		})
	}()
	return r, ready
}

func (r *running) stop() error {
	r.cancel()
	grace := r.part.Grace
	if grace == 0 {
		grace = DefaultGrace
	}
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-r.done:
	case <-t.C:
		return fmt.Errorf("%s did not stop within %v", r.part.Name, grace)
	}
	if r.err != nil && !errors.Is(r.err, context.Canceled) {
		return fmt.Errorf("%s: %w", r.part.Name, r.err)
	}
	return nil
}

func (g *Group) set(i int, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state[i] = err
}

// States tells how every part is, in the order of starting. It is safe for
// concurrent use.
func (g *Group) States() []State {
	g.mu.Lock()
	out := make([]State, len(g.parts))
	for i, p := range g.parts {
		out[i] = State{p.Name, g.state[i]}
	}
	g.mu.Unlock()
	for i, p := range g.parts {
		if out[i].Err == nil && p.Check != nil {
			out[i].Err = p.Check()
		}
	}
	return out
}

// Ready reports whether every part is.
func (g *Group) Ready() bool {
	for _, s := range g.States() {
		if s.Err != nil {
			return false
		}
	}
	return true
}
