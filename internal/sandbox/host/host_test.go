package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, opts Options) *Host {
	t.Helper()
	if opts.Workspace == "" {
		opts.Workspace = t.TempDir()
	}
	h, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestSuite(t *testing.T) {
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Box {
		ws, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return sandboxtest.Box{Sandbox: open(t, Options{Workspace: ws, KillDelay: 300 * time.Millisecond}), Workspace: ws}
	})
}

func TestNewRefuses(t *testing.T) {
	for name, opts := range map[string]Options{
		"no workspace":       {},
		"relative workspace": {Workspace: "data"},
		"relative directory": {Workspace: "/w", Dir: "x"},
		"no bash":            {Workspace: "/w", Shell: "no-such-shell"},
	} {
		if _, err := New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestRunTooLong(t *testing.T) {
	h := open(t, Options{})
	if _, err := h.Run(t.Context(), sandbox.Command{Script: strings.Repeat("#", maxScript+1)}); err == nil || !strings.Contains(err.Error(), "write it to a file") {
		t.Errorf("error %v", err)
	}
	if exit, err := h.Run(t.Context(), sandbox.Command{Script: strings.Repeat("#", maxScript)}); err != nil || exit.Code != 0 {
		t.Errorf("the longest command: %+v, %v", exit, err)
	}
}

// TestRunHasNoTerminal shows that a command cannot wait on a password prompt.
func TestRunHasNoTerminal(t *testing.T) {
	exit, err := open(t, Options{}).Run(t.Context(), sandbox.Command{Script: "exec 3</dev/tty", Timeout: 10 * time.Second})
	if err != nil || exit.Code == 0 || exit.TimedOut {
		t.Errorf("opening /dev/tty: %+v, %v", exit, err)
	}
}

// TestRunDefaultDirectory shows where a command runs that names no directory.
func TestRunDefaultDirectory(t *testing.T) {
	ws, dir := t.TempDir(), t.TempDir()
	for name, c := range map[string]struct {
		opts Options
		want string
	}{"workspace": {Options{Workspace: ws}, ws}, "dir": {Options{Workspace: ws, Dir: dir}, dir}} {
		var out strings.Builder
		if _, err := open(t, c.opts).Run(t.Context(), sandbox.Command{Script: "pwd", Stdout: &out}); err != nil || out.String() != c.want+"\n" {
			t.Errorf("%s: %q, %v, want %q", name, out.String(), err, c.want)
		}
	}
}

var conv = chat.Address{Space: chat.Session, ID: "x"}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	h := open(t, Options{Workspace: dir})
	write := func(name, text string) {
		t.Helper()
		if err := h.WriteFile(t.Context(), conv, name, []byte(text)); err != nil {
			t.Fatalf("WriteFile(%s): %v", name, err)
		}
	}
	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}

	write("plain", "relative to the directory")
	if read("plain") != "relative to the directory" {
		t.Error("a relative path did not land in Dir")
	}

	link("plain", "link")
	write("link", "through the link")
	if to, err := os.Readlink(filepath.Join(dir, "link")); err != nil || to != "plain" || read("plain") != "through the link" {
		t.Errorf("the link is %q (%v), its target holds %q", to, err, read("plain"))
	}

	link("later/file", "dangling")
	write("dangling", "made")
	if read("later/file") != "made" {
		t.Error("a dangling link was not followed")
	}

	if err := os.Link(filepath.Join(dir, "plain"), filepath.Join(dir, "hard")); err != nil {
		t.Fatal(err)
	}
	write("plain", "for both names")
	if read("hard") != "for both names" {
		t.Error("the other hard link lost the content")
	}

	link("loop", "loop")
	if err := h.WriteFile(t.Context(), conv, "loop", nil); err == nil {
		t.Error("a link to itself was written")
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".iris-*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestReadFileRefusesWhatNeverEnds(t *testing.T) {
	dir := t.TempDir()
	h := open(t, Options{Workspace: dir})
	fifo := filepath.Join(dir, "fifo")
	if out, err := exec.Command("mkfifo", fifo).CombinedOutput(); err != nil {
		t.Fatalf("mkfifo: %v: %s", err, out)
	}
	for _, name := range []string{fifo, "/dev/zero"} {
		if _, _, err := h.ReadFile(t.Context(), conv, name, 0, 10); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("ReadFile(%s): %v", name, err)
		}
	}
	data, size, err := h.ReadFile(t.Context(), conv, "/proc/self/stat", 0, 1<<20)
	if err != nil || len(data) == 0 || size != int64(len(data)) {
		t.Errorf("/proc file: %d bytes of %d, %v", len(data), size, err)
	}
}

func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, Options{Workspace: dir})
	for name, to := range map[string]string{"a": "b", "b": "real", "up": "..", "gone": "not/there"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"a/new/file": dir + "/real/new/file", "a": dir + "/real", "gone": dir + "/not/there", "gone/x": dir + "/not/there/x",
		"up/x": filepath.Dir(dir) + "/x", "/": "/",
	} {
		if got, err := h.Resolve(t.Context(), conv, path); err != nil || got != want {
			t.Errorf("Resolve(%q) = %q, %v, want %q", path, got, err, want)
		}
	}
}

// BenchmarkRun is the cost of a command; BenchmarkBash is bash alone.
func BenchmarkRun(b *testing.B) {
	h := open(b, Options{Workspace: b.TempDir()})
	timed(b, func() error {
		var out strings.Builder
		exit, err := h.Run(b.Context(), sandbox.Command{Script: "true", Stdout: &out, Stderr: &out, Env: os.Environ()})
		if err == nil && exit.Code != 0 {
			err = fmt.Errorf("%+v", exit)
		}
		return err
	})
}

func BenchmarkBash(b *testing.B) {
	timed(b, func() error {
		var out strings.Builder
		cmd := exec.Command("bash", "--noprofile", "--norc", "-c", "true")
		cmd.Stdout, cmd.Stderr = &out, &out
		return cmd.Run()
	})
}

// timed reports the smallest time and the median besides the mean, which a busy
// machine spoils.
func timed(b *testing.B, run func() error) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := run(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[0].Microseconds())/1000, "min-ms")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
}
