// Package host is the sandbox that is none: commands run on this machine as the
// user of this process and can do what that user can. It owns the running of
// commands with a deadline, the end of everything they started, and reading and
// writing files without a shell. How a tree of processes is found and ended is
// package process; Linux only.
//
// A command runs as `bash --noprofile --norc -c`, with /dev/null as its input
// unless there is one. When the command itself has ended but something it
// started still runs, that has Options.Linger to end too, which is enough for a
// `> >(tee log)` to write its last line, and is ended then: a tool call is over
// when it is over, and nothing keeps the output pipes open. A server that is
// meant to stay belongs to systemd or another supervisor.
package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/iris-operator/iris/internal/process"
	"github.com/iris-operator/iris/internal/sandbox"
)

// maxScript is the longest command: Linux limits one argument to 128 KiB, its
// closing zero byte included.
const maxScript = 128<<10 - 1

// Options are the parts of a Host.
type Options struct {
	// Workspace is the directory whose paths Host and Path translate, which on
	// the host means: leave as they are. Required, absolute.
	Workspace string
	// Dir is where a command runs that names no directory, and what relative
	// paths are relative to. Empty means Workspace.
	Dir string
	// Shell is the bash to run, a name looked up in PATH or a path. Empty
	// means "bash".
	Shell string
	// KillDelay is the time between TERM and KILL. 0 means sandbox.KillDelay.
	KillDelay time.Duration
	// Linger is how long what a finished command left running may go on.
	// 0 means 200 ms.
	Linger time.Duration
}

// A Host runs commands on this machine. It holds no resources.
type Host struct {
	opts  Options
	shell string
}

var (
	_ sandbox.Sandbox  = (*Host)(nil)
	_ sandbox.Resolver = (*Host)(nil)
)

// New checks the options and looks for bash.
func New(opts Options) (*Host, error) {
	if !filepath.IsAbs(opts.Workspace) {
		return nil, fmt.Errorf("workspace %q is not an absolute path", opts.Workspace)
	}
	opts.Workspace = filepath.Clean(opts.Workspace)
	if opts.Dir == "" {
		opts.Dir = opts.Workspace
	}
	if !filepath.IsAbs(opts.Dir) {
		return nil, fmt.Errorf("directory %q is not an absolute path", opts.Dir)
	}
	if opts.Shell == "" {
		opts.Shell = "bash"
	}
	if opts.KillDelay <= 0 {
		opts.KillDelay = sandbox.KillDelay
	}
	if opts.Linger <= 0 {
		opts.Linger = 200 * time.Millisecond
	}
	shell, err := exec.LookPath(opts.Shell)
	if err != nil {
		return nil, fmt.Errorf("look for bash: %w", err)
	}
	return &Host{opts: opts, shell: shell}, nil
}

// Owner is the name in the marks of processes that work for a workspace, see
// [process.Sweep]. It depends on the path alone.
func Owner(workspace string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(workspace)))
	return hex.EncodeToString(sum[:8])
}

// Name returns "host".
func (h *Host) Name() string { return "host" }

// Run runs the command and returns when nothing it started is left. A command
// whose ctx had ended before it started is not run; its Exit is Aborted with
// the code of TERM. The error is a *process.EndError if something could not be
// ended; the Exit is valid then.
func (h *Host) Run(ctx context.Context, cmd sandbox.Command) (sandbox.Exit, error) {
	if ctx.Err() != nil {
		return sandbox.Exit{Code: 128 + int(syscall.SIGTERM), Aborted: true}, nil
	}
	if len(cmd.Script) > maxScript {
		return sandbox.Exit{}, fmt.Errorf("command has %d bytes, more than the %d that fit: write it to a file and run that", len(cmd.Script), maxScript)
	}
	var p sandbox.Pipes
	files, err := p.Open(cmd)
	if err != nil {
		p.Abandon()
		return sandbox.Exit{}, fmt.Errorf("open pipes: %w", err)
	}
	dir := cmd.Dir
	if dir == "" {
		dir = h.opts.Dir
	}
	began := time.Now()
	tree, err := process.Start(process.Spec{
		Path:  h.shell,
		Args:  []string{"bash", "--noprofile", "--norc", "-c", cmd.Script},
		Env:   cmd.Env,
		Owner: Owner(h.opts.Workspace),
		Dir:   dir,
		Files: files,
	})
	if err != nil {
		p.Abandon()
		return sandbox.Exit{}, fmt.Errorf("start the shell in %s: %w", dir, err)
	}
	p.Started()
	exit, err := h.wait(ctx, cmd.Timeout, tree)
	p.Finish()
	exit.Duration = time.Since(began)
	return exit, err
}

// wait sees the command to its end, one way or the other.
func (h *Host) wait(ctx context.Context, timeout time.Duration, tree *process.Tree) (exit sandbox.Exit, err error) {
	var expired <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-tree.Done():
		exit.Background, err = h.settle(ctx, tree)
	case <-ctx.Done():
		exit.Aborted = true
		_, err = tree.End(h.opts.KillDelay)
	case <-expired:
		exit.TimedOut = true
		_, err = tree.End(h.opts.KillDelay)
	}
	if err != nil {
		select {
		case <-tree.Done():
		default: // the program itself is what could not be ended
			exit.Code = 128 + int(syscall.SIGKILL)
			return exit, err
		}
	}
	state, waitErr := tree.Wait()
	if waitErr != nil {
		return exit, errors.Join(err, fmt.Errorf("wait for the command: %w", waitErr))
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	exit.Code = status.ExitStatus()
	if status.Signaled() {
		exit.Code = 128 + int(status.Signal())
		exit.Signal = unix.SignalName(status.Signal())
	}
	return exit, err
}

// settle gives what the finished command left running its moment and ends the
// rest.
func (h *Host) settle(ctx context.Context, tree *process.Tree) (background int, err error) {
	deadline := time.Now().Add(h.opts.Linger)
	for pause := time.Millisecond; tree.Left() > 0; pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return tree.End(h.opts.KillDelay)
		}
		time.Sleep(pause)
	}
	return 0, nil
}

// Path returns the path itself.
func (h *Host) Path(host string) string { return host }

// Host returns the path itself, and whether it is the workspace or below it.
// Symbolic links are not looked at.
func (h *Host) Host(path string) (string, bool) {
	clean := filepath.Clean(path)
	if !filepath.IsAbs(clean) {
		return path, false
	}
	inside := clean == h.opts.Workspace || h.opts.Workspace == "/" || strings.HasPrefix(clean, h.opts.Workspace+"/")
	return clean, inside
}
