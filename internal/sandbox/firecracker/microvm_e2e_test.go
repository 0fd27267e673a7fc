//go:build e2e

package firecracker

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/microvm"
	"github.com/iris-operator/iris/internal/microvm/microvmtest"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/sandbox/sandboxtest"
)

// insideEnv says that the test binary is in a network namespace of its own.
const insideEnv = "IRIS_TEST_INSIDE_NETNS"

// initScript finds the root in Debian's kernel, where virtio is in modules, and
// makes iris the first process there.
const initScript = `#!/bin/busybox sh
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t devtmpfs dev /dev
for m in virtio_ring virtio virtio_mmio virtio_blk failover net_failover virtio_net; do /bin/busybox insmod /mod/$m.ko; done
/bin/busybox mount -t ext4 /dev/vda /root
exec /bin/busybox switch_root /root /usr/local/bin/iris exec-server
`

func sh(t *testing.T, script string) {
	t.Helper()
	if out, err := osexec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", script, err, out)
	}
}

// images builds a root file system and an initial ramdisk.
func images(t *testing.T, kernel string) (rootfs, initrd string) {
	t.Helper()
	dir := t.TempDir()
	iris, err := filepath.Abs("../../../bin/iris")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "init"), []byte(initScript), 0o755); err != nil {
		t.Fatal(err)
	}
	sh(t, fmt.Sprintf(`cd %[1]s; mkdir -p i/bin i/mod i/proc i/dev i/root r/bin r/usr/local/bin r/root r/etc
cp init i/init; cp $(command -v busybox) i/bin/busybox
for m in virtio_ring virtio virtio_mmio virtio_blk failover net_failover virtio_net; do cp $(find %[2]s -name $m.ko) i/mod/; done
(cd i; find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 > ../initrd)
cp $(command -v busybox) r/bin/busybox; cp $(command -v bash-static) r/bin/bash; cp %[3]s r/usr/local/bin/iris
for a in $(busybox --list); do [ -e r/bin/$a ] || ln -s busybox r/bin/$a; done
[ -e r/bin/nohup ] || { printf '#!/bin/sh\ntrap "" HUP\nexec "$@"\n' > r/bin/nohup; chmod 755 r/bin/nohup; } # Debian's busybox has none
mke2fs -q -t ext4 -d r -E lazy_itable_init=1 rootfs 256M`, dir, kernel, iris))
	return filepath.Join(dir, "rootfs"), filepath.Join(dir, "initrd")
}

// TestMicroVM boots Debian's kernel behind Firecracker's API, with a real tap in
// a network namespace of its own, and runs the suite in it.
func TestMicroVM(t *testing.T) {
	kernel := os.Getenv("IRIS_TEST_KERNEL")
	if kernel == "" {
		t.Skip("there is no kernel: IRIS_TEST_KERNEL names the directory of an unpacked linux-image package (scripts/e2e.sh gets one)")
	}
	for _, name := range []string{"qemu-system-x86_64", "mke2fs", "busybox", "bash-static"} {
		if _, err := osexec.LookPath(name); err != nil {
			t.Skipf("there is no %s to boot a machine with", name)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("taps and network namespaces need root")
	}
	if os.Getenv(insideEnv) == "" {
		// The guest has one processor, interpreted: more than two commands at once
		// only make each other late.
		cmd := osexec.Command(os.Args[0], "-test.run=^TestMicroVM$", "-test.v", "-test.parallel=2", "-test.timeout=14m")
		cmd.Env = append(os.Environ(), insideEnv+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	inMicroVM(t, kernel)
}

func inMicroVM(t *testing.T, kernel string) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	vmlinuz, _ := filepath.Glob(filepath.Join(kernel, "boot", "vmlinuz*"))
	if len(vmlinuz) == 0 {
		t.Fatalf("no kernel in %s", kernel)
	}
	rootfs, initrd := images(t, kernel)
	state, err := os.MkdirTemp("", "fc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(state) })
	host, err := microvm.New(microvm.Options{
		Firecracker: self, Jailer: nil, Kernel: vmlinuz[0], Rootfs: rootfs, Initrd: initrd, StateDir: state, Token: true,
		BootArgs:    "console=ttyS0 quiet reboot=t panic=-1 tsc_early_khz=2000000 no_timer_check mitigations=off",
		BootTimeout: 5 * time.Minute,
		Env:         []string{microvmtest.Variable + "=qemu", "PATH=" + os.Getenv("PATH")},
	})
	if err != nil {
		t.Fatal(err)
	}
	workspace := filepath.Join(state, "workspace")
	p, err := NewPool(PoolOptions{Workspace: workspace, Grace: time.Minute, Boot: func(ctx context.Context) (VM, error) { return host.Boot(ctx) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(state, "slot-*[0-9]")); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
		if _, err := os.Stat("/sys/class/net/vmtap1"); err == nil {
			t.Error("the tap is left behind")
		}
	})
	began := time.Now()
	var out strings.Builder
	exit, err := p.Run(t.Context(), sandbox.Command{Conversation: conv, Script: "uname -r; id -u; cat /proc/1/cmdline | tr '\\0' ' '", Stdout: &out, Stderr: &out,
		Env: []string{"PATH=/bin"}, Timeout: time.Minute})
	if err != nil || exit.Code != 0 || !strings.Contains(out.String(), "exec-server") {
		t.Fatalf("%q, %+v, %v", out.String(), exit, err)
	}
	t.Logf("boot to the end of the first command: %v; the guest says %q", time.Since(began), out.String())
	began = time.Now()
	for range 10 {
		if _, err := p.Run(t.Context(), sandbox.Command{Conversation: conv, Script: "true", Env: []string{"PATH=/bin"}}); err != nil {
			t.Fatal(err)
		}
	}
	each := time.Since(began) / 10
	// Every time of the suite is as long as this machine is slow at the moment: on
	// a busy one a command takes a second instead of a fifth of one.
	slow := min(max(4, int(each/(50*time.Millisecond))), 40)
	t.Logf("a command in it: %v; the suite waits %d times as long as on the host", each, slow)
	t.Run("suite", func(t *testing.T) {
		sandboxtest.Run(t, func(*testing.T) sandboxtest.Box {
			return sandboxtest.Box{Sandbox: p, Workspace: workspace, Slow: slow}
		})
	})
}
