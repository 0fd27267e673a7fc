// Package file keeps journals in files: one folder per room, in it one
// append-only file per compartment (room.jsonl, self.jsonl, p-<id>.jsonl), the
// last checkpoint and a keys folder, everything 0600 and 0700. Whoever can read the keys folder can
// read the room; put it on another disk if that is not meant.
package file

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/principal"
)

// Options configures [New].
type Options struct {
	Dir string // required; made when missing
	// NoSync leaves out fsync. A crash of the machine may then lose the newest
	// records; a crash of the process does not.
	NoSync bool
}

// A Store implements [journal.Store]. One Store at a time may use a folder.
type Store struct {
	opts Options

	// mu guards the fields below.
	mu    sync.Mutex
	rooms map[string]*kept
}

// kept is what is known of a room: its end, and where it is locked.
type kept struct {
	last uint64
	lock *os.File
}

var _ journal.Store = (*Store)(nil)

// New returns a store in opts.Dir.
func New(opts Options) (*Store, error) {
	if opts.Dir == "" {
		return nil, errors.New("journal/file: Dir is required")
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("journal folder: %w", err)
	}
	return &Store{opts: opts, rooms: map[string]*kept{}}, nil
}

func (s *Store) dir(room string) (string, error) {
	if !principal.Valid(room) {
		return "", fmt.Errorf("%q is not a room id", room)
	}
	return filepath.Join(s.opts.Dir, room), nil
}

// room returns what is known of id, reading its files the first time and
// cutting off what a crash left behind the first hole. mu is held.
func (s *Store) room(id string) (*kept, string, error) {
	dir, err := s.dir(id)
	if err != nil {
		return nil, "", err
	}
	if k := s.rooms[id]; k != nil {
		return k, dir, nil
	}
	if err := os.MkdirAll(filepath.Join(dir, "keys"), 0o700); err != nil {
		return nil, "", fmt.Errorf("room %s: %w", id, err)
	}
	if last, ok := s.end(dir); ok {
		k := &kept{last: last}
		s.rooms[id] = k
		return k, dir, nil
	}
	recs, whole, err := read(dir)
	if err != nil {
		return nil, "", err
	}
	k := &kept{last: uint64(len(recs))}
	if !whole {
		if err := s.rewrite(dir, recs); err != nil {
			return nil, "", err
		}
	}
	s.rooms[id] = k
	return k, dir, nil
}

// read returns the records up to the first hole, and whether there was nothing
// else. A line that does not parse ends its file.
func read(dir string) (recs []journal.Record, whole bool, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, false, err
	}
	var all []journal.Record
	whole = true
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, false, fmt.Errorf("read journal: %w", err)
		}
		recs, complete, err := lines(name, data, 0)
		if err != nil {
			return nil, false, err
		}
		all, whole = append(all, recs...), whole && complete
	}
	slices.SortFunc(all, func(a, b journal.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	for i, r := range all {
		if r.Seq != uint64(i)+1 {
			return all[:i], false, nil
		}
	}
	return all, whole, nil
}

// Append implements [journal.Store].
func (s *Store) Append(_ context.Context, room string, expected uint64, recs []journal.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, dir, err := s.room(room)
	if err != nil {
		return err
	}
	if k.last != expected {
		return fmt.Errorf("append behind %d of %s, which ends at %d: %w", expected, room, k.last, journal.ErrConflict)
	}
	files := map[string][]byte{}
	var order []string
	for i, r := range recs {
		if r.Seq != expected+uint64(i)+1 {
			return fmt.Errorf("record %d behind %d: %w", r.Seq, expected+uint64(i), journal.ErrConflict)
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		name := r.Compartment()
		if files[name] == nil {
			order = append(order, name)
		}
		files[name] = append(append(files[name], line...), '\n')
	}
	for _, name := range order {
		if err := s.write(filepath.Join(dir, name+".jsonl"), files[name]); err != nil {
			delete(s.rooms, room) // what is on disk is read and cut again
			return fmt.Errorf("append to %s: %w", room, err)
		}
	}
	k.last += uint64(len(recs))
	return nil
}

func (s *Store) write(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil && !s.opts.NoSync {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Load implements [journal.Store].
func (s *Store) Load(_ context.Context, room string, from uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		s.mu.Lock()
		_, dir, err := s.room(room)
		var recs []journal.Record
		if err == nil {
			recs, _, err = since(dir, from)
		}
		s.mu.Unlock()
		if err != nil {
			yield(journal.Record{}, err)
			return
		}
		for _, r := range recs {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func keyName(owner principal.ID) string {
	if owner == "" {
		return "_self.key"
	}
	return string(owner) + ".key"
}

// Key implements [journal.Store].
func (s *Store) Key(_ context.Context, room string, owner principal.ID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, dir, err := s.room(room)
	if err != nil {
		return nil, err
	}
	if owner != "" && !principal.Valid(string(owner)) {
		return nil, fmt.Errorf("%q: %w", owner, principal.ErrID)
	}
	name := filepath.Join(dir, "keys", keyName(owner))
	key, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, 32)
		rand.Read(key)
		if err := s.replace(name, key); err != nil {
			return nil, err
		}
		return key, nil
	}
	if err == nil && len(key) != 32 {
		err = fmt.Errorf("%s: %d bytes, want 32", filepath.Base(name), len(key))
	}
	return key, err
}

// Erase implements [journal.Store]. It rewrites the files that hold what goes
// and removes the key. What the file system keeps of freed blocks is out of
// its hands.
func (s *Store) Erase(_ context.Context, room string, owner principal.ID, seqs []uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, dir, err := s.room(room)
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, checkpointName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop the checkpoint: %w", err)
	}
	if err := s.syncDir(dir); err != nil {
		return err
	}
	recs, _, err := read(dir)
	if err != nil {
		return err
	}
	for _, seq := range seqs {
		if seq > 0 && seq <= uint64(len(recs)) {
			recs[seq-1] = recs[seq-1].Tombstone()
		}
	}
	if err := s.rewrite(dir, recs); err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(dir, "keys", keyName(owner))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("destroy key: %w", err)
	}
	return s.syncDir(filepath.Join(dir, "keys"))
}

// rewrite makes the files of dir hold exactly recs.
func (s *Store) rewrite(dir string, recs []journal.Record) error {
	files := map[string]*bytes.Buffer{}
	names, _ := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	for _, n := range names {
		files[strings.TrimSuffix(filepath.Base(n), ".jsonl")] = &bytes.Buffer{}
	}
	for _, r := range recs {
		b := files[r.Compartment()]
		if b == nil {
			b = &bytes.Buffer{}
			files[r.Compartment()] = b
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := s.replace(filepath.Join(dir, name+".jsonl"), files[name].Bytes()); err != nil {
			return fmt.Errorf("rewrite journal: %w", err)
		}
	}
	return nil
}

// replace writes a file whole or not at all.
func (s *Store) replace(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	w := bufio.NewWriter(f)
	w.Write(data)
	err = w.Flush()
	if err == nil && !s.opts.NoSync {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return s.syncDir(filepath.Dir(name))
}

func (s *Store) syncDir(dir string) error {
	if s.opts.NoSync {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
