// Package lockfile lets one open file at a time have a file, between processes
// and within one: flock(2) as it must be used from Go. It does not make, name or
// remove the files: one that is removed could be locked twice under one name.
//
// The lock belongs to the open file and not to the descriptor. Go opens with
// O_CLOEXEC, so no program that is started keeps it; but a child has a copy of
// every descriptor between fork and exec. Closing alone would leave the lock with
// that child for a moment, which is why [Close] unlocks first.
package lockfile

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// ErrHeld: another open file has the lock.
var ErrHeld = errors.New("the lock is held")

// pause is how often Wait tries again. What is done under a lock that is waited
// for takes milliseconds.
const pause = 5 * time.Millisecond

// Try takes the lock of f or is ErrHeld at once.
func Try(f *os.File) error {
	err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrHeld
	}
	return err
}

// Wait takes the lock of f. When ctx ends first, its cause is the error.
func Wait(ctx context.Context, f *os.File) error {
	for {
		if err := Try(f); !errors.Is(err, ErrHeld) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Block takes the lock of f and waits in the kernel, which serves those who wait
// in turn. Nothing ends it early.
func Block(f *os.File) error { return flock(f, syscall.LOCK_EX) }

// Close gives the lock back, if f has it, and closes f. When it returns nobody
// else is in the way of the next one.
func Close(f *os.File) error {
	return errors.Join(flock(f, syscall.LOCK_UN), f.Close())
}

func flock(f *os.File, how int) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var locked error
	err = conn.Control(func(fd uintptr) {
		for {
			if locked = syscall.Flock(int(fd), how); !errors.Is(locked, syscall.EINTR) {
				return
			}
		}
	})
	return errors.Join(err, locked)
}
