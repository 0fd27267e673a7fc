// Package native answers turns with a language model and tools of our own: it
// builds the request, streams the answer, runs the calls the model asks for and
// goes on until there is a final text.
//
// It owns the history a model reads: what an entry of context.jsonl means, its
// repair, its compaction, and the limits on what enters it. It does not write
// files of a conversation (Sink.Checkpoint does, through the journal), does not
// decide who may talk to Iris, and knows no provider: retries and the watch over
// silence are decorators of package llm.
//
// Start with [Native.Run] in this file, then run.go (the loop), ask.go (one
// answer), call.go (the calls) and history.go.
package native

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/turn"
)

// Native is a runner. It is safe for concurrent use, one call per conversation
// at a time.
type Native struct {
	opts   Options
	shelf  *shelf
	ledger *ledger
	tools  offered // in every conversation
}

var _ runner.Conversational = (*Native)(nil)

// New checks the options and reads today's ledger. It starts nothing.
func New(opts Options) (*Native, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	l, err := openLedger(opts.UsageDir, opts.Location, opts.Now)
	if err != nil {
		return nil, err
	}
	return &Native{opts: opts, ledger: l, tools: offer(opts.Tools), shelf: newShelf(opts.CacheBytes, opts.CacheIdle, opts.Now)}, nil
}

// Close closes the ledger's file. Nothing may run any more.
func (n *Native) Close() error { return n.ledger.close() }

// Run answers one turn. See [runner.Runner] for what it promises.
//
// A turn that is given back after a restart goes on from its own entries in the
// archive: calls without a result are told to the model as interrupted, and a
// final answer that is already there is only delivered.
func (n *Native) Run(ctx context.Context, req turn.Request, sink turn.Sink) error {
	models, err := n.candidates(ctx)
	if err != nil {
		return ended(ctx, &runner.Error{Code: turn.CodeModel, Text: oneLine(err.Error()), Err: err})
	}
	h, err := n.open(ctx, req.Conversation, string(req.ID))
	if err != nil {
		return ended(ctx, err)
	}
	r := n.newRun(ctx, req, sink, models, h)
	err = r.turn()
	if h.clean() {
		n.shelf.put(req.Conversation, h)
	}
	return err
}

// Compact summarises the older part of a conversation. The line it returns says
// what it did; an error means that the context is as it was.
func (n *Native) Compact(ctx context.Context, conv chat.Address) (string, error) {
	if n.opts.Save == nil {
		return "", errors.New("this runner cannot save between turns")
	}
	models, err := n.candidates(ctx)
	if err != nil {
		return "", err
	}
	h, err := n.open(ctx, conv, "")
	if err != nil {
		return "", err
	}
	c := &compactor{n: n, conv: conv, models: models, spent: func(m llm.Info, u llm.Usage) { n.spend(conv, "", m, u) }}
	c.save = func(ctx context.Context, e session.Entry) error {
		return n.opts.Save(ctx, conv, session.Saved{Entries: []session.Entry{e}})
	}
	tokens, err := c.compact(ctx, h, c.keep(models[0].Info()), len(h.msgs))
	if h.clean() {
		n.shelf.put(conv, h)
	}
	switch {
	case errors.Is(err, errNothing):
		return "Compaction complete: there was nothing to summarise", nil
	case err != nil:
		return "", err
	}
	return fmt.Sprintf("Compacted: %d tokens summarised", tokens), nil
}

// Reset forgets the context of a conversation; its log stays.
func (n *Native) Reset(ctx context.Context, conv chat.Address) error {
	n.shelf.take(conv)
	return n.opts.Archive.Reset(ctx, conv)
}

// candidates returns the models in the order they are to be tried, each with
// its retries and the watch over silence.
func (n *Native) candidates(ctx context.Context) ([]llm.Model, error) {
	bare, err := n.opts.Models(ctx)
	if err != nil {
		return nil, err
	}
	if len(bare) == 0 {
		return nil, errors.New("no model is configured")
	}
	models := make([]llm.Model, len(bare))
	for i, m := range bare {
		models[i] = llm.WithRetry(llm.WithSilence(m, n.opts.Silence), n.opts.Retry)
	}
	return models, nil
}

// open returns the history of a conversation, from the shelf where it is and
// brought up to date with the archive. Blocks of volatile context are stripped
// but in the messages of turn.
func (n *Native) open(ctx context.Context, conv chat.Address, turn string) (*history, error) {
	h := n.shelf.take(conv)
	if h != nil {
		entries, err := n.opts.Archive.Entries(ctx, conv, h.last)
		switch {
		case err == nil:
			h.strip(turn)
			n.load(h, entries, turn)
			return h, nil
		case !errors.Is(err, session.ErrChanged):
			return nil, fmt.Errorf("history of %s: %w", conv, err)
		}
	}
	h = newHistory()
	entries, err := n.opts.Archive.Entries(ctx, conv, "")
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", conv, err)
	}
	n.load(h, entries, turn)
	return h, nil
}

func (n *Native) load(h *history, entries []session.Entry, turn string) {
	if err := h.takeAll(entries, turn); err != nil {
		n.opts.Logger.Warn("part of the history left out", "err", err)
	}
}

// oneLine makes an error fit for a sentence to people.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
