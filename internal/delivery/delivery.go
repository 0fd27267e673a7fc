// Package delivery is what people on a chat platform get to see, once, in the
// right place and in order, whatever breaks.
//
// A [Courier] follows the journal to one [transport.Platform]. What is to be
// shown lies in its outbox (a journal of its own) before it is sent, and the
// platform's id after; a restart goes on from there. It owns placeholders and
// their progress, replies in parts, files, questions, one limiter per chat with
// replies first, retries, and what is sent in the place of what a platform
// refuses. It does not know how a platform looks or talks (package transport and
// below), nor what a turn is answered with (package engine).
//
// A [Desk] is what Iris says by herself: a line into a conversation that nobody
// asked for at that moment, such as a parked question or a failed schedule. Such
// a notice is a record of the conversation, which couriers and everybody else
// who watches draw.
//
// Follow one reply: follower.take → flush (on disk) → enqueue → pump → step →
// send → sent.
package delivery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/iris-operator/iris/internal/chat"
)

// A Noticer puts a line into a conversation and returns when it is on disk.
type Noticer interface {
	Notice(ctx context.Context, conv chat.Address, text string) error
}

// Options of a Desk.
type Options struct {
	// Noticer is required.
	Noticer Noticer
	// Operator is where the operator reads; zero: in the log only.
	Operator chat.Address
	// Default is where the operator reads while Operator is zero; it may change.
	// nil, or zero: in the log only.
	Default func() chat.Address
	Logger  *slog.Logger // nil: slog.DiscardHandler
}

// A Desk posts notices. It is safe for concurrent use.
type Desk struct{ opts Options }

// New checks opts.
func New(opts Options) (*Desk, error) {
	if opts.Noticer == nil {
		return nil, errors.New("delivery: a noticer is required")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Desk{opts}, nil
}

// Operator is where the operator reads; zero: in the log only.
func (d *Desk) Operator() chat.Address {
	if d.opts.Operator.IsZero() && d.opts.Default != nil {
		return d.opts.Default()
	}
	return d.opts.Operator
}

// Post puts text into a conversation; when it returns nil the text is on disk.
// Posting the same text twice shows it twice.
func (d *Desk) Post(ctx context.Context, conv chat.Address, text string) error {
	if err := d.opts.Noticer.Notice(ctx, conv, text); err != nil {
		return fmt.Errorf("post to %s: %w", conv, err)
	}
	return nil
}

// Tell posts text where the operator reads. Without such a place, or when
// posting fails, the text goes to the log instead, at level warning, so that it
// is never lost silently.
func (d *Desk) Tell(ctx context.Context, text string) {
	operator := d.Operator()
	if operator.IsZero() {
		d.opts.Logger.Warn("for the operator", "text", text)
		return
	}
	if err := d.Post(ctx, operator, text); err != nil {
		d.opts.Logger.Warn("for the operator", "text", text, "err", err)
	}
}
