package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
)

// Sweep forgets the conversations of the bridge in which nothing has happened
// for Options.BridgeRetention: their directories, attachments and outputs
// included. Whoever uses the key again begins anew, also where the journal still
// holds what was said. A conversation with a turn that is open stays, and so
// does what is no conversation. It returns how many it forgot.
func (s *Store) Sweep(ctx context.Context) (n int, err error) {
	if s.opts.BridgeRetention <= 0 {
		return 0, nil
	}
	entries, err := fs.ReadDir(s.root.FS(), ".")
	if err != nil {
		return 0, fmt.Errorf("sweep conversations: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return n, errors.Join(append(errs, err)...)
		}
		addr, err := chat.Parse(e.Name())
		if err != nil || addr.Space != chat.Bridge || !e.IsDir() || !s.stale(e.Name()) {
			continue
		}
		gone, err := s.expire(ctx, addr)
		if err != nil {
			errs = append(errs, err)
		}
		if gone {
			n++
		}
	}
	return n, errors.Join(errs...)
}

// expire forgets one conversation, unless it is in use after all.
func (s *Store) expire(ctx context.Context, addr chat.Address) (gone bool, err error) {
	c, err := s.acquire(addr)
	if err != nil {
		return false, err
	}
	defer s.release(c)
	// A turn is pinned before its runner reads the history, so that one which
	// begins now finds it whole or not at all.
	if !s.stale(c.dir) {
		return false, nil
	}
	if j := s.opts.Journal; j != nil {
		stream := addr.Channel()
		if slices.ContainsFunc(j.Pins(), func(p journal.Pin) bool { return p.Stream == stream }) {
			return false, nil
		}
		forgotten, err := s.forgotten(ctx, stream)
		if err != nil || forgotten < j.Last(stream) {
			return false, err
		}
	}
	for _, name := range []string{logFile, contextFile} {
		s.letGo(c.holds(name))
		s.files.drop(c.file(name))
	}
	c.log, c.ctx, c.sync, c.last, c.marks = logTail{}, contextTail{}, syncCursor{}, entryMark{}, lineMarks{}
	if err := s.root.RemoveAll(c.dir); err != nil {
		s.setCaughtUp(addr, false)
		return false, fmt.Errorf("sweep %s: %w", c.dir, err)
	}
	s.setCaughtUp(addr, true)
	return true, nil
}

// forgotten returns the last record of a bridge conversation that a sweep would
// have taken with it: the one before the latest silence of more than the
// retention.
func (s *Store) forgotten(ctx context.Context, stream string) (seq int64, err error) {
	var last journal.Record
	for r, err := range s.opts.Journal.Read(ctx, stream, 0) {
		if errors.Is(err, journal.ErrTruncated) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("sweep %s: %w", stream, err)
		}
		if last.Seq > 0 && r.Time.Sub(last.Time) > s.opts.BridgeRetention {
			seq = last.Seq
		}
		last = journal.Record{Seq: r.Seq, Time: r.Time}
	}
	if last.Seq > 0 && s.opts.Now().Sub(last.Time) > s.opts.BridgeRetention {
		seq = last.Seq
	}
	return seq, nil
}

// stale reports whether no file of a directory has changed for the retention; a
// directory without files counts by itself.
func (s *Store) stale(dir string) bool {
	oldest := s.opts.Now().Add(-s.opts.BridgeRetention)
	info, err := s.root.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	newest := time.Time{}
	err = fs.WalkDir(s.root.FS(), path.Clean(dir), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		return err
	})
	if newest.IsZero() {
		newest = info.ModTime()
	}
	return err == nil && newest.Before(oldest)
}
