//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is cmd/iris, built once by TestMain.
var binary string

// iris is the real program as a child process. It keeps its port and workspace
// over a restart.
type iris struct {
	t    *testing.T
	dir  string // the workspace
	cwd  string // where it was started, and commands run
	url  string
	env  []string
	cmd  *exec.Cmd
	link string // one-time login link of the running process

	mu  sync.Mutex
	out strings.Builder
}

var linkLine = regexp.MustCompile(`Iris is ready: (http\S+)`)

// startIris starts one with the rehearsal model.
func startIris(t *testing.T, env ...string) *iris {
	t.Helper()
	home := t.TempDir()
	s := &iris{t: t, dir: filepath.Join(home, "iris"), cwd: filepath.Join(home, "project")}
	must(t, os.Mkdir(s.cwd, 0o755))
	s.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8",
		"IRIS_API_PORT=" + freePort(t), "IRIS_LOG_LEVEL=info",
	}, env...)
	s.start()
	t.Cleanup(func() {
		s.kill(syscall.SIGTERM)
		if t.Failed() {
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Logf("iris said:\n%s", s.out.String())
		}
	})
	return s
}

func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return fmt.Sprint(ln.Addr().(*net.TCPAddr).Port)
}

func (s *iris) start() {
	s.t.Helper()
	s.cmd = exec.Command(binary, "serve", s.dir)
	s.cmd.Env = s.env
	s.cmd.Dir = s.cwd
	r, w, err := os.Pipe()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd.Stdout, s.cmd.Stderr = w, w
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	w.Close()
	ready := make(chan string, 1)
	go func() {
		defer close(ready)
		defer r.Close()
		for sc := bufio.NewScanner(r); sc.Scan(); {
			s.mu.Lock()
			s.out.WriteString(sc.Text() + "\n")
			s.mu.Unlock()
			if m := linkLine.FindStringSubmatch(sc.Text()); m != nil {
				ready <- m[1]
			}
		}
	}()
	select {
	case link, ok := <-ready:
		if !ok {
			s.t.Fatalf("iris ended:\n%s", s.out.String())
		}
		s.link = link
		s.url = link[:strings.Index(link, "/login")]
	case <-time.After(30 * time.Second):
		s.t.Fatal("iris did not become ready")
	}
}

// kill ends the process and waits for it.
func (s *iris) kill(sig syscall.Signal) {
	if s.cmd == nil {
		return
	}
	cmd := s.cmd
	s.cmd = nil
	cmd.Process.Signal(sig)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { cmd.Process.Kill() })
	defer stop()
	cmd.Wait()
}

// write puts a file where the model's tools work.
func (s *iris) write(name, content string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.cwd, name), []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}
