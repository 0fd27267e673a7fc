package tool

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// What a result may hold. A model pays for every line of it in every further
// request of the turn; the rest stays readable in a file.
const (
	MaxLines = 2000
	MaxBytes = 50 << 10
)

// A Limit says which limit cut a text.
type Limit string

// The limits; Uncut is the zero value.
const (
	Uncut   Limit = ""
	ByLines Limit = "lines"
	ByBytes Limit = "bytes"
)

// A Cut is what Head or Tail left of a text.
type Cut struct {
	Text string
	By   Limit
	// TotalLines and TotalBytes measure the whole text, Lines and Bytes what
	// is left in Text.
	TotalLines, TotalBytes int
	Lines, Bytes           int
	// Partial says that Text is the end of a last line that is too long by
	// itself, which has LineBytes.
	Partial bool
	// TooLong says that the first line is too long by itself, has LineBytes,
	// and that Text is therefore empty.
	TooLong   bool
	LineBytes int
}

// Head keeps the beginning of a text: whole lines, at most maxLines of them and
// maxBytes together. A newline at the very end begins another, empty line.
func Head(text string, maxLines, maxBytes int) Cut {
	c := Cut{TotalLines: strings.Count(text, "\n") + 1, TotalBytes: len(text)}
	if c.TotalLines <= maxLines && len(text) <= maxBytes {
		return c.whole(text)
	}
	end := -1 // of what is kept; the newline that would follow is not counted
	for c.Lines < maxLines && end < len(text) {
		next := len(text)
		if i := strings.IndexByte(text[end+1:], '\n'); i >= 0 {
			next = end + 1 + i
		}
		if next > maxBytes {
			c.By = ByBytes
			if c.Lines == 0 {
				c.TooLong, c.LineBytes = true, next
				return c
			}
			break
		}
		end = next
		c.Lines++
	}
	if c.By == Uncut {
		c.By = ByLines
	}
	c.Text, c.Bytes = text[:end], end
	return c
}

// Tail keeps the end of a text: whole lines, at most maxLines of them and
// maxBytes together. If the last line alone is longer, its end is kept, from
// the beginning of a character on. A newline at the very end belongs to the
// last line; it is dropped from a text that is cut.
func Tail(text string, maxLines, maxBytes int) Cut {
	body := strings.TrimSuffix(text, "\n")
	c := Cut{TotalLines: strings.Count(body, "\n") + 1, TotalBytes: len(text)}
	if c.TotalLines <= maxLines && len(body) <= maxBytes {
		return c.whole(text)
	}
	start := len(body) + 1 // of what is kept, behind the newline before it
	for c.Lines < maxLines && start > 0 {
		prev := strings.LastIndexByte(body[:start-1], '\n') + 1
		if len(body)-prev > maxBytes {
			c.By = ByBytes
			if c.Lines == 0 {
				c.Partial, c.Lines, c.LineBytes = true, 1, len(body)-prev
				start = max(len(body)-maxBytes, 0)
				for start < len(body) && !utf8.RuneStart(body[start]) {
					start++
				}
			}
			break
		}
		start = prev
		c.Lines++
	}
	if c.By == Uncut {
		c.By = ByLines
	}
	c.Text = body[start:]
	c.Bytes = len(c.Text)
	return c
}

func (c Cut) whole(text string) Cut {
	c.Text, c.Lines, c.Bytes = text, c.TotalLines, c.TotalBytes
	return c
}

// Size writes a number of bytes as people read it: 1023B, 1.0KB, 1.0MB.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%dB", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1fKB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1fMB", float64(n)/(1<<20))
}

// Valid returns the text with every run of bytes that is not UTF-8 replaced by
// U+FFFD.
func Valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
