package policy

import (
	"strings"
)

// A value is a string in which four control characters stand for what is not
// plain text. They are taken out of everything that comes from outside.
const (
	unknown = '\x01' // a run of text that cannot be known
	anyRun  = '\x02' // an unquoted *
	anyOne  = '\x03' // an unquoted ?
	anySet  = '\x04' // an unquoted [
)

const (
	marks     = "\x01\x02\x03\x04"
	globMarks = "\x02\x03\x04"
	someText  = "\x01"
)

// bare replaces the bytes that values use as marks in text from outside.
func bare(text string) string {
	if !strings.ContainsAny(text, marks) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r >= unknown && r <= anySet {
			return '\uFFFD'
		}
		return r
	}, text)
}

// activate makes the glob characters of a text mean what they mean unquoted.
func activate(text string) string {
	if !strings.ContainsAny(text, "*?[") {
		return text
	}
	b := []byte(text)
	for i, c := range b {
		b[i] = active(c)
	}
	return string(b)
}

func active(c byte) byte {
	switch c {
	case '*':
		return anyRun
	case '?':
		return anyOne
	case '[':
		return anySet
	}
	return c
}

// plain is a value as text in which only what is unknown is still marked.
func plain(value string) string {
	if !strings.ContainsAny(value, globMarks) {
		return value
	}
	b := []byte(value)
	for i, c := range b {
		switch c {
		case anyRun:
			b[i] = '*'
		case anyOne:
			b[i] = '?'
		case anySet:
			b[i] = '['
		}
	}
	return string(b)
}

// show is a value for people.
func show(value string) string {
	return strings.ReplaceAll(plain(value), someText, "…")
}

func known(value string) bool     { return strings.IndexByte(value, unknown) < 0 }
func isGlob(value string) bool    { return strings.ContainsAny(value, globMarks) }
func literal(value string) bool   { return !strings.ContainsAny(value, marks) }
func isSpace(c byte) bool         { return c == ' ' || c == '\t' || c == '\n' }
func isDigit(c byte) bool         { return c >= '0' && c <= '9' }
func isLetter(c byte) bool        { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isNameByte(c byte) bool      { return isLetter(c) || isDigit(c) || c == '_' }
func hasAny(s, chars string) bool { return strings.ContainsAny(s, chars) }

// isName reports whether s can be the name of a variable.
func isName(s string) bool {
	if s == "" || isDigit(s[0]) {
		return false
	}
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return true
}

// matches reports whether a pattern with marks covers all of name. What is
// unknown in the pattern covers anything.
func matches(pattern, name string) bool {
	p, n := 0, 0
	star, mark := -1, 0
	for n < len(name) || p < len(pattern) {
		if p < len(pattern) {
			switch c := pattern[p]; c {
			case anyRun, unknown:
				star, mark = p, n
				p++
				continue
			case anyOne:
				if n < len(name) {
					p++
					n += runeLen(name[n:])
					continue
				}
			case anySet:
				if n < len(name) {
					if ok, size := inSet(pattern[p:], name[n]); size == 0 && name[n] == '[' {
						p++
						n++
						continue
					} else if ok {
						p += size
						n++
						continue
					}
				}
			default:
				if n < len(name) && name[n] == c {
					p++
					n++
					continue
				}
			}
		}
		if star < 0 || mark >= len(name) {
			return false
		}
		mark++
		p, n = star+1, mark
	}
	return true
}

func runeLen(s string) int {
	n := 1
	for n < len(s) && s[n]&0xC0 == 0x80 {
		n++
	}
	return n
}

// inSet tests c against the bracket expression at the start of pattern and
// returns the expression's length, 0 if it has no end.
func inSet(pattern string, c byte) (ok bool, size int) {
	i := 1
	negate := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negate {
		i++
	}
	for first := true; i < len(pattern); first = false {
		switch {
		case pattern[i] == ']' && !first:
			return ok != negate, i + 1
		case (pattern[i] == '[' || pattern[i] == anySet) && i+1 < len(pattern) && pattern[i+1] == ':':
			end := strings.Index(pattern[i:], ":]")
			if end < 0 {
				return false, 0
			}
			ok = ok || inClass(pattern[i+2:i+end], c)
			i += end + 2
		case i+2 < len(pattern) && pattern[i+1] == '-' && pattern[i+2] != ']':
			ok = ok || pattern[i] <= c && c <= pattern[i+2]
			i += 3
		default:
			ok = ok || pattern[i] == c
			i++
		}
	}
	return false, 0
}

func inClass(class string, c byte) bool {
	switch class {
	case "alpha":
		return isLetter(c)
	case "digit":
		return isDigit(c)
	case "alnum":
		return isLetter(c) || isDigit(c)
	case "lower":
		return c >= 'a' && c <= 'z'
	case "upper":
		return c >= 'A' && c <= 'Z'
	case "space":
		return isSpace(c) || c >= '\v' && c <= '\r'
	case "blank":
		return c == ' ' || c == '\t'
	case "punct":
		return c > ' ' && c < 0x7f && !isLetter(c) && !isDigit(c)
	case "xdigit":
		return isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f'
	}
	return false
}
