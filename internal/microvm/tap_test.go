package microvm

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// tapsEnv makes the test binary try the kernel's taps in the network namespace
// it was started in.
const tapsEnv = "IRIS_TEST_TAPS"

// Programs the test binary can be, by variable.
var Programs = map[string]func(value string){
	claimerEnv: claimer,
	tapsEnv: func(string) {
		if err := tryTaps(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	},
}

// TestTaps makes real taps in a network namespace of its own.
func TestTaps(t *testing.T) {
	self, _ := program(t, "")
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), tapsEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Geteuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Skipf("no network namespace can be made here: %v", err)
	}
	err := cmd.Wait()
	if bytes.Contains(out.Bytes(), []byte("open /dev/net/tun")) {
		t.Skipf("no taps can be made here: %s", out.Bytes())
	}
	if err != nil {
		t.Errorf("%v: %s", err, out.Bytes())
	}
}

func tryTaps() error {
	var taps kernelTaps
	n := NetOf(254)
	if err := taps.down(n.Tap); err != nil {
		return fmt.Errorf("down of no tap: %w", err)
	}
	for range 2 { // the second time as after a crash, when it is there already
		if err := taps.up(n, os.Geteuid()); err != nil {
			return err
		}
	}
	ifc, err := net.InterfaceByName("vmtap254")
	if err != nil {
		return err
	}
	addrs, err := ifc.Addrs()
	if err != nil || len(addrs) == 0 || addrs[0].String() != "172.20.254.1/30" || ifc.Flags&net.FlagUp == 0 {
		return fmt.Errorf("addresses %v, flags %v, %v", addrs, ifc.Flags, err)
	}
	if err := taps.down(n.Tap); err != nil {
		return err
	}
	if _, err := net.InterfaceByName("vmtap254"); err == nil {
		return fmt.Errorf("the tap is still there")
	}
	if err := taps.up(Net{Tap: "a-name-that-is-too-long"}, 0); err == nil {
		return fmt.Errorf("a name of 23 letters was accepted")
	}
	return nil
}

func TestCopyImage(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	f, err := os.Create(from)
	if err != nil {
		t.Fatal(err)
	}
	const size = 8 << 20
	for _, at := range []int64{0, 3 << 20, size - 5} {
		if _, err := f.WriteAt([]byte("data!"), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(dir, "to")
	if err := copyImage(to, from, os.Geteuid(), os.Getegid()); err != nil {
		t.Fatal(err)
	}
	want, _ := os.ReadFile(from)
	got, err := os.ReadFile(to)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy has %d bytes of %d, equal: %v, %v", len(got), len(want), bytes.Equal(got, want), err)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(to, &st); err != nil || st.Blocks*512 >= size/2 || st.Mode&0o777 != 0o600 {
		t.Errorf("the copy takes %d bytes of disk, mode %o, %v", st.Blocks*512, st.Mode&0o777, err)
	}
	if err := copyImage(to, from, 0, 0); err == nil {
		t.Error("a copy over a file that is there is no error")
	}
	hole := filepath.Join(dir, "hole")
	if err := os.WriteFile(hole, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(hole, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := copyImage(hole+"2", hole, os.Geteuid(), os.Getegid()); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(hole + "2"); err != nil || info.Size() != 1<<20 {
		t.Errorf("a file that is one hole: %v, %v", info, err)
	}
}

func TestTail(t *testing.T) {
	var v tail
	for range 100 {
		fmt.Fprintf(&v, "%0200d\n", 1)
	}
	fmt.Fprint(&v, "the end")
	if got := v.String(); len(got) > tailSize || got[len(got)-7:] != "the end" {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-7:])
	}
}
