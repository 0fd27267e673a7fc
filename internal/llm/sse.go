package llm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// ErrFrame is returned by Frames for a frame that is longer than it may be.
var ErrFrame = errors.New("event of the stream is too long")

// errAnswer is why the stream of an answer that never ends is not read on.
var errAnswer = fmt.Errorf("%w: the whole answer is longer than %d MiB", ErrFrame, maxAnswer>>20)

// maxAnswer bounds the text and the thinking of one answer, in bytes. The longest
// that models give are near half a million; a stream that goes on and on would
// take all memory.
const maxAnswer = 8 << 20

// maxStream bounds one answer as it comes over the wire, arguments of calls
// included. Half a million bytes of text in events of single tokens are about a
// fifth of it.
const maxStream = 256 << 20

// maxFrame bounds one server-sent event. The largest known are whole answers
// repeated at the end of a Responses stream.
const maxFrame = 16 << 20

// A Frame is one server-sent event.
type Frame struct {
	Type string // the event field, "" if there was none
	Data []byte // the data lines, joined by newlines; valid until the next frame
}

// Frames reads server-sent events. The zero value is not usable; see NewFrames.
type Frames struct {
	r      *bufio.Reader
	limit  int // of one event, in bytes
	data   []byte
	line   []byte
	lines  int
	kind   string
	afterR bool         // the last line ended in CR: an LF that follows belongs to it
	idle   func() error // called before the stream is waited for; may be nil
	failed error        // what Next returns from now on, if not nil
	read   int          // bytes of the stream so far
}

// NewFrames returns a reader of the events in r. It does not close r.
func NewFrames(r io.Reader) *Frames {
	return &Frames{r: bufio.NewReader(r), limit: maxFrame}
}

// Next returns the next event that carries data. Comments, keep-alives without
// data, ids and retry hints are skipped. At the end of the stream it returns
// io.EOF, and io.ErrUnexpectedEOF if the stream ended inside an event.
func (f *Frames) Next() (Frame, error) {
	f.data, f.kind, f.lines = f.data[:0], "", 0
	if f.failed == nil && f.read > maxStream {
		f.failed = errAnswer
	}
	if f.failed != nil {
		return Frame{}, f.failed
	}
	for {
		line, err := f.readLine()
		if err != nil {
			if err == io.EOF && (f.lines > 0 || len(line) > 0) {
				err = io.ErrUnexpectedEOF
			}
			return Frame{}, err
		}
		if len(line) == 0 {
			if f.lines > 0 {
				return Frame{Type: f.kind, Data: f.data}, nil
			}
			f.kind = ""
			continue
		}
		if err := f.field(line); err != nil {
			return Frame{}, err
		}
	}
}

func (f *Frames) field(line []byte) error {
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		f.kind = string(value)
	case "data":
		if f.lines > 0 {
			f.data = append(f.data, '\n')
		}
		f.lines++
		if len(f.data)+len(value) > f.limit {
			return ErrFrame
		}
		f.data = append(f.data, value...)
	}
	return nil
}

// readLine returns a line without its end, which is LF, CR or CRLF.
func (f *Frames) readLine() ([]byte, error) {
	f.line = f.line[:0]
	for {
		if f.idle != nil && f.r.Buffered() == 0 {
			if err := f.idle(); err != nil {
				return nil, err
			}
		}
		chunk, err := f.r.Peek(1)
		if len(chunk) == 0 {
			return f.line, err
		}
		chunk, _ = f.r.Peek(f.r.Buffered())
		if f.afterR {
			f.afterR = false
			if chunk[0] == '\n' {
				f.skip(1)
				continue
			}
		}
		end := bytes.IndexByte(chunk, '\n')
		if cr := bytes.IndexByte(chunk[:max(end, 0)], '\r'); cr >= 0 {
			end = cr
		} else if end < 0 {
			end = bytes.IndexByte(chunk, '\r')
		}
		if end < 0 {
			f.line = append(f.line, chunk...)
			f.skip(len(chunk))
			if len(f.line) > f.limit {
				return nil, ErrFrame
			}
			continue
		}
		f.line = append(f.line, chunk[:end]...)
		f.afterR = chunk[end] == '\r'
		f.skip(end + 1)
		return f.line, nil
	}
}

// skip drops n bytes that are buffered, which cannot fail.
func (f *Frames) skip(n int) {
	f.read += n
	_, _ = f.r.Discard(n)
}
