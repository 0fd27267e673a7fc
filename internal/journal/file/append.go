package file

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/journal"
)

// Append adds entries to a stream in one write. See [journal.Journal]. A disk
// that is full is no broken disk: what was written of the entries is taken
// back, the error wraps syscall.ENOSPC, and the journal goes on when there is
// room again.
func (j *Journal) Append(ctx context.Context, stream string, expect int64, entries ...journal.Entry) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := check(stream, entries); err != nil {
		return 0, err
	}
	last, dup, err := j.append(stream, expect, entries)
	if dup != nil {
		// Found outside of the lock: the disk may have to be read.
		if dup.Stream, err = j.streamOf(dup.Seq); err != nil {
			return 0, fmt.Errorf("find the record of key %q: %w", dup.Key, err)
		}
		return 0, dup
	}
	return last, err
}

// check refuses what could not be read back.
func check(stream string, entries []journal.Entry) error {
	if len(entries) == 0 {
		return errors.New("journal: nothing to append")
	}
	if stream == "" {
		return errors.New("journal: a stream needs a name")
	}
	if err := checkName("stream", stream); err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		if err := errors.Join(checkName("key", e.Key), checkName("pin", e.Pin), checkName("pin", e.Unpin)); err != nil {
			return err
		}
		if len(e.Data) > maxLine/2 {
			return fmt.Errorf("journal: a record of %d bytes for %s, more than %d", len(e.Data), stream, maxLine/2)
		}
		if bytes.IndexByte(e.Data, '\n') >= 0 {
			return fmt.Errorf("journal: the data of a record for %s has a newline", stream)
		}
		if !json.Valid(e.Data) {
			return fmt.Errorf("journal: the data of a record for %s is not JSON", stream)
		}
		if e.Key != "" {
			for k := range i {
				if entries[k].Key == e.Key {
					return fmt.Errorf("journal: key %q twice in one append", e.Key)
				}
			}
		}
	}
	return nil
}

func checkName(what, s string) error {
	if len(s) > maxName || !utf8.ValidString(s) {
		return fmt.Errorf("journal: a %s of %d bytes is no text of at most %d", what, len(s), maxName)
	}
	return nil
}

func (j *Journal) append(stream string, expect int64, entries []journal.Entry) (int64, *journal.DuplicateError, error) {
	j.wmu.Lock()
	defer j.wmu.Unlock()
	if err := j.usable(); err != nil {
		return 0, nil, err
	}
	now := j.opts.Clock()
	j.hashes = j.hashes[:0]
	for i := range entries {
		if entries[i].Key == "" {
			j.hashes = append(j.hashes, hash{})
			continue
		}
		h := hashKey([]byte(entries[i].Key))
		if seq := j.keys.find(h, now.Add(-j.opts.KeyAge).Unix()); seq != 0 {
			return 0, &journal.DuplicateError{Key: entries[i].Key, Seq: seq}, nil
		}
		j.hashes = append(j.hashes, h)
	}
	var prev int64
	if s := j.streams[stream]; s != nil {
		prev = s.last
	}
	if expect != journal.Any && expect != prev {
		return 0, nil, fmt.Errorf("%w: %s is at %d, not at %d", journal.ErrMoved, stream, prev, expect)
	}
	b := j.encode(stream, prev, max(now.UnixMicro(), 1), entries)
	a, err := j.room(int64(len(b.buf)))
	if err != nil {
		return 0, nil, err
	}
	if _, err := a.f.Write(b.buf); err != nil {
		return 0, nil, j.undo(a, err)
	}
	quiet := true
	for i := range entries {
		quiet = quiet && entries[i].Quiet
	}
	j.publish(a, stream, b, quiet)
	return j.last, nil, nil
}

// usable returns why nothing can be appended or synced.
func (j *Journal) usable() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return journal.ErrClosed
	}
	return j.broken
}

// A batch is the entries of one append as they are written.
type batch struct {
	buf   []byte
	lines []line // their data lies in buf
	ends  []int  // where each line ends in buf
	one   [1]line
	end   [1]int
}

func (j *Journal) encode(stream string, prev, micro int64, entries []journal.Entry) *batch {
	size := 0
	for i := range entries {
		e := &entries[i]
		size += 128 + len(stream) + len(e.Key) + len(e.Pin) + len(e.Unpin) + len(e.Data)
	}
	b := &batch{buf: make([]byte, 0, size)}
	b.lines, b.ends = b.one[:0], b.end[:0]
	// The texts are copied to a buffer that every append uses again.
	j.names = j.names[:0]
	text := func(s string) []byte {
		from := len(j.names)
		j.names = append(j.names, s...)
		return j.names[from:len(j.names):len(j.names)]
	}
	name := text(stream)
	for i := range entries {
		e := &entries[i]
		l := line{
			seq: j.last + 1 + int64(i), prev: prev, synced: j.synced.Load(), micro: micro,
			more: int64(len(entries) - 1 - i), stream: name,
			key: text(e.Key), pin: text(e.Pin), unpin: text(e.Unpin), data: e.Data,
		}
		prev = l.seq
		var from, to int
		b.buf, from, to = appendLine(b.buf, &l)
		l.data = b.buf[from:to:to]
		b.lines = append(b.lines, l)
		b.ends = append(b.ends, len(b.buf))
	}
	return b
}

// room returns the segment that n more bytes go to. The caller holds wmu.
func (j *Journal) room(n int64) (*segment, error) {
	a := j.active()
	if a != nil && (a.x.size == 0 || a.x.size+n <= j.opts.SegmentBytes) {
		return a, nil
	}
	if a != nil {
		if err := j.seal(a); err != nil {
			return nil, err
		}
	}
	s := &segment{path: segmentPath(j.opts.Dir, j.last+1), open: j.opts.OpenFile}
	s.x.first, s.x.last = j.last+1, j.last
	f, err := s.open(s.path, os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin a segment: %w", err)
	}
	s.f = f
	if err := j.syncDir(); err != nil {
		s.close()
		return nil, j.breaks(err)
	}
	j.mu.Lock()
	if a != nil && a.indexed {
		a.x.thin()
	}
	j.segs = append(j.segs, s)
	j.keys = j.keys.sweep(j.oldest(), 0)
	j.mu.Unlock()
	return s, nil
}

// seal makes a segment last before another is begun, so that only the last
// segment can have a torn end, and writes its index.
func (j *Journal) seal(a *segment) error {
	if j.synced.Load() < a.x.last {
		if err := a.f.Sync(); err != nil {
			return j.breaks(fmt.Errorf("sync %s: %w", a.path, err))
		}
		j.advance(a.x.last)
	}
	if a.indexed {
		return nil
	}
	if err := a.x.write(a.path); err != nil {
		j.opts.Log.Warn("journal: index not written, the segment will be read instead", "segment", a.path, "err", err)
		return nil
	}
	j.mu.Lock()
	a.indexed = true
	j.mu.Unlock()
	return nil
}

// undo takes back what a failed write left, and says whether the journal goes
// on.
func (j *Journal) undo(a *segment, failed error) error {
	failed = fmt.Errorf("append to %s: %w", a.path, failed)
	if err := a.f.Truncate(a.x.size); err != nil {
		return j.breaks(errors.Join(failed, err))
	}
	if errors.Is(failed, syscall.ENOSPC) || errors.Is(failed, syscall.EDQUOT) {
		return failed
	}
	return j.breaks(failed)
}

// breaks makes err the answer to every further Append and Sync.
func (j *Journal) breaks(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken == nil {
		j.broken = err
	}
	return j.broken
}

// publish makes what was written visible, all at once, and wakes followers
// unless it is quiet.
func (j *Journal) publish(a *segment, name string, b *batch, quiet bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.streams[name]
	if s == nil {
		s = &stream{name: name, first: j.last + 1}
		j.streams[name] = s
	}
	a.indexed = false
	pinned := j.pinnedBefore(a.x.first)
	off := a.x.size
	start := 0
	for i := range b.lines {
		l := &b.lines[i]
		n := int64(b.ends[i] - start)
		start = b.ends[i]
		a.x.add(l, s.name, off, n, j.hashes[i], pinned)
		off += n
		if len(l.key) > 0 {
			j.keys[j.hashes[i]] = hold(l.seq, l.micro)
		}
		if len(l.unpin) > 0 {
			delete(j.pins, string(l.unpin))
		}
		if len(l.pin) > 0 {
			if _, open := j.pins[string(l.pin)]; !open {
				p := string(l.pin)
				j.pins[p] = journal.Pin{Name: p, Stream: s.name, Seq: l.seq}
			}
		}
		j.recent.add(l.seq, row{s: s, micro: l.micro, data: l.data})
		s.last, j.last = l.seq, l.seq
	}
	j.recent.evict()
	if !quiet {
		j.waits.wake(name)
		j.waits.wake(everything)
	}
}

// pinnedBefore tells whether a name was pinned before the segment that begins
// with first, and still is. The caller holds mu, or wmu.
func (j *Journal) pinnedBefore(first int64) func(string) bool {
	return func(name string) bool {
		p, ok := j.pins[name]
		return ok && p.Seq < first
	}
}
