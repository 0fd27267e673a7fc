package session

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"
)

// indexAge is how long the index is believed while the directory looks
// unchanged. Our writes and those of careful editors rename, which the
// directory shows at once; a file edited in place is noticed after this.
const indexAge = 2 * time.Second

// A sessionIndex remembers what lookups need of every record on disk, about
// 300 bytes each, so that a message in a thread does not read all records.
type sessionIndex struct {
	// mu guards the fields below and serialises refreshing.
	mu      sync.Mutex
	known   map[string]known // by id
	dir     time.Time        // modification time of the directory
	checked time.Time
}

type known struct {
	modified     time.Time
	size         int64
	created      time.Time
	integrations Integrations
	bad          bool
}

// forget makes the next lookup compare every record's file.
func (x *sessionIndex) forget() {
	x.mu.Lock()
	x.checked = time.Time{}
	x.mu.Unlock()
}

// List returns all sessions, oldest first. Files that are no session are left
// out with a warning.
func (s *Store) List(ctx context.Context) ([]Session, error) {
	ids, err := s.find(func(Integrations) bool { return true })
	if err != nil {
		return nil, err
	}
	slices.Reverse(ids)
	out := make([]Session, 0, len(ids))
	for _, id := range ids {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ses, err := s.readRecord(id)
		switch {
		case errors.Is(err, ErrNotFound):
		case errors.Is(err, ErrCorrupt):
			s.opts.Logger.Warn("session left out", "err", err)
		case err != nil:
			return nil, err
		default:
			out = append(out, ses)
		}
	}
	return out, nil
}

// FindByThread returns the session whose origin pair or working pair is the
// thread; of several the newest. There may be none: ErrNotFound.
func (s *Store) FindByThread(_ context.Context, channel, ts string) (Session, error) {
	if channel == "" || ts == "" {
		return Session{}, ErrNotFound
	}
	return s.first(func(in Integrations) bool {
		t := in.Slack
		return t.OriginChannel == channel && t.OriginThreadTS == ts || t.WorkingChannel == channel && t.WorkingThreadTS == ts
	})
}

// FindByEmail returns the session of a client's address, compared exactly; of
// several the newest. There may be none: ErrNotFound.
func (s *Store) FindByEmail(_ context.Context, address string) (Session, error) {
	if address == "" {
		return Session{}, ErrNotFound
	}
	return s.first(func(in Integrations) bool { return in.Email.ClientEmail == address })
}

// first reads the newest match again, so that it is never answered from
// memory alone.
func (s *Store) first(match func(Integrations) bool) (Session, error) {
	ids, err := s.find(match)
	if err != nil {
		return Session{}, err
	}
	for _, id := range ids {
		if ses, err := s.readRecord(id); err == nil && match(ses.Integrations) {
			return ses, nil
		}
	}
	return Session{}, ErrNotFound
}

// find returns the ids of matching sessions, newest first.
func (s *Store) find(match func(Integrations) bool) ([]string, error) {
	x := s.index
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := s.refresh(x); err != nil {
		return nil, err
	}
	var ids []string
	for id, k := range x.known {
		if !k.bad && match(k.integrations) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b string) int {
		if c := x.known[b].created.Compare(x.known[a].created); c != 0 {
			return c
		}
		return strings.Compare(b, a)
	})
	return ids, nil
}

// refresh reads the records whose files changed. x.mu is held.
func (s *Store) refresh(x *sessionIndex) error {
	dir, err := s.root.Stat(sessionsDir)
	if errors.Is(err, fs.ErrNotExist) {
		x.known = nil
		return nil
	}
	if err != nil {
		return err
	}
	started := time.Now()
	if started.Sub(x.checked) < indexAge && dir.ModTime().Equal(x.dir) {
		return nil
	}
	entries, err := fs.ReadDir(s.root.FS(), sessionsDir)
	if err != nil {
		return err
	}
	fresh := make(map[string]known, len(entries))
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || strings.HasPrefix(id, ".") {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // removed meanwhile
		}
		old, ok := x.known[id]
		if ok && old.size == info.Size() && old.modified.Equal(info.ModTime()) {
			fresh[id] = old
			continue
		}
		fresh[id] = s.learn(id, info)
	}
	x.known, x.dir, x.checked = fresh, dir.ModTime(), started
	// A change within the tick of the directory's clock would look like none.
	if started.Sub(dir.ModTime()) < 50*time.Millisecond {
		x.checked = time.Time{}
	}
	return nil
}

func (s *Store) learn(id string, info fs.FileInfo) known {
	k := known{modified: info.ModTime(), size: info.Size()}
	ses, err := s.readRecord(id)
	if err != nil {
		k.bad = true
		s.opts.Logger.Warn("session left out", "err", err)
		return k
	}
	k.created, k.integrations = ses.CreatedAt, ses.Integrations
	return k
}
