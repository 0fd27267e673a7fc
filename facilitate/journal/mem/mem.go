// Package mem keeps journals in memory, for tests, demos and rooms that need
// not survive the process.
package mem

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/principal"
)

// A Store implements [journal.Store].
type Store struct {
	// mu guards the fields below.
	mu    sync.Mutex
	rooms map[string]*kept
}

type kept struct {
	recs   []journal.Record
	keys   map[principal.ID][]byte
	check  *journal.Checkpoint
	locked bool
}

var _ journal.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store { return &Store{rooms: map[string]*kept{}} }

// room is called with mu held.
func (s *Store) room(id string) *kept {
	k := s.rooms[id]
	if k == nil {
		k = &kept{keys: map[principal.ID][]byte{}}
		s.rooms[id] = k
	}
	return k
}

// Append implements [journal.Store].
func (s *Store) Append(_ context.Context, room string, expected uint64, recs []journal.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.room(room)
	if uint64(len(k.recs)) != expected {
		return fmt.Errorf("append behind %d of %s, which ends at %d: %w", expected, room, len(k.recs), journal.ErrConflict)
	}
	for i, r := range recs {
		if r.Seq != expected+uint64(i)+1 {
			return fmt.Errorf("record %d behind %d: %w", r.Seq, expected+uint64(i), journal.ErrConflict)
		}
	}
	k.recs = append(k.recs, recs...)
	return nil
}

// Load implements [journal.Store]. It yields what was there when it began.
func (s *Store) Load(_ context.Context, room string, from uint64) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		s.mu.Lock()
		recs := s.room(room).recs
		recs = slices.Clone(recs[min(from, uint64(len(recs))):])
		s.mu.Unlock()
		for _, r := range recs {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Key implements [journal.Store].
func (s *Store) Key(_ context.Context, room string, owner principal.ID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.room(room)
	if k.keys[owner] == nil {
		k.keys[owner] = make([]byte, 32)
		rand.Read(k.keys[owner])
	}
	return slices.Clone(k.keys[owner]), nil
}

// Erase implements [journal.Store].
func (s *Store) Erase(_ context.Context, room string, owner principal.ID, seqs []uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.room(room)
	k.check = nil
	k.recs = slices.Clone(k.recs)
	for _, seq := range seqs {
		if seq > 0 && seq <= uint64(len(k.recs)) {
			k.recs[seq-1] = k.recs[seq-1].Tombstone()
		}
	}
	clear(k.keys[owner])
	delete(k.keys, owner)
	return nil
}

// SaveCheckpoint implements [journal.Store].
func (s *Store) SaveCheckpoint(_ context.Context, room string, c journal.Checkpoint) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room(room).check = &c
	return nil
}

// Checkpoint implements [journal.Store].
func (s *Store) Checkpoint(_ context.Context, room string) (journal.Checkpoint, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.room(room).check; c != nil {
		return *c, true, nil
	}
	return journal.Checkpoint{}, false, nil
}

// Lock implements [journal.Store].
func (s *Store) Lock(_ context.Context, room string) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.room(room)
	if k.locked {
		return nil, fmt.Errorf("%s: %w", room, journal.ErrLocked)
	}
	k.locked = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		k.locked = false
	}, nil
}
