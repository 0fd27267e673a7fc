package bwrap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/iris-operator/iris/internal/sandbox"
)

// maxScript is the longest command: Linux limits one argument to 128 KiB, its
// closing zero byte included.
const maxScript = 128<<10 - 1

// Run runs the command and returns when nothing it started is left. A command
// whose ctx had ended before it started is not run; its Exit is Aborted with the
// code of TERM. Afterwards it makes sure that the next ones find a cell ready.
func (b *Bwrap) Run(ctx context.Context, cmd sandbox.Command) (sandbox.Exit, error) {
	exit, err := b.run(ctx, cmd)
	if err == nil {
		b.stock.refill(b)
	}
	return exit, err
}

func (b *Bwrap) run(ctx context.Context, cmd sandbox.Command) (sandbox.Exit, error) {
	if ctx.Err() != nil {
		return sandbox.Exit{Code: 128 + int(syscall.SIGTERM), Aborted: true}, nil
	}
	if len(cmd.Script) > maxScript {
		return sandbox.Exit{}, fmt.Errorf("command has %d bytes, more than the %d that fit: write it to a file and run that", len(cmd.Script), maxScript)
	}
	dir := cmd.Dir
	if dir == "" {
		dir = b.opts.Dir
	}
	began := time.Now()
	c, err := b.stock.take(b, variable(cmd.Env, "HOME"))
	if err != nil {
		return sandbox.Exit{}, err
	}
	defer c.lines.close()
	c.hand(cmd, b.handover(cmd, dir))
	exit, why, err := b.wait(ctx, cmd.Timeout, c)
	c.finish()
	if why != "" && cmd.Stderr != nil {
		_, _ = fmt.Fprintf(cmd.Stderr, "iris: ended by the sandbox: %s\n", why)
	}
	if errors.Is(err, errNoDirectory) {
		err = fmt.Errorf("%w %s that commands can enter", err, dir)
	}
	exit.Duration = time.Since(began)
	return exit, err
}

var errNoDirectory = errors.New("there is no directory")

// wait sees the command to its end. why is what the watch ended it for.
func (b *Bwrap) wait(ctx context.Context, timeout time.Duration, c *cell) (exit sandbox.Exit, why string, err error) {
	var expired <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	w := b.watch(c.tree)
	defer w.stop()
	status, last := c.lines.listen(), ""
wait:
	for {
		select {
		case last = <-status:
			// Nothing but the supervisor is left then, and its last act is to end:
			// what the kernel takes apart after that is nobody's to wait for.
			if code, background, ok := told(last); ok && background == 0 {
				b.stock.bury(c)
				exit.Code = code
				return exit, "", nil
			}
			status = nil
			continue
		case <-c.tree.Done():
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
		c.lines.pause.w.Close() // no time left to linger
		grace := b.opts.KillDelay
		if why != "" {
			grace = time.Millisecond
		}
		_, err = c.tree.End(grace)
		break wait
	}
	if err != nil {
		exit.Code = 128 + int(syscall.SIGKILL)
		return exit, why, err
	}
	state, err := c.tree.Wait()
	if err != nil {
		return exit, why, fmt.Errorf("wait for bubblewrap: %w", err)
	}
	ended, _ := state.Sys().(syscall.WaitStatus)
	exit.Code = ended.ExitStatus()
	if ended.Signaled() {
		exit.Code = 128 + int(ended.Signal())
	}
	if status != nil {
		_ = c.lines.status.r.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		last = <-status
	}
	code, background, ok := told(last)
	switch said := c.lines.log(); {
	case ok:
		exit.Code, exit.Background = code, background
		if exit.TimedOut || exit.Aborted {
			exit.Background = 0
		}
	case strings.HasPrefix(last, noDirectory):
		return sandbox.Exit{}, "", errNoDirectory
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
type lines struct{ said, status, pause, filter, control pipe }

func (b *Bwrap) lines() (*lines, error) {
	l := &lines{}
	for _, p := range []*pipe{&l.said, &l.status, &l.pause, &l.filter, &l.control} {
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
	l.control.r.Close()
}

func (l *lines) close() {
	for _, p := range []pipe{l.said, l.status, l.pause, l.filter, l.control} {
		for _, f := range []*os.File{p.r, p.w} {
			if f != nil {
				_ = f.Close()
			}
		}
	}
}

// listen returns a channel that gets the line of the supervisor, or what there is
// of it when nobody can write it any more.
func (l *lines) listen() <-chan string {
	status := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(l.status.r, 64)).ReadString('\n') // what there is counts
		status <- line
	}()
	return status
}

// told takes the line of the supervisor apart.
func told(line string) (code, background int, ok bool) {
	n, _ := fmt.Sscanf(line, "%d %d\n", &code, &background)
	return code, background, n == 2 && code >= 0 && code < 256 && background >= 0
}

// log is what bubblewrap had to say, which is nothing when all is well.
func (l *lines) log() string {
	_ = l.said.r.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	data, _ := io.ReadAll(io.LimitReader(l.said.r, 4096)) // what there is counts
	return strings.TrimSpace(string(data))
}
