package bwrap

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/iris-operator/iris/internal/process"
	"github.com/iris-operator/iris/internal/sandbox"
)

// firstCopy is the descriptor behind those of the supervisor.
const firstCopy = 8

// A cell is a bubblewrap that was started without a command: everything of it is
// in place, and the process that becomes the command waits to read it. A cell is
// used once.
type cell struct {
	key   string // see plan
	tree  *process.Tree
	pipes sandbox.Pipes
	lines *lines
	later *later
	// finished guards the end of the pipes, which comes once.
	finished sync.Once
}

// build starts a cell.
func (b *Bwrap) build(args []string, key string) (*cell, error) {
	c := &cell{key: key, later: &later{given: make(chan struct{})}}
	files, err := c.pipes.Open(sandbox.Command{Stdin: stdin{c.later}, Stdout: stdout{c.later}, Stderr: stderr{c.later}})
	if err != nil {
		c.later.give(sandbox.Command{})
		c.pipes.Abandon()
		return nil, fmt.Errorf("open pipes: %w", err)
	}
	l, err := b.lines()
	if err != nil {
		c.later.give(sandbox.Command{})
		c.pipes.Abandon()
		return nil, fmt.Errorf("open pipes: %w", err)
	}
	c.lines = l
	copied, first := copies(firstCopy)
	args = append(append([]string{"bwrap"}, first...), args...)
	args = append(append(args, "--seccomp", "5", "--"), b.supervise()...)
	c.tree, err = process.Start(process.Spec{
		Path: b.program, Args: args, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Holder: true, Prepare: b.limit,
		Files: append([]*os.File{files[0], files[1], l.said.w, l.status.w, l.pause.r, l.filter.r, files[2], l.control.r}, copied...),
	})
	for _, f := range copied {
		_ = f.Close()
	}
	if err != nil {
		c.later.give(sandbox.Command{})
		c.pipes.Abandon()
		l.close()
		return nil, fmt.Errorf("start bubblewrap: %w", err)
	}
	c.pipes.Started()
	l.started()
	return c, nil
}

// hand gives the cell its command.
func (c *cell) hand(cmd sandbox.Command, program string) {
	c.later.give(cmd)
	// More than a pipe holds waits for its reader; the end of the cell ends it.
	go func() {
		_, _ = io.WriteString(c.lines.control.w, program)
		_ = c.lines.control.w.Close()
	}()
}

// ended reports whether there is no use in the cell any more.
func (c *cell) ended() bool {
	select {
	case <-c.tree.Done():
		return true
	default:
		return false
	}
}

// end ends a cell that has no command, or whose command has ended. Without its
// other end the process that waits for a command ends, and all of the cell after
// it.
func (c *cell) end() {
	c.later.give(sandbox.Command{})
	c.lines.close()
	select {
	case <-c.tree.Done():
	case <-time.After(5 * time.Second):
		_, _ = c.tree.End(time.Millisecond) // what cannot be killed now dies with Iris
	}
	c.finish()
}

// finish waits until all output has been written.
func (c *cell) finish() { c.finished.Do(c.pipes.Finish) }

// A later is where the readers and writers of a command come from, once there is
// one.
type later struct {
	once  sync.Once
	given chan struct{} // closed by give
	cmd   sandbox.Command
}

func (l *later) give(cmd sandbox.Command) {
	l.once.Do(func() {
		l.cmd = cmd
		close(l.given)
	})
}

type (
	stdin  struct{ *later }
	stdout struct{ *later }
	stderr struct{ *later }
)

func (s stdin) Read(p []byte) (int, error) {
	if in := s.wait().Stdin; in != nil {
		return in.Read(p)
	}
	return 0, io.EOF
}

func (s stdout) Write(p []byte) (int, error) { return write(s.wait().Stdout, p) }
func (s stderr) Write(p []byte) (int, error) { return write(s.wait().Stderr, p) }

func (l *later) wait() *sandbox.Command {
	<-l.given
	return &l.cmd
}

func write(w io.Writer, p []byte) (int, error) {
	if w == nil {
		return len(p), nil
	}
	return w.Write(p)
}

// A plan says what the cell of a command looks like: the arguments, and a key
// that differs when anything about them does: files that were copied, files and
// directories that were covered. Somebody may have put another file in the place
// of a covered one, where the cover is lost.
func (b *Bwrap) plan(home string) (args []string, key string) {
	args = b.args(home)
	var k strings.Builder
	for _, a := range args {
		k.WriteString(a)
		k.WriteByte(0)
	}
	for _, name := range etc {
		identify(&k, "/etc/"+name, true)
	}
	for i := 2; i < len(args); i++ {
		switch args[i-2] {
		case "--bind", "--ro-bind", "--ro-bind-try":
			identify(&k, args[i], false)
		}
	}
	return args, k.String()
}

// identify writes which file is at path, and with content which state of it.
func identify(k *strings.Builder, path string, content bool) {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil {
		k.WriteByte('-')
		return
	}
	fmt.Fprintf(k, "%d.%d", st.Dev, st.Ino)
	if content {
		fmt.Fprintf(k, ".%d.%d", st.Size, st.Mtim.Nano())
	}
	k.WriteByte(0)
}
