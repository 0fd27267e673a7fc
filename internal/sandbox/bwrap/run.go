package bwrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

// firstCopy is the descriptor behind those of the supervisor.
const firstCopy = 7

// Run runs the command and returns when nothing it started is left. A command
// whose ctx had ended before it started is not run; its Exit is Aborted with the
// code of TERM.
func (b *Bwrap) Run(ctx context.Context, cmd sandbox.Command) (sandbox.Exit, error) {
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
	l, err := b.lines()
	if err != nil {
		p.Abandon()
		return sandbox.Exit{}, fmt.Errorf("open pipes: %w", err)
	}
	defer l.close()
	dir := cmd.Dir
	if dir == "" {
		dir = b.opts.Dir
	}
	copied, args := copies(firstCopy)
	args = append(append([]string{"bwrap"}, args...), b.args(variable(cmd.Env, "HOME"), dir)...)
	args = append(append(args, "--seccomp", "5", "--"), b.supervise(cmd.Script)...)
	began := time.Now()
	tree, err := process.Start(process.Spec{
		Path: b.program, Args: args, Env: cmd.Env, Dir: "/", Holder: true, Prepare: b.limit,
		Files: append([]*os.File{files[0], files[1], l.said.w, l.status.w, l.pause.r, l.filter.r, files[2]}, copied...),
	})
	for _, f := range copied {
		_ = f.Close()
	}
	if err != nil {
		p.Abandon()
		return sandbox.Exit{}, fmt.Errorf("start bubblewrap: %w", err)
	}
	p.Started()
	l.started()
	exit, why, err := b.wait(ctx, cmd.Timeout, tree, l)
	if why != "" && cmd.Stderr != nil {
		p.Finish()
		_, _ = fmt.Fprintf(cmd.Stderr, "iris: ended by the sandbox: %s\n", why)
	} else {
		p.Finish()
	}
	exit.Duration = time.Since(began)
	return exit, err
}

// wait sees the command to its end. why is what the watch ended it for.
func (b *Bwrap) wait(ctx context.Context, timeout time.Duration, tree *process.Tree, l *lines) (exit sandbox.Exit, why string, err error) {
	var expired <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	w := b.watch(tree)
	defer w.stop()
wait:
	for {
		select {
		case <-tree.Done():
			break wait
		case <-ctx.Done():
			exit.Aborted = true
		case <-expired:
			exit.TimedOut = true
		case <-w.tick.C:
			if why = w.look(); why == "" {
				continue
			}
		}
		l.pause.w.Close() // no time left to linger
		grace := b.opts.KillDelay
		if why != "" {
			grace = time.Millisecond
		}
		_, err = tree.End(grace)
		break wait
	}
	if err != nil {
		exit.Code = 128 + int(syscall.SIGKILL)
		return exit, why, err
	}
	state, waitErr := tree.Wait()
	if waitErr != nil {
		return exit, why, fmt.Errorf("wait for bubblewrap: %w", waitErr)
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	exit.Code = status.ExitStatus()
	if status.Signaled() {
		exit.Code = 128 + int(status.Signal())
	}
	code, background, told := l.end()
	switch said := l.log(); {
	case told:
		exit.Code, exit.Background = code, background
		if exit.TimedOut || exit.Aborted {
			exit.Background = 0
		}
	case exit.TimedOut, exit.Aborted, why != "", said == "":
	default:
		return sandbox.Exit{}, "", errors.New(said)
	}
	if exit.TimedOut || exit.Aborted {
		exit.Code = max(exit.Code, 1)
	}
	return exit, why, nil
}

// limit sets what the kernel bounds for each process of the command.
func (b *Bwrap) limit(pid int) {
	for what, n := range map[int]uint64{
		unix.RLIMIT_DATA: uint64(b.opts.Memory), unix.RLIMIT_FSIZE: uint64(b.opts.File), unix.RLIMIT_CORE: 0,
	} {
		var now unix.Rlimit
		if unix.Prlimit(pid, what, nil, &now) == nil && now.Max < n {
			n = now.Max // what is bounded more closely already stays so
		}
		_ = unix.Prlimit(pid, what, &unix.Rlimit{Cur: n, Max: n}, nil)
	}
	// When memory runs out, a command goes before Iris does.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("500"), 0)
}

func variable(env []string, name string) (value string) {
	for _, v := range env {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			value = rest
		}
	}
	return value
}

// A pipe has two ends, either of which may be closed more than once.
type pipe struct{ r, w *os.File }

// lines are the pipes between Iris and the supervisor.
type lines struct{ said, status, pause, filter pipe }

func (b *Bwrap) lines() (*lines, error) {
	l := &lines{}
	for _, p := range []*pipe{&l.said, &l.status, &l.pause, &l.filter} {
		var err error
		if p.r, p.w, err = os.Pipe(); err != nil {
			l.close()
			return nil, err
		}
	}
	// Less than a pipe holds: nobody has to read it yet.
	if _, err := l.filter.w.Write(b.filter); err != nil {
		l.close()
		return nil, err
	}
	return l, l.filter.w.Close()
}

// started closes what the command holds now.
func (l *lines) started() {
	l.said.w.Close()
	l.status.w.Close()
	l.pause.r.Close()
	l.filter.r.Close()
}

func (l *lines) close() {
	for _, p := range []pipe{l.said, l.status, l.pause, l.filter} {
		for _, f := range []*os.File{p.r, p.w} {
			if f != nil {
				_ = f.Close()
			}
		}
	}
}

// end reads what the supervisor said last.
func (l *lines) end() (code, background int, ok bool) {
	n, _ := fmt.Sscanf(read(l.status.r, 64), "%d %d", &code, &background)
	return code, background, n == 2 && code >= 0 && code < 256 && background >= 0
}

// log is what bubblewrap had to say, which is nothing when all is well.
func (l *lines) log() string {
	return strings.TrimSpace(read(l.said.r, 4096))
}

// read reads what is in a pipe whose writers are gone.
func read(f *os.File, limit int64) string {
	_ = f.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	data, _ := io.ReadAll(io.LimitReader(f, limit)) // what there is counts
	return string(data)
}
