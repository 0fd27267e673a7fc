package session

import (
	"fmt"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

func BenchmarkProject(b *testing.B) {
	s, err := Open(Options{Root: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	addr := chat.Address{Space: chat.Session, ID: "s"}
	rec := turn.Record{Turn: "t", Event: &turn.Event{Kind: turn.Final, Text: "a reply of some words, as replies are"}}
	seq := int64(0)
	for b.Loop() {
		seq++
		if err := s.Project(b.Context(), addr, seq, epoch, rec); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProjectManyConversations goes round more conversations than are
// remembered.
func BenchmarkProjectManyConversations(b *testing.B) {
	s, err := Open(Options{Root: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	rec := turn.Record{Turn: "t", Event: &turn.Event{Kind: turn.Final, Text: "a reply of some words, as replies are"}}
	seq := int64(0)
	for b.Loop() {
		seq++
		addr := chat.Address{Space: chat.Session, ID: fmt.Sprint(seq % 1000)}
		if err := s.Project(b.Context(), addr, seq, epoch, rec); err != nil {
			b.Fatal(err)
		}
	}
}
