package session

import (
	"slices"
	"sort"
	"time"
)

// maxMarks bounds what is remembered of a conversation's last lines. A turn
// leaves two behind; more wait only where people talk and nobody answers.
const maxMarks = 16

// A lineMark is what finding out what the history lacks needs of a log line.
type lineMark struct {
	next     int64 // offset behind the line
	seq      int64
	ts, turn string
	date     time.Time
	bot      bool // of Iris, or unreadable: never part of what is lacking
}

func markOf(l Line, next int64) lineMark {
	return lineMark{next: next, seq: l.Seq, ts: l.TS, turn: l.Turn, date: l.Date, bot: l.IsBot}
}

// lineMarks are the last lines of a log that this process wrote itself, without
// a gap.
type lineMarks struct {
	from  int64 // where the first of them begins
	lines []lineMark
}

// end is the offset behind the last line.
func (k *lineMarks) end() int64 {
	if n := len(k.lines); n > 0 {
		return k.lines[n-1].next
	}
	return k.from
}

// add remembers a line that begins at start.
func (k *lineMarks) add(start int64, m lineMark) {
	if len(k.lines) == 0 || k.end() != start {
		*k = lineMarks{from: start, lines: k.lines[:0]}
	}
	if len(k.lines) == maxMarks {
		k.from = k.lines[0].next
		k.lines = slices.Delete(k.lines, 0, 1)
	}
	k.lines = append(k.lines, m)
}

// over reports whether the lines from pos to end are known, and nothing but
// they.
func (k *lineMarks) over(pos, end int64) bool {
	if len(k.lines) == 0 || k.end() != end {
		return false
	}
	if pos == k.from {
		return true
	}
	i := sort.Search(len(k.lines), func(i int) bool { return k.lines[i].next >= pos })
	return i < len(k.lines) && k.lines[i].next == pos
}

// forget drops the lines before pos.
func (k *lineMarks) forget(pos int64) {
	n := 0
	for n < len(k.lines) && k.lines[n].next <= pos {
		n++
	}
	if n > 0 {
		k.from = k.lines[n-1].next
		k.lines = slices.Delete(k.lines, 0, n)
	}
}
