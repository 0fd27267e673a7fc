package tool

import (
	"fmt"
	"io"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
)

// A Capture takes the output of one command and shows it within the limits. In
// memory it keeps the last 10 MiB of each stream; a longer stream goes to disk
// while it is read. Stdout and Stderr may be written from one goroutine each;
// the other methods may be called when both are done.
type Capture struct {
	outputs  *Outputs
	conv     chat.Address
	out, err stream
	// What is written comes in here and leaves for out and err without what
	// must not be kept.
	ways [2]io.WriteCloser
}

// Capture begins to take an output. Close it.
func (o *Outputs) Capture(conv chat.Address) *Capture {
	c := &Capture{outputs: o, conv: conv}
	c.out.capture, c.err.capture = c, c
	c.ways = [2]io.WriteCloser{o.opts.Redact(&c.out), o.opts.Redact(&c.err)}
	return c
}

// Stdout takes the standard output. Writes never fail.
func (c *Capture) Stdout() io.Writer { return c.ways[0] }

// Stderr takes the standard error. Writes never fail.
func (c *Capture) Stderr() io.Writer { return c.ways[1] }

// Close removes what is half-written. It may be called again.
func (c *Capture) Close() {
	for _, s := range []*stream{&c.out, &c.err} {
		if s.spill != nil {
			s.spill.discard()
		}
	}
}

// Text returns standard output, a newline and standard error, valid UTF-8,
// within the limits, with a notice that names a file when something was left
// out, and empty if there was no output. Call it once.
func (c *Capture) Text() string {
	for _, w := range c.ways {
		_ = w.Close() // passes on to a stream, which takes everything
	}
	text := c.joined()
	dropped := c.out.dropped() + c.err.dropped()
	cut := Tail(text, MaxLines, MaxBytes)
	if cut.By == Uncut && dropped == 0 {
		return text
	}
	full, err := c.save()
	where := "Full output: " + c.outputs.opts.Path(full)
	if err != nil {
		where = fmt.Sprintf("The full output could not be kept: %v", Valid(err.Error()))
	}
	if dropped == 0 {
		if s, ok := Summarize(text); ok {
			return fmt.Sprintf("%s\n\n[JSON of %s, summarized. %s]", s, Size(int64(len(text))), where)
		}
	}
	return cut.Text + "\n\n" + c.notice(cut, dropped, where)
}

// joined returns what is kept of both streams.
func (c *Capture) joined() string {
	out, errs := c.out.bytes(), c.err.bytes()
	var b strings.Builder
	b.Grow(len(out) + 1 + len(errs))
	b.Write(out)
	if len(out) > 0 && len(errs) > 0 {
		b.WriteByte('\n')
	}
	b.Write(errs)
	return Valid(b.String())
}

// notice says what of the output is shown. Line numbers count in the full
// output, also when its beginning is no longer in memory.
func (c *Capture) notice(cut Cut, dropped int64, where string) string {
	total := int64(cut.TotalLines)
	size := int64(cut.LineBytes)
	if dropped > 0 {
		last := &c.out
		total = c.out.lines + 1
		if c.err.total > 0 {
			last = &c.err
			total = c.err.lines + 1
			if c.out.total > 0 {
				total += c.out.lines + 1
			}
		}
		size = last.line
		if last.line == 0 && last.lines > 0 { // a final newline belongs to its line
			total--
			size = last.last
		}
	}
	first := total - int64(cut.Lines) + 1
	var b strings.Builder
	if dropped > 0 {
		fmt.Fprintf(&b, "[The output was %s; its beginning is only in the file.]\n", Size(c.out.total+c.err.total))
	}
	switch {
	case cut.Partial:
		fmt.Fprintf(&b, "[Showing last %s of line %d (line is %s). %s]", Size(int64(cut.Bytes)), total, Size(size), where)
	case cut.By == ByBytes:
		fmt.Fprintf(&b, "[Showing lines %d-%d of %d (%s limit). %s]", first, total, total, Size(MaxBytes), where)
	default:
		fmt.Fprintf(&b, "[Showing lines %d-%d of %d. %s]", first, total, total, where)
	}
	return b.String()
}

// save keeps the full output and returns its path on the host.
func (c *Capture) save() (string, error) {
	base := c.out.spill
	if base == nil || base.err != nil {
		base = c.outputs.spill(c.conv)
		c.out.copyTo(base)
	}
	defer base.discard()
	if base.dropped == 0 && c.err.total > 0 {
		if c.out.total > 0 {
			_, _ = base.Write([]byte{'\n'})
		}
		c.err.copyTo(base)
	} else {
		base.dropped += c.err.total
	}
	return c.outputs.keep(c.conv, base)
}
