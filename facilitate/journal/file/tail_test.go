package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate/journal"
	"github.com/iris-operator/iris/facilitate/journal/journaltest"
)

// TestOnlyTheTailIsRead: with a checkpoint, what lies before it in the files is not
// looked at, however long they are, and appending goes on at the right place.
func TestOnlyTheTailIsRead(t *testing.T) {
	dir := t.TempDir()
	s := reopen(t, dir)
	var texts []string
	for i := range 900 {
		texts = append(texts, fmt.Sprint(i, " ", strings.Repeat("x", 400)))
	}
	recs := journaltest.Write(t, s, "r1", texts...)
	at := recs[799]
	if err := s.SaveCheckpoint(t.Context(), "r1", journal.Checkpoint{Seq: at.Seq, Hash: at.Hash}); err != nil {
		t.Fatal(err)
	}
	// The first half of each file is spoiled: whoever reads it, fails.
	for _, name := range []string{"room.jsonl", "self.jsonl", "p-ana.jsonl"} {
		p := filepath.Join(dir, "r1", name)
		data, err := os.ReadFile(p)
		if err != nil || len(data) < 200_000 {
			t.Fatalf("%s: %d bytes, %v", name, len(data), err)
		}
		copy(data, strings.Repeat("?", len(data)/2))
		if err := os.WriteFile(p, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = reopen(t, dir)
	next := uint64(850)
	for r, err := range s.Load(t.Context(), "r1", next) {
		if err != nil {
			t.Fatal(err)
		}
		if next++; r.Seq != next || r.Hash != recs[next-1].Hash {
			t.Fatalf("record %d, want %d", r.Seq, next)
		}
	}
	if next != 900 {
		t.Errorf("loaded up to %d", next)
	}
	r := recs[899]
	r.Seq = 901
	if err := s.Append(t.Context(), "r1", 900, []journal.Record{r}); err != nil {
		t.Errorf("appending behind the end: %v", err)
	}
	for _, err := range s.Load(t.Context(), "r1", 0) {
		if err == nil {
			t.Error("the spoiled half was read without a word")
		}
		break
	}
}

// TestACutTailIsAPrefix: a crash behind a checkpoint leaves what was whole, as
// without one.
func TestACutTailIsAPrefix(t *testing.T) {
	src := t.TempDir()
	s := reopen(t, src)
	recs := journaltest.Write(t, s, "r1", "a", "b", "c", "d", "e", "f", "g")
	if err := s.SaveCheckpoint(t.Context(), "r1", journal.Checkpoint{Seq: 3, Hash: recs[2].Hash}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"room.jsonl", "self.jsonl", "p-ana.jsonl"} {
		data, err := os.ReadFile(filepath.Join(src, "r1", name))
		if err != nil {
			t.Fatal(err)
		}
		for cut := 0; cut < len(data); cut += 7 {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(src)); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "r1", name), data[:cut], 0o600); err != nil {
				t.Fatal(err)
			}
			got := journaltest.Texts(t, reopen(t, dir), "r1")
			if want := []string{"a", "b", "c", "d", "e", "f", "g"}; strings.Join(got, "") != strings.Join(want[:len(got)], "") {
				t.Fatalf("%s cut at %d: %v", name, cut, got)
			}
			journaltest.Write(t, reopen(t, dir), "r1", "z")
			if again := journaltest.Texts(t, reopen(t, dir), "r1"); len(again) != len(got)+1 || again[len(got)] != "z" {
				t.Fatalf("%s cut at %d, appended: %v", name, cut, again)
			}
		}
	}
}
