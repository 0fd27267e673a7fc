package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// fullDiskPause is the time between attempts to end a turn on a full disk. The
// lane waits: a turn without an end would be worse than a late one.
const fullDiskPause = time.Second

// pause waits and reports whether to go on.
func (e *Engine) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.abandoned.Done():
		return false
	}
}

// errEnded is what a sink says after its turn has ended.
var errEnded = errors.New("the turn has ended")

// errLost ends a turn that was given up because its message may not be on disk.
var errLost = errors.New("the turn was lost")

// An attempt is one run of a turn, and the sink of its runner.
type attempt struct {
	e   *Engine
	t   *task
	dog *watchdog // of the runner; nil: there is none

	// mu guards the fields below and t.said, and makes sure that nothing is
	// written after the terminal event.
	mu      sync.Mutex
	started bool // Started was written
	over    bool // the terminal event was written, or somebody is about to
	closed  bool // the runner has returned or was given up
	cut     bool // the turn was ended from outside
	// wanted is a terminal event of the runner that could not be written.
	wanted *turn.Event
}

// runTurn gives t to its runner and concludes it, whatever the runner does. It
// reports whether the lane is still this goroutine's.
func (e *Engine) runTurn(t *task) (mine bool) {
	a := &attempt{e: e, t: t}
	if context.Cause(t.ctx) != nil {
		a.conclude(nil)
		return true
	}
	a.dog = &watchdog{e: e, t: t, conclude: a.conclude}
	if err := a.open(); err != nil {
		a.conclude(err)
		return true
	}
	return a.dog.guard(a.run)
}

// open makes the attempt known, so that the turn can be cut short, and begins.
func (a *attempt) open() error {
	a.e.mu.Lock()
	a.t.now = a
	a.e.mu.Unlock()
	return a.begin()
}

func (a *attempt) run(ctx context.Context) error {
	name := a.t.accepted.Runner
	r := a.e.runner(name)
	if r == nil {
		return &runner.Error{Code: turn.CodeFailed, Text: fmt.Sprintf("run failed: there is no runner %q any more", name)}
	}
	return r.Run(ctx, a.t.request(), a)
}

func (t *task) request() turn.Request {
	return turn.Request{
		ID: t.id, Conversation: t.lane.conv, Message: t.accepted.Message, Origin: t.accepted.Origin,
		Started: t.at, Attempt: t.attempt, Resume: t.resume, Text: t.said.text(),
	}
}

// begin writes that the turn starts, for recovery and for those who watch.
func (a *attempt) begin() error {
	e, t := a.e, a.t
	if t.said.open() {
		// Pieces of an earlier attempt: the model is asked for them again.
		if err := a.Emit(turn.Event{Kind: turn.Text, Void: true}); err != nil {
			return err
		}
	}
	if err := a.writeBegin(); err != nil {
		return err
	}
	info := e.info(t)
	e.log.Info("turn started", "turn", t.id, "conversation", t.lane.conv, "runner", t.accepted.Runner, "attempt", t.attempt, "waited", info.Waited)
	call(e.opts.Hooks.TurnStarted, info)
	return nil
}

// writeBegin writes the two records of the beginning in one go.
func (a *attempt) writeBegin() error {
	e, t := a.e, a.t
	a.mu.Lock()
	defer a.mu.Unlock()
	now := e.opts.Now()
	var entries [2]journal.Entry
	for i, rec := range []turn.Record{
		{Turn: t.id, Begun: &turn.Begun{Attempt: t.attempt, At: now}},
		{Turn: t.id, Event: &turn.Event{Kind: turn.Started, Turn: t.id}},
	} {
		data, err := json.Marshal(rec)
		if err != nil {
			return fmt.Errorf("encode the beginning of turn %s: %w", t.id, err)
		}
		entries[i].Data = data
	}
	t.lane.order.Lock()
	defer t.lane.order.Unlock()
	last, err := e.append(t.lane, entries[:]...)
	if err != nil {
		return err
	}
	a.started = true
	e.mu.Lock()
	defer e.mu.Unlock()
	t.begun, t.started = last-1, now
	return nil
}

// conclude ends the turn if its runner has not, and keeps the runner from
// saying more.
func (a *attempt) conclude(err error) {
	e, t := a.e, a.t
	a.mu.Lock()
	a.closed = true
	if a.over {
		cut := a.cut
		a.mu.Unlock()
		if err != nil && !cut {
			e.log.Warn("a runner returned an error after it had ended its turn", "turn", t.id, "err", err)
		}
		return
	}
	a.over = true
	ev, open := a.verdict(err)
	if open {
		a.mu.Unlock()
		e.log.Info("turn left open", "turn", t.id, "conversation", t.lane.conv, "attempt", t.attempt)
		return
	}
	seq, werr := a.writeEnd(&ev)
	a.mu.Unlock()
	for errors.Is(werr, syscall.ENOSPC) && e.pause(fullDiskPause) {
		seq, werr = e.writeEnd(t, ev)
	}
	if p := (*panicError)(nil); errors.As(err, &p) {
		e.log.Error("a runner panicked", "turn", t.id, "conversation", t.lane.conv, "runner", t.accepted.Runner, "panic", p.value, "stack", string(p.stack))
		call(e.opts.Hooks.Panicked, e.info(t))
	}
	if werr == nil {
		werr = e.settleEnd(t, seq, ev, err)
	}
	if werr != nil {
		e.log.Error("end a turn", "turn", t.id, "conversation", t.lane.conv, "err", werr)
	}
}

// verdict is the terminal event of a turn whose runner returned err without
// one; open says that the turn is left for the next start. mu must be held.
func (a *attempt) verdict(err error) (ev turn.Event, open bool) {
	cause, said := context.Cause(a.t.ctx), a.t.said.text()
	failed := func(code turn.Code, text string) (turn.Event, bool) {
		return turn.Event{Kind: turn.Failed, Code: code, Error: text, Text: said}, false
	}
	var known *runner.Error
	var panicked *panicError
	switch {
	case errors.Is(err, errAbandoned):
		return ev, true
	case a.wanted != nil:
		return *a.wanted, false
	case errors.As(err, &panicked):
		return failed(turn.CodePanic, "run failed: an internal error; the log of this server says more")
	case errors.Is(cause, runner.ErrLeaving):
		return ev, true
	case errors.Is(cause, runner.ErrStopped):
		return turn.Event{Kind: turn.Final, Text: said, Stopped: true}, false
	case errors.Is(cause, runner.ErrSuperseded):
		return failed(turn.CodeSuperseded, runner.ErrSuperseded.Error())
	case errors.As(cause, &known):
		return failed(known.Code, known.Text)
	case err == nil && said == "":
		return failed(turn.CodeFailed, "run failed: no response")
	case err == nil:
		return turn.Event{Kind: turn.Final, Text: said}, false
	case errors.As(err, &known):
		return failed(known.Code, known.Text)
	case errors.Is(err, runner.ErrInterrupted):
		return failed(turn.CodeInterrupted, runner.ErrInterrupted.Error())
	}
	return failed(turn.CodeFailed, "run failed: "+err.Error())
}

// writeEnd puts ev into shape and writes it as the turn's terminal event. mu
// must be held and over set by the caller.
func (a *attempt) writeEnd(ev *turn.Event) (seq int64, err error) {
	*ev = finished(*ev, a.t, context.Cause(a.t.ctx))
	return a.e.writeEnd(a.t, *ev)
}

func (e *Engine) writeEnd(t *task, ev turn.Event) (int64, error) {
	return e.write(t.lane, journal.Entry{Key: endKey(t.id), Unpin: string(t.id)}, turn.Record{Turn: t.id, Event: &ev}, true, nil)
}

// endKey is the key of a turn's terminal event: there can only be one.
func endKey(id turn.ID) string { return "turn:" + string(id) }

// finished gives terminal events of all runners one shape.
func finished(ev turn.Event, t *task, cause error) turn.Event {
	ev.Turn = t.id
	if ev.Kind == turn.Failed && errors.Is(cause, runner.ErrStopped) && ev.Code != turn.CodePanic {
		// What fails because it was stopped did not fail.
		ev = turn.Event{Kind: turn.Final, Turn: t.id, Text: ev.Text, Stopped: true, Usage: ev.Usage}
	}
	if ev.Text == "" && (ev.Stopped || ev.Kind == turn.Failed) {
		ev.Text = t.said.text()
	}
	if ev.Kind == turn.Failed {
		if ev.Code == "" {
			ev.Code = turn.CodeFailed
		}
		if ev.Error == "" {
			ev.Error = "run failed"
		}
	}
	if ev.Kind == turn.Final && strings.HasPrefix(strings.TrimSpace(ev.Text), silentMark) {
		ev.Silent, ev.Text = true, ""
	}
	return ev
}

// silentMark at the start of a reply asks that nothing is posted; it is never
// shown to anybody.
const silentMark = "[SILENT]"

// settleEnd makes a written end durable and tells everyone.
func (e *Engine) settleEnd(t *task, seq int64, ev turn.Event, cause error) error {
	if err := e.settle(t.lane, seq); err != nil {
		return err
	}
	info := e.info(t)
	info.Code, info.Stopped, info.Usage = ev.Code, ev.Stopped, ev.Usage
	if !e.retire(t) {
		return errLost
	}
	t.end = ev
	close(t.done)
	args := []any{"turn", t.id, "conversation", t.lane.conv, "runner", t.accepted.Runner, "duration", info.Ran, "code", ev.Code, "stopped", ev.Stopped}
	if ev.Kind == turn.Failed {
		e.log.Warn("turn ended", append(args, "error", ev.Error, "err", detail(cause))...)
	} else {
		e.log.Info("turn ended", args...)
	}
	call(e.opts.Hooks.TurnEnded, info)
	return nil
}

// detail is what the log gets of an error whose sentence people got.
func detail(err error) error {
	var known *runner.Error
	if errors.As(err, &known) {
		return known.Err
	}
	return err
}

func (e *Engine) info(t *task) TurnInfo {
	e.mu.Lock()
	started := t.started
	e.mu.Unlock()
	i := TurnInfo{Turn: t.id, Conversation: t.lane.conv, Runner: t.accepted.Runner, Origin: t.accepted.Origin, Attempt: t.attempt}
	if !started.IsZero() {
		i.Waited, i.Ran = started.Sub(t.at), e.opts.Now().Sub(started)
	}
	return i
}

func call(hook func(TurnInfo), i TurnInfo) {
	if hook != nil {
		hook(i)
	}
}

// Emit implements turn.Sink.
func (a *attempt) Emit(ev turn.Event) error {
	ev.Turn = a.t.id
	seq, err := a.put(&ev)
	switch {
	case err != nil || seq == 0:
		return err
	case ev.Terminal():
		err = a.e.settleEnd(a.t, seq, ev, nil)
		a.dog.wind()
		return err
	case ev.Kind == turn.AskFor, ev.Kind == turn.ToolUse && ev.Tool != nil && ev.Tool.Phase == turn.Start:
		return a.e.settle(a.t.lane, seq)
	}
	return nil
}

// put writes an event; seq is 0 if there was nothing to write.
func (a *attempt) put(ev *turn.Event) (seq int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.closed {
		return 0, errEnded
	}
	if ev.Kind != turn.Final && errors.Is(context.Cause(a.t.ctx), runner.ErrLeaving) {
		return 0, runner.ErrLeaving
	}
	if ev.Terminal() {
		a.over = true
		if seq, err = a.writeEnd(ev); err != nil {
			a.over, a.wanted = false, ev
		}
		return seq, err
	}
	switch ev.Kind {
	case turn.Started:
		if a.started {
			return 0, nil // the engine has said so
		}
		a.started = true
	case turn.Text:
		a.t.said.add(*ev)
	case turn.Thinking, turn.Status, turn.ToolUse, turn.FileOut, turn.AskFor:
	default:
		return 0, fmt.Errorf("an event of kind %q", ev.Kind)
	}
	return a.e.write(a.t.lane, journal.Entry{}, turn.Record{Turn: a.t.id, Event: ev}, false, nil)
}

// Checkpoint implements turn.Sink. It works until the runner has returned, also
// after the terminal event and while the process leaves. The state is put on
// disk, and brought to the archive, with the next event that is.
func (a *attempt) Checkpoint(_ context.Context, state any) error {
	data, err := json.Marshal(state)
	if err != nil {
		return fmt.Errorf("encode the state of turn %s: %w", a.t.id, err)
	}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return errEnded
	}
	over := a.over
	seq, err := a.e.write(a.t.lane, journal.Entry{Quiet: true}, turn.Record{Turn: a.t.id, Checkpoint: data}, true, nil)
	a.mu.Unlock()
	if err != nil || !over {
		return err
	}
	return a.e.settle(a.t.lane, seq) // no event follows
}
