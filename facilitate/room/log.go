package room

import "slices"

// block is how many lines a generation of the log holds. Two generations are
// kept, so between 256 and 512 of the newest lines are at hand; older ones are
// in the journal.
const block = 256

// A Log is the newest public lines. It is a value that shares storage with the
// logs it came from; appending costs the same however long the room has run.
type Log struct {
	old, cur []Message
	n        uint64
}

// Len counts all lines ever, also those no longer at hand.
func (l Log) Len() uint64 { return l.n }

// Append returns the log with m at its end, numbered.
func (l Log) Append(m Message) Log {
	l.n++
	m.Seq = l.n
	if len(l.cur) == block {
		l.old, l.cur = l.cur, nil
	}
	cur := make([]Message, len(l.cur)+1)
	copy(cur, l.cur)
	cur[len(l.cur)] = m
	l.cur = cur
	return l
}

// Recent returns up to n of the newest lines, oldest first.
func (l Log) Recent(n int) []Message {
	if n <= len(l.cur) {
		return l.cur[len(l.cur)-n:]
	}
	n -= len(l.cur)
	if n > len(l.old) {
		n = len(l.old)
	}
	return slices.Concat(l.old[len(l.old)-n:], l.cur)
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
	for _, part := range [][]Message{l.cur, l.old} {
		if len(part) > 0 && seq >= part[0].Seq && seq <= part[len(part)-1].Seq {
			return part[seq-part[0].Seq], true
		}
	}
	return Message{}, false
}

// Set returns the log with line m.Seq replaced; false when it is not at hand.
func (l Log) Set(m Message) (Log, bool) {
	for _, part := range []*[]Message{&l.cur, &l.old} {
		p := *part
		if len(p) > 0 && m.Seq >= p[0].Seq && m.Seq <= p[len(p)-1].Seq {
			p = slices.Clone(p)
			p[m.Seq-p[0].Seq] = m
			*part = p
			return l, true
		}
	}
	return l, false
}

// LineOf returns the number of the line at hand that entry made, or 0.
func (s State) LineOf(entry uint64) uint64 {
	for _, part := range [][]Message{s.Log.cur, s.Log.old} {
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
