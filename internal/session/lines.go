package session

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// backward calls yield for the lines of r that begin before end, the last
// first, until it returns false. whole is false for a last line without a
// newline: it may be torn. Empty lines are left out. The line is valid until
// yield returns.
func backward(r io.ReaderAt, end int64, yield func(off int64, line []byte, whole bool) bool) error {
	var (
		buf   []byte // what lies in the file from start on and was not yielded
		start = end
		chunk = int64(4 << 10)
		whole = false
	)
	for {
		i := bytes.LastIndexByte(buf, '\n')
		if i < 0 && start > 0 {
			n := min(max(chunk, int64(len(buf))), start)
			chunk = min(2*chunk, 256<<10)
			grown := make([]byte, n+int64(len(buf)))
			if _, err := r.ReadAt(grown[:n], start-n); err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			copy(grown[n:], buf)
			buf, start = grown, start-n
			continue
		}
		if line := buf[i+1:]; len(line) > 0 && !yield(start+int64(i)+1, line, whole) {
			return nil
		}
		if i < 0 {
			return nil
		}
		buf, whole = buf[:i], true
	}
}

// forward calls yield for the lines of r from off to end, until it returns
// false. next is the offset behind the line. The rules are those of backward.
func forward(r io.ReaderAt, off, end int64, yield func(next int64, line []byte, whole bool) bool) error {
	if off >= end {
		return nil
	}
	br := bufio.NewReaderSize(io.NewSectionReader(r, off, end-off), int(min(32<<10, end-off)))
	var long []byte
	for {
		line, err := br.ReadSlice('\n')
		off += int64(len(line))
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line...)
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if long != nil {
			line = append(long, line...)
			long = nil
		}
		text, whole := bytes.CutSuffix(line, []byte{'\n'})
		if len(text) > 0 && !yield(off, text, whole) || err != nil {
			return nil
		}
	}
}

// encode renders v as one line without escaping what only HTML needs escaped,
// so that people can grep for it.
func encode(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// An extent is what is known of the end of a line file.
type extent struct {
	size int64 // of the file
	end  int64 // behind the last line that counts
	// open: the last line counts but has no newline yet.
	open bool
}

// seen notes a line that backward yielded first. A line without its newline
// counts when it is a whole JSON value; else it is torn.
func (e *extent) seen(off int64, line []byte, whole bool) (counts bool) {
	switch {
	case whole:
	case json.Valid(line):
		e.open = true
	default:
		e.end = off
		return false
	}
	return true
}
