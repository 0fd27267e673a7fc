package agentcli

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// A Runner answers turns with the program of a project. It is a
// runner.Conversational.
type Runner struct {
	pool    *Pool
	project Project
	shelf   shelf

	// mu guards the field below.
	mu    sync.Mutex
	convs map[chat.Address]*conversation
}

var _ runner.Conversational = (*Runner)(nil)

// A state is what is saved of a turn: that the message is with the program, and
// which questions are open.
type state struct {
	Session string `json:"session,omitempty"`
	Sent    bool   `json:"sent,omitempty"`
	Asked   string `json:"asked,omitempty"`
	Over    string `json:"over,omitempty"`
}

// Run sends the message to the conversation's process, which is started if there
// is none, and shows what it does until it is done. A message that was sent before
// Iris was restarted is not sent again.
func (r *Runner) Run(ctx context.Context, req turn.Request, sink turn.Sink) error {
	if err := r.interrupted(req, sink); err != nil {
		return err
	}
	c := r.acquire(req.Conversation)
	defer r.release(c)
	t := newRun(c, req, sink)
	if err := c.begin(t); err != nil {
		return err
	}
	defer c.finish(t)
	return t.do(ctx)
}

// interrupted ends a turn whose message the program has had already.
func (r *Runner) interrupted(req turn.Request, sink turn.Sink) error {
	sent, open := false, []string{}
	for _, raw := range req.Resume {
		s, err := decodeState(raw)
		if err != nil {
			return runner.ErrInterrupted
		}
		sent = sent || s.Sent
		if s.Asked != "" {
			open = append(open, s.Asked)
		}
		open = without(open, s.Over)
	}
	if !sent {
		return nil
	}
	for _, id := range open {
		if err := sink.Emit(turn.Event{Kind: turn.AskFor, Ask: &turn.Ask{ID: id, Outcome: string(TakenBack)}}); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("Iris was restarted while %s worked on this. Its session is kept; the next message goes on with it.", r.project.agent())
	if len(open) > 0 {
		text += " What was asked meanwhile is withdrawn."
	}
	return &runner.Error{Code: turn.CodeInterrupted, Text: text, Err: runner.ErrInterrupted}
}

// errBusy reports a turn beside a turn, which a stopped one can leave behind that
// did not end in time.
var errBusy = errors.New("the turn before has not ended yet")

func (c *conversation) begin(t *run) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != nil {
		return failure(errBusy, "%s is still busy with the message before; say it again in a moment.", c.r.project.agent())
	}
	c.turn = t
	return nil
}

func (c *conversation) finish(t *run) {
	c.touch()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn == t {
		c.turn = nil
	}
}

// Compact has the program shorten its context, where it can do so when it is told.
func (r *Runner) Compact(ctx context.Context, conv chat.Address) (string, error) {
	d, ok := r.project.Driver.(Compacting)
	if !ok {
		return "", fmt.Errorf("%s looks after its context itself", r.project.agent())
	}
	c := r.acquire(conv)
	defer r.release(c)
	if rec, err := c.view(); err != nil || !rec.Known {
		return "_There is no context to compact here_", err
	}
	var last turn.Event
	sink := deafSink(func(ev turn.Event) { last = ev })
	t := newRun(c, turn.Request{ID: turn.NewID(), Conversation: conv, Message: chat.Message{Text: d.CompactPrompt()}}, sink)
	t.own = true
	if err := c.begin(t); err != nil {
		return "", err
	}
	defer c.finish(t)
	if err := t.do(ctx); err != nil {
		return "", err
	}
	if last.Kind == turn.Failed {
		return "", errors.New(last.Error)
	}
	return "", nil
}

// A deafSink gives the terminal event to a function and drops the rest.
type deafSink func(turn.Event)

func (s deafSink) Emit(ev turn.Event) error {
	if ev.Terminal() {
		s(ev)
	}
	return nil
}

func (deafSink) Checkpoint(context.Context, any) error { return nil }

// Reset ends the process and forgets the session; the program keeps it, and
// Resume finds it.
func (r *Runner) Reset(_ context.Context, conv chat.Address) error {
	c := r.acquire(conv)
	defer r.release(c)
	c.close()
	return c.change(func(rec *record) { rec.forget(c.dir(*rec)) })
}
