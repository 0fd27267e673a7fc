package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"time"

	"github.com/iris-operator/iris/internal/journal"
)

// Read yields the stream's records after since. See [journal.Journal].
func (j *Journal) Read(ctx context.Context, stream string, since int64) iter.Seq2[journal.Record, error] {
	return j.walk(ctx, stream, since, false)
}

// Follow is Read that waits for more. See [journal.Journal]. It is woken by
// appends to its own stream only and costs no goroutine.
func (j *Journal) Follow(ctx context.Context, stream string, since int64) iter.Seq2[journal.Record, error] {
	return j.walk(ctx, stream, since, true)
}

func (j *Journal) walk(ctx context.Context, stream string, since int64, follow bool) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		r := &reader{j: j, stream: stream, since: max(since, 0), follow: follow}
		for {
			err := r.next(ctx)
			for i, rec := range r.batch {
				rec.More = i < len(r.batch)-1
				if e := ctx.Err(); e != nil {
					err = e
					break
				}
				if !yield(rec, nil) {
					return
				}
			}
			switch {
			case err == nil:
			case err == errEnd || follow && ctx.Err() != nil && errors.Is(err, ctx.Err()):
				return
			case err == journal.ErrTruncated:
				if !yield(journal.Record{}, err) {
					return
				}
			default:
				yield(journal.Record{}, err)
				return
			}
		}
	}
}

// batchBytes is about how much a reader takes at a time.
const batchBytes = 64 << 10

var errEnd = errors.New("no more records")

// A reader is one walk along a stream.
type reader struct {
	j      *Journal
	stream string
	since  int64 // everything up to here was delivered or is of other streams
	follow bool
	batch  []journal.Record // what next found

	// Where it is on disk.
	seg   *segment
	lines lines
	until int64 // the stream's last record in seg, 0 if not known
}

// next fills the batch with the records that follow, waits for them if there
// are none and the reader follows, or returns why there are none.
func (r *reader) next(ctx context.Context) error {
	r.batch = r.batch[:0]
	j := r.j
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		j.mu.Lock()
		if j.closed {
			j.mu.Unlock()
			return journal.ErrClosed
		}
		s := j.streams[r.stream]
		switch {
		case s != nil && r.since < s.gone:
			r.since = s.gone
			j.mu.Unlock()
			return journal.ErrTruncated
		case s == nil && r.since > 0 && len(j.segs) > 0 && r.since < j.segs[0].x.first-1:
			// The reader saw records that are gone; whether there were more
			// is no longer known.
			r.since = j.segs[0].x.first - 1
			j.mu.Unlock()
			return journal.ErrTruncated
		case s != nil && r.since < s.last && r.since >= s.memFrom:
			j.recent.after(s, r.since, batchBytes, func(seq int64, w *row) {
				r.take(seq, w.micro, w.data)
			})
			j.mu.Unlock()
			// The rows' data never changes, so it is copied without the lock.
			for i := range r.batch {
				r.batch[i].Data = bytes.Clone(r.batch[i].Data)
			}
			r.seg, r.lines = nil, lines{}
			return nil
		case s != nil && r.since < s.last:
			r.since = max(r.since, s.first-1)
			to := s.memFrom
			j.mu.Unlock()
			if err := r.disk(to); err != nil || len(r.batch) > 0 {
				return err
			}
		case !r.follow:
			j.mu.Unlock()
			return errEnd
		default:
			w := j.waits.enter(r.stream)
			j.mu.Unlock()
			select {
			case <-w.woken:
			case <-ctx.Done():
			}
			j.mu.Lock()
			j.waits.leave(r.stream, w)
			j.mu.Unlock()
		}
	}
}

func (r *reader) take(seq, micro int64, data []byte) {
	r.batch = append(r.batch, journal.Record{Seq: seq, Stream: r.stream, Time: time.UnixMicro(micro).UTC(), Data: data})
	r.since = seq
}

// disk fills the batch from disk with records up to number to. It returns
// with an empty batch when it came to the end of a segment.
func (r *reader) disk(to int64) error {
	end, err := r.place()
	if err != nil || end == 0 {
		return err
	}
	r.lines.end = end
	for size := 0; size < batchBytes; {
		if r.since >= to {
			return nil
		}
		if r.until > 0 && r.since >= r.until {
			return r.leave()
		}
		b, at, err := r.lines.next()
		if err == io.EOF {
			if len(b) > 0 {
				return corrupt(r.seg.path, at, "a record without an end")
			}
			return r.leave()
		}
		if err != nil {
			return r.failed(err)
		}
		l, ok := parseLine(b)
		if !ok {
			return corrupt(r.seg.path, at, "not a record")
		}
		if l.seq <= r.since {
			continue
		}
		if string(l.stream) != r.stream {
			r.since = l.seq
			continue
		}
		if !sound(b) {
			return corrupt(r.seg.path, at, fmt.Sprintf("the sum of record %d is wrong", l.seq))
		}
		r.take(l.seq, l.micro, bytes.Clone(l.data))
		size += len(l.data) + rowBytes
	}
	return nil
}

// leave ends the reading of what a segment held when it was looked at. If it
// has grown since and was sealed, it is not done with.
func (r *reader) leave() error {
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	if r.seg != r.j.active() && r.lines.end == r.seg.x.size {
		r.since = max(r.since, r.seg.x.last)
	}
	return nil
}

// place finds the segment that the next record is in, or the first after it,
// and returns how much of it may be read. It is 0 when retention was faster.
func (r *reader) place() (end int64, err error) {
	j := r.j
	j.mu.Lock()
	seg := j.holding(r.since + 1)
	if seg == nil {
		if len(j.segs) > 0 {
			r.since = max(r.since, j.segs[0].x.first-1)
		}
		j.mu.Unlock()
		return 0, nil
	}
	if seg == r.seg {
		defer j.mu.Unlock()
		return seg.x.size, nil
	}
	off := seg.x.seek(r.since + 1)
	end = seg.x.size
	var found *span
	known := seg.x.at != nil
	if known {
		if i, ok := seg.x.at[r.stream]; ok {
			s := seg.x.spans[i]
			found = &s
		}
	}
	active, indexed, first, last := seg == j.active(), seg.indexed, seg.x.first, seg.x.last
	j.mu.Unlock()

	if !known && indexed {
		if x, err := readIndex(seg.path, first, end); err == nil {
			known = true
			if i := slices.IndexFunc(x.spans, func(s span) bool { return s.name == r.stream }); i >= 0 {
				found = &x.spans[i]
			}
		}
	}
	if known && found == nil {
		r.since = last
		return 0, nil
	}
	f, err := seg.file()
	if err != nil {
		return 0, r.failed(err)
	}
	r.seg, r.until = seg, 0
	if found != nil {
		off = max(off, found.off)
		if !active {
			r.until = found.last
		}
	}
	r.lines = lines{f: f, off: off, buf: r.lines.buf}
	return end, nil
}

// failed says what a failed read means: the journal was closed, or retention
// dropped the segment, or the disk failed.
func (r *reader) failed(err error) error {
	r.seg, r.lines = nil, lines{}
	r.j.mu.Lock()
	defer r.j.mu.Unlock()
	if r.j.closed {
		return journal.ErrClosed
	}
	if errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("journal: read: %w", err)
}

// waits are the followers that wait, by stream. Followers of one stream share
// a channel.
type waits map[string]*wait

type wait struct {
	woken chan struct{} // closed by wake
	n     int
}

func (w waits) enter(stream string) *wait {
	e := w[stream]
	if e == nil {
		e = &wait{woken: make(chan struct{})}
		w[stream] = e
	}
	e.n++
	return e
}

// leave takes a follower out, so that a stream nobody waits for costs nothing.
func (w waits) leave(stream string, e *wait) {
	if e.n--; e.n == 0 && w[stream] == e {
		delete(w, stream)
	}
}

func (w waits) wake(stream string) {
	if e := w[stream]; e != nil {
		delete(w, stream)
		close(e.woken)
	}
}

func (w waits) wakeAll() {
	for stream := range w {
		w.wake(stream)
	}
}
