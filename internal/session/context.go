package session

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/iris-operator/iris/internal/chat"
)

// An entryMark is where the entries that a caller already has end.
type entryMark struct {
	head string // the header's id: another one is another file
	id   string
	off  int64 // behind the entry
}

// Entries returns the history of a conversation: the latest compaction first,
// if there is one, then the entries it kept, then those after it. With after,
// the id of the last entry the caller has, it returns only newer ones, or
// ErrChanged when there was a compaction or a reset since, or no such entry.
// Asking on from where the last call ended costs no more than what is new.
// Lines that cannot be read are skipped with a warning.
func (s *Store) Entries(ctx context.Context, addr chat.Address, after string) ([]Entry, error) {
	c, err := s.acquire(addr)
	if err != nil {
		return nil, err
	}
	defer s.release(c)
	if err := s.catchUp(ctx, c); err != nil {
		return nil, err
	}
	if err := s.loadContext(c); err != nil {
		return nil, err
	}
	h, _, err := s.size(c, contextFile)
	if err != nil {
		return nil, err
	}
	if h == nil {
		if after != "" {
			return nil, ErrChanged
		}
		return nil, nil
	}
	defer s.files.put(h)
	entries, err := s.entries(c, h, after)
	if err != nil {
		return nil, err
	}
	mark := entryMark{head: c.ctx.head.ID, id: after, off: c.ctx.end}
	if n := len(entries); n > 0 {
		mark.id = entries[n-1].ID
	}
	c.last = mark
	return entries, nil
}

func (s *Store) entries(c *conv, r io.ReaderAt, after string) ([]Entry, error) {
	switch {
	case after == "":
		return s.history(c, r)
	case c.last.id == after && c.last.head == c.ctx.head.ID && c.last.off <= c.ctx.end:
		return s.entriesFrom(c, r, c.last.off)
	}
	return s.entriesAfter(c, r, after)
}

// entriesFrom reads on from an offset.
func (s *Store) entriesFrom(c *conv, r io.ReaderAt, off int64) (out []Entry, err error) {
	changed := false
	err = forward(r, off, c.ctx.end, func(next int64, line []byte, _ bool) bool {
		e, ok := s.entry(c, line)
		changed = ok && e.Type == Compaction
		if ok {
			out = append(out, e)
		}
		return !changed
	})
	if changed {
		return nil, ErrChanged
	}
	return out, err
}

// entriesAfter looks for the caller's entry from the end.
func (s *Store) entriesAfter(c *conv, r io.ReaderAt, after string) (out []Entry, err error) {
	found := false
	err = backward(r, c.ctx.end, func(_ int64, line []byte, _ bool) bool {
		e, ok := s.entry(c, line)
		if found = ok && e.ID == after; found {
			return false
		}
		if ok {
			out = append(out, e)
		}
		return e.Type != Compaction
	})
	if err == nil && !found {
		return nil, ErrChanged
	}
	slices.Reverse(out)
	return out, err
}

// history reads back to the latest compaction and on to what it kept.
func (s *Store) history(c *conv, r io.ReaderAt) ([]Entry, error) {
	var out, kept []Entry
	var summary *Entry
	complete := false
	err := backward(r, c.ctx.end, func(_ int64, line []byte, _ bool) bool {
		e, ok := s.entry(c, line)
		switch {
		case !ok:
		case summary != nil && e.Type != Compaction:
			kept = append(kept, e)
			complete = e.ID == summary.Kept
		case summary == nil && e.Type == Compaction:
			summary = &e
			complete = e.Kept == ""
		case summary == nil:
			out = append(out, e)
		}
		return !complete
	})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.file(contextFile), err)
	}
	if summary != nil {
		if !complete {
			s.opts.Logger.Warn("compaction keeps an entry that is not there", "conversation", c.addr, "entry", summary.ID, "kept", summary.Kept)
			kept = nil
		}
		out = append(append(out, kept...), *summary)
	}
	slices.Reverse(out)
	return out, nil
}

// entry decodes a line; the header and broken lines are not entries.
func (s *Store) entry(c *conv, line []byte) (e Entry, ok bool) {
	if err := json.Unmarshal(line, &e); err != nil {
		s.opts.Logger.Warn("history line skipped", "file", c.file(contextFile), "err", err)
		return Entry{}, false
	}
	return e, e.ID != "" && (e.Type == Said || e.Type == Compaction)
}
