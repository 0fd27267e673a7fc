package agentcli

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// A run is a turn while a program works on it. Its events come from the process's
// reader, one at a time; do waits for their end.
type run struct {
	c    *conversation
	req  turn.Request
	sink turn.Sink
	own  bool // Iris's own prompt, not a person's

	p *proc // guarded by conversation.mu

	// result holds the Result that answers the prompt; broken is closed when the
	// sink takes no more.
	result chan Event
	broken chan struct{}

	// mu guards the fields below and keeps events in order.
	mu    sync.Mutex
	err   error // of the sink
	over  bool
	heard bool // the program has done something about the prompt
	said  []string
	piece strings.Builder
	tools map[string]started
	asks  map[string]*asking
	wait  sync.WaitGroup // of asks
	usage *turn.Usage
}

// started is a tool call that runs.
type started struct {
	tool turn.Tool
	at   time.Time
}

func newRun(c *conversation, req turn.Request, sink turn.Sink) *run {
	return &run{c: c, req: req, sink: sink, result: make(chan Event, 1), broken: make(chan struct{}),
		tools: map[string]started{}, asks: map[string]*asking{}}
}

func decodeState(raw json.RawMessage) (s state, err error) {
	err = json.Unmarshal(raw, &s)
	return s, err
}

func without(list []string, s string) []string {
	return slices.DeleteFunc(list, func(x string) bool { return x == s })
}

// do sends the message and waits for its answer.
func (t *run) do(ctx context.Context) error {
	if context.Cause(ctx) != nil {
		return t.stopped(ctx, nil)
	}
	prompt, err := t.prompt(ctx)
	if err != nil {
		return err
	}
	saved := false
	for again := range 3 {
		p, fresh, err := t.process(ctx)
		if err != nil {
			return t.failed(ctx, err)
		}
		if !saved {
			if err := t.sink.Checkpoint(ctx, state{Session: t.session(), Sent: true}); err != nil {
				return err
			}
			saved = true
		}
		t.attach(p)
		if err := t.send(ctx, p, prompt); err != nil {
			if !fresh && again == 0 && ctx.Err() == nil && !t.begun() {
				// It had ended since the turn before, and has not had the message.
				p.end()
				continue
			}
			return t.unsent(ctx, p, err)
		}
		ev, over, err := t.await(ctx, p)
		t.withdrawAll()
		switch {
		case over || err != nil:
			return err
		case ev.NoSession && p.again && again < 2:
			p.end()
			if err := t.lost(ctx); err != nil {
				return err
			}
			continue
		}
		return t.finish(ev)
	}
	return failure(nil, "%s could not be brought to take the message.", t.agent())
}

// send hands the message over. A program that does not read cannot hold up a stop.
func (t *run) send(ctx context.Context, p *proc, prompt Prompt) error {
	defer context.AfterFunc(ctx, p.closeInput)()
	return p.agent.Send(ctx, prompt)
}

func (t *run) agent() string { return t.c.r.project.agent() }

func (t *run) session() string {
	rec, _ := t.c.view() // it was read before
	return rec.Session
}

// prompt is the message as the program gets it.
func (t *run) prompt(ctx context.Context) (Prompt, error) {
	m := t.req.Message
	p := Prompt{ID: string(t.req.ID), Text: m.Text}
	if m.Prompt != "" {
		p.Text = m.Prompt
	}
	if attach := t.c.r.pool.opts.Attach; attach != nil && len(m.Files) > 0 {
		var err error
		if p.Images, p.Files, err = attach(ctx, t.req); err != nil {
			return p, failure(err, "The files of this message could not be read; the log says more.")
		}
		if strings.TrimSpace(p.Text) == "" {
			p.Text = "Analyze the attached " + things(len(p.Images), len(p.Files)) + "."
		}
	}
	if t.own {
		return p, nil
	}
	now := t.c.r.pool.opts.Now()
	if err := t.c.change(func(r *record) { r.prompted(p.Text, now) }); err != nil {
		return p, failure(err, "The session of this conversation could not be read or kept; the log says more.")
	}
	return p, nil
}

func things(images, files int) string {
	switch {
	case files == 0 && images == 1:
		return "image"
	case files == 0:
		return "images"
	case files+images == 1:
		return "file"
	}
	return "files"
}

// process returns the conversation's process. fresh says that it was started now.
func (t *run) process(ctx context.Context) (p *proc, fresh bool, err error) {
	if p := t.c.fit(); p != nil {
		return p, false, nil
	}
	if err := t.emit(turn.Event{Kind: turn.Status, Label: "starting " + t.agent()}); err != nil {
		return nil, true, err
	}
	t.resumed(ctx)
	p, err = t.c.start(ctx)
	if errors.Is(err, ErrNoSession) {
		if err := t.lost(ctx); err != nil {
			return nil, true, err
		}
		p, err = t.c.start(ctx)
	}
	return p, true, err
}

// resumed tells that a paused session goes on.
func (t *run) resumed(ctx context.Context) {
	rec, _ := t.c.view() // it was read before
	if !rec.Paused {
		return
	}
	if err := t.c.change(func(r *record) { r.Paused = false }); err != nil {
		t.c.r.pool.log.Error("that a session goes on is not kept", "conversation", t.c.addr, "err", err)
	}
	if rec.Known {
		t.c.r.pool.tell(ctx, t.c.addr, "_"+t.agent()+" resumes its session._")
	}
}

// lost drops a session that the program does not know, and says so if anybody
// could have known it.
func (t *run) lost(ctx context.Context) error {
	var known bool
	err := t.c.change(func(r *record) {
		known = r.Known
		r.Session, r.Known = "", false
		r.Now.Turns = min(r.Now.Turns, 1)
	})
	if err != nil {
		return failure(err, "The session of this conversation could not be kept; the log says more.")
	}
	t.c.r.pool.log.Warn("a session is not known any more", "project", t.c.r.project.Name, "conversation", t.c.addr, "turn", t.req.ID)
	if known {
		t.c.r.pool.tell(ctx, t.c.addr, "_"+t.agent()+" does not know the session of this conversation any more; this message begins a new one._")
	}
	return nil
}

// attach makes the events of a process those of the turn.
func (t *run) attach(p *proc) {
	t.c.mu.Lock()
	t.p = p
	t.c.mu.Unlock()
}

// await waits for the answer, or for what comes in its place: over says that the
// turn has ended.
func (t *run) await(ctx context.Context, p *proc) (ev Event, over bool, err error) {
	select {
	case ev := <-t.result:
		return ev, false, nil
	case <-p.over:
		select {
		case ev := <-t.result:
			return ev, false, nil
		default:
		}
		if ctx.Err() != nil {
			return ev, true, t.stopped(ctx, p)
		}
		if _, unknown := p.explain(); unknown {
			return Event{NoSession: true}, false, nil
		}
		return ev, true, p.death("while it worked on this")
	case <-t.broken:
		p.end()
		t.mu.Lock()
		defer t.mu.Unlock()
		return ev, true, t.err
	case <-ctx.Done():
		return ev, true, t.stopped(ctx, p)
	}
}

// unsent is the end of a turn whose message did not reach the program.
func (t *run) unsent(ctx context.Context, p *proc, err error) error {
	t.withdrawAll()
	switch {
	case ctx.Err() != nil:
		return t.stopped(ctx, p)
	case errors.Is(err, ErrGone) || p.ended():
		p.end()
		return p.death("before it took the message")
	}
	return failure(err, "%s did not take the message: %v.", t.agent(), err)
}

// failed is the end of a turn that has no process.
func (t *run) failed(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return t.stopped(ctx, nil)
	}
	return err
}

// stopped ends the work of a turn from outside. The program is asked to end it,
// which ends the commands it runs; what it leaves running, or does not end in time,
// is ended with it. p is nil if there is no process.
func (t *run) stopped(ctx context.Context, p *proc) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, runner.ErrLeaving) {
		t.withdrawAll()
		return cause
	}
	var ev Event
	if p != nil {
		ev = t.interrupt(ctx, p)
	}
	t.withdrawAll()
	if !errors.Is(cause, runner.ErrStopped) {
		return cause
	}
	ev.Failure, ev.Interrupted = "", true
	return t.finish(ev)
}

// interrupt returns the Result if it came.
func (t *run) interrupt(ctx context.Context, p *proc) (ev Event) {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.c.r.pool.opts.InterruptWait)
	defer cancel()
	go func() {
		if err := p.agent.Interrupt(limit); err != nil {
			p.end()
		}
	}()
	select {
	case ev = <-t.result:
		if p.tree.Left() == 0 {
			return ev
		}
	case <-p.over:
	case <-limit.Done():
	}
	p.end()
	return ev
}

// finish ends the turn with what it said.
func (t *run) finish(ev Event) error {
	t.collect()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle(ev)
	text, silent := reply(t.said)
	end := turn.Event{Kind: turn.Final, Text: text, Silent: silent, Usage: t.usage}
	switch {
	case ev.Failure != "":
		end = turn.Event{Kind: turn.Failed, Code: turn.CodeModel, Error: clip(oneLine(ev.Failure), maxFailure), Text: text, Usage: t.usage}
		if strings.TrimSpace(text) == strings.TrimSpace(ev.Failure) {
			end.Text = ""
		}
	case ev.NoSession:
		end = turn.Event{Kind: turn.Failed, Code: turn.CodeFailed, Error: t.agent() + " does not know its session.", Text: text}
	case ev.Interrupted:
		end.Stopped, end.Silent = true, false
	}
	t.over = true
	t.spent()
	return t.sink.Emit(end)
}

// maxFailure bounds the sentence about a failure.
const maxFailure = 400

// settle takes in what a Result says. mu must be held.
func (t *run) settle(ev Event) {
	if t.piece.Len() > 0 {
		t.said = append(t.said, t.piece.String())
		t.piece.Reset()
	}
	if len(t.said) == 0 && strings.TrimSpace(ev.Text) != "" && ev.Failure == "" {
		t.said = append(t.said, ev.Text)
	}
	if u := ev.Usage; u != nil {
		t.usage = &turn.Usage{Provider: t.c.r.project.Name, Model: u.Model, Calls: 1, Input: u.Input, Output: u.Output,
			CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Cost: u.Cost, Window: u.Window}
	}
}

// spent adds the turn to what the conversation has cost.
func (t *run) spent() {
	u := t.usage
	if u == nil || t.own {
		return
	}
	err := t.c.change(func(r *record) {
		r.Total.Turns++
		r.Total.Input += u.Input
		r.Total.Output += u.Output
		r.Total.CacheRead += u.CacheRead
		r.Total.CacheWrite += u.CacheWrite
		r.Total.Cost += u.Cost
	})
	if err != nil {
		t.c.r.pool.log.Error("what a turn cost is not kept", "turn", t.req.ID, "err", err)
	}
}

// begun reports that the program has done something about the message.
func (t *run) begun() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.heard
}

// emit shows an event; an error of the sink ends the turn.
func (t *run) emit(ev turn.Event) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.show(ev)
}

// show is emit with mu held.
func (t *run) show(ev turn.Event) error {
	if t.err != nil || t.over {
		return errors.Join(t.err, errEnded)
	}
	if t.err = t.sink.Emit(ev); t.err != nil {
		close(t.broken)
	}
	return t.err
}

// errEnded is what comes too late for its turn.
var errEnded = errors.New("the turn has ended")
