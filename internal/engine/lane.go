package engine

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

// A lane is what happens in one conversation, one thing at a time. It exists
// while somebody refers to it: a driver, or a call that writes to the
// conversation.
type lane struct {
	conv   chat.Address
	stream string

	// order makes the queue agree with the journal, and guards pending: the
	// records that are in the journal and not yet in the archive.
	order   sync.Mutex
	pending []projection
	// archiving is held while the archive is called.
	archiving sync.Mutex

	// Guarded by Engine.mu.
	refs     int
	driven   bool
	running  *task
	queue    []*task
	reserved int // turns being written, not yet in queue
}

type projection struct {
	seq int64
	at  time.Time
	rec turn.Record
}

// A task is what has, or waits for, a lane: a turn, or a job such as a reset.
type task struct {
	lane   *lane
	ctx    context.Context // of the run; here because stop comes from outside
	cancel context.CancelCauseFunc
	// ready is closed when the task is on disk; lost is set before if it may not
	// be. A task that is not early runs only then.
	ready chan struct{}
	lost  bool
	early bool
	// done is closed when the task is over; end (of a turn) or err are set before.
	done chan struct{}
	end  turn.Event
	err  error

	job     func(ctx context.Context) (line string, err error) // nil for a turn
	jobKind string

	id       turn.ID
	accepted turn.Accepted
	at       time.Time // of acceptance
	seq      int64     // of the record that accepted it
	attempt  int
	resume   []json.RawMessage
	said     salvage // used by the attempt only

	// Guarded by Engine.mu.
	now     *attempt // the latest
	begun   int64    // seq of the latest Begun record, 0 before
	started time.Time
}

func newTask(l *lane) *task {
	t := &task{lane: l, ready: make(chan struct{}), done: make(chan struct{}), attempt: 1}
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	return t
}

// acquire returns the lane of conv; the caller must release it.
func (e *Engine) acquire(conv chat.Address) *lane {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lanes[conv]
	if l == nil {
		l = &lane{conv: conv, stream: conv.Channel()}
		e.lanes[conv] = l
	}
	l.refs++
	return l
}

func (e *Engine) release(l *lane) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.refs--; l.refs == 0 {
		delete(e.lanes, l.conv)
	}
}

// enqueue puts t at the end of the lane, or at its front, and sees to it that
// somebody drives the lane. mu must be held.
func (e *Engine) enqueue(l *lane, t *task, front bool) {
	if front {
		l.queue = slices.Insert(l.queue, 0, t)
	} else {
		l.queue = append(l.queue, t)
	}
	e.start(l)
}

// start sees to it that somebody drives the lane, if there is something to do.
// mu must be held.
func (e *Engine) start(l *lane) {
	if len(l.queue) > 0 && !l.driven && !e.closing {
		l.driven = true
		l.refs++
		e.drivers.Add(1)
		go e.drive(l)
	}
}

// occupancy is the number of turns in the lane. mu must be held.
func (l *lane) occupancy() int {
	n := l.reserved
	if l.running != nil {
		n++
	}
	for _, t := range l.queue {
		if t.job == nil {
			n++
		}
	}
	return n
}

// drive performs the lane's tasks until there are none, or the process ends, or
// a watchdog has taken the lane over. It is the only goroutine that takes tasks
// out of the queue to perform them.
func (e *Engine) drive(l *lane) {
	for t := e.next(l); t != nil; t = e.next(l) {
		if !e.perform(t) {
			return
		}
	}
	e.release(l)
	e.drivers.Done()
}

// next ends the turn of the task that ran and returns the one that runs now.
func (e *Engine) next(l *lane) *task {
	e.mu.Lock()
	defer e.mu.Unlock()
	l.running = nil
	if e.closing || len(l.queue) == 0 {
		l.driven = false
		return nil
	}
	l.running = l.queue[0]
	l.queue[0] = nil
	if l.queue = l.queue[1:]; len(l.queue) == 0 {
		l.queue = nil
	}
	return l.running
}

// perform does t and reports whether the lane is still this goroutine's.
func (e *Engine) perform(t *task) (mine bool) {
	defer t.cancel(nil)
	if !t.early {
		select {
		case <-t.ready:
		case <-e.abandoned.Done():
			return true
		}
		if t.lost {
			return true
		}
	}
	if t.job != nil {
		return e.runJob(t)
	}
	return e.runTurn(t)
}

// runJob performs a job; its line becomes t.end.Text, unless it panicked or was
// given up.
func (e *Engine) runJob(t *task) (mine bool) {
	var line string
	w := &watchdog{e: e, t: t, conclude: func(err error) {
		if t.err = err; err != errStuck && err != errAbandoned {
			t.end.Text = line
		}
		close(t.done)
	}}
	return w.guard(func(ctx context.Context) (err error) {
		line, err = t.job(ctx)
		return err
	})
}

// remove takes a waiting task out of the queue and reports whether it was
// there. mu must be held.
func (l *lane) remove(t *task) bool {
	i := slices.Index(l.queue, t)
	if i < 0 {
		return false
	}
	l.queue = slices.Delete(l.queue, i, i+1)
	return true
}
