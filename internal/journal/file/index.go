package file

import (
	"encoding/binary"
	"errors"
	"os"

	"github.com/iris-operator/iris/internal/durable"
)

// An index says what a segment holds, so that it need not be read. The index
// of the active segment lives in memory and grows with it; it is written
// beside the segment when that is sealed or the journal closed.
type index struct {
	first, last int64 // numbers; last is first-1 while it is empty
	size        int64 // bytes of the segment it describes
	newest      int64 // the greatest time, in microseconds
	spans       []span
	marks       []mark
	keys        []key
	opened      []pin    // pins that were opened and not closed in it
	closed      []string // names it closed that were open before it

	at map[string]int // name → place in spans; nil until add is called
}

// A span is one stream within a segment.
type span struct {
	name        string
	prev        int64 // the stream's last record before the segment
	first, last int64
	off         int64 // where first begins
}

// A mark is a record whose place is known. There is one every markBytes.
type mark struct{ seq, off int64 }

const markBytes = 64 << 10

type key struct {
	h   hash
	seq int64
	sec int64
}

type pin struct {
	name, stream string
	seq          int64
}

// add counts in a line of length n (newline included) that lies at off. name
// is its stream as a string if the caller has one, to be shared.
// pinned reports whether a name was open before the segment. h is the hash of
// the line's key, if it has one.
func (x *index) add(l *line, name string, off, n int64, h hash, pinned func(name string) bool) {
	if x.at == nil {
		x.at = make(map[string]int, len(x.spans))
		for i, s := range x.spans {
			x.at[s.name] = i
		}
	}
	if i, ok := x.at[string(l.stream)]; ok {
		x.spans[i].last = l.seq
	} else {
		if name == "" {
			name = string(l.stream)
		}
		x.at[name] = len(x.spans)
		x.spans = append(x.spans, span{name, l.prev, l.seq, l.seq, off})
	}
	if k := len(x.marks); k == 0 || off-x.marks[k-1].off >= markBytes {
		x.marks = append(x.marks, mark{l.seq, off})
	}
	if len(l.key) > 0 {
		x.keys = append(x.keys, key{h, l.seq, l.micro / 1e6})
	}
	if len(l.unpin) > 0 {
		x.unpin(string(l.unpin), pinned)
	}
	if len(l.pin) > 0 {
		x.pin(string(l.pin), string(l.stream), l.seq, pinned)
	}
	x.last, x.size, x.newest = l.seq, off+n, max(x.newest, l.micro)
}

// thin forgets what can be read again from the written index.
func (x *index) thin() {
	x.spans, x.at, x.keys, x.opened, x.closed = nil, nil, nil, nil, nil
}

func (x *index) unpin(name string, pinned func(string) bool) {
	for i, p := range x.opened {
		if p.name == name {
			x.opened = append(x.opened[:i], x.opened[i+1:]...)
			return
		}
	}
	if pinned(name) {
		x.closed = append(x.closed, name)
	}
}

func (x *index) pin(name, stream string, seq int64, pinned func(string) bool) {
	for _, p := range x.opened {
		if p.name == name {
			return
		}
	}
	if pinned(name) {
		for _, c := range x.closed {
			if c == name {
				x.opened = append(x.opened, pin{name, stream, seq})
				return
			}
		}
		return
	}
	x.opened = append(x.opened, pin{name, stream, seq})
}

// seek returns the place of the last mark that is not after seq.
func (x *index) seek(seq int64) (off int64) {
	lo, hi := 0, len(x.marks)
	for lo < hi {
		if m := (lo + hi) / 2; x.marks[m].seq <= seq {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == 0 {
		return 0
	}
	return x.marks[lo-1].off
}

const (
	indexMagic  = "irisidx1"
	indexFooter = 4 // the sum
)

var errIndex = errors.New("not a sound index")

// encode is the index as bytes: the magic, varints, and a sum of all before.
func (x *index) encode() []byte {
	b := make([]byte, 0, 256+64*len(x.spans)+24*len(x.keys)+12*len(x.marks))
	b = append(b, indexMagic...)
	num := func(n int64) { b = binary.AppendUvarint(b, uint64(n)) }
	str := func(s string) { num(int64(len(s))); b = append(b, s...) }
	num(x.first)
	num(x.last + 1 - x.first)
	num(x.size)
	num(x.newest)
	num(int64(len(x.spans)))
	for _, s := range x.spans {
		str(s.name)
		num(s.prev)
		num(s.first - x.first)
		num(s.last - s.first)
		num(s.off)
	}
	num(int64(len(x.marks)))
	for _, m := range x.marks {
		num(m.seq - x.first)
		num(m.off)
	}
	num(int64(len(x.keys)))
	for _, k := range x.keys {
		b = append(b, k.h[:]...)
		num(k.seq - x.first)
		num(k.sec)
	}
	num(int64(len(x.opened)))
	for _, p := range x.opened {
		str(p.name)
		str(p.stream)
		num(p.seq - x.first)
	}
	num(int64(len(x.closed)))
	for _, c := range x.closed {
		str(c)
	}
	return binary.BigEndian.AppendUint32(b, sum(b))
}

// decoder takes an index apart. After the first fault everything is zero.
type decoder struct {
	b   string
	bad bool
}

func (d *decoder) num() int64 {
	var n uint64
	for i := 0; i < len(d.b) && i < 10; i++ {
		n |= uint64(d.b[i]&0x7f) << (7 * i)
		if d.b[i] < 0x80 {
			d.b = d.b[i+1:]
			if n > 1<<62 {
				break
			}
			return int64(n)
		}
	}
	d.bad, d.b = true, ""
	return 0
}

// count reads how many things of at least size bytes follow.
func (d *decoder) count(size int) int {
	n := d.num()
	if n > int64(len(d.b)/size) {
		d.bad, d.b = true, ""
		return 0
	}
	return int(n)
}

func (d *decoder) str(n int64) string {
	if n > int64(len(d.b)) {
		d.bad, d.b = true, ""
		return ""
	}
	s := d.b[:n]
	d.b = d.b[n:]
	return s
}

// decodeIndex is the inverse of encode. The strings of the result share one
// copy of b: clone those that stay.
func decodeIndex(b []byte) (*index, error) {
	if len(b) < len(indexMagic)+indexFooter || string(b[:len(indexMagic)]) != indexMagic ||
		binary.BigEndian.Uint32(b[len(b)-indexFooter:]) != sum(b[:len(b)-indexFooter]) {
		return nil, errIndex
	}
	d := &decoder{b: string(b[len(indexMagic) : len(b)-indexFooter])}
	x := &index{first: d.num()}
	x.last = x.first + d.num() - 1
	x.size, x.newest = d.num(), d.num()
	x.spans = make([]span, d.count(5))
	for i := range x.spans {
		s := span{name: d.str(d.num()), prev: d.num(), first: x.first + d.num()}
		s.last, s.off = s.first+d.num(), d.num()
		x.spans[i] = s
	}
	x.marks = make([]mark, d.count(2))
	for i := range x.marks {
		x.marks[i] = mark{x.first + d.num(), d.num()}
	}
	x.keys = make([]key, d.count(len(hash{})+2))
	for i := range x.keys {
		copy(x.keys[i].h[:], d.str(int64(len(hash{}))))
		x.keys[i].seq, x.keys[i].sec = x.first+d.num(), d.num()
	}
	x.opened = make([]pin, d.count(3))
	for i := range x.opened {
		x.opened[i] = pin{d.str(d.num()), d.str(d.num()), x.first + d.num()}
	}
	x.closed = make([]string, d.count(1))
	for i := range x.closed {
		x.closed[i] = d.str(d.num())
	}
	if d.bad || d.b != "" {
		return nil, errIndex
	}
	return x, nil
}

const (
	indexExt = ".idx"
	tempExt  = ".tmp"
)

// indexPath is where the index of a segment lies.
func indexPath(segment string) string { return segment[:len(segment)-len(segmentExt)] + indexExt }

// write puts the index beside its segment, at once or not at all. It is not
// synced: the sum tells a whole index from a torn one, and a segment without a
// sound index is read instead.
func (x *index) write(segment string) error {
	f, err := durable.Swap(indexPath(segment), x.encode())
	if err != nil {
		return err
	}
	return f.Close()
}

// readIndex reads the index of a segment that begins with record first and is
// at least as long as the index says.
func readIndex(segment string, first, size int64) (*index, error) {
	b, err := os.ReadFile(indexPath(segment))
	if err != nil {
		return nil, err
	}
	x, err := decodeIndex(b)
	if err != nil {
		return nil, err
	}
	if x.first != first || x.size > size {
		return nil, errIndex
	}
	return x, nil
}
