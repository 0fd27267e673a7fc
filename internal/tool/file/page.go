package file

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/iris-operator/iris/internal/tool"
)

// A pager takes a file piece by piece and keeps the lines that were asked for,
// no more of them than a result can hold. A file of n newlines has n + 1 lines.
type pager struct {
	from  int // lines to leave out before the first
	limit int // lines wanted, 0 for all

	line  int // newlines seen
	buf   []byte
	first int // length of the first line wanted
}

// enough is where keeping stops: more than a page, so that Head sees that the
// text goes on.
const enough = tool.MaxBytes + 1

// Write takes the next piece.
func (p *pager) Write(piece []byte) (int, error) {
	n := len(piece)
	for len(piece) > 0 {
		end := bytes.IndexByte(piece, '\n')
		part := piece
		if end >= 0 {
			part = piece[:end]
		}
		if p.wanted() {
			if p.line == p.from {
				p.first += len(part)
			}
			p.keep(part)
		}
		if end < 0 {
			break
		}
		p.line++
		if p.wanted() && p.line > p.from {
			p.keep([]byte{'\n'})
		}
		piece = piece[end+1:]
	}
	return n, nil
}

func (p *pager) wanted() bool {
	return p.line >= p.from && (p.limit == 0 || p.line-p.from < p.limit)
}

func (p *pager) keep(part []byte) {
	p.buf = append(p.buf, part[:min(len(part), max(enough-len(p.buf), 0))]...)
}

// total is the number of lines.
func (p *pager) total() int { return p.line + 1 }

// page returns the text with its notice, or an error result. cut says that the
// limits, and not the caller, left something out.
func (p *pager) page(path string) (r tool.Result, cut bool) {
	if p.from >= p.total() {
		return tool.Fail(fmt.Sprintf("Offset %d is beyond end of file (%d lines total)", p.from+1, p.total())), false
	}
	c := tool.Head(tool.Valid(string(p.buf)), tool.MaxLines, tool.MaxBytes)
	begin, last := p.from+1, p.from+c.Lines
	switch {
	case c.TooLong:
		n := begin
		return tool.Result{Text: fmt.Sprintf("[Line %d is %s, exceeds %s limit. Use bash: sed -n '%dp' %s | head -c %d]",
			n, tool.Size(int64(p.first)), tool.Size(tool.MaxBytes), n, quoted(path), tool.MaxBytes)}, true
	case c.By == tool.ByBytes:
		return tool.Result{Text: fmt.Sprintf("%s\n\n[Showing lines %d-%d of %d (%s limit). Use offset=%d to continue]",
			c.Text, begin, last, p.total(), tool.Size(tool.MaxBytes), last+1)}, true
	case c.By == tool.ByLines:
		return tool.Result{Text: fmt.Sprintf("%s\n\n[Showing lines %d-%d of %d. Use offset=%d to continue]",
			c.Text, begin, last, p.total(), last+1)}, true
	case p.limit > 0 && p.from+p.limit < p.total():
		next := p.from + p.limit
		return tool.Result{Text: fmt.Sprintf("%s\n\n[%d more lines in file. Use offset=%d to continue]", c.Text, p.total()-next, next+1)}, false
	}
	if c.Text == "" && p.total() == 1 {
		return tool.Result{Text: "(empty file)"}, false
	}
	if c.Text == "" {
		return tool.Result{Text: "(an empty line)"}, false
	}
	return tool.Result{Text: c.Text}, false
}

// quoted is a path as a shell takes it.
func quoted(path string) string {
	plain := strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+@%-") == ""
	if plain && !strings.HasPrefix(path, "-") {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
