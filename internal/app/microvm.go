package app

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/microvm"
	"github.com/iris-operator/iris/internal/sandbox/firecracker"
	"github.com/iris-operator/iris/internal/tool/bash"
)

// microVMBox is a microVM that somebody else keeps. It has to be up.
func microVMBox(ctx context.Context, cfg *config.Config) (*box, error) {
	_, ip := cfg.Level()
	vm, err := firecracker.New(firecracker.Options{Workspace: cfg.Workspace, IP: ip, Port: cfg.Firecracker.Port, Token: cfg.Firecracker.Token})
	if err != nil {
		return nil, err
	}
	if err := vm.Verify(ctx); err != nil {
		return nil, err
	}
	return &box{Sandbox: vm, dir: firecracker.Workspace, environ: guestEnviron,
		close: func() error { vm.Close(); return nil }}, nil
}

// poolBox boots a microVM per conversation. What that needs has to be there, and
// what a killed process left of its own is removed first.
func poolBox(cfg *config.Config, log *slog.Logger) (*box, error) {
	host, err := microVMs(cfg, log)
	if err != nil {
		return nil, err
	}
	if err := host.Check(); err != nil {
		return nil, err
	}
	if _, err := host.Sweep(); err != nil {
		log.Warn("what a dead process left of its microVMs could not be removed", "err", err)
	}
	pool, err := firecracker.NewPool(firecracker.PoolOptions{
		Workspace: cfg.Workspace, Logger: log, Share: shared(cfg.Workspace),
		Boot: func(ctx context.Context) (firecracker.VM, error) {
			vm, err := host.Boot(ctx)
			if err != nil {
				return nil, err // not a nil *VM in an interface
			}
			return vm, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &box{Sandbox: pool, dir: firecracker.Workspace, environ: guestEnviron,
		close: pool.Close, serve: pool.Serve, cleared: pool.Reset}, nil
}

// microVMs is what boots microVMs as configured.
func microVMs(cfg *config.Config, log *slog.Logger) (*microvm.Host, error) {
	f := cfg.Firecracker
	opts := microvm.Options{
		Firecracker: f.Program, Kernel: f.Kernel, Rootfs: f.Rootfs, Initrd: f.Initrd, BootArgs: f.BootArgs, StateDir: f.StateDir,
		VCPUs: f.VCPUs, MemoryMiB: f.Memory, Port: f.Port, BootTimeout: f.Boot.Duration(), Token: true, Logger: log,
	}
	if f.Jailer != "off" {
		opts.Jailer = &microvm.Jailer{Path: f.Jailer}
	}
	return microvm.New(opts)
}

// shared are the files of the workspace that a conversation's microVM gets: what
// people attached, and the skills, since the model is told to read both there.
func shared(workspace string) func(chat.Address) []string {
	return func(conv chat.Address) []string {
		dir := filepath.Join(workspace, conv.Dir())
		return []string{filepath.Join(dir, "attachments"), filepath.Join(workspace, "skills"), filepath.Join(dir, "skills")}
	}
}

// guestEnviron leaves out what is true of the host alone: commands in a guest are
// root's.
func guestEnviron(environ []string) []string {
	out := []string{"PATH=" + bash.DefaultPath, "HOME=/root", "USER=root", "LOGNAME=root", "SHELL=/bin/bash"}
	for _, v := range environ {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR":
		default:
			out = append(out, v)
		}
	}
	return out
}

// serveSandbox is what the level of isolation does all the time.
func (s *server) serveSandbox(ctx context.Context, ready func()) error {
	ready()
	if serve := s.house.box.serve; serve != nil {
		return serve(ctx)
	}
	<-ctx.Done()
	return nil
}
