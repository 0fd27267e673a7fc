package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// recover puts every open turn back into its lane, in the order of acceptance,
// or ends it visibly. What it reads is what the journal has pinned, so its cost
// follows what was open and not what was ever said.
func (e *Engine) recover(ctx context.Context) error {
	type open struct {
		from  int64
		tasks map[turn.ID]*task
		order []turn.ID
	}
	streams := map[string]*open{}
	var names []string
	for _, p := range e.journal.Pins() {
		o := streams[p.Stream]
		if o == nil {
			o = &open{from: p.Seq, tasks: map[turn.ID]*task{}}
			streams[p.Stream] = o
			names = append(names, p.Stream)
		}
		id := turn.ID(p.Name)
		o.tasks[id] = nil
		o.order = append(o.order, id)
	}
	for _, name := range names {
		o := streams[name]
		conv, err := chat.Parse(name)
		if err != nil {
			e.log.Error("an open turn belongs to no conversation", "stream", name, "err", err)
			continue
		}
		l := e.acquire(conv)
		if err := e.rebuild(ctx, l, o.from, o.tasks); err != nil {
			e.release(l)
			return err
		}
		if e.opts.Archive != nil {
			e.mu.Lock()
			e.behind[conv] = struct{}{}
			e.mu.Unlock()
			l.archiving.Lock()
			err := e.archive(conv, nil)
			l.archiving.Unlock()
			if err != nil {
				e.log.Error("archive a conversation", "conversation", conv, "err", err)
			}
		}
		last := 0 // what supersedes all before it
		for i, id := range o.order {
			if t := o.tasks[id]; t != nil && t.accepted.Supersedes {
				last = i
			}
		}
		for i, id := range o.order {
			if t := o.tasks[id]; t != nil {
				e.resume(l, t, i < last)
			} else {
				e.log.Error("an open turn has no record", "turn", id, "conversation", conv)
			}
		}
		e.release(l)
	}
	return nil
}

// rebuild makes the open turns of a stream again from their records.
func (e *Engine) rebuild(ctx context.Context, l *lane, from int64, tasks map[turn.ID]*task) error {
	for r, err := range e.journal.Read(ctx, l.stream, from-1) {
		if err != nil {
			return fmt.Errorf("recover %s: %w", l.conv, err)
		}
		var rec turn.Record
		if err := json.Unmarshal(r.Data, &rec); err != nil {
			return fmt.Errorf("recover %s: record %d: %w", l.conv, r.Seq, err)
		}
		t, open := tasks[rec.Turn]
		switch {
		case !open || t == nil && rec.Accepted == nil:
		case rec.Accepted != nil:
			t = newTask(l)
			t.id, t.accepted, t.at, t.seq = rec.Turn, *rec.Accepted, r.Time, r.Seq
			tasks[rec.Turn] = t
		case rec.Begun != nil:
			t.attempt = rec.Begun.Attempt + 1
		case rec.Checkpoint != nil:
			t.resume = append(t.resume, rec.Checkpoint)
		case rec.Event != nil && rec.Event.Kind == turn.Text:
			t.said.add(*rec.Event)
		}
	}
	return nil
}

// resume queues t again, or ends it. replaced says that the process ended
// between a message that supersedes t and the end this brings about.
func (e *Engine) resume(l *lane, t *task, replaced bool) {
	e.mu.Lock()
	e.turns[t.id] = t
	e.mu.Unlock()
	close(t.ready)
	age := e.opts.Now().Sub(t.at)
	code, why := turn.CodeInterrupted, ""
	switch {
	case replaced:
		code, why = turn.CodeSuperseded, runner.ErrSuperseded.Error()
	case e.runner(t.accepted.Runner) == nil:
		why = fmt.Sprintf("interrupted by a restart, and there is no runner %q any more", t.accepted.Runner)
	case age > e.opts.MaxAge:
		why = fmt.Sprintf("interrupted by a restart %s ago; please ask again if it still matters", age.Round(time.Minute))
	case t.attempt > e.opts.MaxAttempts:
		why = fmt.Sprintf("interrupted by a restart %d times; not tried again", t.attempt-1)
	default:
		e.mu.Lock()
		defer e.mu.Unlock()
		e.enqueue(l, t, false)
		return
	}
	t.cancel(nil)
	ev := finished(turn.Event{Kind: turn.Failed, Code: code, Error: why}, t, nil)
	seq, err := e.writeEnd(t, ev)
	if err == nil {
		err = e.settleEnd(t, seq, ev, nil)
	}
	if err != nil {
		e.log.Error("end an interrupted turn", "turn", t.id, "conversation", l.conv, "err", err)
	}
}
