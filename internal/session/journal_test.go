package session

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/journal/file"
	"github.com/iris-operator/iris/internal/turn"
)

// The store over the journal it has in the binary: everything recorded, nothing
// projected, then a second process.
func TestCatchUpFromTheJournalOnDisk(t *testing.T) {
	dir, root := t.TempDir(), t.TempDir()
	addr := chat.Address{Space: chat.Telegram, ID: "-100", Thread: "7"}
	j, err := file.New(file.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range []turn.Record{
		{Turn: "t", Accepted: &turn.Accepted{Message: chat.Message{ID: "1", From: chat.Person{ID: "9"}, Text: "hi"}}},
		{Turn: "t", Event: &turn.Event{Kind: turn.Text, Text: "he"}},
		{Turn: "t", Checkpoint: json.RawMessage(`{"entries":[{"id":"e","messages":["1"]}]}`)},
		{Turn: "t", Event: &turn.Event{Kind: turn.Final, Text: "hello"}},
	} {
		data, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Append(t.Context(), addr.Channel(), journal.Any, journal.Entry{Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	if j, err = file.New(file.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	for range 2 {
		s, err := Open(Options{Root: root, Journal: j})
		if err != nil {
			t.Fatal(err)
		}
		lines, err := s.Log(t.Context(), addr, LogOptions{})
		if err != nil || len(lines) != 2 || lines[1].Text != "hello" {
			t.Errorf("Log = %+v, %v", lines, err)
		}
		entries, err := s.Entries(t.Context(), addr, "")
		if err != nil || len(entries) != 1 || cmp.Diff([]string{"1"}, entries[0].Messages) != "" {
			t.Errorf("Entries = %+v, %v", entries, err)
		}
		s.Close()
	}
}
