//go:build unix

package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/iris-operator/iris/facilitate/journal"
)

// Lock implements [journal.Store]. It is an advisory lock on a file in the
// room's folder and ends with the process.
func (s *Store) Lock(_ context.Context, room string) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, dir, err := s.room(room)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", room, err)
	}
	if k.lock != nil || syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", room, journal.ErrLocked)
	}
	k.lock = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		k.lock = nil
		// A child between fork and exec has a copy of the descriptor; closing
		// alone would leave the lock with it.
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
		f.Close()
	}, nil
}
