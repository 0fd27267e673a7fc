package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/iris-operator/iris/internal/dockerapi"
	"github.com/iris-operator/iris/internal/process"
	"github.com/iris-operator/iris/internal/sandbox"
)

// maxScript is the longest command: Linux limits one argument to 128 KiB, its
// closing zero byte included.
const maxScript = 128<<10 - 1

// drainTime is how long the stream of an ended command may take to end.
const drainTime = 2 * time.Second

// Run runs the command and returns when nothing it started is left in the
// container. When the engine goes away meanwhile, the error says so, and what the
// command started may live as long as the container does.
func (d *Docker) Run(ctx context.Context, cmd sandbox.Command) (sandbox.Exit, error) {
	if ctx.Err() != nil {
		return sandbox.Exit{Code: 128 + int(syscall.SIGTERM), Aborted: true}, nil
	}
	if len(cmd.Script) > maxScript {
		return sandbox.Exit{}, fmt.Errorf("command has %d bytes, more than the %d that fit: write it to a file and run that", len(cmd.Script), maxScript)
	}
	if err := d.covered(ctx); err != nil {
		return sandbox.Exit{}, err
	}
	return d.run(ctx, cmd)
}

// run is Run without its questions.
func (d *Docker) run(ctx context.Context, cmd sandbox.Command) (sandbox.Exit, error) {
	m := newMark()
	dir := cmd.Dir
	if dir == "" {
		dir = Workspace
	}
	// env -i: an exec has the variables of the container beside those it is given.
	words := append([]string{"env", "-i"}, cmd.Env...)
	words = append(words, process.MarkName+"="+m.nonce, "sh", "-c", supervisor, "sh", cmd.Script)
	words = append(words, m.arguments()...)
	words = append(words, strconv.FormatUint(m.blocks, 10), m.nonce, dir, rounds(d.opts.Linger), rounds(d.opts.KillDelay))
	words = append(words, d.shell...)
	began := time.Now()
	s, err := d.start(ctx, program{Cmd: words, AttachStdin: cmd.Stdin != nil}, cmd)
	if err != nil {
		if ctx.Err() != nil {
			return sandbox.Exit{Code: 128 + int(syscall.SIGTERM), Aborted: true}, nil
		}
		return sandbox.Exit{}, fmt.Errorf("start the command in %s: %w", d.opts.Container, err)
	}
	defer s.close()
	exit, err := d.wait(ctx, cmd.Timeout, s, m, dir)
	exit.Duration = time.Since(began)
	return exit, err
}

// wait sees the command to its end.
func (d *Docker) wait(ctx context.Context, timeout time.Duration, s *stream, m mark, dir string) (exit sandbox.Exit, err error) {
	var expired <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	select {
	case <-s.done:
	case <-s.stderr.signed: // its pipes may be held by what has no mark any more
		s.drain()
	case <-ctx.Done():
		exit.Aborted = true
		err = d.end(m)
		s.drain()
	case <-expired:
		exit.TimedOut = true
		err = d.end(m)
		s.drain()
	}
	said, ok := s.stderr.last()
	switch {
	case said == "dir":
		return sandbox.Exit{}, fmt.Errorf("start the command: no directory %s in %s", dir, d.opts.Container)
	case ok:
		if n, _ := fmt.Sscanf(said, "%d %d", &exit.Code, &exit.Background); n != 2 {
			return exit, fmt.Errorf("the command ended with %q", said)
		}
	case !exit.Aborted && !exit.TimedOut:
		return d.unsigned(s, m)
	}
	if exit.Aborted || exit.TimedOut {
		exit.Code, exit.Background = max(exit.Code, 1), 0
		if !ok {
			exit.Code = 128 + int(syscall.SIGKILL)
		}
	}
	return exit, err
}

// unsigned is what to make of a stream that ended without the supervisor's last
// words: the program could not be started, was killed from outside, or the engine
// has hung up.
func (d *Docker) unsigned(s *stream, m mark) (sandbox.Exit, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d.opts.CallTime)
	defer cancel()
	var got struct {
		Running  bool
		ExitCode int // null while it runs
	}
	err := d.engine.Do(ctx, http.MethodGet, "/exec/"+url.PathEscape(s.id)+"/json", nil, &got)
	switch {
	case err != nil:
		return sandbox.Exit{}, fmt.Errorf("the engine hung up while the command ran: %w", errors.Join(s.err, err))
	case got.Running:
		return sandbox.Exit{}, fmt.Errorf("the engine hung up while the command ran; it was ended: %w", errors.Join(s.err, d.end(m)))
	case got.ExitCode == 126 || got.ExitCode == 127:
		return sandbox.Exit{}, fmt.Errorf("the container cannot start a shell: %s", strings.TrimSpace(s.stdout.head()))
	}
	// The supervisor was killed; what it looked after may be left.
	return sandbox.Exit{Code: got.ExitCode}, d.end(m)
}

// end ends what carries the mark, as root of the container, and returns when it
// is gone.
func (d *Docker) end(m mark) error {
	grace := d.opts.KillDelay
	ctx, cancel := context.WithTimeout(context.Background(), 2*grace+d.opts.CallTime)
	defer cancel()
	var out bytes.Buffer
	words := append([]string{"sh", "-c", ender, "sh", ""}, m.arguments()...)
	s, err := d.start(ctx, program{Cmd: append(words, rounds(grace)), User: "0"}, sandbox.Command{Stdout: &out})
	if err != nil {
		return fmt.Errorf("processes of the command could not be ended: %w", err)
	}
	defer s.close()
	select {
	case <-s.done:
	case <-ctx.Done():
		return fmt.Errorf("processes of the command could not be ended: %w", ctx.Err())
	}
	var left []int
	for f := range strings.FieldsSeq(out.String()) {
		if pid, err := strconv.Atoi(f); err == nil {
			left = append(left, pid)
		}
	}
	if len(left) > 0 {
		return &process.EndError{Pids: left}
	}
	return nil
}

// A stream is a program that the engine runs, and what comes from it.
type stream struct {
	id     string
	conn   *dockerapi.Conn
	stdout *begin
	stderr *signature
	done   chan struct{} // closed at the end of the stream
	err    error         // set before done is closed
	once   sync.Once
}

// A program is what the engine is told to run in the container.
type program struct {
	Cmd                                     []string
	User                                    string `json:",omitempty"`
	AttachStdin, AttachStdout, AttachStderr bool
}

// start creates and starts a program. ctx bounds the start alone.
func (d *Docker) start(ctx context.Context, opts program, cmd sandbox.Command) (*stream, error) {
	ctx, cancel := context.WithTimeout(ctx, d.opts.CallTime)
	defer cancel()
	opts.AttachStdout, opts.AttachStderr = true, true
	var made struct {
		ID string `json:"Id"`
	}
	if err := d.engine.Do(ctx, http.MethodPost, d.path("/exec"), opts, &made); err != nil {
		return nil, err
	}
	conn, err := d.engine.Attach(ctx, "/exec/"+url.PathEscape(made.ID)+"/start", struct{ Detach, Tty bool }{})
	if err != nil {
		return nil, err
	}
	s := &stream{id: made.ID, conn: conn, done: make(chan struct{}), stdout: &begin{to: cmd.Stdout}, stderr: newSignature(cmd.Stderr, nonceOf(opts.Cmd))}
	go func() {
		defer close(s.done)
		s.err = dockerapi.Demux(s.conn, s.stdout, s.stderr)
		s.stderr.flush()
	}()
	if cmd.Stdin != nil {
		// Not waited for: a reader that never returns must not hold the end of
		// the command. Its next write meets a closed connection.
		go func() {
			_, _ = io.Copy(s.conn, cmd.Stdin) // a command need not read its input
			_ = s.conn.CloseWrite()
		}()
	}
	return s, nil
}

// nonceOf finds what the supervisor will sign with.
func nonceOf(words []string) string {
	i := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, process.MarkName+"=") })
	if i < 0 {
		return ""
	}
	return strings.TrimPrefix(words[i], process.MarkName+"=")
}

// drain waits a moment for the end of the stream, and cuts it off then.
func (s *stream) drain() {
	t := time.NewTimer(drainTime)
	defer t.Stop()
	select {
	case <-s.done:
	case <-t.C:
		s.close()
	}
}

// close cuts the stream off and waits for its reader.
func (s *stream) close() {
	s.once.Do(func() { _ = s.conn.Close() })
	<-s.done
}
