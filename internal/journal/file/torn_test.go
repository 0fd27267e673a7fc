package file

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/journal"
)

// made writes a small journal of one segment and returns its bytes. It is not
// closed cleanly: there is no index.
func made(t *testing.T) (name string, b []byte) {
	t.Helper()
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	add(t, j, "A", `"one"`)
	add(t, j, "A", `"two"`, `"three"`, `"four"`)
	add(t, j, "A", `"five"`)
	add(t, j, "A", `"six"`, `"seven"`)
	path := segments(t, dir)[0]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(path), b
}

// put makes a directory with one segment.
func put(t *testing.T, name string, b []byte) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

// TestTruncatedAnywhere cuts the segment after every byte. What is left opens
// as whole appends, and goes on.
func TestTruncatedAnywhere(t *testing.T) {
	name, b := made(t)
	appends := [][]string{{`"one"`}, {`"two"`, `"three"`, `"four"`}, {`"five"`}, {`"six"`, `"seven"`}}
	lines := bytes.SplitAfter(b, []byte("\n"))
	for cut := range len(b) + 1 {
		var whole []string
		for end, l, i := 0, 0, 0; i < len(appends); i++ {
			for range appends[i] {
				end += len(lines[l])
				l++
			}
			if end <= cut {
				whole = append(whole, appends[i]...)
			}
		}
		dir, _ := put(t, name, b[:cut])
		o := Options{Dir: dir, OpenFile: (&disk{noSync: true}).open}
		j, err := New(o)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		want(t, j, "A", whole...)
		if n := add(t, j, "A", `"next"`); n != int64(len(whole))+1 {
			t.Errorf("cut at %d: next number %d, want %d", cut, n, len(whole)+1)
		}
		j.Close()
		j = open(t, o)
		want(t, j, "A", append(whole, `"next"`)...)
		j.Close()
		if t.Failed() {
			t.Fatalf("cut at %d", cut)
		}
	}
}

// TestFlippedAnywhere changes every byte. In the middle that is corruption,
// named with file and offset, and nothing is changed; in the last append it is
// a torn end.
func TestFlippedAnywhere(t *testing.T) {
	name, b := made(t)
	lines := bytes.SplitAfter(b, []byte("\n"))
	last := len(b) - len(lines[6]) // where the last line begins
	for at := range b {
		broken := bytes.Clone(b)
		broken[at] ^= 0x15
		dir, path := put(t, name, broken)
		j, err := New(Options{Dir: dir, OpenFile: (&disk{noSync: true}).open})
		if at >= last {
			if err != nil {
				t.Fatalf("byte %d, in the last record: %v", at, err)
			}
			want(t, j, "A", `"one"`, `"two"`, `"three"`, `"four"`, `"five"`)
			j.Close()
			continue
		}
		if !errors.Is(err, journal.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "at byte ") {
			t.Fatalf("byte %d: error %v, want ErrCorrupt with file and offset", at, err)
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, broken) {
			t.Fatalf("byte %d: the corrupt segment was changed", at)
		}
	}
}

// TestHole writes zeros over a record, as a power failure does with what was
// not synced. If a later record knows that it had been synced, it is
// corruption.
func TestHole(t *testing.T) {
	for name, synced := range map[string]bool{"not synced": false, "synced": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, Options{Dir: dir})
			add(t, j, "A", `"one"`)
			if err := j.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			add(t, j, "A", `"two"`)
			if synced {
				if err := j.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			add(t, j, "A", `"three"`)
			path := segments(t, dir)[0]
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			two := bytes.Index(b, []byte(`{"n":2`))
			clear(b[two+10 : two+30])
			dir, _ = put(t, filepath.Base(path), b)
			again, err := New(Options{Dir: dir})
			if synced {
				if !errors.Is(err, journal.ErrCorrupt) {
					t.Errorf("open = %v, want ErrCorrupt", err)
				}
				return
			}
			if err != nil {
				t.Fatalf("open: %v", err)
			}
			defer again.Close()
			want(t, again, "A", `"one"`)
			kept, err := filepath.Glob(filepath.Join(dir, "*.torn"))
			if err != nil || len(kept) != 1 {
				t.Fatalf("kept torn ends: %v, %v, want one", kept, err)
			}
			if tail, _ := os.ReadFile(kept[0]); !bytes.Equal(tail, b[two:]) {
				t.Errorf("the torn end was kept as %q", tail)
			}
		})
	}
}

// TestCorruptSealed damages sealed segments whose index is gone.
func TestCorruptSealed(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"torn": func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, info.Size()-3)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"missing": func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
		"strange name": func(t *testing.T, path string) {
			if err := os.Rename(path, path[:len(path)-len(segmentExt)]+"x"+segmentExt); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, Options{Dir: dir, SegmentBytes: 300})
			for range 12 {
				add(t, j, "A", `"record"`)
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			path := segments(t, dir)[1]
			if err := os.Remove(indexPath(path)); err != nil {
				t.Fatal(err)
			}
			damage(t, path)
			if _, err := New(Options{Dir: dir}); !errors.Is(err, journal.ErrCorrupt) {
				t.Errorf("open = %v, want ErrCorrupt", err)
			}
		})
	}
}

// TestCorruptRead damages a sealed segment that has a sound index: opening
// does not look, reading does.
func TestCorruptRead(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, SegmentBytes: 300})
	for range 12 {
		add(t, j, "A", `"record"`)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	path := segments(t, dir)[1]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte("record"), []byte("rumour"), 1)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	j = open(t, Options{Dir: dir})
	if got, err := read(j, "A"); !errors.Is(err, journal.ErrCorrupt) || !strings.Contains(err.Error(), path) || len(got) == 0 {
		t.Errorf("read = %v, %v, want some records and ErrCorrupt with %s", got, err, path)
	}
	add(t, j, "A", `"goes on"`)
}
