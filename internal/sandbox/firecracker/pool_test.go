package firecracker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/sandbox/sandboxtest"
	"github.com/iris-operator/iris/internal/secret"
)

// A fakeVM is an exec-server that stands for a machine.
type fakeVM struct {
	srv    *httptest.Server
	addr   string
	done   chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (v *fakeVM) Addr() string          { return v.addr }
func (v *fakeVM) Token() secret.Value   { return secret.Value{} }
func (v *fakeVM) Done() <-chan struct{} { return v.done }
func (v *fakeVM) Close() error {
	v.once.Do(func() {
		v.srv.CloseClientConnections()
		v.srv.Close()
		close(v.closed)
	})
	return nil
}

// machines boot fakeVMs.
type machines struct {
	t      *testing.T
	inside string
	mu     sync.Mutex
	all    []*fakeVM
	refuse error
	hold   chan struct{} // a boot waits for it
}

func (m *machines) boot(ctx context.Context) (VM, error) {
	if m.hold != nil {
		select {
		case <-m.hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuse != nil {
		return nil, m.refuse
	}
	srv, ip, port := exec(m.t, m.inside)
	vm := &fakeVM{srv: srv, addr: fmt.Sprintf("%s:%d", ip, port), done: make(chan struct{}), closed: make(chan struct{})}
	m.all = append(m.all, vm)
	return vm, nil
}

func (m *machines) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.all)
}

func pool(t *testing.T, change func(*PoolOptions)) (*Pool, *machines, string) {
	t.Helper()
	workspace, inside := dirs(t)
	m := &machines{t: t, inside: inside}
	opts := PoolOptions{Workspace: workspace, Inside: inside, Boot: m.boot}
	if change != nil {
		change(&opts)
	}
	p, err := NewPool(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p, m, workspace
}

func run(t *testing.T, p *Pool, conv chat.Address, script string) string {
	t.Helper()
	var out strings.Builder
	exit, err := p.Run(t.Context(), sandbox.Command{Conversation: conv, Script: script, Stdout: &out, Stderr: &out, Env: os.Environ(), Timeout: time.Minute})
	if err != nil || exit.Code != 0 {
		t.Fatalf("Run(%q): %+v, %v: %s", script, exit, err, out.String())
	}
	return strings.TrimSpace(out.String())
}

func gone(t *testing.T, vm *fakeVM) {
	t.Helper()
	select {
	case <-vm.closed:
	case <-time.After(15 * time.Second):
		t.Fatal("the machine is still there")
	}
}

func TestPoolSuite(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Box {
		p, _, workspace := pool(t, nil)
		return sandboxtest.Box{Sandbox: p, Workspace: workspace}
	})
}

// TestPoolOneMachinePerConversation boots at the first command and keeps
// conversations apart.
func TestPoolOneMachinePerConversation(t *testing.T) {
	p, m, _ := pool(t, nil)
	if p.Name() != "firecracker-pool" || m.count() != 0 {
		t.Errorf("%s, %d machines before the first command", p.Name(), m.count())
	}
	two := chat.Address{Space: chat.Session, ID: "two"}
	var wg sync.WaitGroup
	for range 4 { // at once, into one machine each
		wg.Go(func() { run(t, p, conv, "true") })
		wg.Go(func() { run(t, p, two, "true") })
	}
	wg.Wait()
	if m.count() != 2 {
		t.Errorf("%d machines for two conversations", m.count())
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	for _, vm := range m.all {
		gone(t, vm)
	}
	if _, err := p.Run(t.Context(), sandbox.Command{Conversation: conv, Script: "true"}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestPoolIdle ends a machine after 30 minutes without a command, and boots a new
// one at the next: operator §16.24.
func TestPoolIdle(t *testing.T) {
	tick := make(chan time.Time)
	var mu sync.Mutex
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p, m, _ := pool(t, func(o *PoolOptions) {
		o.Tick = tick
		o.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	pass := func(d time.Duration) {
		mu.Lock()
		now = now.Add(d)
		mu.Unlock()
		tick <- now
		tick <- now // the first has been dealt with
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- p.Serve(ctx) }()
	run(t, p, conv, "true")
	pass(29 * time.Minute)
	run(t, p, conv, "true")
	pass(29 * time.Minute)
	if run(t, p, conv, "true"); m.count() != 1 {
		t.Fatalf("%d machines before it was idle for 30 minutes", m.count())
	}
	pass(30 * time.Minute)
	gone(t, m.all[0])
	if run(t, p, conv, "true"); m.count() != 2 {
		t.Errorf("%d machines, want a second one", m.count())
	}
	// A command that runs is no idleness.
	began, end := make(chan struct{}), make(chan error)
	go func() {
		var once sync.Once
		_, err := p.Run(t.Context(), sandbox.Command{Conversation: conv, Script: "echo; read -r line", Env: os.Environ(),
			Stdin: blocked{ctx}, Stdout: writer(func() { once.Do(func() { close(began) }) })})
		end <- err
	}()
	<-began
	pass(3 * time.Hour)
	select {
	case <-m.all[1].closed:
		t.Error("a machine at work was ended")
	default:
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
	gone(t, m.all[1])
	<-end
}

type blocked struct{ ctx context.Context }

func (b blocked) Read([]byte) (int, error) { <-b.ctx.Done(); return 0, b.ctx.Err() }

type writer func()

func (w writer) Write(p []byte) (int, error) { w(); return len(p), nil }

// TestPoolReset ends the machine of one conversation.
func TestPoolReset(t *testing.T) {
	p, m, _ := pool(t, nil)
	two := chat.Address{Space: chat.Session, ID: "two"}
	run(t, p, conv, "true")
	run(t, p, two, "true")
	p.Reset(conv)
	p.Reset(chat.Address{Space: chat.Session, ID: "none"})
	gone(t, m.all[0])
	if run(t, p, two, "true"); m.count() != 2 {
		t.Errorf("%d machines", m.count())
	}
	if run(t, p, conv, "true"); m.count() != 3 {
		t.Errorf("%d machines after the reset", m.count())
	}
}

// TestPoolResetDuringBoot gives up the boot; the command that waits is told.
func TestPoolResetDuringBoot(t *testing.T) {
	p, m, _ := pool(t, nil)
	m.hold = make(chan struct{})
	failed := make(chan error)
	go func() {
		_, err := p.Run(t.Context(), sandbox.Command{Conversation: conv, Script: "true"})
		failed <- err
	}()
	for deadline := time.Now().Add(10 * time.Second); ; {
		p.mu.Lock()
		waiting := len(p.places)
		p.mu.Unlock()
		if waiting == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no boot")
		}
		time.Sleep(time.Millisecond)
	}
	p.Reset(conv)
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("the command that waited: %v", err)
	}
}

// TestPoolStopDuringBoot stops a command that waits for its machine; the machine
// is there for the next.
func TestPoolStopDuringBoot(t *testing.T) {
	p, m, _ := pool(t, nil)
	m.hold = make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	exit, err := p.Run(ctx, sandbox.Command{Conversation: conv, Script: "true"})
	if err != nil || !exit.Aborted || exit.Code == 0 {
		t.Errorf("%+v, %v", exit, err)
	}
	close(m.hold)
	if run(t, p, conv, "true"); m.count() != 1 {
		t.Errorf("%d machines", m.count())
	}
}

// TestPoolNoSlot tells why there is no machine, and tries again at the next
// command.
func TestPoolNoSlot(t *testing.T) {
	p, m, _ := pool(t, nil)
	m.refuse = errors.New("no free microVM slot: all 254 are in use")
	if _, err := p.Run(t.Context(), sandbox.Command{Conversation: conv, Script: "true"}); err == nil || !strings.Contains(err.Error(), "no free microVM slot") {
		t.Errorf("Run: %v", err)
	}
	if _, _, err := p.ReadFile(t.Context(), conv, "/x", 0, 1); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile: %v", err)
	}
	m.mu.Lock()
	m.refuse = nil
	m.mu.Unlock()
	run(t, p, conv, "true")
}

// TestPoolMachineDies goes on with a new machine, and never repeats a command by
// itself.
func TestPoolMachineDies(t *testing.T) {
	p, m, _ := pool(t, nil)
	run(t, p, conv, "true")
	m.all[0].srv.CloseClientConnections()
	m.all[0].srv.Close() // the guest is gone, the VMM has not noticed
	_, err := p.Run(t.Context(), sandbox.Command{Conversation: conv, Script: "true"})
	if err == nil || !strings.Contains(err.Error(), "the microVM of this conversation is gone") {
		t.Errorf("Run: %v", err)
	}
	gone(t, m.all[0])
	run(t, p, conv, "true")
	close(m.all[1].done) // the VMM ended
	if run(t, p, conv, "true"); m.count() != 3 {
		t.Errorf("%d machines", m.count())
	}
	gone(t, m.all[1])
}

// TestPoolShare brings attachments in: operator §16.25, what the tools read is
// where the commands run.
func TestPoolShare(t *testing.T) {
	var root string
	p, _, workspace := pool(t, func(o *PoolOptions) {
		root = o.Workspace
		o.Share = func(c chat.Address) []string {
			return []string{filepath.Join(root, c.Channel(), "attachments"), filepath.Join(root, "skills", "one.md")}
		}
	})
	dir := filepath.Join(workspace, conv.Channel(), "attachments")
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(dir, "a b.csv"), "1,2")
	put(filepath.Join(workspace, "skills", "one.md"), "# one")
	put(filepath.Join(workspace, "skills", "two.md"), "# two")
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	inside := p.Path(dir)
	if got := run(t, p, conv, "cat '"+inside+"/a b.csv'; ls '"+inside+"' | wc -l; ls "+p.Path(workspace)+"/skills"); got != "1,21\none.md" {
		t.Errorf("the machine has %q", got)
	}
	if data, _, err := p.ReadFile(t.Context(), conv, inside+"/a b.csv", 0, 10); err != nil || string(data) != "1,2" {
		t.Errorf("ReadFile: %q, %v", data, err)
	}
	// What is changed inside stays; what comes later comes in.
	run(t, p, conv, "echo mine > '"+inside+"/a b.csv'")
	put(filepath.Join(dir, "later"), "later")
	if got := run(t, p, conv, "cat '"+inside+"/a b.csv' "+inside+"/later"); got != "mine\nlater" {
		t.Errorf("the machine has %q", got)
	}
	if _, err := os.Stat(filepath.Join(workspace, "mine")); err == nil {
		t.Error("something came out of the machine by itself")
	}
}

func TestPoolShareOutside(t *testing.T) {
	p, _, _ := pool(t, func(o *PoolOptions) { o.Share = func(chat.Address) []string { return []string{"/etc"} } })
	if _, err := p.Run(t.Context(), sandbox.Command{Conversation: conv, Script: "true"}); err == nil || !strings.Contains(err.Error(), "/etc is not in the workspace") {
		t.Errorf("Run: %v", err)
	}
}

func TestNewPoolRefuses(t *testing.T) {
	if _, err := NewPool(PoolOptions{Workspace: "/w"}); err == nil {
		t.Error("a pool without a way to boot")
	}
	if _, err := NewPool(PoolOptions{Workspace: "w", Boot: (&machines{}).boot}); err == nil {
		t.Error("a relative workspace")
	}
}
