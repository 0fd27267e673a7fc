package escape_test

import (
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/sandbox/escape"
	"github.com/iris-operator/iris/internal/sandbox/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestHostIsNoWall shows that the probes can hit: on the host nearly all do. Those
// that need rights or a machine of a certain kind are left out.
func TestHostIsNoWall(t *testing.T) {
	home, ws := t.TempDir(), t.TempDir()
	box, err := host.New(host.Options{Workspace: ws, KillDelay: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	results, err := escape.Run(t.Context(), escape.Options{Sandbox: box, Workspace: ws, Home: home, Processes: 60, FileMiB: 1})
	if err != nil {
		t.Fatal(err)
	}
	open := []string{escape.SecretFile, escape.SymlinkOut, escape.WriteOutside, escape.ReadState, escape.WriteState, escape.Abstract, escape.Loopback,
		escape.ParentEnv, escape.OtherProcs, escape.SignalOut, escape.ForkBomb, escape.DiskFill}
	shut := []string{escape.Survivor, escape.Environment, escape.Terminal, escape.Descriptors}
	for _, r := range results {
		if slices.Contains(open, r.Name) && !r.Open || slices.Contains(shut, r.Name) && r.Open {
			t.Errorf("%s: open %v, %s", r.Name, r.Open, r.Seen)
		}
	}
	if len(results) < 25 {
		t.Errorf("%d probes", len(results))
	}
}

// TestPromises shows that only a promised wall can be bad, and that a quick run
// leaves out the bombs.
func TestPromises(t *testing.T) {
	home, ws := t.TempDir(), t.TempDir()
	box, err := host.New(host.Options{Workspace: ws})
	if err != nil {
		t.Fatal(err)
	}
	results, err := escape.Run(t.Context(), escape.Options{Sandbox: box, Workspace: ws, Home: home, Quick: true,
		Promised: func(name string) bool { return name == escape.SecretFile }})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Bad() != (r.Name == escape.SecretFile) {
			t.Errorf("%+v", r)
		}
		if r.Name == escape.ForkBomb {
			t.Error("a quick run has a bomb")
		}
	}
}
