package lockfile

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestOneAtATime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	if err := Try(first); err != nil {
		t.Fatal(err)
	}
	if err := Try(second); !errors.Is(err, ErrHeld) {
		t.Errorf("a second lock: %v, want ErrHeld", err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*pause, stop)
	defer cancel()
	if err := Wait(ctx, second); !errors.Is(err, stop) {
		t.Errorf("wait: %v, want the cause", err)
	}
	waited := make(chan error)
	go func() { waited <- Wait(t.Context(), second) }()
	if err := Close(first); err != nil {
		t.Error(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("wait: %v", err)
	}
	if err := Close(first); err == nil {
		t.Error("a closed file was closed again")
	}
}

// A child between fork and exec has a copy of every descriptor.
func TestACopyInAChildKeepsNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := open(t, path)
	if err := Try(f); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := Close(f); err != nil {
		t.Fatal(err)
	}
	if err := Try(open(t, path)); err != nil {
		t.Errorf("after Close, with a copy open: %v", err)
	}
}

func TestAProgramThatWasStartedKeepsNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	f := open(t, path)
	if err := Try(f); err != nil {
		t.Fatal(err)
	}
	sleep := exec.CommandContext(t.Context(), "sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sleep.Process.Kill(); _ = sleep.Wait() }()
	f.Close() // as the kernel does when a process is killed
	if err := Try(open(t, path)); err != nil {
		t.Errorf("with a program running: %v", err)
	}
}

// Locks are taken and given back while the process starts one program after the
// other, as many servers in one process do.
func TestNobodySeesTheLockOfAFork(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var starting sync.WaitGroup
	for range 4 {
		starting.Go(func() {
			for ctx.Err() == nil {
				if err := exec.Command("true").Run(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	path := filepath.Join(t.TempDir(), "lock")
	for ctx.Err() == nil {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(Try(f), Close(f)); err != nil {
			t.Errorf("a lock that nobody has: %v", err)
			cancel()
		}
	}
	starting.Wait()
}
