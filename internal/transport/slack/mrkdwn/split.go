package mrkdwn

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// A mark is a place where a text may be cut.
type mark struct {
	at    int
	fence string // the line that opened the code block around it; "" outside
}

// cut takes the largest beginning of source that fits: in the best case the
// whole, else up to a paragraph's end, a line's end, a space, any character.
func cut(source string, limit int, render func(string) string) (head, text, rest string) {
	// What is far longer does not fit, whatever it is.
	window := source[:min(len(source), 8*limit)]
	if len(window) == len(source) {
		if text := render(source); Length(text) <= limit {
			return source, text, ""
		}
	}
	paragraphs, lines := marks(window)
	try := func(all []mark) bool {
		// The first that does not fit; rendered length grows with the source but
		// for odd cases, which the check below finds.
		n := sort.Search(len(all), func(i int) bool {
			h, _ := at(source, all[i])
			return Length(render(h)) > limit
		})
		for n--; n >= 0; n-- {
			h, r := at(source, all[n])
			t := render(h)
			if len(r) < len(source) && strings.TrimSpace(h) != "" && Length(t) <= limit {
				head, text, rest = h, t, r
				return true
			}
		}
		return false
	}
	if try(paragraphs) || try(lines) {
		return head, text, rest
	}
	// One line is too long.
	fence := ""
	first := 0 // where its content begins
	if open := fenceOf(window); open != "" {
		if i := strings.IndexByte(window, '\n'); i >= 0 && i+1 < len(window) {
			fence, first = window[:i], i+1
		}
	}
	end := len(window)
	if i := strings.IndexByte(window[first:], '\n'); i > 0 {
		end = first + i
	}
	var spaces, any []mark
	for i := first + 1; i < end; i++ {
		if utf8.RuneStart(window[i]) {
			any = append(any, mark{i, fence})
			if window[i-1] == ' ' {
				spaces = append(spaces, mark{i, fence})
			}
		}
	}
	// A space in the last third is worth a shorter piece.
	if try(spaces) && 3*Length(text) >= 2*limit {
		return head, text, rest
	}
	if try(any) {
		return head, text, rest
	}
	// Nothing fits as it would be drawn: one character by itself does.
	_, n := utf8.DecodeRuneInString(source)
	return source[:n], Escape(source[:n]), source[n:]
}

// at cuts source at m. A code block is closed before and opened again after.
func at(source string, m mark) (head, rest string) {
	head, rest = source[:m.at], source[m.at:]
	if m.fence == "" {
		return head, rest
	}
	head = strings.TrimSuffix(head, "\n") + "\n" + fenceOf(m.fence)
	if open := fenceOf(m.fence); strings.TrimSpace(rest) == open || strings.HasPrefix(rest, open+"\n") {
		return head, strings.TrimPrefix(rest[len(open):], "\n") // it would be empty
	}
	return head, m.fence + "\n" + rest
}

// marks finds the ends of paragraphs outside of code blocks, and of all lines.
func marks(window string) (paragraphs, lines []mark) {
	fence, blank := "", false
	for pos := 0; pos < len(window); {
		end := len(window)
		if i := strings.IndexByte(window[pos:], '\n'); i >= 0 {
			end = pos + i + 1
		}
		line := window[pos:end]
		if pos > 0 {
			// Nothing is cut off between the line that opens a block and the next.
			if fence == "" || strings.TrimSuffix(window[:pos], "\n") != fence {
				lines = append(lines, mark{pos, fence})
			}
			if fence == "" && (blank || fenceOf(line) != "") {
				paragraphs = append(paragraphs, mark{pos, ""})
			}
		}
		switch open := fenceOf(line); {
		case fence == "" && open != "":
			fence = strings.TrimSuffix(line, "\n")
		case fence != "" && open != "" && open[0] == fenceOf(fence)[0] && len(open) >= len(fenceOf(fence)) && strings.TrimSpace(line) == open:
			fence = ""
			if end < len(window) {
				paragraphs = append(paragraphs, mark{end, ""})
			}
		}
		blank = strings.TrimSpace(line) == ""
		pos = end
	}
	return paragraphs, lines
}

// fenceOf returns the marks with which a line opens or closes a code block.
func fenceOf(line string) string {
	trimmed := strings.TrimLeft(line, " ")
	if len(line)-len(trimmed) > 3 {
		return ""
	}
	for _, c := range []string{"`", "~"} {
		n := len(trimmed) - len(strings.TrimLeft(trimmed, c))
		if n >= 3 {
			info := trimmed[n:]
			if i := strings.IndexByte(info, '\n'); i >= 0 {
				info = info[:i]
			}
			if c == "`" && strings.Contains(info, "`") {
				return ""
			}
			return trimmed[:n]
		}
	}
	return ""
}
