package room

import (
	"iter"
	"slices"
	"sync/atomic"
)

// block is how many lines a generation of the log holds. Two generations are
// kept, so between 256 and 512 of the newest lines are at hand; older ones are
// in the journal.
const block = 256

// A Log is the newest public lines. It is a value that shares storage with the
// logs it came from; appending costs the same however long the room has run.
type Log struct {
	old []Message
	gen *generation
	cur int // lines of gen that are this log's
	n   uint64
}

// A generation is the storage of up to block lines. used counts the places that
// are taken: the log whose lines end there may take the next one in place, and
// any other one copies, so that no log sees a line that is not its own.
type generation struct {
	used  atomic.Int64
	lines [block]Message
}

func (g *generation) copy(n int) *generation {
	next := &generation{}
	if g != nil {
		copy(next.lines[:n], g.lines[:n])
	}
	next.used.Store(int64(n))
	return next
}

// now returns the lines of the present generation, not to be appended to.
func (l Log) now() []Message {
	if l.gen == nil {
		return nil
	}
	return l.gen.lines[:l.cur:l.cur]
}

// Len counts all lines ever, also those no longer at hand.
func (l Log) Len() uint64 { return l.n }

// Append returns the log with m at its end, numbered.
func (l Log) Append(m Message) Log {
	l.n++
	m.Seq = l.n
	if l.cur == block {
		l.old, l.gen, l.cur = l.now(), nil, 0
	}
	if l.gen == nil || !l.gen.used.CompareAndSwap(int64(l.cur), int64(l.cur+1)) {
		l.gen = l.gen.copy(l.cur)
		l.gen.used.Store(int64(l.cur + 1))
	}
	l.gen.lines[l.cur] = m
	l.cur++
	return l
}

// Recent returns up to n of the newest lines, oldest first. The slice must not be
// changed.
func (l Log) Recent(n int) []Message {
	cur := l.now()
	if n <= len(cur) {
		return cur[len(cur)-n:]
	}
	n -= len(cur)
	if n > len(l.old) {
		n = len(l.old)
	}
	return slices.Concat(l.old[len(l.old)-n:], cur)
}

// Backward yields the lines at hand, newest first.
func (l Log) Backward() iter.Seq[*Message] {
	return func(yield func(*Message) bool) {
		for _, part := range [][]Message{l.now(), l.old} {
			for i := len(part) - 1; i >= 0; i-- {
				if !yield(&part[i]) {
					return
				}
			}
		}
	}
}

// Since returns the lines at hand after seq, oldest first.
func (l Log) Since(seq uint64) []Message {
	if seq >= l.n {
		return nil
	}
	return l.Recent(int(l.n - seq))
}

// Get returns line seq, if it is at hand.
func (l Log) Get(seq uint64) (Message, bool) {
	for _, part := range [][]Message{l.now(), l.old} {
		if len(part) > 0 && seq >= part[0].Seq && seq <= part[len(part)-1].Seq {
			return part[seq-part[0].Seq], true
		}
	}
	return Message{}, false
}

// Set returns the log with line m.Seq replaced; false when it is not at hand.
func (l Log) Set(m Message) (Log, bool) {
	at := func(p []Message) (int, bool) {
		ok := len(p) > 0 && m.Seq >= p[0].Seq && m.Seq <= p[len(p)-1].Seq
		if !ok {
			return 0, false
		}
		return int(m.Seq - p[0].Seq), true
	}
	if i, ok := at(l.now()); ok {
		l.gen = l.gen.copy(l.cur)
		l.gen.lines[i] = m
		return l, true
	}
	if i, ok := at(l.old); ok {
		l.old = slices.Clone(l.old)
		l.old[i] = m
		return l, true
	}
	return l, false
}

// LineOf returns the number of the line at hand that entry made, or 0.
func (s State) LineOf(entry uint64) uint64 {
	for _, part := range [][]Message{s.Log.now(), s.Log.old} {
		for i := len(part) - 1; i >= 0; i-- {
			if part[i].entry == entry {
				return part[i].Seq
			}
		}
	}
	return 0
}

// Skip returns s behind an erased entry: it changes nothing, but a line keeps
// its number.
func (s State) Skip(seq uint64, k Kind) State {
	s.Seq = seq
	if k == KMessage {
		s.Log = s.Log.Append(Message{Deleted: true, entry: seq})
	}
	return s
}
