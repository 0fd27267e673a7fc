package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/iris-operator/iris/internal/journal"
)

// everything is the name under which followers of all streams wait; no stream
// has it.
const everything = ""

// FollowAll yields the records of all wanted streams. See [journal.Journal]. It
// costs no goroutine.
func (j *Journal) FollowAll(ctx context.Context, since int64, want func(stream string) bool) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		t := &tail{j: j, since: since, want: want}
		for {
			at, err := t.next(ctx)
			for _, rec := range t.batch {
				if ctx.Err() != nil {
					return
				}
				if !yield(rec, nil) {
					return
				}
			}
			switch {
			case ctx.Err() != nil && (err == nil || errors.Is(err, ctx.Err())):
				return
			case err == journal.ErrTruncated:
				if !yield(journal.Record{}, err) {
					return
				}
			case err != nil:
				yield(journal.Record{}, err)
				return
			case at >= 0:
				if !yield(journal.Record{Seq: at}, nil) {
					return
				}
			}
		}
	}
}

// tailRows is how many records a tail looks at without letting others in.
const tailRows = 512

// A tail is one walk along all streams.
type tail struct {
	j     *Journal
	since int64 // everything up to here was looked at
	told  bool  // that since was reached
	want  func(string) bool
	batch []journal.Record

	seg   *segment
	lines lines
}

// next fills the batch, or says in at (else -1) that there is no more for now,
// after which it waits.
func (t *tail) next(ctx context.Context) (at int64, err error) {
	t.batch = t.batch[:0]
	j := t.j
	for {
		if err := ctx.Err(); err != nil {
			return -1, err
		}
		j.mu.Lock()
		if t.since < 0 || t.since > j.last {
			t.since, t.told = j.last, false
		}
		switch {
		case j.closed:
			j.mu.Unlock()
			return -1, journal.ErrClosed
		case t.since == j.last && t.told:
			w := j.waits.enter(everything)
			j.mu.Unlock()
			select {
			case <-w.woken:
			case <-ctx.Done():
			}
			j.mu.Lock()
			j.waits.leave(everything, w)
			j.mu.Unlock()
		case t.since == j.last:
			t.told = true
			j.mu.Unlock()
			return t.since, nil
		case t.since+1 < j.segs[0].x.first:
			t.since, t.told = j.segs[0].x.first-1, false
			j.mu.Unlock()
			return -1, journal.ErrTruncated
		case j.recent.has(t.since + 1):
			t.told = false
			t.memory() // unlocks
			if len(t.batch) > 0 {
				return -1, nil
			}
		default:
			t.told = false
			seg := j.holding(t.since + 1)
			off, end := seg.x.seek(t.since+1), seg.x.size
			j.mu.Unlock()
			if err := t.disk(seg, off, end); err != nil || len(t.batch) > 0 {
				return -1, err
			}
		}
	}
}

// memory takes records out of recent. The caller holds mu; it is given back.
func (t *tail) memory() {
	j := t.j
	for n := 0; n < tailRows && t.since < j.last; n++ {
		t.since++
		w := j.recent.at(t.since)
		t.batch = append(t.batch, journal.Record{Seq: t.since, Stream: w.s.name, Time: time.UnixMicro(w.micro).UTC(), Data: w.data})
	}
	j.mu.Unlock()
	// The rows' data never changes, so it is copied without the lock.
	kept := t.batch[:0]
	for _, r := range t.batch {
		if t.want(r.Stream) {
			r.Data = bytes.Clone(r.Data)
			kept = append(kept, r)
		}
	}
	clear(t.batch[len(kept):])
	t.batch = kept
	t.seg, t.lines = nil, lines{}
}

// disk takes records out of a segment of which end bytes may be read.
func (t *tail) disk(seg *segment, off, end int64) error {
	if seg != t.seg {
		f, err := seg.file()
		if err != nil {
			return t.failed(err)
		}
		t.seg, t.lines = seg, lines{f: f, off: off, buf: t.lines.buf}
	}
	t.lines.end = end
	for size := 0; size < batchBytes; {
		b, at, err := t.lines.next()
		if err == io.EOF {
			if len(b) > 0 {
				return corrupt(seg.path, at, "a record without an end")
			}
			return nil
		}
		if err != nil {
			return t.failed(err)
		}
		l, ok := parseLine(b)
		if !ok {
			return corrupt(seg.path, at, "not a record")
		}
		if l.seq <= t.since {
			continue
		}
		t.since = l.seq
		if !t.want(string(l.stream)) {
			continue
		}
		if !sound(b) {
			return corrupt(seg.path, at, fmt.Sprintf("the sum of record %d is wrong", l.seq))
		}
		t.batch = append(t.batch, journal.Record{Seq: l.seq, Stream: string(l.stream), Time: time.UnixMicro(l.micro).UTC(), Data: bytes.Clone(l.data)})
		size += len(l.data) + rowBytes
	}
	return nil
}

// failed says what a failed read means, as reader.failed does.
func (t *tail) failed(err error) error {
	t.seg, t.lines = nil, lines{}
	t.j.mu.Lock()
	defer t.j.mu.Unlock()
	if t.j.closed {
		return journal.ErrClosed
	}
	if errors.Is(err, os.ErrClosed) || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("journal: read: %w", err)
}
