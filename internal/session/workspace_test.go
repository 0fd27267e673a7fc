package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

// tree lays out files in a fresh workspace.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "ws")
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func prepare(t *testing.T, root string) error {
	t.Helper()
	return Prepare(PrepareOptions{Root: root, Now: func() time.Time { return epoch }, Logger: slog.New(slog.DiscardHandler)})
}

func at(t *testing.T, root, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return "missing"
	}
	return strings.TrimSpace(string(data))
}

func TestPrepareFresh(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "b")
	if err := CheckWorkspace(root); err != nil {
		t.Errorf("CheckWorkspace of nothing = %v", err)
	}
	for range 2 {
		if err := prepare(t, root); err != nil {
			t.Fatal(err)
		}
	}
	if got := at(t, root, formatFile); got != `{"format":1}` {
		t.Errorf("format = %q", got)
	}
	info, err := os.Stat(filepath.Join(root, "state"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("state: %v, %v", info.Mode(), err)
	}
	if left, _ := os.ReadDir(filepath.Join(root, "state")); len(left) != 1 {
		t.Errorf("state holds %v", left)
	}
}

// Operator §1.3 step 4.
func TestPrepareMovesOldDirectories(t *testing.T) {
	root := tree(t, map[string]string{
		"tg-5/log.jsonl": "t", "C1/log.jsonl": "c", "D024BE91L/x": "d", "G1/x": "g", "W1/x": "w", "data/channels.json": "m",
		"Documents/x": "mine", "SESSION-C1/log.jsonl": "s", "events/e.json": "e", "skills/C/SKILL.md": "k",
		"G2/x": "new", "slack/G2/x": "old",
	})
	if err := os.Symlink("log.jsonl", filepath.Join(root, "C1", "link")); err != nil {
		t.Fatal(err)
	}
	if err := prepare(t, root); err != nil {
		t.Fatal(err)
	}
	backup := backupDir + "/20270301T120000.000Z/"
	for name, want := range map[string]string{
		"telegram/tg-5/log.jsonl": "t", "slack/C1/log.jsonl": "c", "slack/C1/link": "c", "slack/D024BE91L/x": "d", "slack/G1/x": "g", "slack/W1/x": "w",
		"meta/channels.json": "m", "Documents/x": "mine", "SESSION-C1/log.jsonl": "s", "events/e.json": "e",
		"G2/x": "new", "slack/G2/x": "old", "C1/log.jsonl": "missing",
		backup + "tg-5/log.jsonl": "t", backup + "C1/log.jsonl": "c", backup + "C1/link": "c", backup + "data/channels.json": "m", backup + "G2/x": "missing",
		formatFile: `{"format":1}`,
	} {
		if got := at(t, root, name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestPrepareKeepsMeta(t *testing.T) {
	root := tree(t, map[string]string{"data/x": "old", "meta/x": "new"})
	if err := prepare(t, root); err != nil {
		t.Fatal(err)
	}
	if at(t, root, "data/x") != "old" || at(t, root, "meta/x") != "new" {
		t.Error("data replaced meta")
	}
}

func TestPrepareCompletesACutMigration(t *testing.T) {
	// Killed after tg-1 was moved and half of C1 was copied.
	root := tree(t, map[string]string{
		formatFile:          `{"format":0,"migrating":1,"backup":"state/backup/then"}`,
		"telegram/tg-1/log": "1", "C1/a": "a", "C1/b": "b",
		"state/backup/then/tg-1/log": "1", "state/backup/then/C1/a": "half",
	})
	if err := CheckWorkspace(root); err != nil {
		t.Errorf("CheckWorkspace = %v", err)
	}
	if err := prepare(t, root); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"slack/C1/a": "a", "slack/C1/b": "b", "telegram/tg-1/log": "1", "state/backup/then/C1/a": "a", "state/backup/then/C1/b": "b",
		"state/backup/then/tg-1/log": "1", formatFile: `{"format":1}`,
	} {
		if got := at(t, root, name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	// Killed after the last move.
	root = tree(t, map[string]string{formatFile: `{"format":0,"migrating":1,"backup":"state/backup/then"}`, "slack/C1/a": "a"})
	if err := prepare(t, root); err != nil || at(t, root, formatFile) != `{"format":1}` {
		t.Errorf("Prepare = %v, format %s", err, at(t, root, formatFile))
	}
}

func TestPrepareRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		format string
		want   error
	}{
		"newer":           {`{"format":2}`, ErrFormat},
		"newer, half way": {`{"format":1,"migrating":2}`, ErrFormat},
		"empty":           {"", ErrCorrupt},
		"cut":             {`{"form`, ErrCorrupt},
		"zero":            {`{}`, ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, map[string]string{formatFile: c.format, "C1/x": "x"})
			for _, err := range []error{CheckWorkspace(root), prepare(t, root)} {
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), filepath.Join(root, formatFile)) {
					t.Errorf("error = %v, want %v with the path", err, c.want)
				}
			}
			if at(t, root, formatFile) != c.format || at(t, root, "C1/x") != "x" {
				t.Error("something was changed")
			}
		})
	}
	if err := Prepare(PrepareOptions{}); err == nil {
		t.Error("Prepare without a workspace succeeded")
	}
	file := filepath.Join(tree(t, map[string]string{"f": ""}), "f")
	if err := prepare(t, file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("Prepare of a file = %v", err)
	}
}

// A disk that takes nothing is one error that names the path. /proc stands for
// it, as it also refuses root.
func TestPrepareSaysThatTheDiskCannotBeWritten(t *testing.T) {
	err := prepare(t, "/proc/iris")
	if err == nil || !strings.Contains(err.Error(), "/proc/iris") || strings.Count(err.Error(), "\n") != 0 {
		t.Errorf("Prepare on a read-only disk = %v", err)
	}
	root := tree(t, map[string]string{"x": ""})
	if err := os.Symlink("/proc/self", filepath.Join(root, "state")); err != nil {
		t.Fatal(err)
	}
	err = prepare(t, root)
	if err == nil || !strings.Contains(err.Error(), root+" cannot be written") {
		t.Errorf("Prepare with an unwritable state = %v", err)
	}
}

func TestWriteToAFullDisk(t *testing.T) {
	b := newBed(t)
	b.hear("1", "x")
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no /dev/full on this system")
	}
	defer full.Close()
	ext := extent{}
	if err := b.store.writeTo(&handle{File: full}, &ext, []byte("line\n")); err == nil || ext.size != 0 {
		t.Errorf("writeTo = %v, extent %+v", err, ext)
	}
}

func TestHandlesAreBounded(t *testing.T) {
	b := newBed(t)
	for i := range 2 * maxOpen {
		b.addr.ID = strings.Repeat("x", 1+i%100) + string(rune('a'+i%26))
		b.hear(b.addr.ID, "x")
		b.save(entry("e"))
	}
	if n := b.store.files.order.Len(); n > maxOpen {
		t.Errorf("%d files are open, more than %d", n, maxOpen)
	}
	if n := len(b.store.files.open); n != b.store.files.order.Len() {
		t.Errorf("%d names for %d handles", n, b.store.files.order.Len())
	}
}

func TestConversationsAreForgotten(t *testing.T) {
	b := newBed(t)
	for i := range maxConvs + 50 {
		b.addr.ID = "s" + strings.Repeat("0", i%7) + string(rune('a'+i%26)) + strings.Repeat("1", i/26)
		if _, err := b.store.Settings(t.Context(), b.addr); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.store.convs); n > maxConvs || n != b.store.order.Len() {
		t.Errorf("%d conversations are remembered (%d in order)", n, b.store.order.Len())
	}
	held, _ := b.store.acquire(b.addr)
	if held.refs != 1 {
		t.Errorf("refs = %d", held.refs)
	}
	b.store.release(held)
}

// A conversation that had one turn costs next to nothing until its next.
func TestMemoryOfAThousandConversations(t *testing.T) {
	b := newBed(t)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	s, err := Open(Options{Root: b.root})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	message := chat.Message{ID: "1", Text: strings.Repeat("question ", 100), At: epoch}
	saved, err := json.Marshal(Saved{Entries: []Entry{entry("a", "1"), entry("b")}})
	if err != nil {
		t.Fatal(err)
	}
	const n = 1000
	before := heap()
	for i := range int64(n) {
		addr := chat.Address{Space: chat.Session, ID: fmt.Sprintf("conversation-%d", i)}
		for j, rec := range []turn.Record{
			{Turn: "t", Accepted: &turn.Accepted{Message: message}},
			{Turn: "t", Checkpoint: saved},
			{Turn: "t", Event: &turn.Event{Kind: turn.Final, Text: message.Text}},
		} {
			if err := s.Project(t.Context(), addr, 3*i+int64(j)+1, epoch, rec); err != nil {
				t.Fatal(err)
			}
			if j == 0 {
				if _, err := s.Unseen(t.Context(), addr, nil, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := s.Entries(t.Context(), addr, ""); err != nil {
			t.Fatal(err)
		}
	}
	per := (heap() - before) / n
	t.Logf("%d bytes each", per)
	if per > 4<<10 {
		t.Errorf("a conversation costs %d bytes after its turn", per)
	}
	runtime.KeepAlive(s)
}
