package microvm

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/process"
	"github.com/iris-operator/iris/internal/secret"
)

// A VM is a running microVM. Its methods are safe for concurrent use.
type VM struct {
	host   *Host
	claim  *claimed
	net    Net
	addr   string
	token  secret.Value
	tree   *process.Tree // nil before the VMM was started
	output *tail

	closing sync.Once
	closed  error
}

// Slot is the number of the microVM.
func (v *VM) Slot() int { return v.claim.slot }

// Net is its network.
func (v *VM) Net() Net { return v.net }

// Addr is where the guest answers, host and port.
func (v *VM) Addr() string { return v.addr }

// Token is what the guest was told to ask for; empty if nothing.
func (v *VM) Token() secret.Value { return v.token }

// Done is closed when the VMM has ended, by itself or because of Close.
func (v *VM) Done() <-chan struct{} { return v.tree.Done() }

// Boot claims a slot and returns when the guest is healthy. On an error nothing
// is left of it. The caller closes the VM. ctx bounds the boot, not the life.
func (h *Host) Boot(ctx context.Context) (_ *VM, err error) {
	c, err := h.claim()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	v := &VM{host: h, claim: c, net: NetOf(c.slot), output: &tail{}}
	v.addr = net.JoinHostPort(v.net.Guest.String(), strconv.Itoa(h.opts.Port))
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("boot microVM %d: %w", c.slot, err), v.Close())
		}
	}()
	p, err := h.placeOf(c)
	if err != nil {
		return nil, err
	}
	config, err := v.prepare(p)
	if err != nil {
		return nil, err
	}
	if err := v.start(p); err != nil {
		return nil, err
	}
	if err := v.configure(ctx, p.socket, config); err != nil {
		return nil, v.withOutput(err)
	}
	if err := v.await(ctx); err != nil {
		return nil, v.withOutput(err)
	}
	h.opts.Logger.Info("microVM is up", "slot", c.slot, "address", v.addr, "after", time.Since(began).Round(time.Millisecond))
	return v, nil
}

// prepare makes the directory, the copies and the tap.
func (v *VM) prepare(p place) (Config, error) {
	opts := v.host.opts
	// The directory first: what is made from here on is found by Sweep.
	if err := os.Mkdir(v.claim.dir, 0o700); err != nil {
		return Config{}, err
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return Config{}, err
	}
	images := map[string]string{"rootfs.ext4": opts.Rootfs}
	boot := BootSource{Kernel: opts.Kernel, Initrd: opts.Initrd, Args: v.bootArgs()}
	if p.root != "" { // the VMM sees only what lies in its chroot
		if err := os.Chown(p.dir, p.uid, p.gid); err != nil {
			return Config{}, err
		}
		images["vmlinux"], boot.Kernel = opts.Kernel, p.inside("vmlinux")
		if opts.Initrd != "" {
			images["initrd"], boot.Initrd = opts.Initrd, p.inside("initrd")
		}
	}
	for name, from := range images {
		if err := copyImage(filepath.Join(p.dir, name), from, p.uid, p.gid); err != nil {
			return Config{}, err
		}
	}
	config := Config{
		BootSource: boot,
		Drives:     []Drive{{ID: "rootfs", Path: p.inside("rootfs.ext4"), Root: true}},
		Machine:    Machine{VCPUs: opts.VCPUs, MemoryMiB: opts.MemoryMiB},
		Interfaces: []Interface{{ID: "eth0", MAC: v.net.MAC, Tap: v.net.Tap}},
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return Config{}, err
	}
	if err := os.WriteFile(filepath.Join(v.claim.dir, "vm-config.json"), append(text, '\n'), 0o600); err != nil {
		return Config{}, err
	}
	return config, v.host.taps.up(v.net, p.uid)
}

// bootArgs is the kernel's command line of this microVM.
func (v *VM) bootArgs() string {
	args := []string{v.host.opts.BootArgs, "guestip=" + v.net.Guest.String(), "hostip=" + v.net.Host.String()}
	if v.host.opts.Token {
		v.token = secret.New(strings.ToLower(rand.Text()))
		args = append(args, "exectoken="+v.token.Reveal())
	}
	return strings.Join(args, " ")
}

// start runs the VMM and puts it on record. What it and the guest's console
// write is kept for the error message of a boot that fails.
func (v *VM) start(p place) error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	v.tree, err = process.Start(process.Spec{Path: p.args[0], Args: p.args, Env: v.host.opts.Env, Dir: v.claim.dir,
		Files: []*os.File{null, w, w}})
	if err != nil {
		_ = r.Close()
		return fmt.Errorf("start %s: %w", p.args[0], err)
	}
	v.output.follow(r)
	rec, err := recordOf(v.tree.Pid())
	if err != nil {
		return v.withOutput(fmt.Errorf("%s ended at once: %w", p.args[0], err))
	}
	return os.WriteFile(filepath.Join(v.claim.dir, "pid"), []byte(rec.String()), 0o600)
}

// configure tells the VMM what to boot, and to boot it.
func (v *VM) configure(ctx context.Context, socket string, config Config) error {
	ctx, cancel := v.whileAlive(ctx, apiTimeout)
	defer cancel()
	api := NewAPI(socket)
	defer api.Close()
	if err := api.Await(ctx); err != nil {
		return err
	}
	if err := api.Configure(ctx, config); err != nil {
		return err
	}
	return api.Start(ctx)
}

// await returns when the guest is healthy.
func (v *VM) await(ctx context.Context) error {
	ctx, cancel := v.whileAlive(ctx, v.host.opts.BootTimeout)
	defer cancel()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := v.host.opts.Healthy(ctx, v.addr)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the guest was not healthy: %w (%w)", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// errEnded says that the VMM ended while something was expected of it.
var errEnded = errors.New("the VMM ended")

// whileAlive is a context that also ends with the VMM, and after d.
func (v *VM) whileAlive(ctx context.Context, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	timed, stop := context.WithTimeoutCause(ctx, d, fmt.Errorf("waited %v", d))
	over := make(chan struct{})
	go func() {
		select {
		case <-v.tree.Done():
			cancel(errEnded)
		case <-over:
		}
	}()
	return timed, func() {
		close(over)
		stop()
		cancel(nil)
	}
}

// withOutput adds what the VMM and the guest's console said last.
func (v *VM) withOutput(err error) error {
	if said := v.output.String(); said != "" {
		return fmt.Errorf("%w; it said last: %q", err, said)
	}
	return err
}

// Close ends the VMM (TERM, KILL after Options.KillDelay), removes the tap and
// all files and gives the slot back. Every call returns what the first did. If
// something could not be removed the slot stays taken until this process ends.
func (v *VM) Close() error {
	v.closing.Do(func() { v.closed = v.close() })
	return v.closed
}

func (v *VM) close() error {
	if v.tree != nil {
		if _, err := v.tree.End(v.host.opts.KillDelay); err != nil {
			return fmt.Errorf("end microVM %d: %w", v.claim.slot, err)
		}
		v.output.wait()
	}
	if err := v.host.remove(v.claim); err != nil {
		return fmt.Errorf("remove microVM %d: %w", v.claim.slot, err)
	}
	v.claim.release()
	return nil
}
