package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Values longer than segmentFrom are searched in segments of about segment
// bytes, so that a part of a long key is found too and a stream need not hold
// back much.
const (
	segmentFrom = 2048
	segment     = 1020
)

// lineLength is the length from which a line of a value counts by itself: keys
// of several lines are shown indented, numbered or one by one.
const lineLength = 16

// forms returns the texts in which a value is found. All have at least minLength
// bytes.
func forms(value string) []string {
	var all []string
	seen := map[string]bool{}
	add := func(list ...string) {
		for _, f := range list {
			if len(f) >= minLength && !seen[f] {
				seen[f] = true
				all = append(all, f)
			}
		}
	}
	for _, part := range segments(value) {
		add(part)
		add(escaped(part)...)
		add(shell(part)...)
		add(percent(part)...)
		add(html.EscapeString(part), strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(part))
		h := hex.EncodeToString([]byte(part))
		add(h, strings.ToUpper(h))
		add(base64Forms(part)...)
	}
	if len(value) > wrapFrom {
		add(base64Lines(value, 76)...)
		add(base64Lines(value, 64)...)
	}
	if strings.Contains(value, "\n") {
		add(strings.ReplaceAll(value, "\n", "\r\n"))
		for line := range strings.SplitSeq(value, "\n") {
			line = strings.TrimSpace(line)
			// A header says what something is and not what is in it.
			if len(line) >= lineLength && !strings.ContainsAny(line, " \t") && !strings.HasPrefix(line, "-----") {
				add(line)
			}
		}
	}
	return all
}

// segments cuts a long value between characters. No segment is shorter than half
// of the others.
func segments(value string) []string {
	var list []string
	for len(value) > segmentFrom {
		n := segment
		for n > segment-utf8.UTFMax && !utf8.RuneStart(value[n]) {
			n--
		}
		list = append(list, value[:n])
		value = value[n:]
	}
	return append(list, value)
}

// escaped are the insides of string literals: JSON with and without the escapes
// for HTML and for what is not ASCII, and Go's, which logs use.
func escaped(s string) []string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	var list []string
	if err := enc.Encode(s); err == nil {
		plain := strings.TrimSuffix(strings.TrimSuffix(b.String(), "\n"), `"`)[1:]
		list = append(list, plain, strings.ReplaceAll(plain, "/", `\/`), ascii(plain), escapedTwice(plain))
	}
	if data, err := json.Marshal(s); err == nil {
		list = append(list, string(data[1:len(data)-1]))
	}
	for _, q := range []string{strconv.Quote(s), strconv.QuoteToASCII(s)} {
		list = append(list, q[1:len(q)-1])
	}
	return list
}

// escapedTwice is JSON inside of JSON.
func escapedTwice(plain string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(plain)
}

// ascii writes what is not ASCII as \uXXXX, as Python does.
func ascii(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			b.WriteRune(r)
		case r > 0xFFFF:
			r -= 0x10000
			b.WriteString(unit(0xD800+r>>10) + unit(0xDC00+r&0x3FF))
		default:
			b.WriteString(unit(r))
		}
	}
	return b.String()
}

func unit(r rune) string {
	h := strconv.FormatInt(int64(r), 16)
	return `\u` + strings.Repeat("0", 4-len(h)) + h
}

// shell are the quotings of shells: inside of single quotes, inside of double
// quotes, with backslashes, and $'…'.
func shell(s string) []string {
	var slashed strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf && !plainInShell(byte(r)) {
			slashed.WriteByte('\\')
		}
		slashed.WriteRune(r)
	}
	return []string{
		strings.ReplaceAll(s, "'", `'\''`), strings.ReplaceAll(s, "'", `'"'"'`),
		strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(s),
		slashed.String(),
		strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(s),
		octal(s),
	}
}

// octal is $'…' as bash's printf %q and ls -b write it: with \ooo for what is
// no printable ASCII.
func octal(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\\' || c == '\'':
			b.WriteString(`\` + string(rune(c)))
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\r':
			b.WriteString(`\r`)
		case c < ' ' || c >= 0x7f:
			o := strconv.FormatInt(int64(c), 8)
			b.WriteString(`\` + strings.Repeat("0", 3-len(o)) + o)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func plainInShell(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || strings.IndexByte("_-./+,:@%=", c) >= 0
}

// percent are the encodings of URLs: a query's, a path's, a browser's
// encodeURIComponent, every byte; with capitals and without.
func percent(s string) []string {
	query := url.QueryEscape(s)
	browser := strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(query)
	every := strings.Builder{}
	for _, h := range []byte(s) {
		every.WriteString("%" + strings.ToUpper(hex.EncodeToString([]byte{h})))
	}
	list := []string{query, strings.ReplaceAll(query, "+", "%20"), url.PathEscape(s), browser, every.String()}
	for _, f := range list[:len(list):len(list)] {
		list = append(list, lowerEscapes(f))
	}
	return list
}

// lowerEscapes turns %AB into %ab.
func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:i+3], strings.ToLower(s[i+1:i+3]))
			i += 2
		}
	}
	return string(b)
}

// base64Forms are the characters of a base64 text that depend on the value
// alone, for the three places at which it may begin in a group of three bytes;
// with or without padding is the same.
func base64Forms(s string) []string {
	var list []string
	for before := range 3 {
		data := append(make([]byte, before), s...)
		from, to := (before*8+5)/6, len(data)*8/6
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			list = append(list, enc.EncodeToString(data)[from:to])
		}
		if len(s) <= wrapFrom {
			list = append(list, wrapped(base64.RawStdEncoding.EncodeToString(data)[from:to])...)
		}
	}
	return list
}

// wrapFrom is the length from which a value is searched in wrapped base64 only
// where that begins with it: every other place would take a megabyte.
const wrapFrom = 512

// wrapped is a base64 text with the line breaks of programs that fill lines of 76
// or 64 characters, wherever in a line it begins.
func wrapped(s string) []string {
	var list []string
	for first := 1; first < min(len(s), 77); first++ {
		list = append(list, wrap(s, first, 76))
		if first <= 64 && len(s) > first+64 {
			list = append(list, wrap(s, first, 64))
		}
	}
	return list
}

// base64Lines is a long value in base64 that begins with it, in filled lines, some
// lines at a time.
func base64Lines(s string, width int) []string {
	const some = 16
	text := base64.RawStdEncoding.EncodeToString([]byte(s))
	lines := strings.Split(wrap(text[:len(s)*8/6], width, width), "\n")
	var list []string
	for len(lines) > some+1 { // the last line may be too short to stand alone
		list = append(list, strings.Join(lines[:some], "\n"))
		lines = lines[some:]
	}
	return append(list, strings.Join(lines, "\n"))
}

// wrap breaks s after first characters and from there on after every width.
func wrap(s string, first, width int) string {
	var b strings.Builder
	for n := first; len(s) > n; n = width {
		b.WriteString(s[:n] + "\n")
		s = s[n:]
	}
	return b.String() + s
}
