package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A process that is killed between the end of a turn and its line in log.jsonl
// leaves the line to the next one, also when nobody comes back to the
// conversation.
func TestTheLogIsCompletedAtStart(t *testing.T) {
	p := newPlace(t)
	s := p.serve()
	id := p.session()
	p.alive(id)
	s.stop()
	path := filepath.Join(p.workspace, "SESSION-"+id, "log.jsonl")
	whole, err := os.ReadFile(path)
	if err != nil || strings.Count(string(whole), "\n") != 2 {
		t.Fatalf("log.jsonl holds %q, %v, want a message and a reply", whole, err)
	}
	said, _, _ := strings.Cut(string(whole), "\n")
	if err := os.WriteFile(path, []byte(said+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = p.serve()
	until(t, "the reply is in log.jsonl again", func() bool {
		now, err := os.ReadFile(path)
		all := lines(string(now))
		return err == nil && len(all) == 2 && all[0] == said && strings.Contains(all[1], `"isBot":true`)
	})
	s.stop()
}
