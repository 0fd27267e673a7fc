package bwrap

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes a sandbox, or skips where bubblewrap cannot be had.
func open(t testing.TB, opts Options) *Bwrap {
	t.Helper()
	if opts.Workspace == "" {
		ws, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		opts.Workspace = ws
	}
	if opts.KillDelay == 0 {
		opts.KillDelay = 300 * time.Millisecond
	}
	b, err := New(t.Context(), opts)
	if errors.Is(err, ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSuite(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Box {
		b := open(t, Options{})
		return sandboxtest.Box{Sandbox: b, Workspace: b.opts.Workspace, NoSignals: true}
	})
}
