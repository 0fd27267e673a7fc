// Package bwrap is the sandbox that bubblewrap builds from the namespaces of this
// machine: a command sees the system read-only, the workspace read-write under
// its own path, an empty /tmp, an empty home and nothing else. It owns the
// mounts, the filter of system calls, the limits, and the watch over a command
// while it runs. That the whole tree ends is the kernel's promise here: it lives
// in a process namespace of its own that dies with bubblewrap, and bubblewrap
// dies with Iris.
//
// What is no wall: the kernel is shared, so is the processor; memory and file size
// are bounded for each process, not for all together; with Options.Network the
// network of the machine is open, its loopback included. Where Iris runs as root,
// the kernel does not count processes; a look every 20 ms does then.
//
// Landlock is not used: a process that it confines may not mount, which is how
// bubblewrap works, and inside of the namespaces there is nothing left to take.
package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/sandbox"
)

// Options are the parts of a Bwrap.
type Options struct {
	// Workspace is what commands may write. Required, absolute, and not the root,
	// a directory of the system or one that the home lies in.
	Workspace string
	// Home is the user's home directory, of which commands see nothing but its
	// name. Empty means there is none.
	Home string
	// Dir is where a command runs that names no directory. Empty means Workspace.
	Dir string

	// Network leaves commands the network of the machine. Without it they have
	// none, not even the machine's loopback.
	Network bool
	// Read are further paths that commands may read.
	Read []string
	// Hide are paths that are empty for commands, wherever they lie; those that
	// do not exist are left out. <Workspace>/state is always hidden.
	Hide []string
	// ReadOnly are paths below the workspace that commands may not change.
	ReadOnly []string

	// Socket is a Unix socket of this machine that commands may connect to, at
	// [SocketPath]. It is shown while it exists; no other one is. Empty means none.
	Socket string

	// Processes bounds the processes and threads of one command, 0 means 1024;
	// Memory the memory of each of them, 0 means 4 GiB; File the size of a file
	// that one writes, 0 means 4 GiB; Tmp the size of /tmp, 0 means 512 MiB.
	Processes         int
	Memory, File, Tmp int64
	// KeepFree is the free space of the workspace's disk at which a command that
	// writes is ended. 0 means 512 MiB. A disk that had less when the command
	// began is not looked at, or nothing could clean it up.
	KeepFree int64

	// Program and Shell are bubblewrap and bash, names or paths. Empty means
	// "bwrap" and "bash".
	Program, Shell string
	// Dash is the small shell that looks after a command, a name or a path. Empty
	// means "dash". Where there is none, bash does it and a command costs a fifth
	// more.
	Dash string
	// Ready is how many cells wait for the next commands, 0 means 2, less none;
	// Idle is how long after the last command they do, 0 means 5 minutes.
	Ready int
	Idle  time.Duration
	// KillDelay and Linger are as on the host. 0 means sandbox.KillDelay and
	// 200 ms.
	KillDelay, Linger time.Duration
}

// A Bwrap runs commands in namespaces. It keeps some of these ready for the next
// commands; Close ends them.
type Bwrap struct {
	opts    Options
	program string
	shell   string
	dash    string   // empty: there is none
	system  []string // arguments that do not change
	filter  []byte
	files   sandbox.ShellFiles
	stock   *stock
}

var (
	_ sandbox.Sandbox  = (*Bwrap)(nil)
	_ sandbox.Resolver = (*Bwrap)(nil)
)

// ErrMissing is returned by New when there is no bubblewrap.
var ErrMissing = errors.New("bubblewrap is not installed: apt install bubblewrap")

// New checks the options and that a command can be run, and runs one: a kernel or
// a container around Iris that forbids namespaces is an error here and not later.
func New(ctx context.Context, opts Options) (*Bwrap, error) {
	if err := opts.check(); err != nil {
		return nil, err
	}
	program, err := exec.LookPath(opts.Program)
	if err != nil {
		return nil, ErrMissing
	}
	shell, err := exec.LookPath(opts.Shell)
	if err != nil {
		return nil, fmt.Errorf("look for bash: %w", err)
	}
	filter, err := assemble()
	if err != nil {
		return nil, err
	}
	b := &Bwrap{opts: opts, program: program, shell: shell, filter: filter, stock: newStock()}
	if dash, err := exec.LookPath(opts.Dash); err == nil && slices.ContainsFunc(roots, func(r string) bool { return below(dash, r) }) {
		b.dash = dash
	}
	b.system = b.systemArgs()
	b.files = sandbox.ShellFiles{Run: b.Run}
	// Alone, so that nothing is left running here.
	exit, err := b.run(ctx, sandbox.Command{Script: "true", Env: []string{"PATH=/usr/bin:/bin"}, Timeout: 10 * time.Second})
	b.stock.wait()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w; user namespaces must be allowed (sysctl kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0, or a container started with --security-opt seccomp=unconfined)", err)
	case exit.Code != 0:
		return nil, fmt.Errorf("a first command ended with %+v", exit)
	}
	return b, nil
}

func (o *Options) check() error {
	if !filepath.IsAbs(o.Workspace) {
		return fmt.Errorf("workspace %q is not an absolute path", o.Workspace)
	}
	real, err := filepath.EvalSymlinks(o.Workspace)
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	o.Workspace = filepath.Clean(o.Workspace)
	for _, ws := range []string{o.Workspace, real} {
		for _, p := range append([]string{"/", o.Home}, systemDirs...) {
			if p != "" && below(p, ws) {
				return fmt.Errorf("the workspace %s holds %s, which commands would be free to change: give Iris a directory of its own", ws, p)
			}
		}
		for _, p := range systemDirs {
			if below(ws, p) {
				return fmt.Errorf("the workspace %s lies in %s: give Iris a directory of its own", ws, p)
			}
		}
	}
	if o.Dir == "" {
		o.Dir = o.Workspace
	}
	if !filepath.IsAbs(o.Dir) {
		return fmt.Errorf("directory %q is not an absolute path", o.Dir)
	}
	set(&o.Program, "bwrap")
	set(&o.Shell, "bash")
	set(&o.Dash, "dash")
	set(&o.Processes, 1024)
	set(&o.Memory, 4<<30)
	set(&o.File, 4<<30)
	set(&o.Tmp, 512<<20)
	set(&o.KeepFree, 512<<20)
	set(&o.Ready, 2)
	set(&o.Idle, 5*time.Minute)
	set(&o.KillDelay, sandbox.KillDelay)
	set(&o.Linger, 200*time.Millisecond)
	return nil
}

func set[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// SocketPath is where commands find Options.Socket.
const SocketPath = "/run/iris/api.sock"

// Name returns "bwrap".
func (b *Bwrap) Name() string { return "bwrap" }

// Close ends the cells that wait and returns when they are gone. Call it after the
// last Run has returned.
func (b *Bwrap) Close() error {
	b.stock.close()
	return nil
}

// ReadFile reads behind the same walls as a command does.
func (b *Bwrap) ReadFile(ctx context.Context, conv chat.Address, path string, offset, limit int64) ([]byte, int64, error) {
	return b.files.ReadFile(ctx, conv, b.abs(path), offset, limit)
}

// WriteFile writes behind the same walls as a command does.
func (b *Bwrap) WriteFile(ctx context.Context, conv chat.Address, path string, data []byte) error {
	return b.files.WriteFile(ctx, conv, b.abs(path), data)
}

// Resolve follows links as a command would.
func (b *Bwrap) Resolve(ctx context.Context, conv chat.Address, path string) (string, error) {
	return b.files.Resolve(ctx, conv, b.abs(path))
}

func (b *Bwrap) abs(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(b.opts.Dir, path)
}

// Path returns the path itself.
func (b *Bwrap) Path(host string) string { return host }

// Host returns the path itself, and whether it is the workspace or below it.
func (b *Bwrap) Host(path string) (string, bool) {
	clean := filepath.Clean(path)
	if !filepath.IsAbs(clean) {
		return path, false
	}
	return clean, below(clean, b.opts.Workspace)
}

// below reports whether path is dir or lies in it.
func below(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// real is where links lead, the path itself if that cannot be told.
func real(path string) string {
	if r, err := filepath.EvalSymlinks(path); err == nil {
		return r
	}
	return path
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
