package file

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/lease"
	"github.com/iris-operator/iris/internal/lease/leasetest"
)

const holderEnv = "IRIS_LEASE_TEST_HOLDER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holderEnv); dir != "" {
		holder(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// holder takes a lease, says its fence and keeps it until it is killed or its
// standard input ends.
func holder(dir string) {
	k, err := New(Options{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	l, err := k.Acquire(context.Background(), "serve")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.Fence())
	bufio.NewReader(os.Stdin).ReadString('\n')
}

func keeper(t *testing.T, dir string) *Keeper {
	t.Helper()
	k, err := New(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestLease(t *testing.T) {
	leasetest.Run(t, func(t *testing.T) func() lease.Keeper {
		dir := filepath.Join(t.TempDir(), "leases")
		return func() lease.Keeper { return keeper(t, dir) }
	})
}

// TestHolderDies kills the process that holds a lease. The lease is free at
// once, with a greater fence, also when a child of the holder lives on.
func TestHolderDies(t *testing.T) {
	dir := t.TempDir()
	k := keeper(t, dir)
	last := int64(0)
	for range 5 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), holderEnv+"="+dir)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		var fence int64
		if _, scan := fmt.Sscan(line, &fence); err != nil || scan != nil || fence <= last {
			t.Errorf("the holder says %q, error %v, want a fence above %d", line, err, last)
		}
		last = fence
		_, err = k.Acquire(t.Context(), "serve")
		var held *lease.HeldError
		if !errors.As(err, &held) || held.PID != cmd.Process.Pid || !strings.Contains(err.Error(), fmt.Sprint(cmd.Process.Pid)) {
			t.Errorf("acquire = %v, want a HeldError with pid %d", err, cmd.Process.Pid)
		}
		cmd.Process.Kill()
		cmd.Wait()
		l, err := k.Acquire(t.Context(), "serve")
		if err != nil {
			t.Fatalf("acquire after the holder was killed: %v", err)
		}
		if l.Fence() <= last {
			t.Errorf("fence %d after %d", l.Fence(), last)
		}
		last = l.Fence()
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
}

// TestChildDoesNotKeep gives a lease back while a child process that was
// started under it still runs.
func TestChildDoesNotKeep(t *testing.T) {
	k := keeper(t, t.TempDir())
	l, err := k.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	if l, err := k.Acquire(t.Context(), "a"); err != nil {
		t.Errorf("acquire while the child runs: %v", err)
	} else {
		l.Release()
	}
	in.Close()
	cmd.Wait()
}

func TestLostIsClosedByRelease(t *testing.T) {
	l, err := keeper(t, t.TempDir()).Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	l.Release()
	<-l.Lost()
}

// TestDamaged refuses a file it does not understand: a fence that starts over
// would let an old holder write.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	k := keeper(t, dir)
	path, err := k.path("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"x", "12", "1 2\n", strings.Repeat("9", 40)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := k.Acquire(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("acquire with %q = %v, %v, want an error with the path", text, l, err)
		}
		if now, _ := os.ReadFile(path); string(now) != text {
			t.Errorf("the damaged file was changed to %q", now)
		}
	}
}

func TestModesAndOptions(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("New without a directory succeeds")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Dir: file}); err == nil {
		t.Error("New with a file as its directory succeeds")
	}
	dir := filepath.Join(t.TempDir(), "leases")
	k := keeper(t, dir)
	l, err := k.Acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	path, _ := k.path("a")
	for p, want := range map[string]os.FileMode{dir: 0o700, path: 0o600} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, error %v, want %v", p, info.Mode().Perm(), err, want)
		}
	}
	if _, err := k.Acquire(t.Context(), strings.Repeat("x", 300)); err == nil {
		t.Error("a name too long for a file was accepted")
	}
}

func FuzzParseLease(f *testing.F) {
	f.Add([]byte(fmt.Sprintf(leaseFormat, 7, 1234)))
	f.Add([]byte("1 2\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fence, pid, err := parseLease(b)
		if err == nil && len(b) > 0 && string(b) != fmt.Sprintf(leaseFormat, fence, pid) {
			t.Errorf("parseLease(%q) = %d, %d", b, fence, pid)
		}
	})
}
