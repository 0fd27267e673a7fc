package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// Watch implements transport.Inbox. States that runners save are not shown. A
// since beyond the end of the conversation comes from a journal that lost its
// tail with the power: it yields transport.ErrTruncated and goes on from Now.
// The sequence ends without an error when ctx does, and with
// transport.ErrClosing when the journal is closed.
//
// The position is taken when Watch is called, or after recovery when that is
// later: what is submitted after the call is seen, whenever the sequence is
// read.
func (e *Engine) Watch(ctx context.Context, conv chat.Address, since int64) iter.Seq2[transport.Seen, error] {
	w, placed := window{}, false
	select {
	case <-e.ready:
		w, placed = e.place(conv, since), true
	default:
	}
	return func(yield func(transport.Seen, error) bool) {
		if err := e.await(ctx); err != nil {
			if ctx.Err() == nil {
				yield(transport.Seen{}, err)
			}
			return
		}
		w := w
		if !placed {
			w = e.place(conv, since)
		}
		if w.cut && !yield(transport.Seen{}, transport.ErrTruncated) {
			return
		}
		more := false
		for r, err := range e.journal.Follow(ctx, conv.Channel(), w.from) {
			seen, ok, err := w.see(r, err)
			if !ok && (r.More || !more) {
				continue
			}
			if !ok { // the row ends with what is not shown
				seen.Record = turn.Record{}
			}
			more = seen.More
			if !yield(seen, err) || err != nil && !errors.Is(err, transport.ErrTruncated) {
				return
			}
		}
	}
}

// place finds where a watcher starts.
func (e *Engine) place(conv chat.Address, since int64) window {
	stream := conv.Channel()
	cut := since > e.journal.Last(stream)
	if since >= 0 && !cut {
		return window{from: since}
	}
	w := e.window(conv, stream)
	w.cut = cut
	return w
}

// A window is where a watcher starts, and whom it sees before the running turn
// began: only the turns that were open when it started.
type window struct {
	cut         bool // the watcher's own position is not there
	from, begun int64
	open        map[turn.ID]bool
}

// window finds the running turn of a conversation.
func (e *Engine) window(conv chat.Address, stream string) window {
	w := window{from: e.journal.Last(stream), open: map[turn.ID]bool{}}
	w.begun = w.from + 1
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.lanes[conv]
	if l == nil {
		return w
	}
	add := func(t *task) {
		if e.live(t) && t.job == nil && t.seq > 0 {
			w.open[t.id] = true
			w.from = min(w.from, t.seq-1)
		}
	}
	add(l.running)
	for _, t := range l.queue {
		add(t)
	}
	if l.running != nil && l.running.begun > 0 {
		w.begun = min(w.begun, l.running.begun)
	}
	return w
}

// see decodes one record; ok is false for what watchers do not see.
func (w *window) see(r journal.Record, err error) (seen transport.Seen, ok bool, _ error) {
	switch {
	case errors.Is(err, journal.ErrTruncated):
		return seen, true, transport.ErrTruncated
	case errors.Is(err, journal.ErrClosed):
		return seen, true, transport.ErrClosing
	case err != nil:
		return seen, true, err
	}
	seen.Seq, seen.At, seen.More = r.Seq, r.Time, r.More
	if err := json.Unmarshal(r.Data, &seen.Record); err != nil {
		return transport.Seen{}, true, fmt.Errorf("record %d of %s: %w", r.Seq, r.Stream, err)
	}
	hidden := seen.Record.Checkpoint != nil || r.Seq < w.begun && !w.open[seen.Record.Turn]
	return seen, !hidden, nil
}
