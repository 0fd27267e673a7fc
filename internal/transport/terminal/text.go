package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The few escape sequences the screen uses (ECMA-48).
const (
	bold  = "\x1b[1m"
	dim   = "\x1b[2m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	cyan  = "\x1b[36m"
	plain = "\x1b[0m"
	// wipe empties the line the cursor is in and goes to its start.
	wipe = "\r\x1b[K"
)

// clean drops control characters, so that text from a model or a file cannot
// drive the terminal, and the characters that reorder what stands around them,
// so that a command reads as it runs.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, text)
}

// oneLine is text as a line of its own.
func oneLine(text string) string { return strings.Join(strings.Fields(clean(text)), " ") }

// cut shortens a line to so many columns; 0 is no limit. Every character
// outside of ASCII is taken for a wide one.
func cut(line string, columns int) string {
	if columns <= 0 {
		return line
	}
	used, end := 0, 0
	for i, r := range line {
		w := 1
		if r >= utf8.RuneSelf {
			w = 2
		}
		if used < columns {
			end = i // what stands before leaves room for the mark
		}
		if used += w; used > columns {
			return line[:end] + "…"
		}
	}
	return line
}

// head returns the first lines of text.
func head(text string, lines int) string {
	parts := strings.SplitN(strings.TrimSpace(text), "\n", lines+1)
	if len(parts) > lines {
		parts[lines] = "…"
	}
	return strings.Join(parts, "\n")
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
