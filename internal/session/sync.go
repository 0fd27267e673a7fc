package session

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/iris-operator/iris/internal/chat"
)

// A syncCursor is how far the log has become part of the history.
type syncCursor struct {
	loaded bool
	// pos is an offset in the log: every line before it is settled, that is
	// part of the history or never will be.
	pos int64
	// saved are ids of messages that entries hold, for lines behind pos. They
	// stay settled when a compaction hides their entry.
	saved map[string]bool
}

func (k *syncCursor) save(ids []string) {
	if !k.loaded {
		return
	}
	for _, id := range ids {
		if k.saved == nil {
			k.saved = map[string]bool{}
		}
		k.saved[id] = true
	}
}

// position is what Entry.Log of the next entry says.
func (c *conv) position() int64 {
	if c.sync.loaded {
		return c.sync.pos
	}
	return c.ctx.log
}

// Unseen returns the lines of the log that the history lacks, by date: not of
// Iris, after the reset watermark, ts neither in seen nor in an entry, not
// belonging to a turn that skip reports as waiting or running. seen holds the
// message ids of the history the caller has; it and skip may be nil. The cost
// is that of the lines since the oldest one that is not settled yet; nothing is
// read when all of them were written by this process and none is wanted.
func (s *Store) Unseen(ctx context.Context, addr chat.Address, seen map[string]bool, skip func(turnID string) bool) ([]Line, error) {
	c, err := s.acquire(addr)
	if err != nil {
		return nil, err
	}
	defer s.release(c)
	if err := s.catchUp(ctx, c); err != nil {
		return nil, err
	}
	if err := s.loadTails(c); err != nil {
		return nil, err
	}
	w := walk{s: s, c: c, seen: seen, skip: skip, saved: map[string]bool{}}
	if c.sync.loaded && c.marks.over(c.sync.pos, c.log.end) {
		// What this process wrote itself is not read again, unless a line is
		// wanted.
		w.pos = c.sync.pos
		wanted := false
		for _, m := range c.marks.lines {
			if m.next > c.sync.pos {
				wanted = w.take(m) || wanted
			}
		}
		if w.err != nil {
			return nil, w.err
		}
		if !wanted {
			w.finish()
			return nil, nil
		}
		w = walk{s: s, c: c, seen: seen, skip: skip, saved: map[string]bool{}, before: w.before}
	}
	h, size, err := s.size(c, logFile)
	if h == nil || err != nil {
		return nil, err
	}
	defer s.files.put(h)
	if !c.sync.loaded || c.sync.pos > size {
		if err := s.loadSync(c, h); err != nil {
			return nil, err
		}
	}
	var out []Line
	w.pos = c.sync.pos
	err = forward(h, w.pos, c.log.end, func(next int64, line []byte, _ bool) bool {
		l, ok := s.logLine(c, line)
		m := markOf(l, next)
		m.bot = m.bot || !ok
		if w.take(m) {
			out = append(out, l)
		}
		return w.err == nil
	})
	if err := errors.Join(err, w.err); err != nil {
		return nil, err
	}
	w.finish()
	slices.SortStableFunc(out, func(a, b Line) int { return a.Date.Compare(b.Date) })
	return out, nil
}

// A walk goes along the lines of the log behind the cursor and finds where it
// stands after them.
type walk struct {
	s      *Store
	c      *conv
	seen   map[string]bool
	skip   func(string) bool
	before func(lineMark) bool // made when it is first needed

	pos     int64
	blocked bool
	saved   map[string]bool
	err     error
}

// take judges the next line and reports whether the history lacks it.
func (w *walk) take(m lineMark) (wanted bool) {
	inEntry := w.c.sync.saved[m.ts]
	settled := m.bot || m.ts == "" || m.date.IsZero() || w.seen[m.ts] || inEntry
	switch {
	case settled:
	case m.turn != "" && w.skip != nil && w.skip(m.turn):
		w.blocked = true
		return false
	default:
		if settled = w.isBefore(m); !settled {
			w.blocked = true
			return w.err == nil
		}
	}
	if !w.blocked {
		w.pos = m.next
	} else if inEntry {
		w.saved[m.ts] = true
	}
	return false
}

func (w *walk) isBefore(m lineMark) bool {
	if w.before == nil {
		if w.before, w.err = w.s.beforeReset(w.c); w.err != nil {
			w.before = nil
			return false
		}
	}
	return w.before(m)
}

// finish moves the cursor.
func (w *walk) finish() {
	w.c.sync.pos, w.c.sync.saved = w.pos, w.saved
	w.c.marks.forget(w.pos)
}

// loadSync finds the cursor again from what the entries say.
func (s *Store) loadSync(c *conv, log io.ReaderAt) error {
	k := syncCursor{loaded: true, pos: c.ctx.log, saved: map[string]bool{}}
	if k.pos > c.log.end || !lineStart(log, k.pos) {
		k.pos = 0
	}
	// Entries that hold a message of the lines behind pos came after the
	// oldest of them.
	oldest := int64(-1)
	err := forward(log, k.pos, c.log.end, func(_ int64, line []byte, _ bool) bool {
		if l, ok := s.logLine(c, line); ok && l.Seq > 0 {
			oldest = l.Seq
		}
		return oldest < 0
	})
	if err != nil {
		return err
	}
	h, _, err := s.size(c, contextFile)
	if err != nil {
		return err
	}
	if h != nil {
		defer s.files.put(h)
	}
	if h != nil && oldest >= 0 {
		err = backward(h, c.ctx.end, func(_ int64, line []byte, _ bool) bool {
			var e struct {
				Seq      int64
				Messages []string
			}
			if json.Unmarshal(line, &e) != nil || e.Seq == 0 {
				return true
			}
			for _, id := range e.Messages {
				k.saved[id] = true
			}
			return e.Seq > oldest
		})
	}
	c.sync = k
	return err
}

// lineStart reports whether a line begins at off.
func lineStart(r io.ReaderAt, off int64) bool {
	if off == 0 {
		return true
	}
	b := make([]byte, 1)
	_, err := r.ReadAt(b, off-1)
	return err == nil && b[0] == '\n'
}

// beforeReset returns what tells lines from before the last reset. Where the
// watermark is the one of the header, the order of the records decides:
// some platforms date messages to the second.
func (s *Store) beforeReset(c *conv) (func(lineMark) bool, error) {
	mark, ok, err := s.watermark(c)
	if err != nil {
		return nil, err
	}
	head := c.ctx.head
	return func(l lineMark) bool {
		if !ok {
			return false
		}
		if head.Seq > 0 && l.seq > 0 && head.At.Equal(mark) {
			return l.seq <= head.Seq
		}
		return !l.date.After(mark)
	}, nil
}

// logLine decodes a line of the log.
func (s *Store) logLine(c *conv, line []byte) (l Line, ok bool) {
	if err := json.Unmarshal(line, &l); err != nil {
		s.opts.Logger.Warn("log line skipped", "file", c.file(logFile), "err", err)
		return Line{}, false
	}
	return l, true
}

// stamp is how times stand in files that hold nothing else.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
