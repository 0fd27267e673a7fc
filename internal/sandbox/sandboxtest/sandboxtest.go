// Package sandboxtest is the suite every sandbox passes.
package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/sandbox"
)

// A Box is a sandbox under test and its workspace as the host sees it. KillDelay
// of the sandbox should be short, or the suite takes its time.
type Box struct {
	Sandbox   sandbox.Sandbox
	Workspace string
	// NoSignals says that the level cannot tell a signal from an exit status.
	NoSignals bool
	// Slow is how many times slower than this machine the level is; 0 is 1.
	Slow int
}

// conv is the conversation all tests speak in.
var conv = chat.Address{Space: chat.Session, ID: "sandboxtest"}

// environ is what commands of the suite get.
var environ = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}

// Run runs the suite. Every test gets a sandbox of its own from open.
func Run(t *testing.T, open func(t *testing.T) Box) {
	for name, test := range map[string]func(*testing.T, Box){
		"ExitCodes":       exitCodes,
		"Signal":          signals,
		"Split":           split,
		"StdinClosed":     stdinClosed,
		"Stdin":           stdin,
		"Environment":     environment,
		"Directory":       directory,
		"BigOutput":       bigOutput,
		"Timeout":         timeout,
		"Abort":           abort,
		"DoneBefore":      doneBefore,
		"Survivors":       survivors,
		"Background":      background,
		"Files":           files,
		"FileRanges":      fileRanges,
		"MissingFile":     missingFile,
		"KeepsMode":       keepsMode,
		"Concurrent":      concurrent,
		"PathTranslation": paths,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// A result is what a command did.
type result struct {
	out, err string
	exit     sandbox.Exit
}

func run(t *testing.T, box Box, ctx context.Context, cmd sandbox.Command) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Conversation, cmd.Stdout, cmd.Stderr = conv, &out, &errs
	if cmd.Env == nil {
		cmd.Env = environ
	}
	exit, err := box.Sandbox.Run(ctx, cmd)
	if err != nil {
		t.Fatalf("Run(%q): %v", cmd.Script, err)
	}
	return result{out.String(), errs.String(), exit}
}

func script(t *testing.T, box Box, text string) result {
	t.Helper()
	return run(t, box, t.Context(), sandbox.Command{Script: text, Timeout: time.Duration(max(box.Slow, 1)) * time.Minute})
}

func exitCodes(t *testing.T, box Box) {
	for text, want := range map[string]int{"true": 0, "false": 1, "exit 42": 42, "exit 255": 255, "no-such-program-here": 127, "if": 2} {
		got := script(t, box, text)
		if got.exit.Code != want || got.exit.Signal != "" || got.exit.TimedOut || got.exit.Aborted {
			t.Errorf("%q: exit %+v, want code %d and nothing else", text, got.exit, want)
		}
	}
}

func signals(t *testing.T, box Box) {
	for text, want := range map[string]sandbox.Exit{
		"kill -KILL $$": {Code: 137, Signal: "SIGKILL"},
		"kill -TERM $$": {Code: 143, Signal: "SIGTERM"},
		"kill -SEGV $$": {Code: 139, Signal: "SIGSEGV"},
	} {
		got := script(t, box, text).exit
		got.Duration = 0
		if box.NoSignals {
			want.Signal = ""
		}
		if got != want {
			t.Errorf("%q: exit %+v, want %+v", text, got, want)
		}
	}
}

func split(t *testing.T, box Box) {
	got := script(t, box, "echo out; echo err >&2; echo more")
	if got.out != "out\nmore\n" || got.err != "err\n" {
		t.Errorf("stdout %q, stderr %q", got.out, got.err)
	}
	exit, err := box.Sandbox.Run(t.Context(), sandbox.Command{Conversation: conv, Script: "echo a; echo b >&2; exit 3", Env: environ})
	if err != nil || exit.Code != 3 {
		t.Errorf("without writers: %+v, %v", exit, err)
	}
}

func stdinClosed(t *testing.T, box Box) {
	if got := script(t, box, "cat; echo end"); got.out != "end\n" {
		t.Errorf("cat without input wrote %q", got.out)
	}
}

func stdin(t *testing.T, box Box) {
	in := strings.Repeat("0123456789abcdef", 1<<14)
	got := run(t, box, t.Context(), sandbox.Command{Script: "cat", Stdin: strings.NewReader(in)})
	if got.out != in {
		t.Errorf("cat gave back %d bytes of %d", len(got.out), len(in))
	}
	// A command that does not read its input is no error.
	if got := run(t, box, t.Context(), sandbox.Command{Script: "exit 4", Stdin: strings.NewReader(in)}); got.exit.Code != 4 {
		t.Errorf("exit %+v, want code 4", got.exit)
	}
}

func environment(t *testing.T, box Box) {
	env := append(slices.Clone(environ), "GREETING=two words\nand a line", "EMPTY=")
	got := run(t, box, t.Context(), sandbox.Command{Script: "env -0", Env: env})
	seen := map[string]bool{}
	for v := range strings.SplitSeq(strings.TrimSuffix(got.out, "\x00"), "\x00") {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains([]string{"PWD", "SHLVL", "_", "OLDPWD", "IRIS_COMMAND_ID"}, name) {
			continue // bash's own, and the mark of the sandbox
		}
		seen[v] = true
		if !slices.Contains(env, v) {
			t.Errorf("command has %q, which it was not given", v)
		}
	}
	for _, v := range env {
		if !seen[v] {
			t.Errorf("command does not have %q", v)
		}
	}
}

func directory(t *testing.T, box Box) {
	dir := box.Sandbox.Path(filepath.Join(box.Workspace, "a b"))
	script(t, box, "mkdir -p '"+dir+"'")
	if got := run(t, box, t.Context(), sandbox.Command{Script: "pwd -P", Dir: dir}); got.out != dir+"\n" {
		t.Errorf("pwd in %q = %q", dir, got.out)
	}
	_, err := box.Sandbox.Run(t.Context(), sandbox.Command{Conversation: conv, Script: "true", Dir: dir + "/none", Env: environ})
	if err == nil {
		t.Error("a directory that is not there is no error")
	}
}

func bigOutput(t *testing.T, box Box) {
	const mib = 8
	got := script(t, box, fmt.Sprintf("head -c %d /dev/zero; head -c %d /dev/zero >&2", mib<<20, mib<<20))
	if len(got.out) != mib<<20 || len(got.err) != mib<<20 {
		t.Errorf("got %d and %d bytes, want %d each", len(got.out), len(got.err), mib<<20)
	}
}

func timeout(t *testing.T, box Box) {
	limit := time.Second * time.Duration(max(box.Slow, 1)) // until a busy machine has said "before"
	got := run(t, box, t.Context(), sandbox.Command{Script: "echo before; sleep 300; echo after", Timeout: limit})
	if !got.exit.TimedOut || got.exit.Aborted || got.exit.Code == 0 || got.out != "before\n" {
		t.Errorf("exit %+v, output %q", got.exit, got.out)
	}
	if got.exit.Duration < limit || got.exit.Duration > limit+10*time.Second {
		t.Errorf("took %v", got.exit.Duration)
	}
}

func abort(t *testing.T, box Box) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got := run(t, box, ctx, sandbox.Command{Script: "sleep 300", Stdin: cancelReader{cancel}})
	if !got.exit.Aborted || got.exit.TimedOut || got.exit.Code == 0 {
		t.Errorf("exit %+v", got.exit)
	}
}

// A cancelReader cancels when the sandbox has begun to feed the command.
type cancelReader struct{ cancel context.CancelFunc }

func (r cancelReader) Read([]byte) (int, error) {
	r.cancel()
	return 0, errors.New("no input")
}

func doneBefore(t *testing.T, box Box) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := box.Sandbox.Path(filepath.Join(box.Workspace, "ran"))
	got := run(t, box, ctx, sandbox.Command{Script: "touch '" + file + "'"})
	if !got.exit.Aborted || got.exit.Code == 0 {
		t.Errorf("exit %+v", got.exit)
	}
	if _, _, err := box.Sandbox.ReadFile(t.Context(), conv, file, 0, 1); err == nil {
		t.Error("the command ran")
	}
}

func concurrent(t *testing.T, box Box) {
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			got := script(t, box, fmt.Sprintf("echo %d; sleep 0.1; (exit %d)", i, i))
			if want := fmt.Sprintf("%d\n", i); got.out != want || got.exit.Code != i || got.exit.Background != 0 {
				t.Errorf("run %d: %q, %+v", i, got.out, got.exit)
			}
		})
	}
	wg.Wait()
}

func files(t *testing.T, box Box) {
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i ^ i>>8)
	}
	name := box.Sandbox.Path(filepath.Join(box.Workspace, "deep", "er", "it's $(a) \"file\"\n"))
	if err := box.Sandbox.WriteFile(t.Context(), conv, name, data); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	got, size, err := box.Sandbox.ReadFile(t.Context(), conv, name, 0, 2<<20)
	if err != nil || size != 1<<20 || !bytes.Equal(got, data) {
		t.Errorf("ReadFile = %d bytes of %d, %v; equal: %v", len(got), size, err, bytes.Equal(got, data))
	}
	if err := box.Sandbox.WriteFile(t.Context(), conv, name, []byte("short")); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	if got, _, err := box.Sandbox.ReadFile(t.Context(), conv, name, 0, 100); err != nil || string(got) != "short" {
		t.Errorf("after an overwrite: %q, %v", got, err)
	}
	if list := script(t, box, "find '"+path.Dir(name)+"' -type f -exec echo x ';'"); list.out != "x\n" {
		t.Errorf("%q: want one file in the directory", list.out)
	}
	// What a command wrote is what ReadFile sees, and the other way round.
	shared := box.Sandbox.Path(filepath.Join(box.Workspace, "shared"))
	script(t, box, "printf 'from a command' > '"+shared+"'")
	if got, _, err := box.Sandbox.ReadFile(t.Context(), conv, shared, 0, 100); err != nil || string(got) != "from a command" {
		t.Errorf("ReadFile of a command's file: %q, %v", got, err)
	}
}

func fileRanges(t *testing.T, box Box) {
	name := box.Sandbox.Path(filepath.Join(box.Workspace, "digits"))
	if err := box.Sandbox.WriteFile(t.Context(), conv, name, []byte("0123456789")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		offset, limit int64
		want          string
	}{{0, 10, "0123456789"}, {0, 3, "012"}, {4, 3, "456"}, {8, 100, "89"}, {10, 5, ""}, {50, 5, ""}, {0, 0, ""}} {
		got, size, err := box.Sandbox.ReadFile(t.Context(), conv, name, c.offset, c.limit)
		if err != nil || string(got) != c.want || size != 10 && c.offset <= 10 {
			t.Errorf("ReadFile(%d, %d) = %q, %d, %v, want %q", c.offset, c.limit, got, size, err, c.want)
		}
	}
}

func missingFile(t *testing.T, box Box) {
	dir := box.Sandbox.Path(box.Workspace)
	if _, _, err := box.Sandbox.ReadFile(t.Context(), conv, dir+"/none", 0, 10); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile of a missing file: %v, want fs.ErrNotExist", err)
	}
	if _, _, err := box.Sandbox.ReadFile(t.Context(), conv, dir, 0, 10); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile of a directory: %v", err)
	}
	if err := box.Sandbox.WriteFile(t.Context(), conv, dir, []byte("x")); err == nil {
		t.Error("WriteFile of a directory is no error")
	}
}

func keepsMode(t *testing.T, box Box) {
	name := box.Sandbox.Path(filepath.Join(box.Workspace, "tool.sh"))
	script(t, box, "printf old > '"+name+"'; chmod 750 '"+name+"'")
	if err := box.Sandbox.WriteFile(t.Context(), conv, name, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got := script(t, box, "stat -c %a '"+name+"'; cat '"+name+"'"); got.out != "750\nnew" {
		t.Errorf("mode and content: %q, want 750 and new", got.out)
	}
}

func paths(t *testing.T, box Box) {
	inside := filepath.Join(box.Workspace, "SESSION-1", "a b.txt")
	there := box.Sandbox.Path(inside)
	if back, ok := box.Sandbox.Host(there); !ok || back != inside {
		t.Errorf("Host(Path(%q)) = %q, %v", inside, back, ok)
	}
	if back, ok := box.Sandbox.Host(box.Sandbox.Path(box.Workspace)); !ok || back != box.Workspace {
		t.Errorf("Host(Path(workspace)) = %q, %v", back, ok)
	}
	root := box.Sandbox.Path(box.Workspace)
	for _, p := range []string{"/etc/passwd", root + "/../x", root + "x", "relative", ""} {
		if host, ok := box.Sandbox.Host(p); ok {
			t.Errorf("Host(%q) = %q, true, want false", p, host)
		}
	}
}
