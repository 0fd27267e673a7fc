package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// What became of a call besides what the runner returned.
var (
	errStuck     = errors.New("the runner did not return in time")
	errAbandoned = errors.New("the process ends before the runner")
)

// A panicked runner or job.
type panicError struct {
	value any
	stack []byte
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// A watchdog keeps a task from holding its lane for ever. The task runs in the
// lane's own goroutine; when it does not return in time the lane goes on in
// another one, and what is left of the task runs on alone and is not heard.
type watchdog struct {
	e *Engine
	t *task
	// conclude ends the task. It is called once, by whoever goes on with the
	// lane.
	conclude func(error)

	// mu guards the fields below.
	mu    sync.Mutex
	over  bool // the task has returned, or the lane has gone on without it
	limit *time.Timer
}

// guard runs f and concludes the task with what it returned. It reports whether
// the lane is still this goroutine's: not when f took longer than StopLimit
// after the task was stopped or wound, or when the process left before it.
func (w *watchdog) guard(f func(ctx context.Context) error) (mine bool) {
	defer context.AfterFunc(w.t.ctx, w.wind)()
	defer context.AfterFunc(w.e.abandoned, func() { w.takeOver(errAbandoned) })()
	returned := false
	defer func() {
		if !returned { // by runtime.Goexit
			go w.takeOver(&panicError{value: "the goroutine was ended"})
		}
	}()
	err := protected(w.t.ctx, f)
	returned = true
	if !w.claim() {
		return false
	}
	w.conclude(err)
	return true
}

// protected makes a panic of f its error.
func protected(ctx context.Context, f func(ctx context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{r, debug.Stack()}
		}
	}()
	return f(ctx)
}

// wind starts the time in which the task has to return, once.
func (w *watchdog) wind() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limit == nil && !w.over {
		w.limit = time.AfterFunc(w.e.opts.StopLimit, func() { w.takeOver(errStuck) })
	}
}

// claim makes the caller the one who goes on with the lane, unless somebody else
// is already.
func (w *watchdog) claim() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false
	}
	w.over = true
	if w.limit != nil {
		w.limit.Stop()
	}
	return true
}

// takeOver goes on with the lane in this goroutine.
func (w *watchdog) takeOver(why error) {
	if !w.claim() {
		return
	}
	t := w.t
	if why == errStuck {
		w.e.log.Error("a runner does not return; its lane goes on without it", "turn", t.id, "conversation", t.lane.conv, "runner", t.accepted.Runner, "job", t.jobKind)
	}
	w.conclude(why)
	t.cancel(nil)
	w.e.drive(t.lane)
}
