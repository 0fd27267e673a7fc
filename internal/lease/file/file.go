// Package file hands out leases on one machine: a file per name in a
// directory, locked with flock(2). The kernel frees the lock when its holder
// dies, however it dies, so nothing ever has to be stolen or to time out.
//
// The file holds the last fencing number and the holder's process id. It stays
// when the lease is given back, because the number must go on rising. It is an
// advisory lock between programs that use this package; it does not work
// between machines, and a network file system may not keep it.
package file

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/iris-operator/iris/internal/lease"
	"github.com/iris-operator/iris/internal/lockfile"
)

// Options are the settings of a Keeper.
type Options struct {
	// Dir holds the leases and nothing else. Required. It is made with mode
	// 0700 if it is missing.
	Dir string
}

// Keeper hands out the leases of a directory. It holds nothing itself and
// need not be closed.
type Keeper struct{ dir string }

var _ lease.Keeper = (*Keeper)(nil)

// New returns a Keeper.
func New(opts Options) (*Keeper, error) {
	if opts.Dir == "" {
		return nil, errors.New("lease: no directory given")
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of leases: %w", err)
	}
	return &Keeper{opts.Dir}, nil
}

// maxName is how long the file name of a lease may be.
const maxName = 200

// path is where the lease of a name lies. Names are data: every one that is
// accepted has a file of its own inside the directory.
func (k *Keeper) path(name string) (string, error) {
	file := strings.ReplaceAll(url.QueryEscape(name), ".", "%2E") + ".lease"
	if name == "" || len(file) > maxName {
		return "", fmt.Errorf("lease: %q cannot be the name of a lease", name)
	}
	return filepath.Join(k.dir, file), nil
}

// Acquire takes the lease or fails with a *lease.HeldError. It does not wait.
func (k *Keeper) Acquire(ctx context.Context, name string) (lease.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err := k.path(name)
	if err != nil {
		return nil, err
	}
	// The file is closed on exec, so that no child process keeps the lock.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lease %s: %w", name, err)
	}
	l, err := take(f, name)
	if err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

func take(f *os.File, name string) (*held, error) {
	if err := lockfile.Try(f); err != nil {
		if !errors.Is(err, lockfile.ErrHeld) {
			return nil, fmt.Errorf("lock lease %s: %w", name, err)
		}
		// A holder that is just writing its line may not be readable yet.
		_, pid, _ := readLease(f)
		if !orphaned(f, pid) {
			return nil, &lease.HeldError{Name: name, PID: pid}
		}
	}
	fence, _, err := readLease(f)
	if err != nil {
		return nil, fmt.Errorf("lease %s: %s: %w", name, f.Name(), err)
	}
	fence++
	// One write of fixed length over the old line: there is no moment at
	// which a crash leaves a smaller number.
	if _, err := f.WriteAt(fmt.Appendf(nil, leaseFormat, fence, os.Getpid()), 0); err != nil {
		return nil, fmt.Errorf("write lease %s: %w", name, err)
	}
	if err := f.Sync(); err != nil {
		return nil, fmt.Errorf("write lease %s: %w", name, err)
	}
	return &held{f: f, fence: fence, lost: make(chan struct{})}, nil
}

// forkMoment is far more than a child needs from fork to exec on a busy machine.
const forkMoment = time.Second

// orphaned takes the lock of a holder that has died. Where it was killed while it
// started a program, the child has the lock until it executes that program.
func orphaned(f *os.File, pid int) bool {
	if pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), forkMoment)
	defer cancel()
	return lockfile.Wait(ctx, f) == nil
}

// leaseFormat is the one line of a lease file: the fencing number and the
// process that has it, or had it last.
const (
	leaseFormat = "%019d %010d\n"
	leaseLen    = 31
)

// readLease reads the line. An empty file is a lease nobody ever had.
func readLease(f io.ReaderAt) (fence int64, pid int, err error) {
	b := make([]byte, leaseLen+1)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return 0, 0, err
	}
	return parseLease(b[:n])
}

func parseLease(b []byte) (fence int64, pid int, err error) {
	if len(b) == 0 {
		return 0, 0, nil
	}
	if _, err := fmt.Sscanf(string(b), "%d %d\n", &fence, &pid); err != nil || string(b) != fmt.Sprintf(leaseFormat, fence, pid) || fence < 0 || pid < 0 {
		return 0, 0, fmt.Errorf("%q is not the line of a lease", b)
	}
	return fence, pid, nil
}

// held is a lease that was taken.
type held struct {
	f     *os.File
	fence int64
	lost  chan struct{} // closed by Release
	once  sync.Once
	err   error
}

// Fence is one more than that of the holder before.
func (h *held) Fence() int64 { return h.fence }

// Lost is closed by Release and never before: the kernel keeps the lock for as
// long as the process lives.
func (h *held) Lost() <-chan struct{} { return h.lost }

// Release gives the lease back. Every call returns what the first did.
func (h *held) Release() error {
	h.once.Do(func() {
		close(h.lost)
		h.err = lockfile.Close(h.f)
	})
	return h.err
}
