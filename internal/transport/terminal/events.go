package terminal

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
)

// A frame is one server-sent event.
type frame struct {
	id    int64 // the last one the stream named; 0 before that
	event string
	data  []byte
}

// maxLine bounds a line of an event stream: more than any event that a server
// of ours sends.
const maxLine = 64 << 20

var errLongLine = errors.New("a line of the event stream is too long")

// eventReader reads server-sent events (the "Server-sent events" chapter of the
// HTML standard). Comments are skipped; a frame that the stream ends in is
// dropped, because nobody knows what it lacks.
type eventReader struct {
	r      *bufio.Reader
	buf    []byte // the line under way
	afterR bool   // the last line ended in \r: a \n that follows belongs to it
	begun  bool   // the first line was read
	id     int64
	max    int // bytes of a line
}

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{r: bufio.NewReaderSize(r, 64<<10), max: maxLine}
}

// next returns the next frame that has data.
func (e *eventReader) next() (frame, error) {
	f := frame{}
	var data []byte
	has := false
	for {
		line, err := e.line()
		if err != nil {
			return frame{}, err
		}
		if len(line) == 0 {
			if has {
				f.id, f.data = e.id, data
				return f, nil
			}
			f = frame{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
				e.id = n
			}
		case "event":
			f.event = string(value)
		case "data":
			if has {
				data = append(data, '\n')
			}
			data, has = append(data, value...), true
		}
	}
}

// line returns a line without its end, which is \n, \r or both. It is valid
// until the next call.
func (e *eventReader) line() ([]byte, error) {
	e.buf = e.buf[:0]
	for {
		c, err := e.r.ReadByte()
		if err != nil {
			return nil, err
		}
		second := e.afterR && c == '\n'
		e.afterR = c == '\r'
		switch {
		case second:
		case c == '\n' || c == '\r':
			line := e.buf
			if !e.begun {
				line = bytes.TrimPrefix(line, []byte("\ufeff"))
			}
			e.begun = true
			return line, nil
		case len(e.buf) == e.max:
			return nil, errLongLine
		default:
			e.buf = append(e.buf, c)
		}
	}
}
