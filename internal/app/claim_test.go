package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/lease"
	leasefile "github.com/iris-operator/iris/internal/lease/file"
)

// A server that starts right after another one was killed gets the port and the
// workspace, although a child of the dead one still keeps them for a moment.
func TestStartAfterAKilledPredecessor(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	time.AfterFunc(50*time.Millisecond, func() { ln.Close() })
	mine, err := listen(t.Context(), "127.0.0.1", port, "IRIS_API_PORT")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	mine.Close()

	keeper, held := heldBy(t, deadPID(t))
	time.AfterFunc(50*time.Millisecond, func() { _ = held.Release() })
	got, err := acquire(t.Context(), keeper)
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	_ = got.Release()
}

func TestStartDoesNotWaitForTheLiving(t *testing.T) {
	keeper, held := heldBy(t, os.Getpid())
	defer held.Release()
	begun := time.Now()
	_, err := acquire(t.Context(), keeper)
	var busy *lease.HeldError
	if !errors.As(err, &busy) || busy.PID != os.Getpid() || time.Since(begun) > afterlife/2 {
		t.Errorf("acquire = %v after %v, want at once that pid %d has it", err, time.Since(begun), os.Getpid())
	}
}

func TestAPortThatStaysTakenIsNamed(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	port := ln.Addr().(*net.TCPAddr).Port
	_, err = listen(ctx, "127.0.0.1", port, "IRIS_API_PORT")
	if err == nil || !strings.Contains(err.Error(), fmt.Sprint(port)) || !strings.Contains(err.Error(), "IRIS_API_PORT") {
		t.Errorf("listen = %v, want the port and the setting", err)
	}
}

// heldBy returns a keeper whose lease is taken and says that pid has it.
func heldBy(t *testing.T, pid int) (lease.Keeper, lease.Lease) {
	t.Helper()
	dir := t.TempDir()
	keeper, err := leasefile.New(leasefile.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	held, err := keeper.Acquire(t.Context(), "serve")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("lease files %v, %v", files, err)
	}
	f, err := os.OpenFile(files[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%019d %010d\n", held.Fence(), pid); err != nil {
		t.Fatal(err)
	}
	return keeper, held
}

// deadPID returns the number of a process that has ended.
func deadPID(t *testing.T) int {
	t.Helper()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}
