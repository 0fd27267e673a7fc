package firecracker

import (
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/microvm/microvmtest"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/sandbox/firecracker/guest"
	"github.com/iris-operator/iris/internal/sandbox/host"
	"github.com/iris-operator/iris/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	microvmtest.Main() // the test binary is also what stands for Firecracker
	goleak.VerifyTestMain(m)
}

// exec is an exec-server on loopback, as a guest would have it, over a workspace
// of its own.
func exec(t testing.TB, inside string) (srv *httptest.Server, ip string, port int) {
	t.Helper()
	box, err := host.New(host.Options{Workspace: inside, KillDelay: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s, err := guest.New(guest.Options{Box: box, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	srv = httptest.NewServer(s)
	t.Cleanup(srv.Close)
	ip, text, err := net.SplitHostPort(strings.TrimPrefix(srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	port, err = strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return srv, ip, port
}

// dirs are a workspace of the host and one of a guest.
func dirs(t testing.TB) (workspace, inside string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	inside = filepath.Join(root, "guest")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(root, "host"), inside
}

func open(t testing.TB) (*Static, string, *httptest.Server) {
	t.Helper()
	workspace, inside := dirs(t)
	srv, ip, port := exec(t, inside)
	s, err := New(Options{Workspace: workspace, Inside: inside, IP: ip, Port: port})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, workspace, srv
}

func TestSuite(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Box {
		s, workspace, _ := open(t)
		return sandboxtest.Box{Sandbox: s, Workspace: workspace}
	})
}

func TestVerify(t *testing.T) {
	s, _, srv := open(t)
	if err := s.Verify(t.Context()); err != nil {
		t.Errorf("a machine that is up: %v", err)
	}
	srv.Close()
	if err := s.Verify(t.Context()); err == nil || !strings.Contains(err.Error(), "firecracker:127.0.0.1 is not up") || !errors.Is(err, guest.ErrUnreachable) {
		t.Errorf("a machine that is not there: %v", err)
	}
	if s.Name() != "firecracker:127.0.0.1" {
		t.Errorf("name %q", s.Name())
	}
}

func TestNewRefuses(t *testing.T) {
	for name, opts := range map[string]Options{
		"no address":         {Workspace: "/w"},
		"a name":             {Workspace: "/w", IP: "box"},
		"a port beyond":      {Workspace: "/w", IP: "127.0.0.1", Port: 70000},
		"relative workspace": {Workspace: "w", IP: "127.0.0.1"},
		"relative inside":    {Workspace: "/w", IP: "127.0.0.1", Inside: "x"},
	} {
		if _, err := New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestPaths(t *testing.T) {
	p, err := newPaths("/home/iris/", "")
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"/home/iris": "/workspace", "/home/iris/a/b": "/workspace/a/b", "/home/iris/../iris/a": "/workspace/a",
		"/home/irish": "/home/irish", "/etc/passwd": "/etc/passwd", "a": "a",
	} {
		if got := p.Path(host); got != want {
			t.Errorf("Path(%q) = %q, want %q", host, got, want)
		}
	}
	for inside, want := range map[string]string{"/workspace": "/home/iris", "/workspace/a": "/home/iris/a", "/workspace/a/../b": "/home/iris/b"} {
		if got, ok := p.Host(inside); got != want || !ok {
			t.Errorf("Host(%q) = %q, %v, want %q", inside, got, ok, want)
		}
	}
	for _, inside := range []string{"/workspaces", "/workspace/../etc", "workspace/a", "/home/iris"} {
		if got, ok := p.Host(inside); ok {
			t.Errorf("Host(%q) = %q, true", inside, got)
		}
	}
}

// BenchmarkRun is a command through an exec-server on loopback; host.BenchmarkRun
// is the same command without it.
func BenchmarkRun(b *testing.B) {
	s, _, _ := open(b)
	for b.Loop() {
		var out strings.Builder
		if exit, err := s.Run(b.Context(), sandbox.Command{Script: "true", Stdout: &out, Stderr: &out, Env: os.Environ()}); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
	}
}

var conv = chat.Address{Space: chat.Session, ID: "one"}
