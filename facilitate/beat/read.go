package beat

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of the reader.
const (
	maxAnswer = 256 << 10
	maxDepth  = 24
	maxValues = 16
	maxTries  = 64      // brackets that turn out to begin nothing
	maxWork   = 1 << 20 // bytes of strings looked at over all tries
)

// Read returns the JSON objects and arrays in text, outermost, in order. It
// takes what models write: fences, prose around, single quotes, bare keys,
// trailing commas, comments, Python words, raw line ends in strings, and an
// end that is cut off. It reads at most 256 KiB and 16 values.
func Read(text string) (out []any) {
	text = text[:min(len(text), maxAnswer)]
	var whole any
	if t := strings.TrimSpace(text); len(t) > 0 && (t[0] == '{' || t[0] == '[') && deep(t) <= maxDepth && json.Unmarshal([]byte(t), &whole) == nil {
		return []any{whole}
	}
	tries, left := 0, maxWork
	for i := 0; i < len(text) && len(out) < maxValues && tries < maxTries && left > 0; {
		if text[i] != '{' && text[i] != '[' {
			i++
			continue
		}
		p := &parser{s: text, i: i, left: &left}
		v, ok := p.value(0)
		if ok && substantial(v) {
			out = append(out, v)
			i = p.i
		} else {
			tries++
			i++
		}
	}
	return out
}

// deep bounds the nesting before the standard decoder sees the text.
func deep(s string) (most int) {
	n := 0
	for i := range len(s) {
		switch s[i] {
		case '{', '[':
			n++
			most = max(most, n)
		case '}', ']':
			n--
		}
	}
	return most
}

// substantial tells JSON from braces in prose.
func substantial(v any) bool {
	switch x := v.(type) {
	case dict:
		return len(x) > 0
	case []any:
		for _, e := range x {
			if _, ok := e.(dict); ok {
				return true
			}
		}
	}
	return false
}

type parser struct {
	s    string
	i    int
	left *int
}

func (p *parser) space() {
	for p.i < len(p.s) {
		r, n := utf8.DecodeRuneInString(p.s[p.i:])
		switch {
		case unicode.IsSpace(r) || r == '\ufeff':
			p.i += n
		case strings.HasPrefix(p.s[p.i:], "//"):
			if e := strings.IndexByte(p.s[p.i:], '\n'); e >= 0 {
				p.i += e
			} else {
				p.i = len(p.s)
			}
		case strings.HasPrefix(p.s[p.i:], "/*"):
			if e := strings.Index(p.s[p.i:], "*/"); e >= 0 {
				p.i += e + 2
			} else {
				p.i = len(p.s)
			}
		default:
			return
		}
	}
}

func (p *parser) value(depth int) (any, bool) {
	p.space()
	if p.i >= len(p.s) || depth > maxDepth {
		return nil, false
	}
	switch c := p.s[p.i]; {
	case c == '{':
		return p.object(depth)
	case c == '[':
		return p.array(depth)
	case p.quote() != "":
		return p.text(), true
	default:
		return p.word()
	}
}

// quote returns the closing quote of the string that begins here, or "".
func (p *parser) quote() string {
	for _, q := range [][2]string{{`"`, `"`}, {`'`, `'`}, {"“", "”"}, {"‘", "’"}, {"`", "`"}} {
		if strings.HasPrefix(p.s[p.i:], q[0]) {
			return q[1]
		}
	}
	return ""
}

func (p *parser) object(depth int) (any, bool) {
	p.i++
	out := dict{}
	for {
		p.space()
		if p.i >= len(p.s) {
			return out, len(out) > 0 // cut off
		}
		switch p.s[p.i] {
		case '}':
			p.i++
			return out, true
		case ',', ';':
			p.i++
			continue
		case ']':
			return out, len(out) > 0
		}
		var key string
		if p.quote() != "" {
			key = p.text()
		} else if key = p.bare(); key == "" {
			return nil, false
		}
		p.space()
		if p.i >= len(p.s) {
			return out, len(out) > 0
		}
		if p.s[p.i] == '=' && strings.HasPrefix(p.s[p.i:], "=>") {
			p.i++
		} else if p.s[p.i] != ':' && p.s[p.i] != '=' {
			return nil, false
		}
		p.i++
		v, ok := p.value(depth + 1)
		if !ok {
			if p.space(); p.i >= len(p.s) {
				return out, len(out) > 0
			}
			if p.s[p.i] == ',' || p.s[p.i] == '}' { // a key without a value
				out[key] = nil
				continue
			}
			return nil, false
		}
		out[key] = v
	}
}

func (p *parser) array(depth int) (any, bool) {
	p.i++
	out := []any{}
	for {
		p.space()
		if p.i >= len(p.s) {
			return out, len(out) > 0
		}
		switch p.s[p.i] {
		case ']':
			p.i++
			return out, true
		case ',':
			p.i++
			continue
		case '}':
			return out, len(out) > 0
		}
		v, ok := p.value(depth + 1)
		if !ok {
			return out, len(out) > 0 && p.i >= len(p.s)
		}
		out = append(out, v)
	}
}

// text reads a string. A quote ends it only where a JSON string could end.
func (p *parser) text() string {
	end := p.quote()
	_, n := utf8.DecodeRuneInString(p.s[p.i:])
	p.i += n
	var b strings.Builder
	for p.i < len(p.s) && *p.left > 0 {
		*p.left--
		switch {
		case p.s[p.i] == '\\' && p.i+1 < len(p.s):
			p.escape(&b)
		case strings.HasPrefix(p.s[p.i:], end):
			p.i += len(end)
			if rest := strings.TrimLeft(p.s[p.i:], " \t\r\n"); rest == "" || strings.ContainsAny(rest[:1], ",:}];=/") {
				return b.String()
			}
			b.WriteString(end)
		default:
			b.WriteByte(p.s[p.i])
			p.i++
		}
	}
	return b.String()
}

func (p *parser) escape(b *strings.Builder) {
	c := p.s[p.i+1]
	p.i += 2
	switch c {
	case 'n':
		b.WriteByte('\n')
	case 't':
		b.WriteByte('\t')
	case 'r', 'b', 'f':
	case 'u':
		if p.i+4 <= len(p.s) {
			if n, err := strconv.ParseUint(p.s[p.i:p.i+4], 16, 32); err == nil {
				b.WriteRune(rune(n))
				p.i += 4
			}
		}
	default:
		b.WriteByte(c)
	}
}

func (p *parser) bare() string {
	start := p.i
	for p.i < len(p.s) {
		r, n := utf8.DecodeRuneInString(p.s[p.i:])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' && r != '.' && r != '#' && r != '$' && r != '+' {
			break
		}
		p.i += n
	}
	return p.s[start:p.i]
}

func (p *parser) word() (any, bool) {
	at := p.i
	w := p.bare()
	switch strings.ToLower(w) {
	case "":
		return nil, false
	case "null", "none", "nil", "undefined", "nan":
		return nil, true
	case "true", "yes":
		return true, true
	case "false", "no":
		return false, true
	}
	if f, err := strconv.ParseFloat(strings.TrimPrefix(w, "#"), 64); err == nil {
		return f, true
	}
	// A bare word stands for itself up to the next comma or bracket.
	for p.i < len(p.s) && !strings.ContainsRune(",}]\n{[:", rune(p.s[p.i])) {
		p.i++
	}
	return strings.TrimSpace(p.s[at:p.i]), true
}
