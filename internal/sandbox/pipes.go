package sandbox

import (
	"io"
	"os"
	"time"
)

// drainTime is how long the output of an ended tree may take to arrive. The
// pipes are closed when the last process is gone; only a process that was
// handed one from outside the tree can hold it longer.
const drainTime = 500 * time.Millisecond

// Pipes connect a command, on this machine, with the readers and writers it was
// given. Open, then Started once the program runs or Abandon if it does not, then
// Finish when all of it has ended. The zero value is ready; use it once.
type Pipes struct {
	null  *os.File
	ours  []*os.File // read ends of the output, the write end of the input
	their []*os.File
	copy  []func()
	done  chan struct{}
}

// Open makes the files the command gets as 0, 1 and 2.
func (p *Pipes) Open(cmd Command) ([]*os.File, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	p.null = null
	files := []*os.File{null, null, null}
	if cmd.Stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		p.their, p.ours, files[0] = append(p.their, r), append(p.ours, w), r
		// Not waited for: a reader that never returns must not hold the end
		// of the command. Its next write meets a closed pipe.
		in := cmd.Stdin
		go func() {
			_, _ = io.Copy(w, in) // a command need not read its input
			_ = w.Close()
		}()
	}
	for i, dst := range []io.Writer{cmd.Stdout, cmd.Stderr} {
		if dst == nil {
			continue
		}
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		p.their, p.ours, files[i+1] = append(p.their, w), append(p.ours, r), w
		p.copy = append(p.copy, func() {
			if _, err := io.Copy(dst, r); err != nil {
				_, _ = io.Copy(io.Discard, r) // a full disk of ours is no SIGPIPE of theirs
			}
		})
	}
	return files, nil
}

// Started closes the command's ends and begins to copy.
func (p *Pipes) Started() {
	_ = p.null.Close()
	for _, f := range p.their {
		_ = f.Close()
	}
	p.done = make(chan struct{}, len(p.copy))
	for _, c := range p.copy {
		go func() {
			c()
			p.done <- struct{}{}
		}()
	}
}

// Finish waits until all output has been written, and closes our ends.
func (p *Pipes) Finish() {
	for _, f := range p.ours {
		_ = f.SetReadDeadline(time.Now().Add(drainTime)) // input ends refuse it, harmlessly
	}
	for range p.copy {
		<-p.done
	}
	for _, f := range p.ours {
		_ = f.Close()
	}
}

// Abandon closes everything; the command did not start.
func (p *Pipes) Abandon() {
	if p.null != nil {
		_ = p.null.Close()
	}
	for _, f := range append(p.their, p.ours...) {
		_ = f.Close()
	}
}
