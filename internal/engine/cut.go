package engine

import (
	"errors"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// superseded is why a turn ends that a newer one replaced.
func superseded() *runner.Error {
	return &runner.Error{Code: turn.CodeSuperseded, Text: runner.ErrSuperseded.Error(), Err: runner.ErrSuperseded}
}

// supersede ends every turn of t's lane that was accepted before t.
func (e *Engine) supersede(t *task) {
	l := t.lane
	e.mu.Lock()
	var older []*task
	for _, o := range append([]*task{l.running}, l.queue...) {
		if o != nil && o.job == nil && e.live(o) && o.seq > 0 && o.seq < t.seq {
			older = append(older, o)
		}
	}
	e.mu.Unlock()
	for _, o := range older {
		e.cut(o, superseded())
	}
}

// fell ends one open turn of a conversation and reports whether it was open.
func (e *Engine) fell(conv chat.Address, id turn.ID, why *runner.Error) bool {
	t := e.open(id)
	if t == nil || t.lane.conv != conv {
		return false
	}
	return e.cut(t, why)
}

// cut ends a turn at once, whatever its runner does; the lane is free when the
// runner has returned. It reports whether the turn was open until now.
func (e *Engine) cut(t *task, why *runner.Error) bool {
	<-t.ready // it is on disk, or lost
	e.mu.Lock()
	l := t.lane
	if t.lost || !e.live(t) {
		e.mu.Unlock()
		return false
	}
	a, removed := t.now, l.remove(t)
	if removed {
		l.refs++
	}
	e.mu.Unlock()
	if removed {
		defer e.release(l)
	}
	t.cancel(cause(why))
	switch {
	case removed: // nobody else can end it now
		a = &attempt{e: e, t: t}
		a.conclude(why)
	case a != nil:
		a.mu.Lock()
		a.cut = true
		a.mu.Unlock()
		if err := a.Emit(turn.Event{Kind: turn.Failed, Code: why.Code, Error: why.Text}); errors.Is(err, errEnded) {
			return false
		}
	}
	// Else it is about to run, and ends with the cause of its context.
	return true
}

// cause is how a runner learns that its turn was cut short.
func cause(why *runner.Error) error {
	if why.Code == turn.CodeSuperseded {
		return runner.ErrSuperseded
	}
	return why
}
