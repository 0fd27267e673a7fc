package bwrap

import (
	"os"
	"testing"

	"github.com/iris-operator/iris/internal/sandbox/escape"
)

// TestEscapes tries every probe: none gets out.
func TestEscapes(t *testing.T) {
	home := t.TempDir()
	ws := home + "/ws"
	if err := os.Mkdir(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	box := open(t, Options{Workspace: ws, Home: home, Processes: 100, File: 64 << 20})
	results, err := escape.Run(t.Context(), escape.Options{Sandbox: box, Workspace: ws, Home: home, Processes: 100, FileMiB: 64})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) < 25 {
		t.Errorf("%d probes", len(results))
	}
	for _, r := range results {
		if r.Open {
			t.Errorf("%s: %s: %s", r.Name, r.What, r.Seen)
		}
		t.Logf("%-22s %v %s", r.Name, r.Open, r.Seen)
	}
}
