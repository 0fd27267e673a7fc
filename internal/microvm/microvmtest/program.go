package microvmtest

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/iris-operator/iris/internal/microvm"
)

// Variable makes a test binary a program of Firecracker's. Its value is what a
// start does: "idle" starts nothing, "die" ends the program, "deaf" ignores
// TERM, "qemu" boots the kernel in QEMU.
const Variable = "IRIS_TEST_FIRECRACKER"

// Main is firecracker or the jailer, and does not return, if the environment
// says so.
func Main() {
	mode := os.Getenv(Variable)
	if mode == "" {
		return
	}
	if err := program(mode, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "microvmtest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func program(mode string, args []string) error {
	if len(args) > 0 && args[0] == "--id" {
		return jailer(mode, args)
	}
	fs := flag.NewFlagSet("firecracker", flag.ContinueOnError)
	socket, id := fs.String("api-sock", "", ""), fs.String("id", "", "")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 || *socket == "" {
		return fmt.Errorf("firecracker was started with %q", args)
	}
	return serve(mode, *socket, *id, "")
}

// jailer checks its command line and serves inside the directory that would be
// the chroot.
func jailer(mode string, args []string) error {
	fs := flag.NewFlagSet("jailer", flag.ContinueOnError)
	id, exe, base := fs.String("id", "", ""), fs.String("exec-file", "", ""), fs.String("chroot-base-dir", "", "")
	uid, gid, version := fs.Int("uid", -1, ""), fs.Int("gid", -1, ""), fs.Int("cgroup-version", 0, "")
	fs.Func("cgroup", "", func(v string) error {
		if file, value, ok := strings.Cut(v, "="); !ok || !strings.Contains(file, ".") || value == "" {
			return fmt.Errorf("%q is no control group setting", v)
		}
		return nil
	})
	if err := fs.Parse(args); err != nil {
		return err
	}
	inner := fs.Args()
	if len(inner) != 2 || inner[0] != "--api-sock" || *uid <= 0 || *gid <= 0 || *version == 0 || !filepath.IsAbs(*exe) {
		return fmt.Errorf("jailer was started with %q", args)
	}
	for _, c := range *id {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return fmt.Errorf("%q is no id", *id)
		}
	}
	root := filepath.Join(*base, filepath.Base(*exe), *id, "root")
	if err := os.MkdirAll(filepath.Join(root, "run"), 0o700); err != nil {
		return err
	}
	if err := syscall.Mkfifo(filepath.Join(root, "kvm"), 0o600); err != nil { // stands for /dev/kvm: a second jail in one place fails
		return err
	}
	return serve(mode, filepath.Join(root, inner[1]), *id, root)
}

// serve is the API until TERM.
func serve(mode, socket, id, root string) error {
	terminated := make(chan os.Signal, 1)
	if mode == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	} else {
		signal.Notify(terminated, syscall.SIGTERM)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	s := &Server{ID: id, Root: root}
	guest := &qemu{done: make(chan struct{})}
	switch mode {
	case "idle", "deaf":
	case "die":
		s.Boot = func(microvm.Config) error {
			fmt.Println("Kernel panic - not syncing: no working init found")
			os.Exit(1)
			return nil
		}
	case "qemu":
		s.Boot = guest.boot
	default:
		return fmt.Errorf("%s=%q is no way to boot", Variable, mode)
	}
	srv := &http.Server{Handler: s}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-guest.done:
		return errors.New("the guest is down")
	case <-terminated:
		guest.end()
		return nil
	}
}

// qemu is the machine behind the API.
type qemu struct {
	done chan struct{} // closed when it has ended
	mu   sync.Mutex
	cmd  *exec.Cmd
}

// boot starts QEMU with what was configured. Always by interpretation: /dev/kvm
// may be there and hang.
func (q *qemu) boot(c microvm.Config) error {
	args := []string{"-M", "microvm,accel=tcg", "-cpu", "qemu64", "-nodefaults", "-no-user-config", "-display", "none",
		"-no-reboot", "-serial", "stdio", "-smp", strconv.Itoa(c.Machine.VCPUs), "-m", strconv.Itoa(c.Machine.MemoryMiB),
		"-kernel", c.BootSource.Kernel, "-append", c.BootSource.Args + " root=/dev/vda rw"}
	if c.BootSource.Initrd != "" {
		args = append(args, "-initrd", c.BootSource.Initrd)
	}
	for _, d := range c.Drives {
		args = append(args, "-drive", "id="+d.ID+",file="+d.Path+",format=raw,if=none", "-device", "virtio-blk-device,drive="+d.ID)
	}
	for _, i := range c.Interfaces {
		args = append(args, "-netdev", "tap,id="+i.ID+",ifname="+i.Tap+",script=no,downscript=no",
			"-device", "virtio-net-device,netdev="+i.ID+",mac="+i.MAC)
	}
	cmd := exec.Command("qemu-system-x86_64", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	q.mu.Lock()
	q.cmd = cmd
	q.mu.Unlock()
	go func() {
		_ = cmd.Wait()
		close(q.done)
	}()
	return nil
}

func (q *qemu) end() {
	q.mu.Lock()
	cmd := q.cmd
	q.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill()
		<-q.done
	}
}
