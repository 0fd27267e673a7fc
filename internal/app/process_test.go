package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/app"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/runner/agentcli/clitest"
)

// childMark makes a re-executed test binary serve instead of testing.
const childMark = "IRIS_APP_TEST_SERVE"

const (
	operatorToken = "operator-token-of-the-tests-0123456789abcdef"
	pagePassword  = "page password of the tests"
	// patience is how long tests wait for what should take a moment: the
	// machine may be busy.
	patience = 30 * time.Second
)

func TestMain(m *testing.M) {
	clitest.Main()
	if os.Getenv(childMark) != "" {
		os.Exit(serveChild())
	}
	goleak.VerifyTestMain(m)
}

// serveChild is iris serve: the same configuration, signals and exit codes. It
// also ends when its standard input does, so that it never outlives the test.
func serveChild() int {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	ctx, cancel := context.WithCancel(context.Background())
	now := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		close(now)
	}()
	dir, err := os.Getwd()
	if err == nil {
		err = serveIn(ctx, dir, now)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "iris:", err)
		return 1
	}
	return 0
}

func serveIn(ctx context.Context, dir string, now <-chan struct{}) error {
	cfg, _, err := config.Load(config.Source{Environ: os.Environ(), Dir: dir, Home: os.Getenv("HOME")})
	if err != nil {
		return err
	}
	return app.Serve(ctx, app.Options{Config: cfg, Version: "test", Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Now: now})
}

// A place is where servers of one test live one after the other.
type place struct {
	t         testing.TB
	workspace string
	home      string // of the user, and where commands run
	port      int
	environ   []string // added to what every server gets
	client    *http.Client
}

func newPlace(t testing.TB, environ ...string) *place {
	t.Helper()
	p := &place{t: t, workspace: filepath.Join(t.TempDir(), "workspace"), home: t.TempDir(), port: freePort(t), environ: environ}
	transport := &http.Transport{MaxIdleConnsPerHost: 4}
	p.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(transport.CloseIdleConnections)
	return p
}

// freePort returns a port that nobody is given by accident while the server is
// down: it lies below those the system hands out.
func freePort(t testing.TB) int {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(12000)
		ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			ln.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

func (p *place) url(path string) string { return "http://127.0.0.1:" + strconv.Itoa(p.port) + path }

// A server is one process.
type server struct {
	p      *place
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *record
	stderr *record
	exited chan struct{} // closed by the goroutine that waits
	err    error         // of Wait, valid once exited is closed
}

// record keeps what a process writes.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

// start starts a server and returns at once.
func (p *place) start(environ ...string) *server {
	p.t.Helper()
	self, err := os.Executable()
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Dir = p.home
	cmd.Env = slices.Concat([]string{
		childMark + "=1", "PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "IRIS_WORKSPACE=" + p.workspace,
		"IRIS_API_PORT=" + strconv.Itoa(p.port), "IRIS_API_TOKEN=" + operatorToken,
		"IRIS_WEBUI_PASSWORD=" + pagePassword, "IRIS_PROVIDER=rehearsal",
		"GORACE=atexit_sleep_ms=20", // and no second of sleep before every exit
	}, p.environ, environ)
	s := &server{p: p, cmd: cmd, stdout: &record{}, stderr: &record{}, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = s.stdout, s.stderr
	// Commands that outlive a killed server keep its output open.
	cmd.WaitDelay = 10 * time.Millisecond
	if s.stdin, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	go func() {
		s.err = cmd.Wait()
		close(s.exited)
	}()
	p.t.Cleanup(s.kill)
	return s
}

// serve starts a server that must come up.
func (p *place) serve(environ ...string) *server {
	p.t.Helper()
	s := p.start(environ...)
	if err := s.ready(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	return s
}

// ready returns when GET /readyz says 200.
func (s *server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.p.url("/readyz"), nil)
		if err != nil {
			return err
		}
		resp, err := s.p.client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.exited:
			return fmt.Errorf("the server ended before it was ready: %v\n%s", s.err, s.stderr)
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %w\n%s", ctx.Err(), s.stderr)
		case <-time.After(3 * time.Millisecond):
		}
	}
}

// kill is kill -9. It returns when the process is gone.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.exited
	s.stdin.Close()
}

func (s *server) signal(sig os.Signal) {
	s.p.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.p.t.Fatal(err)
	}
}

// wait returns the exit code.
func (s *server) wait() int {
	s.p.t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		s.p.t.Fatalf("the server does not end\n%s", s.stderr)
	}
	s.stdin.Close()
	var exit *exec.ExitError
	if errors.As(s.err, &exit) {
		return exit.ExitCode()
	}
	if s.err != nil && !errors.Is(s.err, exec.ErrWaitDelay) {
		s.p.t.Fatal(s.err)
	}
	return 0
}

// stop ends a server in good order.
func (s *server) stop() {
	s.p.t.Helper()
	s.signal(syscall.SIGTERM)
	if code := s.wait(); code != 0 {
		s.p.t.Errorf("exit code %d after SIGTERM\n%s", code, s.stderr)
	}
}

// until polls what happens in another process.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// An answer is what a request came back with.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %s", a.status, strings.TrimSpace(a.body)) }

// call sends a request with the operator's token; headers are "Name: value".
func (p *place) call(ctx context.Context, method, path, body string, headers ...string) (answer, error) {
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url(path), rd)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if value == "" {
			req.Header.Del(name)
			continue
		}
		req.Header.Set(name, value)
	}
	resp, err := p.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(data)}, err
}

// do is call when the server must answer.
func (p *place) do(method, path, body string, headers ...string) answer {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	a, err := p.call(ctx, method, path, body, headers...)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}
