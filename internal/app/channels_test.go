package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/route"
)

func TestChannelsAreReadAgainAndTheLastGoodStays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "channels.json")
	at := time.Unix(1_700_000_000, 0)
	c := newChannels(file, slog.New(slog.DiscardHandler))
	c.now = func() time.Time { return at }
	check := func(content string, want route.Mode) {
		t.Helper()
		if content != "" {
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		at = at.Add(2 * lookEvery)
		if err := os.Chtimes(file, at, at); content != "" && err != nil {
			t.Fatal(err)
		}
		if got := c.For("C1").Mode; got != want {
			t.Errorf("after %q the mode is %q, want %q", content, got, want)
		}
	}
	check("", route.Chat)
	check(`{"C*":{"mode":"leads"}}`, route.Leads)
	check(`{"C*":`, route.Leads)
	check(`{"C1":{"mode":"thread"}}`, route.Thread)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	check("", route.Chat)
}
