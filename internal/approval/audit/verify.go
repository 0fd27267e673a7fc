package audit

import (
	"bufio"
	"bytes"
	"crypto/hmac"
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
func Verify(r io.Reader) error { return (&verifier{}).read(r) }

// VerifyMarked is Verify, and finds what was written without the key: from the
// first marked line on every line must have its mark. With a head it finds as well
// that lines at the end are gone, or all of the record was written anew. Lines
// behind the head are fine when they are marked: the process died before it had
// written the next head.
func VerifyMarked(r io.Reader, key []byte, head *Head) error {
	return (&verifier{key: key, head: head}).read(r)
}

// A verifier reads one record.
type verifier struct {
	key  []byte
	head *Head

	prev            string
	chained, marked bool
	reached         bool // the head has been passed
}

func (v *verifier) read(r io.Reader) error {
	br := bufio.NewReaderSize(r, 64<<10)
	at := int64(0)
	for n := 1; ; n++ {
		line, err := readLine(br)
		if errors.Is(err, errLong) {
			return &ChainError{n, "is longer than any line of ours"}
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("read audit line %d: %w", n, err)
		}
		at += int64(len(line))
		if line = bytes.TrimSuffix(line, []byte("\n")); json.Valid(line) {
			if what := v.line(line); what != "" {
				return &ChainError{n, what}
			}
		}
		if v.head != nil && at == v.head.Size {
			if v.prev != v.head.Hash {
				return &ChainError{n, "is not what was the last line here: the record was written anew"}
			}
			v.reached = true
		}
		if err == io.EOF {
			if v.head != nil && !v.reached {
				return &ChainError{n, "is where the record ends, or changes; lines that it had are gone"}
			}
			return nil
		}
	}
}

// line returns what is wrong with a whole line.
func (v *verifier) line(line []byte) string {
	body, hash, ok := split(line)
	switch {
	case !ok && v.chained:
		return "has no hash"
	case ok:
		v.chained = true
		if digest(body) != hash {
			return "was changed: its hash is another one"
		}
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return "is no entry: " + err.Error()
		}
		if e.Prev != v.prev {
			return "does not follow the line before it"
		}
		if len(v.key) == 0 {
			break
		}
		if v.marked = v.marked || e.Mark != ""; v.marked && !v.fits(body, e.Mark) {
			return "was not written with the key of this Iris"
		}
	}
	v.prev = link(line)
	return ""
}

// fits reports whether a mark, the last part of the body, is that of what is
// before it.
func (v *verifier) fits(body []byte, got string) bool {
	text, ok := bytes.CutSuffix(body, []byte(markKey+got+`"`))
	return ok && hmac.Equal([]byte(mark(v.key, text)), []byte(got))
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
