package native

import (
	"regexp"
	"strings"
	"sync"
	"unicode"

	"github.com/iris-operator/iris/internal/llm"
)

// The volatile block of a user message. It is taken off again when the message
// is replayed, so the end that counts is the last one there is: memory may quote
// the tag, people's text cannot (see fence).
const (
	dynamicOpen  = "<dynamic_context>"
	dynamicClose = "</dynamic_context>"
)

// reserved are the tags that only the runtime writes into a user message.
var reserved = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)<(/?\s*(?:dynamic_context|runtime_notice|unavailable_attachments|dropped_image_attachments|[a-z]+_attachments)\b)`)
})

// header is the start of a line that looks like the head of a message or of a
// runtime notice: "[…]: ", "[date] [name]: ", "[EVENT:…] ".
var header = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^([ \t]*)\[((?:[^\]\n]{1,200}\][ \t]*\[)?[^\]\n]{0,200}\]:|EVENT:|\d{4}-\d\d-\d\d \d\d:\d\d)`)
})

// fence makes a text from outside unable to pass for the runtime's own words: a
// reserved tag loses its bracket, and a line that looks like the head of another
// message gets a backslash. The first line stands behind a head of its own; only
// where event is false may it not look like an event.
func fence(text string, event bool) string {
	text = clean(text)
	if strings.Contains(text, "<") {
		text = reserved().ReplaceAllString(text, "&lt;$1")
	}
	if !strings.Contains(text, "[") {
		return text
	}
	if !event && strings.HasPrefix(strings.TrimLeft(text, " \t\n"), "[EVENT:") {
		text = strings.Replace(text, "[", `\[`, 1)
	}
	at := strings.IndexByte(text, '\n') + 1
	if at == 0 {
		return text
	}
	return text[:at] + header().ReplaceAllString(text[at:], `$1\[$2`)
}

// clean makes text valid UTF-8 with plain line ends: other line separators
// would let a line begin where fence does not look.
func clean(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if strings.ContainsAny(text, "\r\u2028\u2029\u0085\v\f") {
		text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n", "\u0085", "\n", "\v", "\n", "\f", "\n").Replace(text)
	}
	return text
}

// name makes a name from outside fit to stand in brackets.
func name(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '[' || r == ']' || r == '<' || r == '>' || r == unicode.ReplacementChar:
			return -1
		case unicode.IsControl(r) || unicode.IsSpace(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp):
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	return cutRunes(s, 80)
}

// pathLine makes a path fit for a line of an attachment block.
func pathLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(s, "_"))
	return reserved().ReplaceAllString(s, "&lt;$1")
}

// stripDynamic takes the volatile block off the start of a text. The match is
// greedy: the last closing tag ends it.
func stripDynamic(text string) string {
	if !strings.HasPrefix(text, dynamicOpen) {
		return text
	}
	end := strings.LastIndex(text, dynamicClose)
	if end < 0 {
		return text
	}
	return strings.TrimLeft(text[end+len(dynamicClose):], " \t\r\n")
}

// stripped returns a message without its volatile block. m is not changed.
func stripped(m llm.Message) llm.Message {
	if m.Role != llm.User || len(m.Parts) == 0 || !strings.HasPrefix(m.Parts[0].Text, dynamicOpen) {
		return m
	}
	parts := append([]llm.Part(nil), m.Parts...)
	parts[0].Text = stripDynamic(parts[0].Text)
	m.Parts = parts
	return m
}

// cutRunes returns at most n bytes of s, whole runes.
func cutRunes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}
