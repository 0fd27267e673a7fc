package session

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/turn"
)

// memory is a journal that lives as long as a test.
type memory struct {
	records []journal.Record
	seq     int64
	reads   int
}

func (m *memory) Append(_ context.Context, stream string, _ int64, entries ...journal.Entry) (int64, error) {
	for _, e := range entries {
		m.seq++
		m.records = append(m.records, journal.Record{Seq: m.seq, Stream: stream, Time: clock(m.seq), Data: e.Data})
	}
	return m.seq, nil
}

func (m *memory) Sync(context.Context) error { return nil }

func (m *memory) Last(stream string) (last int64) {
	for _, r := range m.records {
		if r.Stream == stream {
			last = r.Seq
		}
	}
	return last
}

func (m *memory) Streams() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for _, r := range m.records {
			if m.Last(r.Stream) == r.Seq && !yield(r.Stream, r.Seq) {
				return
			}
		}
	}
}

func (m *memory) Read(_ context.Context, stream string, since int64) iter.Seq2[journal.Record, error] {
	m.reads++
	return func(yield func(journal.Record, error) bool) {
		for _, r := range m.records {
			if r.Stream == stream && r.Seq > since && !yield(r, nil) {
				return
			}
		}
	}
}

func (m *memory) Follow(ctx context.Context, stream string, since int64) iter.Seq2[journal.Record, error] {
	return m.Read(ctx, stream, since)
}

func (m *memory) FollowAll(context.Context, int64, func(string) bool) iter.Seq2[journal.Record, error] {
	return nil // no store follows
}

func (m *memory) Pins() []journal.Pin { return nil }

func (m *memory) Lookup(string) (string, int64, bool) { return "", 0, false }

var epoch = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

func clock(n int64) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

// A bed is a store over a journal in which every record is also projected.
type bed struct {
	*testing.T
	root    string
	journal *memory
	store   *Store
	addr    chat.Address
	// off stops projecting: what is recorded waits for CatchUp.
	off bool
}

func newBed(t *testing.T) *bed {
	b := &bed{T: t, root: t.TempDir(), journal: &memory{}, addr: chat.Address{Space: chat.Session, ID: "s1"}}
	b.reopen()
	return b
}

// reopen is a new process over the same files.
func (b *bed) reopen() {
	b.Helper()
	if b.store != nil {
		b.store.Close()
	}
	s, err := Open(Options{Root: b.root, Journal: b.journal, Now: func() time.Time { return clock(b.journal.seq) }})
	if err != nil {
		b.Fatal(err)
	}
	b.store = s
	b.Cleanup(func() { s.Close() })
}

func (b *bed) record(rec turn.Record) int64 {
	b.Helper()
	data, err := json.Marshal(rec)
	if err != nil {
		b.Fatal(err)
	}
	seq, _ := b.journal.Append(b.Context(), b.addr.Channel(), journal.Any, journal.Entry{Data: data})
	if !b.off {
		b.project(seq, rec)
	}
	return seq
}

func (b *bed) project(seq int64, rec turn.Record) {
	b.Helper()
	if err := b.store.Project(b.Context(), b.addr, seq, clock(seq), rec); err != nil {
		b.Fatalf("Project(%d): %v", seq, err)
	}
}

func (b *bed) accept(id, text string) int64 {
	b.Helper()
	m := chat.Message{ID: id, From: chat.Person{ID: "U1", Name: "ada"}, Text: text, At: clock(b.journal.seq + 1)}
	return b.record(turn.Record{Turn: turn.ID("turn-" + id), Accepted: &turn.Accepted{Message: m, Origin: turn.FromAPI}})
}

func (b *bed) hear(id, text string) int64 {
	b.Helper()
	return b.record(turn.Record{Heard: &chat.Message{ID: id, From: chat.Person{ID: "U2", Name: "bob"}, Text: text, At: clock(b.journal.seq + 1)}})
}

func (b *bed) answer(id, text string) int64 {
	b.Helper()
	return b.record(turn.Record{Turn: turn.ID("turn-" + id), Event: &turn.Event{Kind: turn.Final, Turn: turn.ID("turn-" + id), Text: text}})
}

func (b *bed) save(entries ...Entry) int64 {
	b.Helper()
	state, err := json.Marshal(Saved{Entries: entries})
	if err != nil {
		b.Fatal(err)
	}
	return b.record(turn.Record{Turn: "turn-x", Checkpoint: state})
}

func (b *bed) reset() int64 {
	b.Helper()
	return b.record(turn.Record{Notice: &turn.Notice{Text: "Context cleared", At: clock(b.journal.seq + 1), Reset: true}})
}

func entry(id string, messages ...string) Entry {
	return Entry{ID: id, Type: Said, Messages: messages, Body: json.RawMessage(`{"text":"` + id + `"}`)}
}

func (b *bed) path(name string) string { return filepath.Join(b.root, b.addr.Dir(), name) }

func (b *bed) read(name string) string {
	b.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		b.Fatal(err)
	}
	return string(data)
}

func (b *bed) write(name, text string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(b.path(name)), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(b.path(name), []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
}

// ids returns the history as entry ids.
func (b *bed) ids(after string) []string {
	b.Helper()
	entries, err := b.store.Entries(b.Context(), b.addr, after)
	if err != nil {
		b.Fatalf("Entries(%q): %v", after, err)
	}
	var ids []string
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

func (b *bed) unseen(seen map[string]bool, skip func(string) bool) []string {
	b.Helper()
	lines, err := b.store.Unseen(b.Context(), b.addr, seen, skip)
	if err != nil {
		b.Fatalf("Unseen: %v", err)
	}
	var ids []string
	for _, l := range lines {
		ids = append(ids, l.TS)
	}
	return ids
}

// texts returns the log as "who: text".
func (b *bed) texts(opts LogOptions) []string {
	b.Helper()
	lines, err := b.store.Log(b.Context(), b.addr, opts)
	if err != nil {
		b.Fatalf("Log: %v", err)
	}
	var out []string
	for _, l := range lines {
		out = append(out, fmt.Sprintf("%s: %s", l.User, l.Text))
	}
	return out
}
