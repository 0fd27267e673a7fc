package tool

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// What a summary of JSON shows.
const (
	maxSummarized = 10 << 20 // larger texts are cut like any other
	maxSample     = 3        // items of an array
	maxKeys       = 50       // keys of an object
	maxString     = 200      // characters of a string
	maxDepth      = 6        // levels below the top
)

// Summarize describes the structure of a JSON object or array: samples instead
// of long arrays, the beginning of long strings, placeholders for what lies
// deep. It reports false for a text that is no object or array, is larger than
// 10 MiB, or has a summary that would itself have to be cut.
func Summarize(text string) (string, bool) {
	trimmed := strings.TrimSpace(text)
	if len(text) > maxSummarized || trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' || !json.Valid([]byte(trimmed)) {
		return "", false
	}
	// A wide and deep text can have a long summary: show less depth then.
	for depth := maxDepth; depth >= 0; depth-- {
		s := summary{text: trimmed, depth: depth}
		s.value(0)
		if s.out.Len() <= MaxBytes {
			if out := s.out.String(); strings.Count(out, "\n") < MaxLines {
				return out, true
			}
		}
	}
	return "", false
}

// A summary walks over valid JSON once. It stops writing when it has become
// too long to be used.
type summary struct {
	text  string
	at    int
	depth int
	out   strings.Builder
}

func (s *summary) write(text string) {
	if s.out.Len() <= MaxBytes {
		s.out.WriteString(text)
	}
}

func (s *summary) line(level int) { s.write("\n" + strings.Repeat("  ", level)) }

func (s *summary) space() {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
}

// next skips to the next value or key of a container and reports false at its
// end, behind the bracket.
func (s *summary) next() bool {
	for {
		s.space()
		switch s.text[s.at] {
		case ',', ':':
			s.at++
		case '}', ']':
			s.at++
			return false
		default:
			return true
		}
	}
}

// skip passes a value and returns its text.
func (s *summary) skip() string {
	s.space()
	from := s.at
	for open := 0; ; {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			for s.text[s.at] != '"' {
				if s.text[s.at] == '\\' {
					s.at++
				}
				s.at++
			}
			s.at++
		case c == '{' || c == '[':
			open++
			s.at++
		case c == '}' || c == ']':
			open--
			s.at++
		case strings.IndexByte(" \t\r\n,:", c) >= 0:
			s.at++
		default:
			for s.at < len(s.text) && strings.IndexByte(" \t\r\n,:{}[]\"", s.text[s.at]) < 0 {
				s.at++
			}
		}
		if open == 0 {
			return s.text[from:s.at]
		}
	}
}

// count passes the rest of a container and returns how many values it had;
// keys count as values.
func (s *summary) count() (n int) {
	for s.next() {
		s.skip()
		n++
	}
	return n
}

func (s *summary) value(level int) {
	s.space()
	switch c := s.text[s.at]; {
	case c == '[' && level > s.depth:
		s.at++
		s.write(quote(fmt.Sprintf("[Array(%d)]", s.count())))
	case c == '{' && level > s.depth:
		s.at++
		s.write(quote(fmt.Sprintf("{Object(%d keys)}", s.count()/2)))
	case c == '[':
		s.at++
		s.array(level)
	case c == '{':
		s.at++
		s.object(level)
	default:
		s.write(shorten(s.skip()))
	}
}

func (s *summary) array(level int) {
	if !s.next() {
		s.write("[]")
		return
	}
	// The length comes first and is known last.
	rest := summary{text: s.text, at: s.at}
	n := rest.count()
	s.write("{")
	s.line(level + 1)
	s.write(fmt.Sprintf(`"_arrayLength": %d,`, n))
	s.line(level + 1)
	s.write(`"_sampleItems": [`)
	for i := range min(n, maxSample) {
		if i > 0 {
			s.write(",")
		}
		s.next()
		s.line(level + 2)
		s.value(level + 2)
	}
	s.line(level + 1)
	s.write("],")
	s.line(level + 1)
	s.write(fmt.Sprintf(`"_note": "the first %d of %d items"`, min(n, maxSample), n))
	s.line(level)
	s.write("}")
	s.at = rest.at
}

func (s *summary) object(level int) {
	n := 0
	s.write("{")
	for s.next() {
		if n++; n > maxKeys {
			n += s.count() / 2 // this key, its value and the rest
			break
		}
		if n > 1 {
			s.write(",")
		}
		s.line(level + 1)
		s.write(shorten(s.skip()) + ": ")
		s.next()
		s.value(level + 1)
	}
	if n > maxKeys {
		s.write(",")
		s.line(level + 1)
		s.write(fmt.Sprintf(`"_note": "the first %d of %d keys"`, maxKeys, n-1))
	}
	if n > 0 {
		s.line(level)
	}
	s.write("}")
}

// shorten cuts a string, or a number nobody would write, and keeps the rest as
// it is.
func shorten(raw string) string {
	if len(raw) <= maxString {
		return raw
	}
	text := raw
	if raw[0] == '"' {
		if err := json.Unmarshal([]byte(raw), &text); err != nil {
			text = raw
		}
	}
	n := utf8.RuneCountInString(text)
	if n <= maxString {
		return raw
	}
	i := 0
	for range maxString {
		_, w := utf8.DecodeRuneInString(text[i:])
		i += w
	}
	return quote(fmt.Sprintf("%s... (%d characters in total)", text[:i], n))
}

func quote(text string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}
