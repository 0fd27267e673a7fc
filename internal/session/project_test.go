package session

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/turn"
)

func TestTurnLogsUserMessageAndOneBotLine(t *testing.T) {
	b := newBed(t)
	b.accept("1.1", "do <it> & more")
	b.record(turn.Record{Turn: "turn-1.1", Begun: &turn.Begun{Attempt: 1}})
	b.record(turn.Record{Turn: "turn-1.1", Event: &turn.Event{Kind: turn.Text, Text: "working on it"}})
	b.record(turn.Record{Turn: "turn-1.1", Event: &turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{Name: "bash", Phase: turn.Start}}})
	b.answer("1.1", "done")
	want := []string{"U1: do <it> & more", "bot: done"}
	if diff := cmp.Diff(want, b.texts(LogOptions{})); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if raw := b.read(logFile); !strings.Contains(raw, "do <it> & more") || !strings.Contains(raw, `"attachments":[]`) {
		t.Errorf("log.jsonl cannot be grepped or lacks attachments: %s", raw)
	}
	lines, _ := b.store.Log(t.Context(), b.addr, LogOptions{})
	if got := lines[1]; !got.IsBot || got.Turn != "turn-1.1" || got.User != "bot" || got.TS == "" || got.Seq != 5 {
		t.Errorf("bot line = %+v", got)
	}
}

func TestHowTurnsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		event turn.Event
		want  []Line
	}{
		"silent":         {turn.Event{Kind: turn.Final, Text: "[SILENT] nothing", Silent: true}, nil},
		"empty":          {turn.Event{Kind: turn.Final}, nil},
		"stopped":        {turn.Event{Kind: turn.Final, Text: "half", Stopped: true}, []Line{{Text: "half"}}},
		"failed":         {turn.Event{Kind: turn.Failed, Error: "model said no", Code: turn.CodeModel}, []Line{{Text: "model said no", Failed: "model"}}},
		"failed mid way": {turn.Event{Kind: turn.Failed, Text: "some words", Error: "cut", Code: turn.CodeTimeout}, []Line{{Text: "some words", Failed: "timeout"}}},
		"failed bare":    {turn.Event{Kind: turn.Failed}, []Line{{Failed: "failed"}}},
		"status":         {turn.Event{Kind: turn.Status, Label: "x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.record(turn.Record{Turn: "t", Event: &c.event})
			lines, err := b.store.Log(t.Context(), b.addr, LogOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []Line
			for _, l := range lines {
				got = append(got, Line{Text: l.Text, Failed: l.Failed})
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNothingSaidMakesNoDirectory(t *testing.T) {
	b := newBed(t)
	b.record(turn.Record{Turn: "t", Event: &turn.Event{Kind: turn.Final, Silent: true}})
	b.reset()
	b.store.Reset(t.Context(), b.addr)
	b.ids("")
	b.texts(LogOptions{})
	b.unseen(nil, nil)
	if _, err := os.Stat(b.path("")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory was made: %v", err)
	}
}

func TestProjectIsIdempotent(t *testing.T) {
	b := newBed(t)
	seqs := map[int64]turn.Record{}
	add := func(rec turn.Record) { seqs[b.record(rec)] = rec }
	add(turn.Record{Turn: "t", Accepted: &turn.Accepted{Message: chat.Message{ID: "1", Text: "a"}}})
	add(turn.Record{Turn: "t", Checkpoint: []byte(`{"entries":[{"type":"message"},{"id":"e2"}]}`)})
	add(turn.Record{Turn: "t", Event: &turn.Event{Kind: turn.Final, Text: "b"}})
	add(turn.Record{Notice: &turn.Notice{Text: "by the way"}})
	log, ctx := b.read(logFile), b.read(contextFile)
	for range 2 {
		for seq, rec := range seqs {
			b.project(seq, rec)
		}
		b.reopen()
	}
	if b.read(logFile) != log || b.read(contextFile) != ctx {
		t.Errorf("projecting again changed the files:\n%s\n%s", b.read(logFile), b.read(contextFile))
	}
	if diff := cmp.Diff([]string{"2-0", "e2"}, b.ids("")); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{": a", "bot: b", "bot: by the way"}, b.texts(LogOptions{})); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestRecordsOvertakeEachOther(t *testing.T) {
	b := newBed(t)
	b.hear("1", "first")
	b.off = true
	two := turn.Record{Heard: &chat.Message{ID: "2", Text: "second"}}
	three := turn.Record{Heard: &chat.Message{ID: "3", Text: "third"}}
	s2, s3 := b.record(two), b.record(three)
	b.project(s3, three)
	b.project(s2, two)
	b.project(s3, three)
	if n := strings.Count(b.read(logFile), "\n"); n != 3 {
		t.Errorf("%d lines, want 3:\n%s", n, b.read(logFile))
	}
}

func TestCatchUpFindsWhatWasOvertaken(t *testing.T) {
	b := newBed(t)
	b.hear("1", "first")
	b.off = true
	b.hear("2", "second")
	three := turn.Record{Heard: &chat.Message{ID: "3", Text: "third"}}
	b.project(b.record(three), three) // and the process dies before 2
	b.reopen()
	if got := b.texts(LogOptions{}); len(got) != 3 {
		t.Errorf("log after restart = %q, want 3 lines", got)
	}
}

func TestCatchUpWorksOnce(t *testing.T) {
	b := newBed(t)
	b.hear("1", "x")
	b.reopen()
	b.journal.reads = 0
	for range 3 {
		if err := b.store.CatchUp(t.Context(), b.addr); err != nil {
			t.Fatal(err)
		}
		b.texts(LogOptions{})
	}
	if b.journal.reads > 1 {
		t.Errorf("journal was read %d times", b.journal.reads)
	}
}

// TestCutAtEveryByte is field report F27 for the files of a conversation: what
// a crash cut off comes back from the journal, and nothing comes twice.
func TestCutAtEveryByte(t *testing.T) {
	b := newBed(t)
	for _, id := range []string{"1", "2"} {
		b.accept(id, "q")
		b.save(entry("u"+id, id), entry("t"+id))
		b.save(entry("a" + id))
		b.answer(id, "r")
		if id == "1" {
			b.reset()
		}
	}
	log, ctx := b.read(logFile), b.read(contextFile)
	wantLog, wantIDs := b.texts(LogOptions{}), b.ids("")
	if len(wantIDs) != 3 {
		t.Fatalf("entries = %q", wantIDs)
	}
	check := func(what string, n int) {
		b.reopen()
		if diff := cmp.Diff(wantLog, b.texts(LogOptions{})); diff != "" {
			t.Fatalf("%s cut at %d: log (-want +got):\n%s", what, n, diff)
		}
		if diff := cmp.Diff(wantIDs, b.ids("")); diff != "" {
			t.Fatalf("%s cut at %d: entries (-want +got):\n%s", what, n, diff)
		}
		if got := b.unseen(map[string]bool{"2": true}, nil); got != nil {
			t.Fatalf("%s cut at %d: unseen %q", what, n, got)
		}
	}
	for n := range len(log) {
		b.write(logFile, log[:n])
		check(logFile, n)
	}
	for n := range len(ctx) {
		b.write(contextFile, ctx[:n])
		check(contextFile, n)
	}
	os.RemoveAll(b.path(""))
	check("both", 0)
}

func TestStoreRefusesAddressesThatEscape(t *testing.T) {
	b := newBed(t)
	for _, addr := range []chat.Address{
		{}, {Space: chat.Bridge, ID: "../../evil"}, {Space: chat.Escalate, ID: ".."}, {Space: chat.Slack, ID: "a/b"},
		{Space: chat.Telegram, ID: "x"}, {Space: chat.Session}, {Space: chat.Slack, ID: "SESSION-1"}, {Space: "moon", ID: "SESSION-1"},
	} {
		err := b.store.Project(t.Context(), addr, 1, epoch, turn.Record{Heard: &chat.Message{ID: "1"}})
		if !errors.Is(err, chat.ErrBadID) {
			t.Errorf("Project(%#v) = %v, want ErrBadID", addr, err)
		}
	}
	if entries, _ := os.ReadDir(b.root); len(entries) != 0 {
		t.Errorf("something was written: %v", entries)
	}
}

func TestStoreRefusesLinksThatLeadOut(t *testing.T) {
	b := newBed(t)
	outside := t.TempDir()
	b.write("keep", "")
	if err := os.Symlink(outside+"/authorized_keys", b.path(logFile)); err != nil {
		t.Fatal(err)
	}
	err := b.store.Project(t.Context(), b.addr, 1, epoch, turn.Record{Heard: &chat.Message{ID: "1", Text: "ssh-ed25519 …"}})
	if err == nil {
		t.Error("Project followed a link out of the workspace")
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 0 {
		t.Errorf("written outside: %v", entries)
	}
}

func TestConversationRemovedUnderTheStore(t *testing.T) {
	b := newBed(t)
	b.hear("1", "x")
	os.RemoveAll(b.path(""))
	b.hear("2", "y")
	if got := b.texts(LogOptions{}); len(got) == 0 || got[len(got)-1] != "U2: y" {
		t.Errorf("log = %q", got)
	}
}

func TestSyncAll(t *testing.T) {
	b := newBed(t)
	b.hear("1", "x")
	b.save(entry("a"))
	if len(b.store.files.dirty) != 2 {
		t.Errorf("dirty = %v, want both files", b.store.files.dirty)
	}
	if err := b.store.SyncAll(t.Context()); err != nil || len(b.store.files.dirty) != 0 {
		t.Errorf("SyncAll = %v, dirty %v", err, b.store.files.dirty)
	}
	b.hear("2", "x")
	os.RemoveAll(b.path(""))
	if err := b.store.SyncAll(t.Context()); err != nil {
		t.Errorf("SyncAll of a removed conversation = %v", err)
	}
}

func TestCatchUpAll(t *testing.T) {
	b := newBed(t)
	b.off = true
	b.hear("1", "a")
	b.addr.ID = "s2"
	b.hear("2", "b")
	b.journal.Append(t.Context(), "../no conversation", journal.Any, journal.Entry{Data: []byte("{}")})
	if err := b.store.CatchUpAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"s1", "s2"} {
		b.addr.ID = id
		if n := strings.Count(b.read(logFile), "\n"); n != 1 {
			t.Errorf("%s has %d lines", id, n)
		}
	}
	if err := (&Store{}).CatchUpAll(t.Context()); err != nil {
		t.Errorf("without a journal: %v", err)
	}
}

func TestPassing(t *testing.T) {
	for data, want := range map[string]bool{
		`{"turn":"t","event":{"kind":"text","text":"x"}}`:                             true,
		`{"event":{"kind":"tool"}}`:                                                   true,
		`{"turn":"t","event":{"kind":"final","text":"x"}}`:                            false,
		`{"turn":"t","event":{"kind":"error"}}`:                                       false,
		`{"turn":"t","checkpoint":{"event":{"kind":"text"}}}`:                         false,
		`{"turn":"t","accepted":{"message":{"text":"\"event\":{\"kind\":\"text\""}}}`: false,
		`{"heard":{"id":"1"}}`:                                                        false,
	} {
		if got := passing([]byte(data)); got != want {
			t.Errorf("passing(%s) = %v", data, got)
		}
	}
}
