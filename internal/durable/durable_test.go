package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// alone fails if anything but the named files is in dir.
func alone(t *testing.T, dir string, want int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != want {
		t.Errorf("%s holds %v, %v, want %d files", dir, entries, err, want)
	}
}

func umask(t *testing.T, mask int) {
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}

func TestModes(t *testing.T) {
	umask(t, 0o027)
	for name, c := range map[string]struct {
		was, want fs.FileMode // 0: not there
		mode      Mode
	}{
		"keep, new":           {0, 0o644, Keep(0o644)},
		"keep what is there":  {0o640, 0o640, Keep(0o600)},
		"keep less":           {0o400, 0o400, Keep(0o600)},
		"keep special bits":   {0o750 | fs.ModeSetgid, 0o750 | fs.ModeSetgid, Keep(0o600)},
		"exactly, new":        {0, 0o666, Exactly(0o666)},
		"exactly, was looser": {0o644, 0o600, Exactly(0o600)},
		"masked, new":         {0, 0o640, Masked(0o666)},
		"masked, there":       {0o666, 0o666, Masked(0o600)},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "f")
			if c.was != 0 {
				if err := errors.Join(os.WriteFile(path, []byte("old"), 0o600), os.Chmod(path, c.was)); err != nil {
					t.Fatal(err)
				}
			}
			if err := Replace(path, []byte("new"), c.mode); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil || info.Mode() != c.want {
				t.Errorf("mode %v, %v, want %v", info.Mode(), err, c.want)
			}
			if got := read(t, path); got != "new" {
				t.Errorf("holds %q", got)
			}
			alone(t, filepath.Dir(path), 1)
		})
	}
}

func TestRootLeavesTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	for name, c := range map[string]struct {
		there bool
		mode  Mode
		want  uint32
	}{
		"keep":        {true, Keep(0o600), 4242},
		"masked":      {true, Masked(0o600), 4242},
		"exactly":     {true, Exactly(0o600), 0},
		"keep, new":   {false, Keep(0o600), 4343}, // the directory's
		"masked, new": {false, Masked(0o600), 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			path := filepath.Join(dir, "f")
			err := errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, 4343, 4343))
			if c.there {
				err = errors.Join(err, os.WriteFile(path, nil, 0o600), os.Chown(path, 4242, 4242))
			}
			if err = errors.Join(err, Replace(path, []byte("new"), c.mode)); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if st := info.Sys().(*syscall.Stat_t); st.Uid != c.want || st.Gid != c.want {
				t.Errorf("owner %d:%d, want %d", st.Uid, st.Gid, c.want)
			}
		})
	}
}

func TestLinkAtTheTargetIsReplaced(t *testing.T) {
	dir := t.TempDir()
	other, path := filepath.Join(dir, "other"), filepath.Join(dir, "f")
	for name, target := range map[string]string{"a file": "other", "nothing": "gone", "outside": "/etc/hostname"} {
		if err := errors.Join(os.WriteFile(other, []byte("other"), 0o666), os.Chmod(other, 0o666), os.Symlink(target, path)); err != nil {
			t.Fatal(err)
		}
		if err := Replace(path, []byte("new"), Keep(0o600)); err != nil {
			t.Errorf("a link to %s: %v", name, err)
		}
		if info, err := os.Lstat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("a link to %s: %v, %v, want a file with 0600", name, info.Mode(), err)
		}
		if got := read(t, other); got != "other" {
			t.Errorf("a link to %s: what it led to holds %q", name, got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		if err := Create(path, []byte("new"), Keep(0o600)); !errors.Is(err, fs.ErrExist) {
			t.Errorf("create where a link to %s is: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDirectoryAtTheTarget(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "f"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(dir, "f"), []byte("new"), Keep(0o600)); err == nil {
		t.Error("a directory was replaced")
	}
	if err := Replace(filepath.Join(dir, "none", "f"), nil, Keep(0o600)); !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, ErrBeside) {
		t.Errorf("no directory: %v", err)
	}
	alone(t, dir, 1)
}

// A real full disk: the kernel takes no more of a file than the limit says.
func TestRealDiskThatTakesNoMore(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	low := old
	low.Cur = 1 << 20 // coverage and results of the test binary stay below
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &low); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old) //nolint:errcheck // the old limit
	big := bytes.Repeat([]byte("x"), 2<<20)
	if err := Replace(path, big, Keep(0o600)); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("replace: %v, want EFBIG", err)
	}
	if err := Create(filepath.Join(dir, "g"), big, Keep(0o600)); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("create: %v, want EFBIG", err)
	}
	if _, err := Swap(path, big); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("swap: %v, want EFBIG", err)
	}
	if got := read(t, path); got != "old" {
		t.Errorf("holds %d bytes, want the old text", len(got))
	}
	alone(t, dir, 1)
}

func TestConcurrentWriters(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	path := filepath.Join(dir, "f")
	text := func(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%02d ", i), 5000) }
	var writers sync.WaitGroup
	var created atomic.Int32
	for i := range 8 {
		writers.Go(func() {
			switch err := CreateIn(root, "once", text(i), Keep(0o600)); {
			case err == nil:
				created.Add(1)
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
			for range 10 {
				if err := errors.Join(Replace(path, text(i), Keep(0o600)), ReplaceIn(root, "f", text(i), Keep(0o600))); err != nil {
					t.Error(err)
				}
				if got, err := os.ReadFile(path); err != nil || len(got) != 15000 || !bytes.Equal(got, bytes.Repeat(got[:3], 5000)) {
					t.Errorf("a reader sees %d bytes of several writers, %v", len(got), err)
				}
			}
		})
	}
	writers.Wait()
	if created.Load() != 1 {
		t.Errorf("%d writers created one file", created.Load())
	}
	alone(t, dir, 2)
}

func TestBelowARoot(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceIn(root, "a/b/f", []byte("new"), Keep(0o600)); err != nil || read(t, filepath.Join(dir, "a/b/f")) != "new" {
		t.Errorf("a/b/f: %v", err)
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(dir, "out")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"../f", "out/f", "none/f"} {
		if err := ReplaceIn(root, p, nil, Keep(0o600)); err == nil {
			t.Errorf("%s was written", p)
		}
	}
}

func TestRemoveAndSyncDir(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := errors.Join(Create(path, nil, Keep(0o600)), Remove(path), SyncDir(dir)); err != nil {
		t.Error(err)
	}
	alone(t, dir, 0)
	if err := Remove(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("remove again: %v", err)
	}
	if err := SyncDir(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("sync what is not there: %v", err)
	}
}

func TestSwapLeavesTheFileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	first, err := Swap(path, []byte("one\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := Swap(path, []byte("two\n"))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	for f, text := range map[*os.File]string{first: "of one\n", second: "of two\n"} {
		if _, err := f.WriteString(text); err != nil {
			t.Error(err)
		}
	}
	if got := read(t, path); got != "two\nof two\n" {
		t.Errorf("holds %q", got)
	}
	alone(t, filepath.Dir(path), 1)
}
