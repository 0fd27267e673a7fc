package enginetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/journal"
)

// A Journal lies in memory and never forgets. FailAppend and FailSync, when
// set, are asked before every call.
type Journal struct {
	FailAppend func(stream string, entries []journal.Entry) error
	FailSync   func() error

	mu      sync.Mutex
	last    int64
	streams map[string][]journal.Record
	keys    map[string]place
	pins    map[string]journal.Pin
	grown   chan struct{} // closed and replaced by every append
	closed  bool
	syncs   int
}

type place struct {
	stream string
	seq    int64
}

// NewJournal returns an empty journal.
func NewJournal() *Journal {
	return &Journal{streams: map[string][]journal.Record{}, keys: map[string]place{}, pins: map[string]journal.Pin{}, grown: make(chan struct{})}
}

// Append implements journal.Journal.
func (j *Journal) Append(_ context.Context, stream string, expect int64, entries ...journal.Entry) (int64, error) {
	if j.FailAppend != nil {
		if err := j.FailAppend(stream, entries); err != nil {
			return 0, err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return 0, journal.ErrClosed
	}
	if expect != journal.Any && expect != j.lastOf(stream) {
		return 0, journal.ErrMoved
	}
	for _, e := range entries {
		if p, ok := j.keys[e.Key]; ok && e.Key != "" {
			return 0, &journal.DuplicateError{Key: e.Key, Stream: p.stream, Seq: p.seq}
		}
	}
	for _, e := range entries {
		j.last++
		j.streams[stream] = append(j.streams[stream], journal.Record{Seq: j.last, Stream: stream, Time: time.Now(), Data: bytes.Clone(e.Data)})
		if e.Key != "" {
			j.keys[e.Key] = place{stream, j.last}
		}
		delete(j.pins, e.Unpin)
		if _, open := j.pins[e.Pin]; e.Pin != "" && !open {
			j.pins[e.Pin] = journal.Pin{Name: e.Pin, Stream: stream, Seq: j.last}
		}
	}
	close(j.grown)
	j.grown = make(chan struct{})
	return j.last, nil
}

// Sync implements journal.Journal.
func (j *Journal) Sync(ctx context.Context) error {
	if j.FailSync != nil {
		if err := j.FailSync(); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.syncs++
	return ctx.Err()
}

// Syncs returns the number of calls of Sync.
func (j *Journal) Syncs() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.syncs
}

// Last implements journal.Journal.
func (j *Journal) Last(stream string) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lastOf(stream)
}

func (j *Journal) lastOf(stream string) int64 {
	if s := j.streams[stream]; len(s) > 0 {
		return s[len(s)-1].Seq
	}
	return 0
}

// after returns what follows since, and what is closed when there is more.
func (j *Journal) after(stream string, since int64) (recs []journal.Record, grown chan struct{}, closed bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := j.streams[stream]
	i, _ := slices.BinarySearchFunc(all, since+1, func(r journal.Record, seq int64) int { return cmp.Compare(r.Seq, seq) })
	return all[i:len(all):len(all)], j.grown, j.closed
}

// Streams implements journal.Journal.
func (j *Journal) Streams() iter.Seq2[string, int64] {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := map[string]int64{}
	for stream := range j.streams {
		last[stream] = j.lastOf(stream)
	}
	return maps.All(last)
}

// Read implements journal.Journal.
func (j *Journal) Read(ctx context.Context, stream string, since int64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		recs, _, closed := j.after(stream, since)
		if closed {
			yield(journal.Record{}, journal.ErrClosed)
			return
		}
		for _, r := range recs {
			r.Data = bytes.Clone(r.Data)
			if ctx.Err() != nil || !yield(r, nil) {
				return
			}
		}
	}
}

// Follow implements journal.Journal.
func (j *Journal) Follow(ctx context.Context, stream string, since int64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for {
			recs, grown, closed := j.after(stream, since)
			for _, r := range recs {
				since, r.Data = r.Seq, bytes.Clone(r.Data)
				if ctx.Err() != nil || !yield(r, nil) {
					return
				}
			}
			if closed {
				yield(journal.Record{}, journal.ErrClosed)
				return
			}
			select {
			case <-grown:
			case <-ctx.Done():
				return
			}
		}
	}
}

// FollowAll implements journal.Journal.
func (j *Journal) FollowAll(ctx context.Context, since int64, want func(string) bool) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for {
			j.mu.Lock()
			last, grown, closed := j.last, j.grown, j.closed
			if since < 0 || since > last {
				since = last
			}
			var recs []journal.Record
			for stream, all := range j.streams {
				if want(stream) {
					i, _ := slices.BinarySearchFunc(all, since+1, func(r journal.Record, seq int64) int { return cmp.Compare(r.Seq, seq) })
					recs = append(recs, all[i:]...)
				}
			}
			j.mu.Unlock()
			slices.SortFunc(recs, func(a, b journal.Record) int { return cmp.Compare(a.Seq, b.Seq) })
			for _, r := range append(recs, journal.Record{Seq: last}) {
				r.Data = bytes.Clone(r.Data)
				if ctx.Err() != nil || !yield(r, nil) {
					return
				}
			}
			since = last
			if closed {
				yield(journal.Record{}, journal.ErrClosed)
				return
			}
			select {
			case <-grown:
			case <-ctx.Done():
				return
			}
		}
	}
}

// Pins implements journal.Journal.
func (j *Journal) Pins() []journal.Pin {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all []journal.Pin
	for _, p := range j.pins {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b journal.Pin) int { return cmp.Compare(a.Seq, b.Seq) })
	return all
}

// Lookup implements journal.Journal.
func (j *Journal) Lookup(key string) (string, int64, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p, ok := j.keys[key]
	return p.stream, p.seq, ok
}

// Close ends every reader.
func (j *Journal) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.closed = true
		close(j.grown)
	}
}

// All returns the data of every record of a stream.
func (j *Journal) All(stream string) []json.RawMessage {
	recs, _, _ := j.after(stream, 0)
	var all []json.RawMessage
	for _, r := range recs {
		all = append(all, r.Data)
	}
	return all
}

var _ journal.Journal = (*Journal)(nil)
