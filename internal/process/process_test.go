package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if mark := os.Getenv(starterEnv); mark != "" {
		startForEver(mark)
	}
	if owner := os.Getenv(leaverEnv); owner != "" {
		leave(owner)
	}
	goleak.VerifyTestMain(m)
}

// start runs a script whose output is read until it has written a line.
func start(t *testing.T, script string) (*Tree, string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	sh, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := Start(Spec{Path: sh, Args: []string{"bash", "-c", script}, Env: os.Environ(), Files: []*os.File{nil, w, nil}})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := tree.End(time.Millisecond); err != nil {
			t.Errorf("End: %v", err)
		}
	})
	line := make([]byte, 100)
	n, err := r.Read(line)
	if err != nil {
		t.Fatalf("%q wrote nothing: %v", script, err)
	}
	return tree, strings.TrimSpace(string(line[:n]))
}

// alive reports whether a process runs; a zombie does not.
func alive(pid int) bool {
	s, ok := readStat(pid)
	return ok && !s.zombie()
}

// eventually waits for something that happens in another process.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// TestEndLeavesOthersAlone ends one of two equal trees and a bystander.
func TestEndLeavesOthersAlone(t *testing.T) {
	const script = "setsid sleep 300 & echo $!; wait"
	one, _ := start(t, script)
	two, pid := start(t, script)
	bystander := exec.Command("sleep", "300")
	if err := bystander.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = bystander.Process.Kill()
		if err := bystander.Wait(); err == nil {
			t.Error("the bystander was not there to be killed")
		}
	}()
	if n, err := one.End(time.Second); err != nil || n != 2 {
		t.Errorf("End = %d, %v, want 2 processes", n, err)
	}
	child, _ := strconv.Atoi(pid)
	if !alive(two.Pid()) || !alive(child) || !alive(bystander.Process.Pid) {
		t.Error("End hit a process of somebody else")
	}
	if n, err := one.End(time.Second); err != nil || n != 0 {
		t.Errorf("End again = %d, %v", n, err)
	}
}

// TestMarks shows that either mark finds an orphan alone.
func TestMarks(t *testing.T) {
	for name, script := range map[string]string{
		"limit":    `(env -i setsid sh -c 'echo $$; exec >&-; sleep 300' &)`,
		"variable": `(prlimit --rttime=123456789:123456789 setsid sh -c 'echo $$; sleep 300' &)`,
	} {
		t.Run(name, func(t *testing.T) {
			tree, line := start(t, script)
			pid, _ := strconv.Atoi(line)
			<-tree.Done()
			if limit, env := limitOf(pid) == tree.limit, hasVariable(pid, tree.id); limit == env {
				t.Fatalf("marks of %d: limit %v, variable %v, want one of them", pid, limit, env)
			}
			if n := tree.Left(); n == 0 {
				t.Error("Left = 0")
			}
			if _, err := tree.End(time.Second); err != nil || alive(pid) {
				t.Errorf("End: %v, alive %v", err, alive(pid))
			}
		})
	}
}

// TestForkRace ends a program that never stops starting others.
func TestForkRace(t *testing.T) {
	tree, _ := start(t, `trap '' TERM; echo go; f() { while :; do (trap '' TERM; setsid sleep 0.01 & setsid sleep 300 &) ; sleep 0.01; done; }; f & f & f`)
	if _, err := tree.End(50 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if n := tree.Left(); n != 0 {
		t.Errorf("Left = %d", n)
	}
}

// TestMarkedFromTheStart shows that a program cannot fork before it is marked.
func TestMarkedFromTheStart(t *testing.T) {
	for range 20 {
		tree, line := start(t, `(setsid sh -c 'grep "realtime timeout" /proc/self/limits; sleep 300' &)`)
		if tree.limit == 0 {
			t.Skip("limits cannot be set here")
		}
		if got := parseLimit([]byte(line)); got != tree.limit {
			t.Fatalf("a child has the limit %d, want %d", got, tree.limit)
		}
	}
}

// TestNoZombies shows that orphans which end by themselves are reaped.
func TestNoZombies(t *testing.T) {
	tree, line := start(t, `(setsid sh -c 'echo $$' &)`)
	<-tree.Done()
	eventually(t, "Left is 0", func() bool { return tree.Left() == 0 })
	pid, _ := strconv.Atoi(line)
	if s, ok := readStat(pid); ok && s.parent == os.Getpid() {
		t.Errorf("process %d is in state %c", pid, s.state)
	}
}

func TestTermThenKill(t *testing.T) {
	tree, _ := start(t, `trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done`)
	if _, err := tree.End(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if state, err := tree.Wait(); err != nil || state.ExitCode() != 7 {
		t.Errorf("state %v, %v: TERM was not given its time", state, err)
	}
	tree, _ = start(t, `trap '' TERM; echo ready; while :; do sleep 0.01; done`)
	if _, err := tree.End(20 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if state, err := tree.Wait(); err != nil || state.String() != "signal: killed" {
		t.Errorf("state %v, %v, want killed", state, err)
	}
}

func TestStartFails(t *testing.T) {
	if _, err := Start(Spec{Path: "/no/such/program", Args: []string{"x"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// TestReaper buries an orphan of a program that is not a Tree.
func TestReaper(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skipf("no subreaper here: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- Reaper{Every: 5 * time.Millisecond}.Serve(ctx) }()
	out, err := exec.Command("sh", "-c", `setsid sh -c 'echo $$' &`).Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(out)))
	eventually(t, "the orphan is buried", func() bool { _, ok := readStat(pid); return !ok })
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

func TestSignalChecksStart(t *testing.T) {
	tree, _ := start(t, "echo ready; sleep 300")
	s, ok := readStat(tree.Pid())
	if !ok {
		t.Fatal("no stat")
	}
	s.start++ // as if the number belonged to a later process
	if err := signal(s, unix.SIGKILL); err != nil || !alive(tree.Pid()) {
		t.Errorf("signal: %v; the wrong process was hit: %v", err, !alive(tree.Pid()))
	}
	if err := signal(stat{pid: 1 << 29}, unix.SIGKILL); err != nil {
		t.Errorf("signal to nobody: %v", err)
	}
}

func TestEndError(t *testing.T) {
	for want, e := range map[string]*EndError{
		"processes [4 5] could not be ended":                        {Pids: []int{4, 5}},
		"processes [4] could not be ended: operation not permitted": {Pids: []int{4}, Cause: unix.EPERM},
	} {
		if e.Error() != want || errors.Unwrap(e) != e.Cause {
			t.Errorf("error %q, want %q", e, want)
		}
	}
}

func TestParseStat(t *testing.T) {
	line := "42 (a) b (c) S 7 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765 0\n"
	got, ok := parseStat([]byte(line))
	if want := (stat{pid: 42, parent: 7, session: 40, state: 'S', start: 98765}); !ok || got != want {
		t.Errorf("parseStat = %+v, %v, want %+v", got, ok, want)
	}
	for _, bad := range []string{"", "(", "1 (x", "1 (x) S 1 2", "x (x) S 7 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765", ") ("} {
		if _, ok := parseStat([]byte(bad)); ok {
			t.Errorf("parseStat(%q) is ok", bad)
		}
	}
}

func TestParseLimit(t *testing.T) {
	const text = "Limit                     Soft Limit           Hard Limit           Units     \nMax realtime priority     0                    0                    \nMax realtime timeout      5                    %s            us        \n"
	for hard, want := range map[string]uint64{"4611686018427387000": 4611686018427387000, "unlimited": 0, "": 0} {
		if got := parseLimit([]byte(strings.ReplaceAll(text, "%s", hard))); got != want {
			t.Errorf("parseLimit with %q = %d, want %d", hard, got, want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) b (c) S 7 42 40 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 98765 0\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if s, ok := parseStat(line); ok && s.state == 0 {
			t.Errorf("parseStat(%q) has no state", line)
		}
	})
}
