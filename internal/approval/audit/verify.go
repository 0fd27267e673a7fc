package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine is the longest line Verify accepts: a command of 128 KiB whose every
// byte is escaped, with room to spare.
const maxLine = 4 << 20

// A ChainError says where a record was changed.
type ChainError struct {
	Line int // counted from 1
	What string
}

func (e *ChainError) Error() string { return fmt.Sprintf("audit line %d %s", e.Line, e.What) }

// Verify reads a record and returns a *ChainError for the first line that was
// edited, or that does not follow the line before it, because lines between
// them were removed or put in. Lines of another program at the beginning have
// no hashes and are covered by what follows only as far as the last of them. A
// line that broke off when the process died is passed over; the chain goes on
// behind it.
func Verify(r io.Reader) error {
	br := bufio.NewReaderSize(r, 64<<10)
	prev, chained := "", false
	for n := 1; ; n++ {
		line, err := readLine(br)
		if errors.Is(err, errLong) {
			return &ChainError{n, "is longer than any line of ours"}
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("read audit line %d: %w", n, err)
		}
		if line = bytes.TrimSuffix(line, []byte("\n")); json.Valid(line) {
			body, hash, ok := split(line)
			switch {
			case !ok && chained:
				return &ChainError{n, "has no hash"}
			case ok:
				chained = true
				if digest(body) != hash {
					return &ChainError{n, "was changed: its hash is another one"}
				}
				var e Entry
				if err := json.Unmarshal(line, &e); err != nil {
					return &ChainError{n, "is no entry: " + err.Error()}
				}
				if e.Prev != prev {
					return &ChainError{n, "does not follow the line before it"}
				}
			}
			prev = link(line)
		}
		if err == io.EOF {
			return nil
		}
	}
}

var errLong = errors.New("line too long")

// readLine returns a line with its newline; the last may lack it and comes
// with io.EOF.
func readLine(br *bufio.Reader) (line []byte, err error) {
	for {
		part, err := br.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, errLong
		}
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}
