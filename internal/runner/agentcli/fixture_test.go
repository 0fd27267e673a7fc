package agentcli_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/agentcli/clitest"
	"github.com/iris-operator/iris/internal/runner/runnertest"
	"github.com/iris-operator/iris/internal/turn"
)

func TestMain(m *testing.M) {
	clitest.Main()
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

var thread = chat.Address{Space: chat.Web, ID: "thread"}

// A stage is a Pool with one project, the fake program, and what people see.
type stage struct {
	t    testing.TB
	pool *agentcli.Pool
	r    *agentcli.Runner
	work string
	opts agentcli.Options
	logs lockedBuffer

	mu      sync.Mutex
	now     time.Time
	notices []string
	audit   []agentcli.Asked
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func self(t testing.TB) string {
	t.Helper()
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

func newStage(t testing.TB, change func(*agentcli.Options)) *stage {
	t.Helper()
	s := &stage{t: t, work: t.TempDir(), now: time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)}
	s.opts = agentcli.Options{
		Dir: filepath.Join(t.TempDir(), "state", "agentcli"), Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()},
		Owner:    "test" + strconv.Itoa(os.Getpid()),
		Projects: []agentcli.Project{{Name: "fake", Driver: clitest.Driver{}, Bin: self(t), WorkDir: s.work, Mode: agentcli.Auto}},
		Notice: func(_ context.Context, _ chat.Address, text string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.notices = append(s.notices, text)
			return nil
		},
		Audit: func(a agentcli.Asked) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.audit = append(s.audit, a)
		},
		Now: func() time.Time {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.now
		},
		Logger: slog.New(slog.NewTextHandler(&s.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&s.opts)
	}
	s.restart()
	t.Cleanup(func() {
		s.pool.Close()
		if t.Failed() {
			t.Logf("log:\n%s", &s.logs)
		}
	})
	return s
}

// restart is what the next process of Iris finds.
func (s *stage) restart() {
	s.t.Helper()
	if s.pool != nil {
		s.pool.Close()
	}
	pool, err := agentcli.New(s.opts)
	if err != nil {
		s.t.Fatal(err)
	}
	s.pool, s.r = pool, pool.Runner("fake")
}

// A going is a turn that runs.
type going struct {
	*runnertest.Sink
	t    testing.TB
	stop context.CancelCauseFunc
	done chan error // one value
	req  turn.Request
}

func (s *stage) start(text string) *going { return s.startIn(thread, text) }

func (s *stage) startIn(conv chat.Address, text string) *going {
	return s.begin(runnertest.Request(conv, text))
}

func (s *stage) begin(req turn.Request) *going {
	ctx, cancel := context.WithCancelCause(context.Background())
	g := &going{Sink: runnertest.NewSink(s.t), t: s.t, stop: cancel, done: make(chan error, 1), req: req}
	go func() {
		g.done <- s.r.Run(ctx, g.req, g.Sink)
		cancel(nil)
	}()
	return g
}

// wait returns the terminal event and what Run returned.
func (g *going) wait() (*turn.Event, error) {
	g.t.Helper()
	select {
	case err := <-g.done:
		return g.End(), err
	case <-time.After(patience):
		g.t.Fatalf("the turn does not end; events: %+v", g.Events())
		return nil, nil
	}
}

// say runs a turn that must end with a reply.
func (s *stage) say(text string) string { s.t.Helper(); return s.sayIn(thread, text) }

func (s *stage) sayIn(conv chat.Address, text string) string {
	s.t.Helper()
	end, err := s.startIn(conv, text).wait()
	if err != nil || end == nil || end.Kind != turn.Final {
		s.t.Fatalf("%q: Run = %v, end = %+v; want a reply", text, err, end)
	}
	return end.Text
}

func (s *stage) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.notices...)
}

func (s *stage) later(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
}

func (s *stage) status() agentcli.Status {
	s.t.Helper()
	st, err := s.r.Status(thread)
	if err != nil {
		s.t.Fatal(err)
	}
	return st
}

// eventually polls something outside of the test's process.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, patience)
		}
		pause := time.NewTimer(5 * time.Millisecond)
		<-pause.C
	}
}

// running reports whether a process is there and no zombie.
func running(pid string) bool {
	data, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(pid), "stat"))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	return len(fields) > 0 && fields[0] != "Z" && fields[0] != "X"
}

func hasText(text string) func(turn.Event) bool {
	return func(e turn.Event) bool { return e.Kind == turn.Text && !e.Partial && strings.Contains(e.Text, text) }
}

var errSomething = errors.New("something")

func lines(l ...string) string { return strings.Join(l, "\n") }

func number(n int) chat.Address { return chat.Address{Space: chat.Web, ID: fmt.Sprintf("t%d", n)} }

// readSession is what the program has noted of its prompts.
func readSession(t testing.TB, s *stage) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(s.work, ".clitest", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sessions: %v", err)
	}
	var all strings.Builder
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(data)
	}
	return all.String()
}

func newSink(t testing.TB) *runnertest.Sink { return runnertest.NewSink(t) }

func request(text string) turn.Request { return runnertest.Request(thread, text) }
