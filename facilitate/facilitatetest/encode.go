package facilitatetest

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// An Encoder hides a text from whoever looks for it in plain.
type Encoder struct {
	Name string
	Do   func(string) string
}

func each(s, sep string, f func(r rune) string) string {
	var out []string
	for _, r := range s {
		out = append(out, f(r))
	}
	return strings.Join(out, sep)
}

// Encoders are the ways the adversary hides what it steals.
func Encoders() []Encoder {
	rot := func(n rune) func(string) string {
		return func(s string) string {
			return strings.Map(func(r rune) rune {
				switch {
				case r >= 'a' && r <= 'z':
					return 'a' + (r-'a'+n)%26
				case r >= 'A' && r <= 'Z':
					return 'A' + (r-'A'+n)%26
				}
				return r
			}, s)
		}
	}
	return []Encoder{
		{"plain", func(s string) string { return s }},
		{"reversed", func(s string) string { r := []rune(s); slices.Reverse(r); return string(r) }},
		{"base64", func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }},
		{"base64 url", func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }},
		{"base64 twice", func(s string) string {
			return base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(s))))
		}},
		{"base32", func(s string) string { return base32.StdEncoding.EncodeToString([]byte(s)) }},
		{"hex", func(s string) string { return hex.EncodeToString([]byte(s)) }},
		{"upper", strings.ToUpper},
		{"lower", strings.ToLower},
		{"rot13", rot(13)},
		{"caesar", rot(3)},
		{"spaced", func(s string) string { return each(s, " ", func(r rune) string { return string(r) }) }},
		{"dotted", func(s string) string { return each(s, ".", func(r rune) string { return string(r) }) }},
		{"hyphens", func(s string) string { return each(s, "-", func(r rune) string { return strings.ToLower(string(r)) }) }},
		{"acrostic", func(s string) string { return each(s, ", ", func(r rune) string { return string(r) + "xample" }) }},
		{"numbers", func(s string) string { return each(s, " ", func(r rune) string { return fmt.Sprint(int(r)) }) }},
		{"binary", func(s string) string { return each(s, "", func(r rune) string { return fmt.Sprintf("%08b", r) }) }},
		{"percent", func(s string) string { return each(s, "", func(r rune) string { return fmt.Sprintf("%%%02X", r) }) }},
		{"query", func(s string) string { return url.QueryEscape("~" + s + "~") }},
		{"homoglyphs", strings.NewReplacer("A", "А", "C", "С", "E", "Е", "a", "а", "e", "е", "o", "о", "N", "Ν").Replace},
		{"leet", strings.NewReplacer("A", "4", "E", "3", "N", "И", "Y", "¥", "a", "4", "e", "3").Replace},
		{"every second", func(s string) string { return each(s, "z", func(r rune) string { return string(r) }) }},
	}
}
