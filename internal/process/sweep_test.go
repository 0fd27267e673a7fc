package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// leaverEnv makes the test binary a process that starts one program for the
// owner in its value and waits to be killed.
const leaverEnv = "IRIS_TEST_LEAVER"

// leave starts a shell that has children of three kinds: one below it, one in a
// session of its own, one without an environment.
func leave(owner string) {
	script := "sleep 300 & setsid sleep 300 & env -i /bin/sleep 300 & wait"
	_, err := Start(Spec{Path: "/bin/bash", Args: []string{"bash", "-c", script}, Env: []string{"PATH=" + os.Getenv("PATH"), leaverEnv + "_CHILD=" + owner}, Owner: owner})
	fmt.Println("ready", err)
	select {}
}

// leftBehind kills a process that had started a program for an owner, and
// returns when the program is dead and its children live on.
func leftBehind(t *testing.T, owner string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), leaverEnv+"="+owner)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
		t.Fatal(err)
	}
	sleepers := func(n int) func() bool {
		return func() bool { return len(sleeping(t, owner)) == n }
	}
	eventually(t, "the children have started", sleepers(2)) // the third has no environment to know it by
	eventually(t, "the third child has started", func() bool { return len(marks(t, owner)) == 3 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the program is dead", func() bool { return len(carrying(t, leaverEnv+"_CHILD="+owner)) == 2 })
}

// sleeping lists what was started for an owner and has become its program.
func sleeping(t *testing.T, owner string) (found []string) {
	for _, line := range carrying(t, leaverEnv+"_CHILD="+owner) {
		if strings.Contains(line, "(sleep)") {
			found = append(found, line)
		}
	}
	return found
}

// marks lists the sleeping processes that have the limit of an owner's.
func marks(t *testing.T, owner string) (pids []int) {
	limits := map[uint64]bool{}
	for _, line := range sleeping(t, owner) {
		if s, ok := parseStat([]byte(line)); ok {
			limits[limitOf(s.pid)] = true
		}
	}
	delete(limits, 0)
	delete(limits, unix.RLIM_INFINITY)
	for pid := range scan() {
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); limits[limitOf(pid)] && string(name) == "sleep\n" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestSweep ends what the programs of a killed process left running, without
// touching another owner's.
func TestSweep(t *testing.T) {
	if nextLimit() == 0 {
		t.Skip("no limits can be set here, so a child without an environment is lost")
	}
	mine, other := fmt.Sprintf("sweep-%d-a", os.Getpid()), fmt.Sprintf("sweep-%d-b", os.Getpid())
	leftBehind(t, mine)
	leftBehind(t, other)
	ours := marks(t, mine)
	ended, err := Sweep(mine, time.Second)
	if ended != 3 || err != nil {
		t.Errorf("Sweep = %d, %v, want 3 ended", ended, err)
	}
	for _, pid := range ours {
		if s, ok := readStat(pid); ok && !s.zombie() {
			t.Errorf("process %d still runs", pid)
		}
	}
	if n := len(marks(t, other)); n != 3 {
		t.Errorf("%d processes of another owner are left of 3", n)
	}
	if n, err := Sweep(other, time.Second); n != 3 || err != nil {
		t.Errorf("Sweep of the other = %d, %v, want 3 ended", n, err)
	}
	if n, err := Sweep(mine, time.Second); n != 0 || err != nil {
		t.Errorf("a second Sweep = %d, %v, want nothing to end", n, err)
	}
	if n, err := Sweep("", time.Second); n != 0 || err != nil {
		t.Errorf("Sweep of nobody = %d, %v", n, err)
	}
}

// TestSweepSparesItsCaller: a server that was started by a command of another
// one, for the same owner, does not end itself or that command.
func TestSweepSparesItsCaller(t *testing.T) {
	s := &sweep{prefix: []byte("PATH="), spare: lineage()}
	for pid := range s.spare {
		if s.marked(pid) {
			t.Errorf("process %d, which this one descends from, would be ended", pid)
		}
	}
	if !s.spare[os.Getpid()] || !s.spare[os.Getppid()] {
		t.Errorf("lineage() = %v lacks this process or its parent", s.spare)
	}
}
