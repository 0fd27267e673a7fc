package session

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/google/uuid"
)

// window is how many of the last lines of a log are compared with the journal
// one by one. It is more than the records of one conversation that can be
// under way at once (one turn, five waiting), each of which may overtake
// another between journal and log.
const window = 16

// A logTail is what is known of the end of log.jsonl.
type logTail struct {
	loaded bool
	extent
	// recent are the records of the last lines; everything up to low was
	// brought over before them.
	recent []int64
	low    int64
	last   int64
}

func (t *logTail) has(seq int64) bool {
	if seq <= t.low {
		return true
	}
	for _, r := range t.recent {
		if r == seq {
			return true
		}
	}
	return false
}

func (t *logTail) add(seq int64) {
	if len(t.recent) == window {
		t.low = max(t.low, t.recent[0])
		copy(t.recent, t.recent[1:])
		t.recent = t.recent[:window-1]
	}
	t.recent = append(t.recent, seq)
	t.last = max(t.last, seq)
}

// A header is the first line of context.jsonl. A reset writes a new one.
type header struct {
	Type    string    `json:"type"` // "session"
	Version int       `json:"version"`
	ID      string    `json:"id"`
	At      time.Time `json:"timestamp"`
	// Seq is the record of the reset that began the file; Log is Entry.Log.
	Seq int64 `json:"seq,omitempty"`
	Log int64 `json:"log,omitempty"`
}

const contextVersion = 1

func newHeader(at time.Time, seq, log int64) header {
	return header{Type: "session", Version: contextVersion, ID: shortID(), At: at.UTC(), Seq: seq, Log: log}
}

// headerOf reads the header at the start of data, the zero header if there is
// none.
func headerOf(data []byte) (h header) {
	line, _, _ := bytes.Cut(data, []byte{'\n'})
	if json.Unmarshal(line, &h) != nil || h.Type != "session" {
		return header{}
	}
	return h
}

func shortID() string { return uuid.NewString()[:8] }

// A contextTail is what is known of context.jsonl.
type contextTail struct {
	loaded bool
	extent
	head header
	// seq is the last record brought over. When the file was just read,
	// partial holds the entries of it that are there: a cut may have left some
	// of them.
	seq     int64
	partial map[string]bool
	log     int64 // Entry.Log of the last entry
}

func (t *contextTail) has(seq int64) bool {
	return seq < t.seq || seq == t.seq && t.partial == nil
}

// complete is the record up to which nothing can be missing.
func (t *contextTail) complete() int64 {
	if t.partial != nil {
		return t.seq - 1
	}
	return t.seq
}

// loadTails looks at the ends of both files unless they are as c knows them.
func (s *Store) loadTails(c *conv) error {
	if err := s.loadLog(c); err != nil {
		return err
	}
	return s.loadContext(c)
}

func (s *Store) loadLog(c *conv) error {
	h, size, err := s.size(c, logFile)
	if err != nil {
		return err
	}
	if h != nil {
		defer s.files.put(h)
	}
	if c.log.loaded && c.log.size == size {
		return nil
	}
	t := logTail{loaded: true, extent: extent{size: size, end: size}}
	first, lines := true, 0
	if h != nil {
		err = backward(h, size, func(off int64, line []byte, whole bool) bool {
			if first {
				first = false
				if !t.seen(off, line, whole) {
					return true
				}
			}
			var l struct{ Seq int64 }
			if json.Unmarshal(line, &l) != nil || l.Seq == 0 {
				return true
			}
			t.last = max(t.last, l.Seq)
			if lines++; lines > window {
				t.low = l.Seq
				return false
			}
			t.recent = append(t.recent, l.Seq)
			return true
		})
	}
	if err != nil {
		return err
	}
	// The lines came last first.
	for i, j := 0, len(t.recent)-1; i < j; i, j = i+1, j-1 {
		t.recent[i], t.recent[j] = t.recent[j], t.recent[i]
	}
	c.log = t
	return nil
}

func (s *Store) loadContext(c *conv) error {
	h, size, err := s.size(c, contextFile)
	if err != nil {
		return err
	}
	if h != nil {
		defer s.files.put(h)
	}
	if c.ctx.loaded && c.ctx.size == size {
		return nil
	}
	t := contextTail{loaded: true, extent: extent{size: size, end: size}}
	if h != nil {
		if err := t.read(h); err != nil {
			return err
		}
	}
	c.ctx = t
	return nil
}

func (t *contextTail) read(r io.ReaderAt) error {
	start := make([]byte, min(t.size, 512))
	if _, err := r.ReadAt(start, 0); err != nil && err != io.EOF {
		return err
	}
	t.head = headerOf(start)
	t.seq, t.log = t.head.Seq, t.head.Log
	first, found := true, false
	return backward(r, t.size, func(off int64, line []byte, whole bool) bool {
		if first {
			first = false
			if !t.extent.seen(off, line, whole) {
				return true
			}
		}
		var e Entry
		if json.Unmarshal(line, &e) != nil || e.Seq == 0 || e.Type == "session" {
			return true
		}
		if !found {
			found = true
			t.seq, t.log, t.partial = e.Seq, e.Log, map[string]bool{}
		}
		if e.Seq != t.seq {
			return false
		}
		t.partial[e.ID] = true
		return true
	})
}
