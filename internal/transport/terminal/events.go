package terminal

import (
	"bufio"
	"bytes"
	"io"
	"strconv"
)

// A frame is one server-sent event.
type frame struct {
	id    int64
	event string
	data  []byte
}

// eventReader reads server-sent events (the "Server-sent events" chapter of the
// HTML standard). Comments are skipped; a frame the stream ends in is dropped.
type eventReader struct{ r *bufio.Reader }

func newEventReader(r io.Reader) *eventReader {
	return &eventReader{bufio.NewReaderSize(r, 64<<10)}
}

// next returns the next frame that has data.
func (e *eventReader) next() (frame, error) {
	var f frame
	var data [][]byte
	for {
		line, err := e.r.ReadBytes('\n')
		if err != nil {
			return frame{}, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			if data != nil {
				f.data = bytes.Join(data, []byte("\n"))
				return f, nil
			}
			f = frame{}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "id":
			f.id, _ = strconv.ParseInt(string(value), 10, 64)
		case "event":
			f.event = string(value)
		case "data":
			data = append(data, bytes.Clone(value))
		}
	}
}
