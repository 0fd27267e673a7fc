package session

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
)

func TestEntriesFromTheLatestCompaction(t *testing.T) {
	b := newBed(t)
	b.save(entry("a"), entry("b"))
	b.save(Entry{ID: "c1", Type: Compaction, Kept: "b"})
	b.save(entry("d"))
	want := []string{"c1", "b", "d"}
	if diff := cmp.Diff(want, b.ids("")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.save(Entry{ID: "c2", Type: Compaction, Kept: "b"}, entry("e"))
	if diff := cmp.Diff([]string{"c2", "b", "d", "e"}, b.ids("")); diff != "" {
		t.Errorf("kept across a compaction (-want +got):\n%s", diff)
	}
	b.save(Entry{ID: "c3", Type: Compaction})
	if diff := cmp.Diff([]string{"c3"}, b.ids("")); diff != "" {
		t.Errorf("nothing kept (-want +got):\n%s", diff)
	}
	b.save(Entry{ID: "c4", Type: Compaction, Kept: "gone"}, entry("f"))
	if diff := cmp.Diff([]string{"c4", "f"}, b.ids("")); diff != "" {
		t.Errorf("kept is missing (-want +got):\n%s", diff)
	}
}

func TestEntriesAfter(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			b := newBed(t)
			again := func() {
				if restart {
					b.reopen()
				}
			}
			b.save(entry("a"), entry("b"))
			b.ids("")
			again()
			b.save(entry("c"), entry("d"))
			if diff := cmp.Diff([]string{"c", "d"}, b.ids("b")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again()
			if got := b.ids("d"); got != nil {
				t.Errorf("nothing new = %q", got)
			}
			b.save(Entry{ID: "x", Type: Compaction, Kept: "d"}, entry("e"))
			again()
			if _, err := b.store.Entries(t.Context(), b.addr, "d"); !errors.Is(err, ErrChanged) {
				t.Errorf("after a compaction: %v, want ErrChanged", err)
			}
			if diff := cmp.Diff([]string{"e"}, b.ids("x")); diff != "" {
				t.Errorf("after the compaction entry (-want +got):\n%s", diff)
			}
			b.reset()
			again()
			if _, err := b.store.Entries(t.Context(), b.addr, "e"); !errors.Is(err, ErrChanged) {
				t.Errorf("after a reset: %v, want ErrChanged", err)
			}
			if got := b.ids(""); got != nil {
				t.Errorf("after a reset: %q", got)
			}
		})
	}
}

func TestEntriesOfNothing(t *testing.T) {
	b := newBed(t)
	if got := b.ids(""); got != nil {
		t.Errorf("Entries = %q", got)
	}
	if _, err := b.store.Entries(t.Context(), b.addr, "a"); !errors.Is(err, ErrChanged) {
		t.Errorf("Entries after something unknown: %v, want ErrChanged", err)
	}
}

func TestEntriesSkipBrokenLinesAndReadLongOnes(t *testing.T) {
	b := newBed(t)
	b.save(entry("a"))
	long := `{"id":"long","type":"message","body":"` + strings.Repeat("x", 10<<20) + `","seq":2}`
	b.write(contextFile, b.read(contextFile)+"{broken\n\n[1]\n"+long+"\n")
	b.journal.seq = 2
	b.save(entry("z"))
	entries, err := b.store.Entries(t.Context(), b.addr, "")
	if err != nil || len(entries) != 3 || entries[0].ID != "a" || entries[2].ID != "z" {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	if n := len(entries[1].Body); n != 10<<20+2 {
		t.Errorf("of a line of 10 MB %d bytes were read", n)
	}
}

// Truncating the file alone does not clear a live session; a reset does.
func TestTruncatingAloneDoesNotClear(t *testing.T) {
	b := newBed(t)
	b.save(entry("a"))
	if err := os.Truncate(b.path(contextFile), 0); err != nil {
		t.Fatal(err)
	}
	b.reopen()
	if diff := cmp.Diff([]string{"a"}, b.ids("")); diff != "" {
		t.Errorf("after truncation (-want +got):\n%s", diff)
	}
	if err := b.store.Reset(t.Context(), b.addr); err != nil {
		t.Fatal(err)
	}
	if got := b.ids(""); got != nil {
		t.Errorf("after reset: %q", got)
	}
	b.reopen()
	if got := b.ids(""); got != nil {
		t.Errorf("after reset and restart: %q", got)
	}
}

func TestResetKeepsTheLog(t *testing.T) {
	b := newBed(t)
	b.accept("1", "before")
	b.save(entry("a", "1"))
	b.answer("1", "ok")
	log := b.read(logFile)
	if err := b.store.Reset(t.Context(), b.addr); err != nil {
		t.Fatal(err)
	}
	if b.read(logFile) != log {
		t.Error("reset changed the log")
	}
	if at, ok, err := b.store.Watermark(b.addr); err != nil || !ok || !at.Equal(clock(3)) {
		t.Errorf("Watermark = %v, %v, %v", at, ok, err)
	}
	if got := b.unseen(nil, nil); got != nil {
		t.Errorf("pre-reset lines replay: %q", got)
	}
	b.accept("2", "after")
	if diff := cmp.Diff([]string{"2"}, b.unseen(nil, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.save(entry("n"))
	b.reopen()
	if diff := cmp.Diff([]string{"n"}, b.ids("")); diff != "" {
		t.Errorf("history after a reset (-want +got):\n%s", diff)
	}
}

func TestWatermark(t *testing.T) {
	b := newBed(t)
	if at, ok, err := b.store.Watermark(b.addr); ok || err != nil {
		t.Errorf("no file: %v, %v, %v", at, ok, err)
	}
	b.write(watermarkFile, "2027-03-01T12:00:00.5Z\n")
	if at, ok, err := b.store.Watermark(b.addr); !ok || err != nil || stamp(at) != "2027-03-01T12:00:00.5Z" {
		t.Errorf("round trip: %v, %v, %v", at, ok, err)
	}
	b.write(watermarkFile, "yesterday")
	if _, _, err := b.store.Watermark(b.addr); !errors.Is(err, ErrCorrupt) {
		t.Errorf("garbage: %v, want ErrCorrupt", err)
	}
	if _, _, err := b.store.Watermark(chat.Address{}); err == nil {
		t.Error("no address was accepted")
	}
}
