package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"

	"github.com/google/uuid"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/lockfile"
)

// sessionsDir holds one file per session made through the API.
const sessionsDir = "meta/sessions"

func recordPath(id string) string { return path.Join(sessionsDir, id+".json") }

// Create stores a new session and returns it with what was filled in: an empty
// ID becomes a fresh UUID, a zero CreatedAt the present, nil Metadata an empty
// map. When it returns nil the record is on disk. A taken id is ErrExists.
func (s *Store) Create(_ context.Context, ses Session) (Session, error) {
	if ses.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return Session{}, err
		}
		ses.ID = id.String()
	}
	if _, err := dirOf(ses.Address()); err != nil {
		return Session{}, err
	}
	if ses.CreatedAt.IsZero() {
		ses.CreatedAt = s.opts.Now()
	}
	ses.CreatedAt = ses.CreatedAt.UTC()
	if ses.Metadata == nil {
		ses.Metadata = map[string]any{}
	}
	data, err := encodeRecord(ses)
	if err != nil {
		return Session{}, err
	}
	if err := s.createRecord(recordPath(ses.ID), data); err != nil {
		return Session{}, fmt.Errorf("create session %s: %w", ses.ID, err)
	}
	s.index.forget()
	return ses, nil
}

// createRecord puts a file where there is none, and never replaces what another
// writer made in the meantime.
func (s *Store) createRecord(p string, data []byte) error {
	err := durable.CreateIn(s.root, p, data, durable.Keep(fileMode))
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.root.MkdirAll(path.Dir(p), dirMode); err == nil {
			err = durable.CreateIn(s.root, p, data, durable.Keep(fileMode))
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	return err
}

// encodeRecord renders a record for people to read.
func encodeRecord(ses Session) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(ses)
	return buf.Bytes(), err
}

// Get reads a session. An unknown or impossible id is ErrNotFound, a file that
// is no session ErrCorrupt.
func (s *Store) Get(_ context.Context, id string) (Session, error) {
	if chat.CheckID(id) != nil {
		return Session{}, fmt.Errorf("session %w", ErrNotFound)
	}
	if ses, ok := s.cache.get(id); ok {
		return ses, nil
	}
	was, statErr := s.cache.look(id)
	ses, err := s.readRecord(id)
	if err == nil && statErr == nil {
		s.cache.put(was, ses)
	}
	return ses, err
}

func (s *Store) readRecord(id string) (Session, error) {
	data, err := s.root.ReadFile(recordPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return Session{}, fmt.Errorf("session %s: %w", id, ErrNotFound)
	}
	if err != nil {
		return Session{}, err
	}
	return decodeRecord(id, data)
}

func decodeRecord(id string, data []byte) (ses Session, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // metadata keeps its numbers as they were sent
	if err := dec.Decode(&ses); err != nil {
		return Session{}, fmt.Errorf("%s: %w: %v", recordPath(id), ErrCorrupt, err)
	}
	if ses.ID != id {
		return Session{}, fmt.Errorf("%s: %w: it holds session %q", recordPath(id), ErrCorrupt, ses.ID)
	}
	if ses.Metadata == nil {
		ses.Metadata = map[string]any{}
	}
	return ses, nil
}

// Patch changes a session: metadata is merged key by key; integrations is a
// JSON object {"slack":{…},"email":{…}} whose keys replace those of the record;
// runner, if not nil, is set. Anything nil stays.
func (s *Store) Patch(ctx context.Context, id string, metadata map[string]any, integrations json.RawMessage, runner *string) (Session, error) {
	return s.Change(ctx, id, func(ses *Session) error {
		maps.Copy(ses.Metadata, metadata)
		if len(integrations) > 0 {
			if err := json.Unmarshal(integrations, &ses.Integrations); err != nil {
				return fmt.Errorf("integrations: %w", err)
			}
		}
		if runner != nil {
			ses.Runner = *runner
		}
		return nil
	})
}

// Change lets change edit a session and stores the result; after an error of
// change nothing is stored. Id and time of creation never change. Two changes
// at once both take effect, also from two processes: change runs under the
// record's lock and must not call the store.
func (s *Store) Change(ctx context.Context, id string, change func(*Session) error) (Session, error) {
	if chat.CheckID(id) != nil {
		return Session{}, fmt.Errorf("session %w", ErrNotFound)
	}
	unlock, err := s.lockRecord(ctx, id)
	if err != nil {
		return Session{}, err
	}
	defer unlock()
	ses, err := s.readRecord(id)
	if err != nil {
		return Session{}, err
	}
	created := ses.CreatedAt
	if err := change(&ses); err != nil {
		return Session{}, err
	}
	ses.ID, ses.CreatedAt = id, created
	data, err := encodeRecord(ses)
	if err != nil {
		return Session{}, err
	}
	if err := s.replace(recordPath(id), data); err != nil {
		return Session{}, fmt.Errorf("change session %s: %w", id, err)
	}
	s.index.forget()
	return ses, nil
}

// lockRecord takes the lock on a record's file. Whoever waited may hold the
// lock of a file that was replaced, and tries again with the new one.
func (s *Store) lockRecord(ctx context.Context, id string) (unlock func(), err error) {
	p := recordPath(id)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := s.root.Open(p)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("session %s: %w", id, ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		if err := lockfile.Block(f); err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", p, err)
		}
		held, err := f.Stat()
		if err == nil {
			var now fs.FileInfo
			if now, err = s.root.Stat(p); err == nil && os.SameFile(held, now) {
				return func() { _ = lockfile.Close(f) }, nil
			}
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}
