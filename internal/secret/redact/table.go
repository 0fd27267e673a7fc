package redact

import (
	"slices"
	"strings"
)

// A table finds many patterns at once. Every pattern has at least window bytes,
// so wherever one lies, a gram from its beginning lies at a multiple of stride:
// only those grams of a text are looked up, in a filter that says no to nearly
// everything. Around one that may be, the window at each place is looked up in a
// second filter and then in an index. The cost is one multiplication and one bit
// per stride, however many patterns there are.
type table struct {
	grams  [filterBits / 64]uint64 // of the beginnings of all patterns
	filter [filterBits / 64]uint64 // of their windows
	index  map[uint64][]string     // by window, the longest first
	// starts counts the beginnings of patterns that are shorter than the
	// window.
	starts  map[string]int
	longest int
}

const (
	window     = 8
	gram       = 4
	stride     = window - gram + 1
	filterLog  = 18
	filterBits = 1 << filterLog
)

// A span is a place in a text.
type span struct{ from, to int }

func newTable() *table {
	return &table{index: map[uint64][]string{}, starts: map[string]int{}}
}

// add adds a pattern of at least window bytes.
func (t *table) add(p string) {
	w := load(p)
	list := t.index[w]
	t.index[w] = slices.Insert(list, place(list, p), p)
	slot := bucket(w)
	t.filter[slot/64] |= 1 << (slot % 64)
	for i := range stride {
		slot := bucket(loadGram(p[i:]))
		t.grams[slot/64] |= 1 << (slot % 64)
	}
	for n := 1; n < window; n++ {
		t.starts[p[:n]]++
	}
	t.longest = max(t.longest, len(p))
}

// remove takes back what add added. The filters and longest stay: they may say
// yes too often.
func (t *table) remove(p string) {
	w := load(p)
	list := t.index[w]
	for i := place(list, p); i < len(list) && len(list[i]) == len(p); i++ {
		if list[i] == p {
			list = slices.Delete(list, i, i+1)
			break
		}
	}
	if t.index[w] = list; len(list) == 0 {
		delete(t.index, w)
	}
	for n := 1; n < window; n++ {
		if t.starts[p[:n]]--; t.starts[p[:n]] == 0 {
			delete(t.starts, p[:n])
		}
	}
}

// place is where the patterns of p's length begin in a list.
func place(list []string, p string) int {
	i, _ := slices.BinarySearchFunc(list, len(p), func(q string, n int) int { return n - len(q) })
	return i
}

// load reads the window at the beginning of s, which has as many bytes.
func load(s string) uint64 {
	_ = s[window-1]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}

// loadGram reads the gram at the beginning of s, which has as many bytes.
func loadGram(s string) uint64 {
	_ = s[gram-1]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24
}

func bucket(w uint64) uint64 { return w * 0x9E3779B97F4A7C15 >> (64 - filterLog) }

// maybe reports whether there may be patterns that begin with a window.
func (t *table) maybe(w uint64) bool {
	slot := bucket(w)
	return t.filter[slot/64]&(1<<(slot%64)) != 0
}

// find returns where patterns are, in order; what overlaps or touches is one
// span, so that nothing of a value stays because another one began before it.
func (t *table) find(s string) []span {
	if len(t.index) == 0 {
		return nil
	}
	var spans []span
	for i := 0; i+gram <= len(s); i += stride {
		slot := bucket(loadGram(s[i:]))
		if t.grams[slot/64]&(1<<(slot%64)) == 0 { // almost always, and every byte of an output comes by
			continue
		}
		for k := max(0, i-stride+1); k <= i && k+window <= len(s); k++ {
			spans = t.at(s, k, spans)
		}
	}
	return spans
}

// at adds the longest pattern that begins at place i of s to spans.
func (t *table) at(s string, i int, spans []span) []span {
	w := load(s[i:])
	if !t.maybe(w) {
		return spans
	}
	for _, p := range t.index[w] { // the longest comes first
		if !strings.HasPrefix(s[i:], p) {
			continue
		}
		if n := len(spans); n > 0 && spans[n-1].to >= i {
			spans[n-1].to = max(spans[n-1].to, i+len(p))
			return spans
		}
		return append(spans, span{i, i + len(p)})
	}
	return spans
}

// open returns where the end of s begins that may become a pattern with what
// follows, len(s) if there is none.
func (t *table) open(s string) int {
	for i := max(0, len(s)-t.longest+1); i < len(s); i++ {
		rest := s[i:]
		if len(rest) < window {
			if _, ok := t.starts[rest]; ok {
				return i
			}
			continue
		}
		w := load(rest)
		if !t.maybe(w) {
			continue
		}
		for _, p := range t.index[w] {
			if len(p) > len(rest) && strings.HasPrefix(p, rest) {
				return i
			}
		}
	}
	return len(s)
}
