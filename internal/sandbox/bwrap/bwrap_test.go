package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes a sandbox, or skips where bubblewrap cannot be had.
func open(t testing.TB, opts Options) *Bwrap {
	t.Helper()
	if opts.Workspace == "" {
		opts.Workspace = resolved(t)
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
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// TestSuite runs it with either shell as the first process.
func TestSuite(t *testing.T) {
	for name, dash := range map[string]string{"dash": "", "bash alone": "no-such-dash"} {
		t.Run(name, func(t *testing.T) {
			sandboxtest.Run(t, func(t *testing.T) sandboxtest.Box {
				b := open(t, Options{Dash: dash})
				if (b.dash == "") != (dash != "") {
					t.Skip("there is no dash")
				}
				return sandboxtest.Box{Sandbox: b, Workspace: b.opts.Workspace, NoSignals: true}
			})
		})
	}
}

// TestAlone: a command cannot tell what looks after it. It has the descriptors and
// variables it was given, its own name and number, its limit, and no children.
func TestAlone(t *testing.T) {
	for name, dash := range map[string]string{"dash": "", "bash alone": "no-such-dash"} {
		t.Run(name, func(t *testing.T) {
			b := open(t, Options{Dash: dash, Processes: 500})
			var out, errs strings.Builder
			exit, err := b.Run(t.Context(), sandbox.Command{
				Script: `for f in 3 4 5 6; do [ -e /proc/$$/fd/$f ] && echo $f is open; done; [ $$ != 1 ] && [ $$ = $BASHPID ] && echo own; echo $0 $SHLVL $(ulimit -u) "$A" $-; jobs -p; nope; kill -TERM $$`,
				Env:    []string{"PATH=/usr/bin:/bin", "A=a  b", "SHLVL=7", "BASH_ENV=/none", "code=x"}, Stdout: &out, Stderr: &errs,
			})
			const want = "own\nbash 1 500 a  b hBc\nbash: line 1: nope: command not found\n"
			got := strings.Replace(out.String()+errs.String(), "bash: /none: No such file or directory\n", "", 1)
			if err != nil || exit.Code != 143 || exit.Background != 0 || got != want {
				t.Errorf("%q, %+v, %v, want %q", got, exit, err, want)
			}
		})
	}
}

// TestEndedOrphans: what was left behind and ends with the command is not waited for.
func TestEndedOrphans(t *testing.T) {
	for name, dash := range map[string]string{"dash": "", "bash alone": "no-such-dash"} {
		b := open(t, Options{Dash: dash, Linger: 20 * time.Second})
		exit, err := b.Run(t.Context(), sandbox.Command{Script: "for i in 1 2 3 4 5 6; do (read -rt .0$i <> <(:) &); done; exit 3", Env: []string{"PATH=/usr/bin:/bin"}})
		if err != nil || exit.Code != 3 || exit.Background != 0 || exit.Duration > 15*time.Second {
			t.Errorf("%s: %+v, %v", name, exit, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	home := t.TempDir()
	ws := home + "/w"
	if err := os.Mkdir(ws, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		opts Options
		want string
	}{
		"relative workspace": {Options{Workspace: "w"}, "not an absolute path"},
		"no workspace":       {Options{Workspace: home + "/none"}, "no such file"},
		"the root":           {Options{Workspace: "/"}, "holds /"},
		"the home":           {Options{Workspace: home, Home: home}, "holds " + home},
		"the system":         {Options{Workspace: "/usr/share"}, "lies in /usr"},
		"relative directory": {Options{Workspace: ws, Dir: "x"}, "not an absolute path"},
		"no bubblewrap":      {Options{Workspace: ws, Program: "no-such-program"}, "apt install bubblewrap"},
		"no bash":            {Options{Workspace: ws, Program: "true", Shell: "no-such-shell"}, "look for bash"},
		"it cannot run":      {Options{Workspace: ws, Program: "false"}, "first command"},
	} {
		_, err := New(t.Context(), c.opts)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: New = %v, want an error with %q", name, err, c.want)
		}
	}
}

// TestHiddenAndReadOnly: masks in the workspace, also behind a link, and below a
// further readable path; what is read-only stays as it is.
func TestHiddenAndReadOnly(t *testing.T) {
	ws, more := resolved(t), resolved(t)
	for path, text := range map[string]string{"agents.json": "token", "real.env": "token", "audit": "line\n", "plain": "plain"} {
		if err := os.WriteFile(filepath.Join(ws, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{ws + "/state", more + "/keys", more + "/open"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/file", []byte("inside"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("real.env", ws+"/.env"); err != nil {
		t.Fatal(err)
	}
	box := open(t, Options{Workspace: ws, Read: []string{more}, ReadOnly: []string{ws + "/audit", "/not/there"},
		Hide: []string{ws + "/agents.json", ws + "/.env", more + "/keys", "/not/there"}})
	for script, want := range map[string]string{
		"cat agents.json .env real.env plain":       "plain",
		"ls -A state":                               "",
		"touch state/x || echo no":                  "no\n",
		"mv state other || echo no":                 "no\n",
		"ls -A " + more + "/keys":                   "",
		"cat " + more + "/open/file":                "inside",
		"touch " + more + "/x || echo no":           "no\n",
		"echo x >> audit || echo no; cat audit":     "no\nline\n",
		"rm -f audit agents.json || echo no":        "no\n",
		"touch /x /usr/x /etc/x /proc/x || echo no": "no\n",
		"ls -A ~; touch ~/x && echo yes":            "yes\n",
		"ls -A /run; touch /tmp/x && echo yes":      "yes\n",
		"id -u; hostname; ls /sys 2>/dev/null":      fmt.Sprintf("%d\nsandbox\n", os.Getuid()),
	} {
		var out strings.Builder
		_, err := box.Run(t.Context(), sandbox.Command{Script: script, Stdout: &out, Env: []string{"PATH=/usr/bin:/bin", "HOME=/home/somebody"}})
		if err != nil || out.String() != want {
			t.Errorf("%s: %q, %v, want %q", script, out.String(), err, want)
		}
	}
}

// TestLimits: what one command may take, and what the watch ends it for.
func TestLimits(t *testing.T) {
	box := open(t, Options{Memory: 256 << 20, File: 1 << 20, Tmp: 1 << 20})
	for script, what := range map[string]string{
		"head -c 2000000 /dev/zero > big":                           "a large file",
		"head -c 2000000 /dev/zero > /tmp/big":                      "a full /tmp",
		"x=$(head -c 400000000 /dev/zero | tr '\\0' x); echo ${#x}": "much memory",
	} {
		exit, err := box.Run(t.Context(), sandbox.Command{Script: script, Env: []string{"PATH=/usr/bin:/bin"}, Timeout: time.Minute})
		if err != nil || exit.Code == 0 || exit.TimedOut {
			t.Errorf("%s: %+v, %v", what, exit, err)
		}
	}
	free, ok := freeSpace(box.opts.Workspace)
	if !ok {
		t.Fatal("no free space is told")
	}
	// Pretend that the disk is about to be full: a few MiB more and it is.
	full := open(t, Options{KeepFree: free - 8<<20})
	var errs strings.Builder
	exit, err := full.Run(t.Context(), sandbox.Command{
		Script: "trap '' TERM; while :; do head -c 1000000 /dev/zero >> fill; done", Env: []string{"PATH=/usr/bin:/bin"}, Stderr: &errs, Timeout: time.Minute,
	})
	if err != nil || exit.Code == 0 || exit.TimedOut || !strings.Contains(errs.String(), "of the disk are left") {
		t.Errorf("a full disk: %+v, %v, %q", exit, err, errs.String())
	}
}

// TestTermBeforeKill: a command that is stopped may clean up.
func TestTermBeforeKill(t *testing.T) {
	box := open(t, Options{KillDelay: 5 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	exit, err := box.Run(ctx, sandbox.Command{
		Script: "trap 'echo cleaned > done; exit 7' TERM; echo ready; while :; do sleep 0.05; done",
		Env:    []string{"PATH=/usr/bin:/bin"}, Stdout: cancelWriter{cancel},
	})
	if data, readErr := os.ReadFile(box.opts.Workspace + "/done"); err != nil || !exit.Aborted || string(data) != "cleaned\n" {
		t.Errorf("%+v, %v; done: %q, %v", exit, err, data, readErr)
	}
}

type cancelWriter struct{ cancel context.CancelFunc }

func (w cancelWriter) Write(p []byte) (int, error) { w.cancel(); return len(p), nil }

func resolved(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
