package engine

import (
	"context"
	"fmt"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A Settlement is an answer to a question, before it is on disk.
type Settlement struct {
	// Question is the id of what is answered, Prompt what the runner is told
	// instead of the words of the answer.
	Question, Prompt string
	// Live says that whoever asked waits inside of a turn: the answer is logged and
	// starts none.
	Live bool
	// Loose says that the words are an answer only if they were said to Iris.
	Loose bool
	// Refusal, when not empty, says that this person may not answer. It is told
	// to them if they spoke to Iris; the message is logged and nobody answers.
	Refusal string
	// Done is called exactly once: with true when the answer is on disk and
	// before its turn can run, with false if it was not taken.
	Done func(taken bool)
}

func (s *Settlement) done(taken bool) {
	if s != nil && s.Done != nil {
		s.Done(taken)
	}
}

func (s *Settlement) question() string {
	if s == nil {
		return ""
	}
	return s.Question
}

// answered lets Settle look at a message. settled says that it was an answer and
// is dealt with.
func (e *Engine) answered(ctx context.Context, s transport.Submission, d route.Decision) (settled bool, r transport.Receipt, err error) {
	if e.opts.Settle == nil || !s.Proven || s.Message.From.Bot || d.Kind != route.Run && d.Kind != route.Log {
		return false, r, nil
	}
	switch s.Origin {
	case turn.FromChat, turn.FromAPI, turn.FromBridge:
	default:
		return false, r, nil
	}
	// A repeat is no second answer.
	key, err := e.identify(s.Address, &s.Message, s.Turn)
	if err != nil {
		return true, r, err
	}
	if r, known, err := e.known(ctx, key, s.Turn, d.Conversation); known || err != nil {
		return true, r, err
	}
	a := e.opts.Settle(d.Conversation, s)
	switch {
	case a == nil:
		return false, r, nil
	case a.Refusal != "" && d.Kind != route.Run:
		return false, r, nil // said to others
	case a.Loose && d.Kind != route.Run:
		a.done(false)
		return false, r, nil
	case a.Refusal != "":
		r, err = e.hear(ctx, s.Address, d.Conversation, s.Message)
		r.Outcome, r.Reply.Text = transport.Commanded, a.Refusal
		return true, r, err
	}
	r, err = e.settled(ctx, s, a)
	return true, r, err
}

// Settled records an answer that is no message of its platform (a button, a call
// of the API) and starts its turn. m stands for it in the log.
func (e *Engine) Settled(ctx context.Context, conv chat.Address, m chat.Message, a *Settlement) (transport.Receipt, error) {
	s := transport.Submission{Address: conv, Message: m}
	err := e.await(ctx)
	if err == nil {
		err = checkAddress(conv)
	}
	if err != nil {
		a.done(false)
		return transport.Receipt{}, err
	}
	if s.Message.At.IsZero() {
		s.Message.At = e.opts.Now()
	}
	return e.settled(ctx, s, a)
}

// settled starts the turn of an answer: with the runner of the conversation,
// whomever the message was meant to be answered by.
func (e *Engine) settled(ctx context.Context, s transport.Submission, a *Settlement) (transport.Receipt, error) {
	if a.Live {
		d := route.Decide(s, e.opts.Snapshot(s.Address))
		conv := d.Conversation
		if conv.IsZero() {
			conv = s.Address
		}
		r, err := e.hear(ctx, s.Address, conv, s.Message)
		a.done(err == nil)
		return r, err
	}
	s.Origin, s.Runner, s.Message.Prompt = turn.FromApproval, "", a.Prompt
	d := route.Decide(s, e.opts.Snapshot(s.Address))
	if d.Kind != route.Run || e.runner(d.Runner) == nil {
		a.done(false)
		return transport.Receipt{}, fmt.Errorf("%q: %w", d.Runner, transport.ErrUnknownRunner)
	}
	return e.accept(ctx, s, d, a)
}
