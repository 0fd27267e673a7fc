package process

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// starterEnv makes the test binary a process that starts programs until it is
// killed; its value marks them.
const starterEnv = "IRIS_TEST_STARTER"

// startForEver starts programs as fast as it can and never looks after them.
func startForEver(mark string) {
	fmt.Println("ready")
	for {
		for range 4 {
			go func() {
				_, _ = Start(Spec{Path: "/bin/sleep", Args: []string{"sleep", "300"}, Env: []string{starterEnv + "_CHILD=" + mark}})
			}()
		}
		time.Sleep(time.Millisecond) // a rate, not a wait: the parent kills us
	}
}

// TestNothingOutlivesAKilledStarter kills a process while it starts programs, at
// points where they are not yet marked, stopped, or at work.
func TestNothingOutlivesAKilledStarter(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	mark := fmt.Sprintf("%d-%d", os.Getpid(), rnd.Uint64())
	for range 20 {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), starterEnv+"="+mark)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
			t.Fatal(err)
		}
		timer := time.NewTimer(time.Duration(rnd.IntN(20_000)) * time.Microsecond)
		<-timer.C
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		left := carrying(t, starterEnv+"_CHILD="+mark)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left behind: %s", strings.Join(left, "; "))
		}
		<-time.After(10 * time.Millisecond)
	}
}

// carrying lists the processes that have a variable in their environment.
func carrying(t *testing.T, variable string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		env, err := os.ReadFile(f)
		if err != nil || !bytes.Contains(env, []byte(variable)) {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "stat"))
		found = append(found, string(stat))
	}
	return found
}
