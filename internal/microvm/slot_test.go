package microvm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestNoFreeSlot(t *testing.T) {
	h, _ := open(t, "idle", nil)
	if err := os.MkdirAll(h.opts.StateDir, 0o700); err != nil {
		t.Fatal(err)
	}
	for slot := 1; slot <= Slots; slot++ {
		c, err := h.lock(slot)
		if err != nil || c == nil {
			t.Fatalf("slot %d: %v, %v", slot, c, err)
		}
		defer c.release()
	}
	if _, err := h.Boot(t.Context()); !errors.Is(err, ErrNoSlot) || !strings.Contains(err.Error(), "no free microVM slot") {
		t.Errorf("Boot: %v", err)
	}
}

// claimerEnv makes the test binary a process that holds slots until its input
// ends.
const claimerEnv = "IRIS_TEST_CLAIMER"

func claimer(dir string) {
	h := &Host{opts: Options{StateDir: dir}, taps: newTaps()}
	c, err := h.claim()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("slot", c.slot)
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// TestClaimAcrossProcesses shows that several processes never share a slot and
// that the slot of a process that was killed is free at once.
func TestClaimAcrossProcesses(t *testing.T) {
	h, _ := open(t, "idle", nil)
	self, _ := program(t, "")
	first := func() (slot string, end func()) {
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), claimerEnv+"="+h.opts.StateDir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line := make([]byte, 100)
		n, err := out.Read(line)
		if err != nil {
			t.Fatal(err)
		}
		end = func() {
			_ = cmd.Process.Kill()
			_ = in.Close()
			_ = cmd.Wait()
		}
		t.Cleanup(end)
		return strings.TrimSpace(string(line[:n])), end
	}
	one, endOne := first()
	two, _ := first()
	if one != "slot 1" || two != "slot 2" {
		t.Fatalf("%q and %q", one, two)
	}
	c, err := h.claim()
	if err != nil || c.slot != 3 {
		t.Fatalf("our slot: %+v, %v", c, err)
	}
	defer c.release()
	endOne()
	if again, _ := first(); again != "slot 1" {
		t.Errorf("after a kill: %q", again)
	}
}

// leftover makes a slot look as after a kill: directory, tap, running VMM.
func leftover(t *testing.T, h *Host, taps *fakeTaps, slot int, pid string) string {
	t.Helper()
	dir := filepath.Join(h.opts.StateDir, fmt.Sprintf("slot-%d", slot))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if pid != "" {
		if err := os.WriteFile(filepath.Join(dir, "pid"), []byte(pid), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := taps.up(NetOf(slot), 0); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sleeper is a process of ours that stands for a VMM.
func sleeper(t *testing.T, script string) (pid record, gone <-chan struct{}) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	pid, err = recordOf(cmd.Process.Pid)
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
	})
	if err != nil {
		t.Fatal(err)
	}
	return pid, done
}

func ends(t *testing.T, what string, gone <-chan struct{}) {
	t.Helper()
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Errorf("%s still runs", what)
	}
}

func TestSweep(t *testing.T) {
	h, taps := open(t, "idle", nil)
	calm, calmGone := sleeper(t, "echo up; exec sleep 300")
	deaf, deafGone := sleeper(t, "trap '' TERM; echo up; while :; do sleep 1; done")
	other, otherGone := sleeper(t, "echo up; exec sleep 300")
	stranger := other
	stranger.start++ // the number was given to somebody else
	rebooted := other
	rebooted.boot = "00000000-0000-0000-0000-000000000000"

	dirs := []string{
		leftover(t, h, taps, 3, calm.String()),
		leftover(t, h, taps, 4, deaf.String()),
		leftover(t, h, taps, 5, stranger.String()),
		leftover(t, h, taps, 6, rebooted.String()),
		leftover(t, h, taps, 7, ""),
		leftover(t, h, taps, 8, "torn 1"),
		leftover(t, h, taps, 200, "99999999 1 x\n"),
	}
	held := leftover(t, h, taps, 9, "") // of a process that lives
	c, err := h.lock(9)
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	defer c.release()
	n, err := h.Sweep()
	if err != nil || n != len(dirs) {
		t.Errorf("Sweep = %d, %v, want %d", n, err, len(dirs))
	}
	ends(t, "the left VMM", calmGone)
	ends(t, "the left VMM that ignores TERM", deafGone)
	select {
	case <-otherGone:
		t.Error("Sweep ended a process that only has the number")
	default:
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if _, err := os.Stat(held); err != nil {
		t.Errorf("the slot in use: %v", err)
	}
	if got := taps.names(); len(got) != 1 || got[0] != "vmtap9" {
		t.Errorf("taps %v", got)
	}
}

// TestBootCleansItsSlot boots where a killed process left something.
func TestBootCleansItsSlot(t *testing.T) {
	h, taps := open(t, "idle", nil)
	r, gone := sleeper(t, "echo up; exec sleep 300")
	leftover(t, h, taps, 1, r.String())
	v, err := h.Boot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	ends(t, "the left VMM", gone)
	if v.Slot() != 1 {
		t.Errorf("slot %d", v.Slot())
	}
}

// TestSlotThatCannotBeCleanedIsPassedOver boots in the next one.
func TestSlotThatCannotBeCleanedIsPassedOver(t *testing.T) {
	h, taps := open(t, "idle", nil)
	leftover(t, h, taps, 1, "")
	h.taps = stuckAt{taps, "vmtap1"}
	v, err := h.Boot(t.Context())
	if err != nil || v.Slot() != 2 {
		t.Fatalf("Boot: %v, %v", v, err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if _, err := h.Sweep(); err == nil || !strings.Contains(err.Error(), "slot 1: vmtap1 is busy") {
		t.Errorf("Sweep: %v", err)
	}
}

type stuckAt struct {
	*fakeTaps
	name string
}

func (s stuckAt) down(name string) error {
	if name == s.name {
		return errors.New(name + " is busy")
	}
	return s.fakeTaps.down(name)
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte("123 456 boot\n"))
	f.Add([]byte("1 2 3"))
	f.Add([]byte("-5 x"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRecord(text)
		if err != nil {
			return
		}
		if r.pid <= 1 {
			t.Errorf("%q names process %d", text, r.pid)
		}
		if again, err := parseRecord([]byte(r.String())); err != nil || again != r {
			t.Errorf("%q becomes %q, %v", text, again, err)
		}
	})
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("42 (a) b) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 777 1 1\n"))
	f.Add([]byte("42 (a"))
	f.Fuzz(func(t *testing.T, line []byte) { parseStat(line) })
}

func TestRecordOfSelf(t *testing.T) {
	r, err := recordOf(os.Getpid())
	if err != nil || r.pid != os.Getpid() || r.start == 0 || len(r.boot) != 36 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := recordOf(99999999); err == nil {
		t.Error("a process that is not there has a record")
	}
}
