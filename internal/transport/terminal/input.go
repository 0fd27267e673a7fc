package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// An input reads a file in a way that can be given up: a plain read of a
// terminal would keep its goroutine until a key is pressed, and take that key.
type input struct {
	file *os.File
	// over is readable once ctx has ended; the other end closes it.
	over *os.File
	ctx  context.Context
	stop func()
}

// newInput returns a reader of file whose reads end with ctx. It must be closed;
// the file stays open.
func newInput(ctx context.Context, file *os.File) (*input, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("read the input: %w", err)
	}
	unhook := context.AfterFunc(ctx, func() { w.Close() })
	return &input{file: file, over: r, ctx: ctx, stop: func() {
		if unhook() {
			w.Close()
		}
		r.Close()
	}}, nil
}

// Close ends the use of the input.
func (in *input) Close() { in.stop() }

// Read reads what there is, at least one byte. It returns the cause when ctx
// ends first; nothing has been taken then.
func (in *input) Read(p []byte) (int, error) {
	fds := []unix.PollFd{
		{Fd: int32(in.over.Fd()), Events: unix.POLLIN},
		{Fd: int32(in.file.Fd()), Events: unix.POLLIN},
	}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for input: %w", err)
		case fds[0].Revents != 0:
			return 0, context.Cause(in.ctx)
		default:
			n, err := in.file.Read(p)
			if errors.Is(err, unix.EIO) {
				err = io.EOF // the terminal is gone
			}
			return n, err
		}
	}
}
