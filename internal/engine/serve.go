package engine

import (
	"context"
	"errors"
	"time"

	"github.com/iris-operator/iris/internal/runner"
)

// leaveLimit is what runners get to save their state when the process leaves at
// once: a checkpoint is one write.
const leaveLimit = time.Second

// Serve recovers the turns that the last process left open, then runs turns
// until ctx ends. From then on nothing is accepted and no waiting turn starts;
// running turns get Grace to finish, are then stopped, so that they end with
// what they have, and after SalvageLimit are left open. Turns that are open when
// Serve returns, waiting ones included, run after the next start. Serve returns
// nil then, and an error if recovery failed or the journal broke. It can be
// called once.
func (e *Engine) Serve(ctx context.Context) error {
	e.mu.Lock()
	if e.serving {
		e.mu.Unlock()
		return errors.New("engine: served already")
	}
	e.serving = true
	e.mu.Unlock()
	defer close(e.over)
	if err := e.recover(ctx); err != nil {
		e.shut()
		e.abandon()
		e.drivers.Wait()
		return err
	}
	close(e.ready)
	select {
	case <-ctx.Done():
	case <-e.leave:
	case <-e.broken:
	}
	e.shut()
	e.drain()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failure
}

// Leave makes Serve return at once: running turns are told that the process
// ends, get a moment to save their state, and stay open. It may be called at
// any time and more than once.
func (e *Engine) Leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.left {
		e.left = true
		close(e.leave)
	}
}

func (e *Engine) shut() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closing = true
}

// drain waits for the lanes by the rules of Serve.
func (e *Engine) drain() {
	idle := make(chan struct{})
	go func() {
		e.drivers.Wait()
		close(idle)
	}()
	if e.within(idle, e.opts.Grace) {
		return
	}
	if e.leaving() {
		e.cancelAll(runner.ErrLeaving)
	} else {
		e.cancelAll(runner.ErrStopped)
		if e.within(idle, e.opts.SalvageLimit) {
			return
		}
	}
	timer := time.NewTimer(min(leaveLimit, e.opts.SalvageLimit))
	defer timer.Stop()
	select {
	case <-idle:
	case <-timer.C:
	}
	e.abandon()
	<-idle
}

// within reports whether idle was closed in time and before Leave.
func (e *Engine) within(idle <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-idle:
		return true
	case <-timer.C:
	case <-e.leave:
	case <-e.broken:
	}
	return false
}

func (e *Engine) leaving() bool {
	select {
	case <-e.leave:
		return true
	case <-e.broken:
		return true
	default:
		return false
	}
}

// cancelAll ends the contexts of what runs.
func (e *Engine) cancelAll(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, l := range e.lanes {
		if l.running != nil {
			l.running.cancel(cause)
		}
	}
}
