package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An event file wakes the conversation it names, and the reply is on record there.
func TestAnEventFileWakesItsConversation(t *testing.T) {
	p := newPlace(t)
	p.serve()
	id := p.session()
	file := filepath.Join(p.workspace, "events", "wake.json")
	if err := os.WriteFile(file+".tmp", []byte(`{"type":"immediate","channelId":"SESSION-`+id+`","text":"run echo woken $((6*7))"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".tmp", file); err != nil {
		t.Fatal(err)
	}
	until(t, "the reply", func() bool {
		return strings.Contains(p.do("GET", "/sessions/"+id+"/history", "").body, "woken 42")
	})
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the event file is still there: %v", err)
	}
}
