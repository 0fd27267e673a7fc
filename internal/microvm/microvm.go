// Package microvm boots Firecracker microVMs: its API over a Unix socket, the
// jailer's command line, slots with a tap and a /30 each, and the end of it all.
// It knows that something in the guest answers GET /health and nothing else of
// what runs there; the sandbox and the spawn driver build on it.
//
// A slot is a number from 1 to 254, claimed with a lock on a file, so several
// processes may share a state directory. It decides everything about a microVM:
// the tap vmtap<slot>, the host's address 172.20.<slot>.1/30, the guest's
// 172.20.<slot>.2, its MAC and its place below the state directory:
//
//	slot-<n>.lock   the claim; the lock ends with the process that holds it
//	slot-<n>/       pid (pid, start time, boot), vm-config.json, and, without
//	                a jailer, the copy of the root file system and the socket
//
// With a jailer the copy and the socket lie in its chroot. Whatever a process
// left that was killed is removed by [Host.Sweep], or when its slot is taken
// again; a process is ended only if its start time is the one on record.
//
// The guest reaches the host's end of its tap and nothing beyond: no route and
// no address translation is set up here. Taps, the chroot and /dev/kvm need
// root; [Host.Check] says what is missing.
package microvm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Slots is how many microVMs one state directory can hold: 172.20.<slot>.0 with
// the slot as one octet, without the two ends.
const Slots = 254

// ErrNoSlot says that every slot is taken. Trying again helps when one is given
// back.
var ErrNoSlot = errors.New("no free microVM slot: all 254 are in use")

// BootArgs is the kernel's command line when Options.BootArgs is empty: iris
// itself is the first process of the guest.
const BootArgs = "console=ttyS0 quiet reboot=k panic=-1 pci=off init=/usr/local/bin/iris exec-server"

// Options are the parts of a Host.
type Options struct {
	// Firecracker is the VMM, a path or a name in PATH. Empty means
	// "firecracker".
	Firecracker string
	// Jailer starts the VMM in a chroot under its own uid; nil starts it as it
	// is, which only a test should do.
	Jailer *Jailer
	// Kernel is an uncompressed kernel and Rootfs an ext4 image, which every
	// microVM gets its own copy of. Required. Initrd is for kernels that need
	// modules to find their root.
	Kernel, Rootfs, Initrd string
	// BootArgs is the kernel's command line; guestip=, hostip= and, if Token is
	// set, exectoken= are added to it. Empty means BootArgs of the package.
	BootArgs string
	// StateDir holds locks and slots. Empty means /var/run/iris-fc.
	StateDir string
	// VCPUs and MemoryMiB are the size of a guest. 0 means 1 and 256.
	VCPUs, MemoryMiB int
	// Port is where the guest answers. 0 means 8080.
	Port int
	// BootTimeout is how long after its start a guest may take until it is
	// healthy. 0 means 15 s.
	BootTimeout time.Duration
	// KillDelay is the time between TERM and KILL for the VMM. 0 means 1.5 s.
	KillDelay time.Duration
	// Token asks for a random token per microVM, which is handed to the guest
	// on its command line: whoever else reaches its address cannot use it.
	Token bool
	// Env is the environment of the VMM. Empty means PATH alone.
	Env []string
	// Healthy asks a guest once whether it is up. nil means GET /health.
	Healthy func(ctx context.Context, addr string) error
	Logger  *slog.Logger // nil: none
}

// A Host boots microVMs on this machine. It is safe for concurrent use.
type Host struct {
	opts Options
	taps taps
}

// taps are the network ends on the host.
type taps interface {
	up(n Net, uid int) error
	down(name string) error
}

// New checks the options; nothing is looked at or made yet.
func New(opts Options) (*Host, error) {
	for what, path := range map[string]string{"kernel": opts.Kernel, "root file system": opts.Rootfs} {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("the microVM's %s %q is not an absolute path", what, path)
		}
	}
	if opts.Initrd != "" && !filepath.IsAbs(opts.Initrd) {
		return nil, fmt.Errorf("the microVM's initrd %q is not an absolute path", opts.Initrd)
	}
	if opts.StateDir == "" {
		opts.StateDir = "/var/run/iris-fc"
	}
	if !filepath.IsAbs(opts.StateDir) {
		return nil, fmt.Errorf("state directory %q is not an absolute path", opts.StateDir)
	}
	if opts.VCPUs < 0 || opts.VCPUs > 32 || opts.MemoryMiB < 0 {
		return nil, fmt.Errorf("a microVM of %d processors and %d MiB cannot be made", opts.VCPUs, opts.MemoryMiB)
	}
	if opts.Port < 0 || opts.Port > 65535 {
		return nil, fmt.Errorf("%d is not a port", opts.Port)
	}
	if opts.Jailer != nil {
		j, err := opts.Jailer.withDefaults()
		if err != nil {
			return nil, err
		}
		opts.Jailer = &j
	}
	def(&opts.Firecracker, "firecracker")
	def(&opts.BootArgs, BootArgs)
	def(&opts.VCPUs, 1)
	def(&opts.MemoryMiB, 256)
	def(&opts.Port, 8080)
	def(&opts.BootTimeout, 15*time.Second)
	def(&opts.KillDelay, 1500*time.Millisecond)
	if opts.Env == nil {
		opts.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	if opts.Healthy == nil {
		opts.Healthy = health
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Host{opts: opts, taps: kernelTaps{}}, nil
}

func def[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Check says what this machine lacks for microVMs, each with the way out: root,
// /dev/kvm, the programs, the images. It starts nothing.
func (h *Host) Check() error {
	var missing []error
	if os.Geteuid() != 0 {
		missing = append(missing, errors.New("making taps and the jailer's chroot needs root: run Iris as root or use another sandbox"))
	}
	// Asked and not opened: opening may hang where KVM is broken.
	if err := unix.Access("/dev/kvm", unix.R_OK|unix.W_OK); err != nil {
		missing = append(missing, fmt.Errorf("microVMs need KVM: /dev/kvm: %w", err))
	}
	return errors.Join(append(missing, h.checkFiles()...)...)
}

// checkFiles looks for the programs and images.
func (h *Host) checkFiles() (missing []error) {
	programs := []string{h.opts.Firecracker}
	if h.opts.Jailer != nil {
		programs = append(programs, h.opts.Jailer.Path)
	}
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, fmt.Errorf("look for %s: %w", name, err))
		}
	}
	for _, path := range []string{h.opts.Kernel, h.opts.Rootfs, h.opts.Initrd} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err != nil {
			missing = append(missing, err)
		} else if !info.Mode().IsRegular() {
			missing = append(missing, fmt.Errorf("%s is not a file", path))
		}
	}
	return missing
}

// health is GET /health of a guest.
func health(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/health", nil)
	if err != nil {
		return err
	}
	// A connection of its own: nothing stays open to a guest that may vanish.
	t := &http.Transport{DialContext: (&net.Dialer{}).DialContext, DisableKeepAlives: true}
	defer t.CloseIdleConnections()
	resp, err := t.RoundTrip(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET /health answered %s", resp.Status)
	}
	return nil
}
