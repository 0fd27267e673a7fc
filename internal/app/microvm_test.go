package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/secret"
)

// execServer runs an exec-server on loopback and returns its port and its end.
func execServer(t *testing.T, opts ExecOptions) (port int, stop func() error) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port = ln.Addr().(*net.TCPAddr).Port
	_ = ln.Close()
	ctx, cancel := context.WithCancel(context.Background())
	opts.Listen, opts.Log = fmt.Sprintf("127.0.0.1:%d", port), slog.New(slog.DiscardHandler)
	served := make(chan error, 1)
	go func() { served <- ExecServer(ctx, opts) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-served
	}
	t.Cleanup(func() { _ = stop() })
	return port, stop
}

// opened is the box of a level, once it can be had.
func opened(t *testing.T, cfg *config.Config) *box {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		b, err := openBox(t.Context(), cfg, nil, slog.New(slog.DiscardHandler))
		if err == nil {
			t.Cleanup(func() { _ = b.close() })
			return b
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestFirecrackerLevel runs a command in what firecracker:<ip> names, and ends it
// with the exec-server.
func TestFirecrackerLevel(t *testing.T) {
	inside := filepath.Join(t.TempDir(), "made")
	port, stop := execServer(t, ExecOptions{Workspace: inside, Token: secret.New("word")})
	cfg := &config.Config{Sandbox: "firecracker:127.0.0.1", Workspace: t.TempDir(),
		Firecracker: config.Firecracker{Port: port, Token: secret.New("word")}}
	b := opened(t, cfg)
	if b.dir != "/workspace" || b.Name() != "firecracker:127.0.0.1" {
		t.Errorf("%s in %s", b.Name(), b.dir)
	}
	var out strings.Builder
	exit, err := b.Run(t.Context(), sandbox.Command{Script: "pwd; echo $HOME", Dir: inside, Env: b.environ([]string{"HOME=/home/x", "TZ=UTC"}), Stdout: &out})
	if err != nil || exit.Code != 0 || out.String() != inside+"\n/root\n" {
		t.Errorf("%q, %+v, %v", out.String(), exit, err)
	}
	began, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := b.Run(t.Context(), sandbox.Command{Script: "trap 'touch cleaned; exit' TERM; echo; while :; do sleep 0.05; done", Dir: inside,
			Env: os.Environ(), Stdout: signalWriter(began)})
		ended <- err
	}()
	<-began
	if err := stop(); err != nil {
		t.Errorf("ExecServer: %v", err)
	}
	<-ended
	if _, err := os.Stat(filepath.Join(inside, "cleaned")); err != nil {
		t.Errorf("the command was not ended with the server: %v", err)
	}
	if _, err := openBox(t.Context(), cfg, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "firecracker:127.0.0.1 is not up") {
		t.Errorf("a machine that is down: %v", err)
	}
}

type signalWriter chan struct{}

func (w signalWriter) Write(p []byte) (int, error) { close(w); return len(p), nil }

// TestFirecrackerPoolIsRefused says what is missing before anything starts.
func TestFirecrackerPoolIsRefused(t *testing.T) {
	dir := t.TempDir()
	cfg := &config.Config{Sandbox: "firecracker-pool", Workspace: dir, Firecracker: config.Firecracker{
		Program: "no-such-firecracker", Jailer: "no-such-jailer", Kernel: "/no/such/vmlinux", Rootfs: "/no/such/rootfs", StateDir: filepath.Join(dir, "fc")}}
	_, err := openBox(t.Context(), cfg, nil, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"IRIS_SANDBOX=firecracker-pool", "no-such-firecracker", "no-such-jailer", "/no/such/vmlinux", "/no/such/rootfs"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal does not name %q:\n%v", want, err)
		}
	}
	cfg.Firecracker.Kernel = "relative"
	cfg.Firecracker.Jailer = "off"
	if _, err := openBox(t.Context(), cfg, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "not an absolute path") {
		t.Errorf("a relative kernel: %v", err)
	}
}

func TestGuestEnviron(t *testing.T) {
	got := guestEnviron([]string{"PATH=/opt/bin", "HOME=/home/x", "LANG=C.UTF-8", "TMPDIR=/x", "IRIS_CHANNEL=C1"})
	want := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash", "LANG=C.UTF-8", "IRIS_CHANNEL=C1"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSharedWithAGuest(t *testing.T) {
	conv := chat.Address{Space: chat.Session, ID: "one"}
	got := shared("/ws")(conv)
	want := []string{"/ws/" + conv.Dir() + "/attachments", "/ws/skills", "/ws/" + conv.Dir() + "/skills"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
