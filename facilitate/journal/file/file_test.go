package file_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/journal/file"
	"github.com/iris-operator/iris/facilitate/journal/journaltest"
)

func TestStore(t *testing.T) {
	dirs := map[journal.Store]string{}
	journaltest.Run(t, func(t *testing.T) journal.Store {
		dir := t.TempDir()
		s, err := file.New(file.Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		dirs[s] = dir
		return s
	}, func(t *testing.T, s journal.Store, room string) (out []byte) {
		filepath.Walk(filepath.Join(dirs[s], room), func(p string, info os.FileInfo, err error) error {
			if err == nil && !info.IsDir() {
				data, _ := os.ReadFile(p)
				out = append(out, data...)
			}
			return err
		})
		return out
	})
}

func reopen(t *testing.T, dir string) *file.Store {
	t.Helper()
	s, err := file.New(file.Options{Dir: dir, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOneFilePerCompartmentAndPrivateModes(t *testing.T) {
	dir := t.TempDir()
	journaltest.Write(t, reopen(t, dir), "r1", "a", "b", "c")
	for _, name := range []string{"room.jsonl", "self.jsonl", "p-ana.jsonl", "keys/ana.key", "keys/_self.key"} {
		info, err := os.Stat(filepath.Join(dir, "r1", name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
}

// TestEveryCutIsAPrefix cuts each file at every byte and loads what is left.
func TestEveryCutIsAPrefix(t *testing.T) {
	src := t.TempDir()
	journaltest.Write(t, reopen(t, src), "r1", "a", "b", "c", "d", "e", "f")
	for _, name := range []string{"room.jsonl", "p-ana.jsonl", "self.jsonl"} {
		data, err := os.ReadFile(filepath.Join(src, "r1", name))
		if err != nil {
			t.Fatal(err)
		}
		for cut := 0; cut < len(data); cut += 19 {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(src)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "r1", name), data[:cut], 0o600); err != nil {
				t.Fatal(err)
			}
			s := reopen(t, dir)
			got := strings.Join(journaltest.Texts(t, s, "r1"), "")
			if !strings.HasPrefix("abcdef", got) || got == "abcdef" {
				t.Fatalf("%s cut at %d: %q", name, cut, got)
			}
			journaltest.Write(t, s, "r1", "x")
			if again := strings.Join(journaltest.Texts(t, reopen(t, dir), "r1"), ""); again != got+"x" {
				t.Fatalf("%s cut at %d: then %q", name, cut, again)
			}
		}
	}
}

func TestCorruptFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	journaltest.Write(t, reopen(t, dir), "r1", "a", "b", "c", "d")
	name := filepath.Join(dir, "r1", "room.jsonl")
	data, _ := os.ReadFile(name)
	os.WriteFile(name, append([]byte("garbage\n"), data...), 0o600)
	for _, err := range reopen(t, dir).Load(t.Context(), "r1", 0) {
		if !errors.Is(err, journal.ErrChain) {
			t.Errorf("loaded: %v", err)
		}
	}
	if got, _ := os.ReadFile(name); !strings.HasPrefix(string(got), "garbage") {
		t.Error("a corrupt file was overwritten")
	}
}

func TestTwoStoresDoNotShareARoom(t *testing.T) {
	dir := t.TempDir()
	unlock, err := reopen(t, dir).Lock(t.Context(), "r1")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := reopen(t, dir).Lock(t.Context(), "r1"); !errors.Is(err, journal.ErrLocked) {
		t.Errorf("second store: %v", err)
	}
}

func TestNamesAreChecked(t *testing.T) {
	s := reopen(t, t.TempDir())
	for _, id := range []string{"..", "a/b", "", "A"} {
		if err := s.Append(t.Context(), id, 0, nil); err == nil {
			t.Errorf("room %q", id)
		}
		if _, err := s.Lock(t.Context(), id); err == nil {
			t.Errorf("lock %q", id)
		}
		if err := s.Erase(t.Context(), id, "", nil); err == nil {
			t.Errorf("erase in %q", id)
		}
		for _, err := range s.Load(t.Context(), id, 0) {
			if err == nil {
				t.Errorf("load %q", id)
			}
		}
	}
	if _, err := s.Key(t.Context(), "r1", "../x"); err == nil {
		t.Error("a key outside")
	}
	if _, err := file.New(file.Options{}); err == nil {
		t.Error("no folder")
	}
	if _, err := file.New(file.Options{Dir: "/dev/null/x"}); err == nil {
		t.Error("a folder in a device")
	}
}
