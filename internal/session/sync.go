package session

import (
	"context"
	"encoding/json"
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
// is that of the lines since the oldest one that is not settled yet.
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
	before, err := s.beforeReset(c)
	if err != nil {
		return nil, err
	}
	var out []Line
	pos, blocked := c.sync.pos, false
	saved := map[string]bool{}
	err = forward(h, pos, c.log.end, func(next int64, line []byte, _ bool) bool {
		l, ok := s.logLine(c, line)
		inEntry := c.sync.saved[l.TS]
		settled := !ok || l.IsBot || l.TS == "" || l.Date.IsZero() || seen[l.TS] || inEntry || before(l)
		if !settled {
			blocked = true
			if l.Turn == "" || skip == nil || !skip(l.Turn) {
				out = append(out, l)
			}
		} else if blocked && inEntry {
			saved[l.TS] = true
		}
		if !blocked {
			pos = next
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	c.sync.pos, c.sync.saved = pos, saved
	slices.SortStableFunc(out, func(a, b Line) int { return a.Date.Compare(b.Date) })
	return out, nil
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
func (s *Store) beforeReset(c *conv) (func(Line) bool, error) {
	mark, ok, err := s.watermark(c)
	if err != nil {
		return nil, err
	}
	head := c.ctx.head
	return func(l Line) bool {
		if !ok {
			return false
		}
		if head.Seq > 0 && l.Seq > 0 && head.At.Equal(mark) {
			return l.Seq <= head.Seq
		}
		return !l.Date.After(mark)
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
