package engine

import (
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/turn"
)

// maxSalvage bounds the text kept of a running turn in case it does not end by
// itself. Far more than any reply people read; the newest text is kept.
const maxSalvage = 256 << 10

// A salvage is the text a turn has said so far: whole intermediate texts, and
// after mark the pieces since the last whole one.
type salvage struct {
	buf  []byte
	mark int
}

// add takes in a Text event.
func (s *salvage) add(ev turn.Event) {
	if ev.Void {
		s.buf = s.buf[:s.mark]
		return
	}
	if !ev.Partial {
		s.buf = s.buf[:s.mark]
	}
	if len(s.buf) == s.mark && s.mark > 0 && ev.Text != "" {
		s.buf = append(s.buf, "\n\n"...)
	}
	s.buf = append(s.buf, ev.Text...)
	if over := len(s.buf) - maxSalvage; over > 0 {
		for over < len(s.buf) && !utf8.RuneStart(s.buf[over]) {
			over++
		}
		s.buf = append(s.buf[:0], s.buf[over:]...)
		s.mark = max(0, s.mark-over)
	}
	if !ev.Partial {
		s.mark = len(s.buf)
	}
}

// open reports that there are pieces that no whole text has confirmed.
func (s *salvage) open() bool { return len(s.buf) > s.mark }

func (s *salvage) text() string { return string(s.buf) }
