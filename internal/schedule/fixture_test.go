package schedule

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	leasefile "github.com/iris-operator/iris/internal/lease/file"
	"github.com/iris-operator/iris/internal/transport"
)

// inbox takes messages once per id, like the engine.
type inbox struct {
	mu    sync.Mutex
	got   []transport.Submission
	at    []time.Time
	again int
	said  []string // to the operator
	// refuse, when set, answers instead.
	refuse func(n int) error
	calls  int
}

func (b *inbox) Submit(_ context.Context, s transport.Submission) (transport.Receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	if b.refuse != nil {
		if err := b.refuse(b.calls); err != nil {
			return transport.Receipt{}, err
		}
	}
	for _, g := range b.got {
		if g.Address == s.Address && g.Message.ID == s.Message.ID {
			b.again++
			return transport.Receipt{Outcome: transport.Accepted, Turn: g.Turn, Duplicate: true}, nil
		}
	}
	b.got, b.at = append(b.got, s), append(b.at, time.Now())
	return transport.Receipt{Outcome: transport.Accepted, Turn: s.Turn}, nil
}

func (b *inbox) Command(context.Context, transport.Command) (transport.Reply, error) {
	return transport.Reply{}, errors.ErrUnsupported
}

func (b *inbox) Answer(context.Context, transport.Answer) (transport.Reply, error) {
	return transport.Reply{}, errors.ErrUnsupported
}

func (b *inbox) Watch(context.Context, chat.Address, int64) iter.Seq2[transport.Seen, error] {
	return func(func(transport.Seen, error) bool) {}
}

func (b *inbox) texts() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []string{}
	for _, s := range b.got {
		out = append(out, s.Message.Text)
	}
	return out
}

// The rest reads what the scheduler writes.

func (b *inbox) put(s transport.Submission) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got, b.at = append(b.got, s), append(b.at, time.Now())
}

func (b *inbox) tell(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.said = append(b.said, text)
}

func (b *inbox) runs() []transport.Submission {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

func (b *inbox) times() []time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.at)
}

func (b *inbox) repeats() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.again
}

func (b *inbox) told() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.said)
}

// bench is a workspace under the clock of a synctest bubble.
type bench struct {
	*testing.T
	root string
	inbox
	opts Options
	poke chan struct{} // something happened in a directory
	stop func()
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, root: t.TempDir(), poke: make(chan struct{}, 1)}
	leases, err := leasefile.New(leasefile.Options{Dir: filepath.Join(b.root, "state", "leases")})
	if err != nil {
		t.Fatal(err)
	}
	b.opts = Options{
		Workspace: b.root, Inbox: &b.inbox, Leases: leases, Rescan: time.Hour,
		Tell:  func(_ context.Context, text string) { b.tell(text) },
		Watch: func(context.Context, []string) (<-chan struct{}, error) { return b.poke, nil },
	}
	return b
}

// put writes an event file as another program would, dated by the bubble's clock.
func (b *bench) put(file, content string) {
	b.Helper()
	path := filepath.Join(b.root, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path+".tmp", []byte(content), 0o600); err != nil {
		b.Fatal(err)
	}
	if err := os.Chtimes(path+".tmp", time.Now(), time.Now()); err != nil {
		b.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		b.Fatal(err)
	}
	b.changed()
}

// changed is what the file system tells.
func (b *bench) changed() {
	select {
	case b.poke <- struct{}{}:
	default:
	}
}

func (b *bench) there(file string) bool {
	_, err := os.Stat(filepath.Join(b.root, file))
	return err == nil
}

// start runs a scheduler until stop is called.
func (b *bench) start() {
	b.Helper()
	s, err := New(b.opts)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, func() {}) }()
	b.stop = func() {
		cancel()
		if err := <-done; err != nil {
			b.Errorf("Serve: %v", err)
		}
		b.stop = func() {}
	}
	b.Cleanup(func() { b.stop() })
}

// pass lets time go by.
func (b *bench) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func bubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(newBench(t)) })
}

func (b *bench) want(texts ...string) {
	b.Helper()
	if texts == nil {
		texts = []string{}
	}
	if diff := cmp.Diff(texts, b.texts()); diff != "" {
		b.Errorf("submitted (-want +got):\n%s", diff)
	}
}
