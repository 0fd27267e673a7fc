package session

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

func TestUnseenWithoutWatermarkReplaysAll(t *testing.T) {
	b := newBed(t)
	b.hear("1", "a")
	b.answer("0", "mine")
	b.hear("2", "b")
	if diff := cmp.Diff([]string{"1", "2"}, b.unseen(nil, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"2"}, b.unseen(map[string]bool{"1": true}, nil)); diff != "" {
		t.Errorf("with 1 seen (-want +got):\n%s", diff)
	}
}

func TestUnseenAfterAWatermark(t *testing.T) {
	b := newBed(t)
	b.hear("1", "before")
	b.hear("2", "after")
	b.write(watermarkFile, stamp(clock(1)))
	if diff := cmp.Diff([]string{"2"}, b.unseen(nil, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A platform may date a message to the second, so the one right after a reset
// looks older than it.
func TestResetOrderBeatsCoarseDates(t *testing.T) {
	b := newBed(t)
	b.hear("1", "before")
	b.reset()
	b.record(turn.Record{Heard: &chat.Message{ID: "2", Text: "same second", At: clock(1)}})
	if diff := cmp.Diff([]string{"2"}, b.unseen(nil, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Operator §16 #3: what waits in the queue is not taken.
func TestUnseenLeavesWaitingTurns(t *testing.T) {
	b := newBed(t)
	b.hear("1", "chatter")
	b.accept("2", "waiting")
	b.hear("3", "more chatter")
	waiting := func(id string) bool { return id == "turn-2" }
	if diff := cmp.Diff([]string{"1", "3"}, b.unseen(nil, waiting)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.save(entry("e", "1", "3"))
	if got := b.unseen(nil, waiting); got != nil {
		t.Errorf("again: %q", got)
	}
	if diff := cmp.Diff([]string{"2"}, b.unseen(nil, nil)); diff != "" {
		t.Errorf("no longer waiting (-want +got):\n%s", diff)
	}
}

// Operator §16 #4: by id, never by text.
func TestUnseenComparesIDsNotText(t *testing.T) {
	b := newBed(t)
	b.hear("1", "yes")
	b.hear("2", "yes")
	if diff := cmp.Diff([]string{"2"}, b.unseen(map[string]bool{"1": true}, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What a compaction hides from the caller stays part of the history, also
// after a restart.
func TestUnseenAfterACompaction(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			b := newBed(t)
			b.hear("1", "a")
			b.unseen(nil, nil)
			b.save(entry("e1", "1"))
			b.accept("2", "waiting")
			b.hear("3", "c")
			waiting := func(id string) bool { return id == "turn-2" }
			b.unseen(nil, waiting)
			b.save(entry("e3", "3"))
			b.save(Entry{ID: "c", Type: Compaction})
			if restart {
				b.reopen()
			}
			if got := b.unseen(map[string]bool{}, waiting); got != nil {
				t.Errorf("summarised lines come again: %q", got)
			}
			b.save(entry("e2", "2"))
			b.save(Entry{ID: "d", Type: Compaction})
			if restart {
				b.reopen()
			}
			b.hear("4", "d")
			if diff := cmp.Diff([]string{"4"}, b.unseen(nil, nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnseenReadsOnlyTheTail(t *testing.T) {
	b := newBed(t)
	for i := range 50 {
		id := fmt.Sprint(i)
		b.hear(id, strings.Repeat("x", 100))
		b.unseen(nil, nil)
		b.save(entry("e"+id, id))
	}
	b.unseen(nil, nil)
	size := int64(len(b.read(logFile)))
	c, _ := b.store.acquire(b.addr)
	if c.sync.pos != size || len(c.sync.saved) != 0 {
		t.Errorf("position %d of %d, %d ids kept", c.sync.pos, size, len(c.sync.saved))
	}
	b.store.release(c)
	b.save(entry("last"))
	b.reopen()
	b.unseen(nil, nil)
	c, _ = b.store.acquire(b.addr)
	defer b.store.release(c)
	if c.ctx.log != size || c.sync.pos != size {
		t.Errorf("after a restart: begins at %d, now at %d, want %d", c.ctx.log, c.sync.pos, size)
	}
}

func TestUnseenSkipsMalformedLinesAndSortsByDate(t *testing.T) {
	b := newBed(t)
	b.record(turn.Record{Heard: &chat.Message{ID: "late", At: clock(50)}})
	b.record(turn.Record{Heard: &chat.Message{ID: "early", At: clock(20)}})
	b.write(logFile, "{torn\n"+b.read(logFile)+`{"ts":"x"}`+"\n"+`{"date":"2027-03-01T12:00:30Z","text":"no ts"}`+"\n")
	b.reopen()
	if diff := cmp.Diff([]string{"early", "late"}, b.unseen(nil, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnseenKeepsAttachments(t *testing.T) {
	b := newBed(t)
	files := []chat.File{{Original: "報告.pdf", Local: "SESSION-s1/attachments/1_a.pdf"}, {Original: "x", Missing: "download failed"}}
	b.record(turn.Record{Heard: &chat.Message{ID: "1", Files: files, At: clock(1)}})
	lines, err := b.store.Unseen(t.Context(), b.addr, nil, nil)
	if err != nil || len(lines) != 1 {
		t.Fatalf("Unseen = %v, %v", lines, err)
	}
	if diff := cmp.Diff(files, lines[0].Attachments); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
