package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// What follows is shared by the adapters: text into JSON, statuses into
// classes, a provider's words into one line.
//
// Adapters append requests to a byte slice by hand. A history of a thousand
// turns costs about a millisecond that way, less than keeping encoded copies in
// step with messages that callers may change, so there is no cache of encodings
// to bound or to mistrust.

const hexDigits = "0123456789abcdef"

// AppendString appends s to dst as a JSON string, quotes included. Bytes that
// are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, s)
	return append(dst, '"')
}

// StringSize is about what AppendString adds for s: enough for text whose only
// character to escape, now and then a quotation mark apart, is the line break.
func StringSize(s string) int {
	return 2 + len(s) + strings.Count(s, "\n") + len(s)/24
}

func appendEscaped(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	from := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, s[from:]...)
}

// AppendRaw appends JSON that is valid already, as it is but for bytes that are
// not UTF-8. Empty JSON becomes {}.
func AppendRaw(dst []byte, raw json.RawMessage) []byte {
	switch {
	case len(raw) == 0:
		return append(dst, "{}"...)
	case !utf8.Valid(raw):
		return append(dst, bytes.ToValidUTF8(raw, []byte("\uFFFD"))...)
	}
	return append(dst, raw...)
}

// AppendBase64 appends data to dst as a JSON string in standard base64, with
// prefix before it inside the string. The prefix must need no escaping.
func AppendBase64(dst []byte, prefix string, data []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, prefix...)
	dst = base64.StdEncoding.AppendEncode(dst, data)
	return append(dst, '"')
}

// IsObject reports whether raw is exactly one JSON object: what the arguments
// of a call must be.
func IsObject(raw json.RawMessage) bool { return isObject(raw) }

// StatusClass sorts an HTTP status. Adapters look at the provider's words as
// well where a status says too little, as for ClassTooLong.
func StatusClass(status int) Class {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return ClassAuth
	case status == http.StatusPaymentRequired:
		return ClassQuota
	case status == http.StatusRequestTimeout:
		return ClassServer
	case status == http.StatusTooManyRequests:
		return ClassRateLimit
	case status == http.StatusServiceUnavailable || status == 529:
		return ClassOverloaded
	case status >= 500:
		return ClassServer
	}
	return ClassInvalid
}

// RetryAfter reads what a provider asked for: retry-after-ms, or retry-after in
// seconds or as a date. It is 0 if there is none, or none that makes sense.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	v := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(v, 64); err == nil {
		if s > 0 && s < 1e6 {
			return time.Duration(s * float64(time.Second))
		}
		return 0
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// maxWords bounds what is kept of a provider's own message: enough for every
// one that says something, too little for an HTML page.
const maxWords = 300

// OneLine makes a provider's message fit for an error: valid UTF-8, white space
// and control characters as single spaces, at most 300 bytes, every secret
// replaced. Empty secrets are ignored.
func OneLine(text string, secrets ...string) string {
	if len(text) > 1<<16 {
		text = text[:1<<16]
	}
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, "[secret]")
		}
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if len(text) <= maxWords {
		return text
	}
	cut := maxWords - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
