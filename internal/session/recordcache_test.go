package session

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// changed is when the file of a record, or its name, changed last.
func changed(t *testing.T, p string) time.Time {
	t.Helper()
	info, err := os.Lstat(p)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix())
}

// age makes a record's file old enough to be remembered: time stamps of changes
// cannot be set, so it waits until that of the file has passed.
func age(t *testing.T, p string) {
	t.Helper()
	timer := time.NewTimer(time.Until(changed(t, p).Add(clockTick + 10*time.Millisecond)))
	<-timer.C
}

func TestRecordCacheSeesEveryChange(t *testing.T) {
	b := newBed(t)
	create(t, b.store, Session{ID: "one", Runner: "a"})
	p := filepath.Join(b.root, recordPath("one"))
	get := func(want string) {
		t.Helper()
		for range 2 {
			if ses, err := b.store.Get(t.Context(), "one"); err != nil || ses.Runner != want {
				t.Fatalf("runner %q, %v, want %q", ses.Runner, err, want)
			}
		}
	}
	b.store.cache.now = func() time.Time { return changed(t, p).Add(clockTick - 1) }
	get("a")
	if len(b.store.cache.known) != 0 {
		t.Error("a record was remembered that could change within the tick of the clock")
	}
	b.store.cache.now = time.Now
	age(t, p)
	get("a")
	if len(b.store.cache.known) != 1 {
		t.Fatal("the record was not remembered")
	}
	data, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	// Another program writes in place, and keeps length and time.
	info, _ := os.Stat(p)
	if err := os.WriteFile(p, bytes.Replace(data, []byte(`"a"`), []byte(`"b"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(p, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	get("b")
	runner := "c"
	age(t, p)
	get("b")
	if _, err := b.store.Patch(t.Context(), "one", nil, nil, &runner); err != nil {
		t.Fatal(err)
	}
	get("c")
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Get(t.Context(), "one"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a removed session: %v, want ErrNotFound", err)
	}
}

func TestRecordCacheGivesCopies(t *testing.T) {
	b := newBed(t)
	create(t, b.store, Session{ID: "one", Metadata: map[string]any{"k": "v"}})
	age(t, filepath.Join(b.root, recordPath("one")))
	for range 3 {
		ses, err := b.store.Get(t.Context(), "one")
		if err != nil || ses.Metadata["k"] != "v" {
			t.Fatalf("metadata %v, %v", ses.Metadata, err)
		}
		ses.Metadata["k"] = "changed by the caller"
	}
}

func TestRecordCacheRemembersNoLinks(t *testing.T) {
	b := newBed(t)
	create(t, b.store, Session{ID: "one"})
	p := filepath.Join(b.root, recordPath("one"))
	if err := errors.Join(os.Rename(p, p+".real"), os.Symlink(filepath.Base(p)+".real", p)); err != nil {
		t.Fatal(err)
	}
	age(t, p)
	if _, err := b.store.Get(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if len(b.store.cache.known) != 0 {
		t.Error("a link was remembered: what it leads to can change unseen")
	}
}

func TestRecordCacheIsBounded(t *testing.T) {
	b := newBed(t)
	for i := range maxRecords + 10 {
		b.store.cache.put(recordStat{}, Session{ID: string(rune('a' + i))})
	}
	if n := len(b.store.cache.known); n > maxRecords {
		t.Errorf("%d records in memory", n)
	}
}

func BenchmarkGet(b *testing.B) {
	s, err := Open(Options{Root: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	ses, err := s.Create(b.Context(), Session{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(b.Context(), ses.ID); err != nil {
			b.Fatal(err)
		}
	}
}
