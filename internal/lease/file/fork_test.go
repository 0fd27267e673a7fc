package file

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/lease"
)

// copyOf is the descriptor that a child has between fork and exec.
func copyOf(t *testing.T, f *os.File) (fd int) {
	t.Helper()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func TestReleaseIsNotHeldUpByAFork(t *testing.T) {
	k := newKeeper(t)
	l, err := k.Acquire(t.Context(), "workspace")
	if err != nil {
		t.Fatal(err)
	}
	fd := copyOf(t, l.(*held).f)
	defer syscall.Close(fd)
	if err := l.Release(); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Acquire(t.Context(), "workspace"); err != nil {
		t.Errorf("acquired again: %v", err)
	}
}

// A process was killed while it started a program: the lock ends with the exec.
func TestTheDeadHoldNothing(t *testing.T) {
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		pid int
		ok  bool
	}{"dead": {dead.Process.Pid, true}, "alive": {os.Getpid(), false}, "unknown": {0, false}} {
		t.Run(name, func(t *testing.T) {
			k := newKeeper(t)
			l, err := k.Acquire(t.Context(), "workspace")
			if err != nil {
				t.Fatal(err)
			}
			f := l.(*held).f
			if _, err := f.WriteAt(fmt.Appendf(nil, leaseFormat, 1, c.pid), 0); err != nil {
				t.Fatal(err)
			}
			fd := copyOf(t, f)
			f.Close() // as the kernel does; the copy stays
			if c.ok {
				time.AfterFunc(50*time.Millisecond, func() { syscall.Close(fd) }) // the exec
			} else {
				defer syscall.Close(fd)
			}
			next, err := k.Acquire(t.Context(), "workspace")
			if ok := err == nil; ok != c.ok {
				t.Errorf("acquired: %v, want %v", err, c.ok)
			}
			var heldErr *lease.HeldError
			if !c.ok && !errors.As(err, &heldErr) {
				t.Errorf("%v, want a *lease.HeldError", err)
			}
			if next != nil {
				next.Release()
			}
		})
	}
}

func newKeeper(t *testing.T) *Keeper {
	t.Helper()
	k, err := New(Options{Dir: filepath.Join(t.TempDir(), "leases")})
	if err != nil {
		t.Fatal(err)
	}
	return k
}
