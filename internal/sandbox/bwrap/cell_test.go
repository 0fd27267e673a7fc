package bwrap

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/sandbox"
)

// output runs a script and returns what it wrote.
func output(t *testing.T, box *Bwrap, cmd sandbox.Command) string {
	t.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr, cmd.Timeout = &out, &out, time.Minute
	if cmd.Env == nil {
		cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=/home/somebody"}
	}
	if exit, err := box.Run(t.Context(), cmd); err != nil || exit.TimedOut {
		t.Fatalf("%s: %+v, %v", cmd.Script, exit, err)
	}
	return out.String()
}

// ready waits until cells wait, and returns them.
func ready(t *testing.T, box *Bwrap) []*cell {
	t.Helper()
	box.stock.wait()
	box.stock.mu.Lock()
	defer box.stock.mu.Unlock()
	return append([]*cell{}, box.stock.cells...)
}

// TestCellsShareNothing: the next command runs in a cell that was there before,
// and finds nothing of the command before it: no file, no variable, no process.
func TestCellsShareNothing(t *testing.T) {
	box := open(t, Options{})
	output(t, box, sandbox.Command{Script: "true"})
	for i := range 4 {
		cells := ready(t, box)
		if len(cells) != 2 {
			t.Fatalf("%d cells wait", len(cells))
		}
		got := output(t, box, sandbox.Command{
			Script: `ls -A /tmp /var/tmp ~ | grep -v ^Test; cat /proc/[0-9]*/environ | tr '\0' '\n' | grep TOKEN | sort -u; touch /tmp/x /var/tmp/x ~/x; (setsid sleep 100 &)`,
			Env:    []string{"PATH=/usr/bin:/bin", "HOME=/home/somebody", "TOKEN" + string(rune('A'+i)) + "=SECRET"},
		})
		want := "/home/somebody:\n\n/tmp:\n\n/var/tmp:\nTOKEN" + string(rune('A'+i)) + "=SECRET\n"
		if got != want {
			t.Errorf("command %d: %q, want %q", i, got, want)
		}
		if left := ready(t, box); len(left) != 2 || left[0] != cells[1] {
			t.Errorf("command %d did not run in a cell that was ready", i)
		}
	}
}

// TestChangedCover: a cell whose cover somebody replaced is not used, nor is one
// that is not what a command asks for.
func TestChangedCover(t *testing.T) {
	ws := resolved(t)
	keys := filepath.Join(ws, "agents.json")
	box := open(t, Options{Workspace: ws, Hide: []string{keys, ws + "/.env"}})
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path+"~", []byte("token"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"~", path); err != nil {
			t.Fatal(err)
		}
	}
	write(keys)
	for _, path := range []string{keys, ws + "/.env", keys} {
		output(t, box, sandbox.Command{Script: "true"})
		ready(t, box)
		write(path)
		if got := output(t, box, sandbox.Command{Script: "cat agents.json .env 2>/dev/null"}); got != "" {
			t.Errorf("%s was replaced: %q", path, got)
		}
	}
	if got := output(t, box, sandbox.Command{Script: "touch ~/x && echo $HOME", Env: []string{"PATH=/usr/bin:/bin", "HOME=/home/other"}}); got != "/home/other\n" {
		t.Errorf("another home: %q", got)
	}
}

// TestCellsEnd: cells do not stay for ever, and not after Close.
func TestCellsEnd(t *testing.T) {
	box := open(t, Options{})
	output(t, box, sandbox.Command{Script: "true"})
	cells := ready(t, box)
	box.stock.clear()
	box.stock.wait()
	output(t, box, sandbox.Command{Script: "true"})
	cells = append(cells, ready(t, box)...)
	// One that died while it waited is not used.
	if _, err := cells[2].tree.End(time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := output(t, box, sandbox.Command{Script: "echo well"}); got != "well\n" {
		t.Errorf("after a cell died: %q", got)
	}
	cells = append(cells, ready(t, box)...)
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	for i, c := range cells {
		if !c.ended() {
			t.Errorf("cell %d of %d still runs", i, len(cells))
		}
	}
	if output(t, box, sandbox.Command{Script: "true"}); len(ready(t, box)) != 0 {
		t.Error("cells wait after Close")
	}
	idle := open(t, Options{Idle: time.Millisecond, Ready: 1})
	output(t, idle, sandbox.Command{Script: "true"})
	for deadline := time.Now().Add(20 * time.Second); len(ready(t, idle)) > 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("cells wait for ever")
		}
		idle.stock.mu.Lock()
		idle.stock.idle.Reset(time.Millisecond) // the making may have taken longer
		idle.stock.mu.Unlock()
	}
}

// TestHandover: every byte arrives, in variables and in the script, through either
// shell; names that no shell can hand on are left out.
func TestHandover(t *testing.T) {
	var all []byte
	for i := 1; i < 256; i++ {
		all = append(all, byte(i))
	}
	text := string(all) + "'\\''\n$(nope) `nope` \n\n"
	for name, dash := range map[string]string{"dash": "", "bash alone": "no-such-dash"} {
		box := open(t, Options{Dash: dash})
		env := []string{"PATH=/usr/bin:/bin", "A=" + text, "PPID=x", "OPTIND=x", "UID=x", "a b=x", "1=x", "=x", "A.B=x", "é=x", "IFS=x"}
		got := output(t, box, sandbox.Command{Script: "printf %sx \"$A\"\ncat <<'end'\n" + text + "\nend\n:  #" + strings.Repeat("long ", 20000), Env: env})
		if want := text + "x" + text + "\n"; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestHalfHandover: a shell that does not get all of it does none of it.
func TestHalfHandover(t *testing.T) {
	box := open(t, Options{})
	ran := filepath.Join(t.TempDir(), "ran")
	whole := strings.NewReplacer("2>&6", "", "4<&-", "", "6>&-", "", "7<&-", "").Replace(box.handover(sandbox.Command{Script: "echo > " + ran, Env: []string{"A=b"}}, "/"))
	shells := []string{box.shell}
	if box.dash != "" {
		shells = append(shells, box.dash)
	}
	for _, shell := range shells {
		for cut := 0; cut <= len(whole); cut += 7 {
			text := whole[:cut]
			if cut+7 > len(whole) {
				text = whole
			}
			cmd := exec.Command(shell, "-c", ". /proc/self/fd/0")
			cmd.Stdin = strings.NewReader(text)
			_ = cmd.Run() // fails for every half
			if _, err := os.Stat(ran); (err == nil) != (text == whole) {
				t.Fatalf("%s with %q: ran %v", shell, text, err == nil)
			}
			_ = os.Remove(ran)
		}
	}
}

// TestInputKinds: without input a command finds an empty device and not a pipe,
// which some programs would search instead of the directory.
func TestInputKinds(t *testing.T) {
	box := open(t, Options{})
	if got := output(t, box, sandbox.Command{Script: "[ ! -p /dev/stdin ] && [ -c /dev/stdin ] && cat && echo device"}); got != "device\n" {
		t.Errorf("no input: %q", got)
	}
	if got := output(t, box, sandbox.Command{Script: "cat", Stdin: bytes.NewReader([]byte("in"))}); got != "in" {
		t.Errorf("input: %q", got)
	}
}
