// Package mrkdwn turns Markdown as models write it into Slack's mrkdwn, in
// pieces that Slack takes. It is pure. What it writes is well-formed by
// construction: & < > are escaped, fences are balanced in every piece, and
// nobody is mentioned. It knows neither blocks nor the Web API (package slack).
//
// Slack has no way to write some things: a code span with a backtick in it is
// shown without its marks, and three backticks that are no fence are held apart
// by characters nobody sees.
package mrkdwn

import (
	"strings"
	"unicode/utf16"
)

// A Piece is one message.
type Piece struct {
	// Text is mrkdwn, Source the Markdown it was made of.
	Text, Source string
}

// minLimit is the smallest piece that is made; Slack's limits are far larger.
const minLimit = 64

// Length counts as Slack does.
func Length(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// Escape makes text stand for itself.
func Escape(s string) string { return apart(escaper().Replace(s)) }

func escaper() *strings.Replacer {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "\x00", "\uFFFD")
}

// apart holds backticks apart that would be a fence.
func apart(s string) string {
	for strings.Contains(s, "```") {
		s = strings.ReplaceAll(s, "```", "`\u200b`\u200b`")
	}
	return s
}

// Render turns Markdown into pieces of at most limit characters, counted after
// escaping. They hold the whole text, in order; a code block that does not fit
// goes on in a fence of its own. There is no piece for a text without content.
func Render(source string, limit int) []Piece { return pieces(source, limit, one) }

// Plain is Render without any formatting.
func Plain(source string, limit int) []Piece {
	return pieces(source, limit, func(s string) string { return Escape(strings.Trim(s, "\n")) })
}

func pieces(source string, limit int, render func(string) string) []Piece {
	limit = max(limit, minLimit)
	source = strings.ToValidUTF8(strings.ReplaceAll(source, "\r\n", "\n"), "\uFFFD")
	var all []Piece
	for strings.TrimSpace(source) != "" {
		head, text, rest := cut(source, limit, render)
		if strings.TrimSpace(text) != "" {
			all = append(all, Piece{Text: text, Source: head})
		} else if len(all) > 0 {
			all[len(all)-1].Source += head
		}
		source = rest
	}
	return all
}
