package session

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/journal/file"
	"github.com/iris-operator/iris/internal/turn"
)

// A sweeping is a store whose clock the test turns, over the real journal.
type sweeping struct {
	*testing.T
	root, dir string
	now       time.Time
	journal   *file.Journal
	store     *Store
}

const kept = 24 * time.Hour

func newSweeping(t *testing.T) *sweeping {
	b := &sweeping{T: t, root: t.TempDir(), dir: t.TempDir(), now: time.Now()}
	b.open()
	t.Cleanup(b.close)
	return b
}

func (b *sweeping) open() {
	b.Helper()
	var err error
	if b.journal, err = file.New(file.Options{Dir: b.dir, Clock: func() time.Time { return b.now }}); err != nil {
		b.Fatal(err)
	}
	b.store, err = Open(Options{Root: b.root, Journal: b.journal, BridgeRetention: kept, Now: func() time.Time { return b.now }})
	if err != nil {
		b.Fatal(err)
	}
}

func (b *sweeping) close() {
	b.store.Close()
	b.journal.Close()
}

// write records an entry of a conversation; pin opens a turn and unpin ends it.
func (b *sweeping) write(addr chat.Address, text, pin, unpin string) {
	b.Helper()
	rec := turn.Record{Turn: turn.ID("t-" + text), Checkpoint: json.RawMessage(`{"entries":[{"id":"` + text + `"}]}`)}
	data, err := json.Marshal(rec)
	if err != nil {
		b.Fatal(err)
	}
	seq, err := b.journal.Append(b.Context(), addr.Channel(), journal.Any, journal.Entry{Data: data, Pin: pin, Unpin: unpin})
	if err != nil {
		b.Fatal(err)
	}
	if err := b.store.Project(b.Context(), addr, seq, b.now, rec); err != nil {
		b.Fatal(err)
	}
	// The clock of the files is the test's as well.
	err = os.Chtimes(filepath.Join(b.root, addr.Dir(), contextFile), b.now, b.now)
	if err != nil {
		b.Fatal(err)
	}
}

func (b *sweeping) entries(addr chat.Address, want ...string) {
	b.Helper()
	list, err := b.store.Entries(b.Context(), addr, "")
	if err != nil {
		b.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.ID)
	}
	if len(got) != len(want) {
		b.Fatalf("%s holds %v, want %v", addr, got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			b.Fatalf("%s holds %v, want %v", addr, got, want)
		}
	}
}

func (b *sweeping) sweep(want int) {
	b.Helper()
	if n, err := b.store.Sweep(b.Context()); err != nil || n != want {
		b.Fatalf("Sweep = %d, %v, want %d", n, err, want)
	}
}

// Spec 16 #20: the directories and contexts of the bridge have a retention, and
// what was forgotten does not come back from the journal.
func TestSweepForgetsBridgeConversations(t *testing.T) {
	b := newSweeping(t)
	old, busy := chat.Address{Space: chat.Bridge, ID: "old"}, chat.Address{Space: chat.Bridge, ID: "busy"}
	session := chat.Address{Space: chat.Session, ID: "s1"}
	b.write(old, "a", "", "")
	b.write(busy, "b", "turn-1", "")
	b.write(session, "c", "", "")
	for _, dir := range []string{"BRIDGE-old/attachments", "BRIDGE-bad id", "BRIDGE-empty"} {
		if err := os.MkdirAll(filepath.Join(b.root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, filepath.Join(b.root, "BRIDGE-link")); err != nil {
		t.Fatal(err)
	}
	b.sweep(0)
	b.now = b.now.Add(kept + time.Minute)
	b.sweep(2) // old, and the one without files
	for _, gone := range []string{"BRIDGE-old", "BRIDGE-empty"} {
		if _, err := os.Lstat(filepath.Join(b.root, gone)); !os.IsNotExist(err) {
			t.Errorf("%s: %v, want it gone", gone, err)
		}
	}
	for _, stays := range []string{"BRIDGE-busy", "SESSION-s1", "BRIDGE-bad id", "BRIDGE-link"} {
		if _, err := os.Lstat(filepath.Join(b.root, stays)); err != nil {
			t.Errorf("%s: %v, want it kept", stays, err)
		}
	}
	b.entries(old)
	b.entries(busy, "b")
	b.sweep(0)

	// The same after a restart, and when the journal makes sure of its copies.
	b.close()
	b.open()
	if err := b.store.CatchUpAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(b.root, "BRIDGE-old")); !os.IsNotExist(err) {
		t.Errorf("a conversation that was forgotten is back: %v", err)
	}
	b.write(old, "new", "", "")
	b.entries(old, "new")
	b.close()
	b.open()
	b.entries(old, "new")

	// A history that is lost before it is old is made again, without what was
	// forgotten.
	if err := os.RemoveAll(filepath.Join(b.root, "BRIDGE-old")); err != nil {
		t.Fatal(err)
	}
	b.close()
	b.open()
	b.entries(old, "new")

	// A turn that ends is the last word.
	b.write(busy, "d", "", "turn-1")
	b.sweep(0)
	b.now = b.now.Add(kept + time.Minute)
	b.sweep(2)
	b.entries(busy)
}

// Retention 0 is for ever.
func TestSweepKeepsForEver(t *testing.T) {
	s, err := Open(Options{Root: t.TempDir(), Now: func() time.Time { return time.Now().Add(1e6 * time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.root.Mkdir("BRIDGE-a", dirMode); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
}
