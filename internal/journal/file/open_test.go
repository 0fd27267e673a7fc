package file

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/journal"
)

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "journal")
	j := open(t, Options{Dir: dir, SegmentBytes: 100})
	add(t, j, "A", `"one"`)
	add(t, j, "A", `"two"`)
	j.Close()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := os.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(segments(t, dir)); n != 2 {
		t.Errorf("%d segments, want 2", n)
	}
}

func TestOneAtATime(t *testing.T) {
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	_, err := New(Options{Dir: dir})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("second open = %v, want ErrLocked with the pid", err)
	}
	add(t, j, "A", "1") // the first is not disturbed
	j.Close()
	j = open(t, Options{Dir: dir})
	want(t, j, "A", "1")
}

func TestNewRefuses(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("New without a directory succeeds")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Dir: file}); err == nil {
		t.Error("New with a file as its directory succeeds")
	}
}

// state is what a journal knows, as text.
func state(t *testing.T, j *Journal) string {
	t.Helper()
	lasts := maps.Collect(j.Streams())
	out := fmt.Sprint(lasts, j.Pins())
	for _, key := range []string{"k0", "k7", "k33", "k59"} {
		stream, seq, ok := j.Lookup(key)
		out += fmt.Sprint(" ", key, stream, seq, ok)
	}
	for _, s := range []string{"S0", "S1", "S2", "S3", "S4"} {
		all, err := read(j, s)
		out += fmt.Sprint("\n", s, all, err)
	}
	return out
}

// TestIndexes opens a journal whose indexes are whole, missing, damaged, of
// another segment, or older than what the segment holds. It always finds the
// same.
func TestIndexes(t *testing.T) {
	build := func(t *testing.T) (o Options, want string) {
		o = Options{Dir: t.TempDir(), SegmentBytes: 1500, OpenFile: (&disk{noSync: true}).open}
		j := open(t, o)
		for i := range 60 {
			e := journal.Entry{Data: []byte(fmt.Sprint(i)), Key: fmt.Sprint("k", i), Pin: fmt.Sprint("p", i)}
			if i%4 != 0 {
				e.Unpin = fmt.Sprint("p", i-i%7-1)
			}
			if _, err := j.Append(t.Context(), fmt.Sprint("S", i%5), journal.Any, e); err != nil {
				t.Fatal(err)
			}
		}
		want = state(t, j)
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		return o, want
	}
	each := func(t *testing.T, dir string, do func(i int, path string, b []byte) []byte) {
		all, err := filepath.Glob(filepath.Join(dir, "*"+indexExt))
		if err != nil || len(all) < 4 {
			t.Fatalf("indexes: %v, %v, want several", all, err)
		}
		for i, path := range all {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if b = do(i, path, b); b == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	var first []byte
	for name, do := range map[string]func(i int, path string, b []byte) []byte{
		"whole":        func(_ int, _ string, b []byte) []byte { return b },
		"missing":      func(int, string, []byte) []byte { return nil },
		"some missing": func(i int, _ string, b []byte) []byte { return map[bool][]byte{true: b}[i%2 == 0] },
		"damaged":      func(_ int, _ string, b []byte) []byte { b[len(b)/2]++; return b },
		"short":        func(_ int, _ string, b []byte) []byte { return b[:len(b)/2] },
		"empty":        func(int, string, []byte) []byte { return []byte{} },
		"of another": func(i int, _ string, b []byte) []byte {
			if i == 0 {
				first = b
			}
			return first
		},
	} {
		t.Run(name, func(t *testing.T) {
			o, want := build(t)
			each(t, o.Dir, do)
			for _, when := range []string{"first", "second"} {
				j := open(t, o)
				if got := state(t, j); got != want {
					t.Errorf("%s open:\n%s\nwant\n%s", when, got, want)
				}
				j.Close()
			}
		})
	}
	t.Run("older", func(t *testing.T) {
		// A clean end, more records, and then a kill: the index of the
		// active segment describes its beginning.
		o, _ := build(t)
		j := open(t, o)
		add(t, j, "S1", `"more"`)
		want := state(t, j)
		kill(t, j)
		j = open(t, o)
		if got := state(t, j); got != want {
			t.Errorf("state\n%s\nwant\n%s", got, want)
		}
	})
	t.Run("leftovers", func(t *testing.T) {
		o, want := build(t)
		stray := []string{filepath.Join(o.Dir, "00000000000000099999"+indexExt), filepath.Join(o.Dir, "x"+indexExt+tempExt)}
		for _, p := range stray {
			if err := os.WriteFile(p, []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		j := open(t, o)
		if got := state(t, j); got != want {
			t.Errorf("state\n%s\nwant\n%s", got, want)
		}
		for _, p := range stray {
			if _, err := os.Stat(p); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is still there", p)
			}
		}
	})
}

// kill ends the use of a journal as a killed process would: nothing is written
// any more and the lock is free.
func kill(t *testing.T, j *Journal) {
	t.Helper()
	j.wmu.Lock()
	defer j.wmu.Unlock()
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	if err := j.release(); err != nil {
		t.Fatal(err)
	}
}

// TestCleanOpenReadsNothing opens after a clean Close without reading a
// segment.
func TestCleanOpenReadsNothing(t *testing.T) {
	d := &disk{}
	o := Options{Dir: t.TempDir(), SegmentBytes: 1000, OpenFile: d.open}
	j := open(t, o)
	for i := range 30 {
		add(t, j, "A", fmt.Sprint(i))
	}
	j.Close()
	before := d.reads.Load()
	j = open(t, o)
	if n := d.reads.Load() - before; n != 0 {
		t.Errorf("a clean open reads %d times", n)
	}
	if n := j.Last("A"); n != 30 {
		t.Errorf("Last = %d, want 30", n)
	}
}

// TestOneWrite counts the writes of an append.
func TestOneWrite(t *testing.T) {
	d := &disk{}
	j := open(t, Options{Dir: t.TempDir(), OpenFile: d.open})
	for i, entries := range []int{1, 2, 10} {
		before := d.writes.Load()
		add(t, j, "A", strings.Split(strings.Repeat("1 ", entries)[:2*entries-1], " ")...)
		if n := d.writes.Load() - before; n != 1 {
			t.Errorf("append %d of %d entries: %d writes, want 1", i, entries, n)
		}
	}
}

// TestWakes has a follower of one stream wait while another gets records.
func TestWakes(t *testing.T) {
	j := open(t, Options{Dir: t.TempDir()})
	j.mu.Lock()
	w := j.waits.enter("A")
	same := j.waits.enter("A")
	j.mu.Unlock()
	if w != same {
		t.Error("two followers of a stream wait for different things")
	}
	add(t, j, "B", "1")
	select {
	case <-w.woken:
		t.Error("a follower of A was woken by B")
	default:
	}
	add(t, j, "A", "1")
	<-w.woken
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range j.Follow(ctx, "nobody", 0) {
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.waits) != 0 {
		t.Errorf("%d waits are left", len(j.waits))
	}
}

// TestMemory measures what streams and keys cost.
func TestMemory(t *testing.T) {
	const n = 100_000
	o := Options{Dir: t.TempDir(), RecentBytes: 64 << 10, OpenFile: (&disk{noSync: true}).open}
	j := open(t, o)
	for i := range n {
		add(t, j, fmt.Sprintf("SESSION-%024d", i), "1")
	}
	for j.x().size < o.SegmentBytes+16<<20-100 && j.x().first == 1 {
		add(t, j, "A", `"`+strings.Repeat("x", 1000)+`"`)
	}
	add(t, j, "A", `"`+strings.Repeat("x", 1000)+`"`)
	j.Close()
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	j = open(t, o)
	if per := (heap() - before) / n; per > 200 {
		t.Errorf("%d bytes a stream, want at most 200", per)
	} else {
		t.Logf("%d bytes a stream", per)
	}
	before = heap()
	table := keys{}
	for i := range n {
		table[hashKey(fmt.Append(nil, i))] = hold(int64(i), 1)
	}
	if per := (heap() - before) / n; per > 64 {
		t.Errorf("%d bytes a key, want at most 64", per)
	} else {
		t.Logf("%d bytes a key", per)
	}
	runtime.KeepAlive(table)
	runtime.KeepAlive(j)
}

// x is the index of the active segment.
func (j *Journal) x() *index { return &j.active().x }
