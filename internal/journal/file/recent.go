package file

// recent keeps the last records in memory, bounded in bytes, so that followers
// do not read the disk. Numbers are consecutive, so record n lies at n&mask.
type recent struct {
	rows        []row // length a power of two
	first, next int64 // numbers of the oldest row and of the one to come
	bytes, max  int64
}

// A row is one recent record. Its data is never written again.
type row struct {
	s     *stream
	next  int64 // the stream's next record, 0 if this is its last
	micro int64
	data  []byte
}

// rowBytes is about what a row costs beside its data: the row, and the frame
// of the line that its data is a part of.
const rowBytes = 160

func (r *recent) at(seq int64) *row { return &r.rows[seq&int64(len(r.rows)-1)] }

func (r *recent) has(seq int64) bool { return seq >= r.first && seq < r.next }

// add appends record seq of w.s, whose last is still the one before.
func (r *recent) add(seq int64, w row) {
	if r.first == r.next {
		r.first, r.next = seq, seq
	}
	if n := r.next - r.first; n == int64(len(r.rows)) {
		old := *r
		r.rows = make([]row, max(64, 2*n))
		for i := r.first; i < r.next; i++ {
			*r.at(i) = *old.at(i)
		}
	}
	if w.s.memFirst == 0 {
		w.s.memFirst = seq
	} else {
		r.at(w.s.last).next = seq
	}
	*r.at(seq) = w
	r.next = seq + 1
	r.bytes += int64(len(w.data)) + rowBytes
}

// evict drops the oldest rows until the bound holds. Only call it when every
// stream's last is up to date.
func (r *recent) evict() {
	for r.bytes > r.max && r.first < r.next {
		w := r.at(r.first)
		w.s.memFrom, w.s.memFirst = r.first, w.next
		r.bytes -= int64(len(w.data)) + rowBytes
		*w = row{}
		r.first++
	}
}

// after collects rows of s with numbers above since, which must not be below
// s.memFrom, up to about most bytes of data.
func (r *recent) after(s *stream, since, most int64, take func(seq int64, w *row)) {
	n := s.memFirst
	if r.has(since) && r.at(since).s == s {
		n = r.at(since).next
	}
	for ; n != 0 && most > 0; n = r.at(n).next {
		if n > since {
			w := r.at(n)
			take(n, w)
			most -= int64(len(w.data)) + rowBytes
		}
	}
}
