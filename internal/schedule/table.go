package schedule

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A table holds the event files that are there. One goroutine uses it.
type table struct {
	*Scheduler
	entries map[string]*entry
}

// An entry is one file.
type entry struct {
	file  string // below the workspace
	at    stamp
	tries int  // of reading it
	known bool // ev is what the file says
	ev    checked
	// slot is the occurrence that comes next, due when something is to be done
	// about the file; zero: never.
	slot, due time.Time
	// deferred: quiet hours moved due behind the slot. late: the slot was missed.
	deferred, late bool
	refusals       int
}

// step looks at the directories, does what is due and returns when there is
// something to do again.
func (t *table) step(ctx context.Context, now time.Time) (next time.Time, err error) {
	next = now.Add(t.opts.Rescan)
	if err := t.scan(now); err != nil {
		return next, err
	}
	var errs []error
	for _, e := range t.entries {
		if !e.due.IsZero() && !e.due.After(now) {
			if err := t.act(ctx, e, now); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", e.file, err))
			}
		}
		if !e.due.IsZero() && e.due.Before(next) {
			next = e.due
		}
	}
	return next, errors.Join(errs...)
}

func (t *table) scan(now time.Time) error {
	found, err := list(t.opts.Workspace)
	if err != nil {
		return err
	}
	for file, at := range found {
		if e := t.entries[file]; e == nil || e.at != at {
			t.entries[file] = &entry{file: file, at: at, due: now.Add(settle)}
		}
	}
	for file, e := range t.entries {
		if _, ok := found[file]; !ok {
			if err := t.forget(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// forget drops a file that is gone, with its claim.
func (t *table) forget(e *entry) error {
	delete(t.entries, e.file)
	if !e.known {
		return nil
	}
	return t.ledger.remove(e.key())
}

// sweep removes claims whose file went away while nobody looked.
func (t *table) sweep() {
	keep := map[string]bool{}
	for _, e := range t.entries {
		for _, kind := range []string{Periodic, OneShot} {
			k := *e
			k.ev.Type = kind
			keep[k.key()] = true
		}
	}
	if err := t.ledger.sweep(keep); err != nil {
		t.opts.Logger.Warn("old claims stay", "err", err)
	}
}

// act reads a file that has settled, or runs its occurrence.
func (t *table) act(ctx context.Context, e *entry, now time.Time) error {
	if !e.known {
		if err := t.load(ctx, e, now); err != nil || e.due.IsZero() || e.due.After(now) {
			return err
		}
	}
	return t.fire(ctx, e, now)
}

// load reads a file and plans its first occurrence.
func (t *table) load(ctx context.Context, e *entry, now time.Time) error {
	data, at, err := read(t.opts.Workspace, e.file)
	if missing(err) {
		e.due = time.Time{}
		return nil
	}
	if err == nil {
		e.at = at
		e.ev, err = parse(data)
	}
	if err != nil {
		if e.tries++; e.tries < maxTries {
			e.due = now.Add(settle << (e.tries - 1))
			return nil
		}
		return t.fail(ctx, e, now, err.Error())
	}
	e.known = true
	if e.ev.Paused {
		e.due = time.Time{}
		return nil
	}
	last, err := t.ledger.read(e.key())
	if err != nil {
		e.known, e.due = false, now.Add(maxRefusal)
		return err
	}
	switch e.ev.Type {
	case Immediate:
		e.slot, e.due = e.at.mod, now
		return nil
	case OneShot:
		e.slot = e.ev.at
		e.due, e.deferred = t.awake(e, e.slot)
		e.late = e.due.Before(now.Add(-t.opts.Grace))
		if e.late && !last.Done && last.Turn == "" && e.ev.Missed != RunOnce {
			return t.fail(ctx, e, now, fmt.Sprintf("missed: it was due at %s, more than %s ago, and was not run", e.ev.At, t.opts.Grace))
		}
		return nil
	}
	from := e.at.mod
	if last.Slot.After(from) || !last.Done && last.Turn != "" {
		from = last.Slot
	}
	if !last.Done && last.Turn != "" {
		from = from.Add(-time.Second) // again: it was claimed and may not be accepted
	}
	t.plan(e, from, now)
	return nil
}

// plan finds the occurrence after a moment, passing over those that were missed.
func (t *table) plan(e *entry, from, now time.Time) {
	e.late, e.refusals = false, 0
	// Nobody asks for more than a month of missed occurrences to be counted.
	if old := now.AddDate(0, -1, 0); from.Before(old) {
		from = old
	}
	limit, missed := now.Add(-t.opts.Grace), 0
	var latest time.Time
	for e.slot = e.ev.rule.Next(from); !e.slot.IsZero(); e.slot = e.ev.rule.Next(e.slot) {
		if e.due, e.deferred = t.awake(e, e.slot); !e.due.Before(limit) {
			break
		}
		missed, latest = missed+1, e.slot
	}
	switch {
	case missed > 0 && e.ev.Missed == RunOnce:
		e.slot, e.late, e.due, e.deferred = latest, true, now, false
	case e.slot.IsZero():
		e.due = time.Time{}
	}
	if missed > 0 {
		t.opts.Logger.Warn("occurrences of a schedule were missed", "file", e.file, "count", missed, "latest", latest, "runs", e.late)
	}
}

// awake returns when an occurrence may run: its time, or the end of the quiet
// hours it falls into.
func (t *table) awake(e *entry, slot time.Time) (due time.Time, deferred bool) {
	q, loc := t.quiet, t.opts.Location
	if e.ev.Type != Periodic {
		q = quiet{}
	}
	if e.ev.quiet != nil {
		q = *e.ev.quiet
	}
	if e.ev.rule != nil {
		loc = e.ev.rule.loc
	}
	due = q.end(slot, loc)
	return due, !due.Equal(slot)
}

// fire submits the occurrence of e, once.
func (t *table) fire(ctx context.Context, e *entry, now time.Time) error {
	if e.deferred && e.ev.rule != nil {
		// What fell into the quiet hours runs once, as the latest of them.
		for next := e.ev.rule.Next(e.slot); !next.IsZero() && !next.After(now); next = e.ev.rule.Next(next) {
			e.slot = next
		}
	}
	key := e.key()
	c, err := t.ledger.read(key)
	if err != nil {
		return t.later(e, now, err)
	}
	if c.Done && c.Slot.Equal(e.slot) {
		return t.finish(e, now)
	}
	if !c.Slot.Equal(e.slot) || c.Turn == "" {
		c = claim{File: e.file, Slot: e.slot, Turn: turn.NewID()}
		if err := t.ledger.write(key, c); err != nil {
			return t.later(e, now, err)
		}
	}
	_, err = t.opts.Inbox.Submit(ctx, t.submission(e, c, key, now))
	switch {
	case err == nil:
	case errors.Is(err, transport.ErrClosing) || ctx.Err() != nil:
		e.due = now.Add(time.Second)
		return nil
	case errors.Is(err, transport.ErrUnknownRunner) || errors.Is(err, transport.ErrNotAllowed):
		if e.ev.Type != Periodic {
			return t.fail(ctx, e, now, err.Error())
		}
		t.tell(ctx, fmt.Sprintf("The schedule %s could not run at %s: %v", e.file, e.slot.Format(time.RFC3339), err))
	default:
		return t.later(e, now, err)
	}
	c.Done = true
	if err := t.ledger.write(key, c); err != nil {
		return t.later(e, now, err)
	}
	t.opts.Logger.Info("an event runs", "file", e.file, "slot", e.slot, "turn", c.Turn)
	return t.finish(e, now)
}

// maxRefusal bounds the time between two tries.
const maxRefusal = time.Minute

// later tries again after a while that grows: the queue is full, or the disk.
func (t *table) later(e *entry, now time.Time, err error) error {
	e.refusals++
	e.due = now.Add(min(transport.RetryAfter<<min(e.refusals-1, 8), maxRefusal))
	return fmt.Errorf("not taken, tried again at %s: %w", e.due.Format(time.TimeOnly), err)
}

// submission is the message of an occurrence. Its id is the same whoever submits
// it again.
func (t *table) submission(e *entry, c claim, key string, now time.Time) transport.Submission {
	text := e.ev.prompt(filepath.Base(e.file))
	if e.late {
		text += fmt.Sprintf("\n(Late: this was due at %s.)", e.slot.Format(time.RFC3339))
	}
	from := chat.Person{ID: "EVENT"}
	if e.ev.User != "" {
		from = chat.Person{ID: e.ev.User, Name: "EVENT"}
	}
	origin := turn.FromSchedule
	switch {
	case e.ev.conv.Space == chat.Escalate || e.ev.conv.Space == chat.SelfHeal:
		origin = turn.FromEscalation
	case e.ev.Type == Immediate:
		origin = turn.FromEvent
	}
	return transport.Submission{
		Address: e.ev.conv, Origin: origin, Turn: c.Turn, Direct: true,
		Message: chat.Message{ID: fmt.Sprintf("event-%s-%d", key, e.slot.UnixMilli()), From: from, Text: text, At: now},
	}
}

// finish is after the turn was accepted: what runs once is deleted, the rest is
// planned again.
func (t *table) finish(e *entry, now time.Time) error {
	if e.ev.Type == Periodic {
		t.plan(e, e.slot, now)
		return nil
	}
	path := filepath.Join(t.opts.Workspace, e.file)
	if err := durable.Remove(path); err != nil && !missing(err) {
		return t.later(e, now, err)
	}
	return t.forget(e)
}

// fail sets a file aside that cannot run and tells the operator.
func (t *table) fail(ctx context.Context, e *entry, now time.Time, reason string) error {
	to, err := setAside(t.opts.Workspace, e.file, reason)
	if err != nil && !missing(err) {
		e.due = now.Add(maxRefusal)
		return fmt.Errorf("set aside: %w", err)
	}
	e.due = time.Time{}
	if err != nil {
		return nil
	}
	t.opts.Logger.Warn("an event file cannot run", "file", e.file, "moved", to, "reason", reason)
	t.tell(ctx, fmt.Sprintf("The event file %s cannot run: %s. It is kept as %s.", e.file, reason, to))
	return t.forget(e)
}
