package agentcli

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

func equalFold(a, b string) bool { return strings.EqualFold(strings.TrimSpace(a), b) }

// oneLine makes a line of any text.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
}

// clip cuts a text to n characters, the last of which then says so.
func clip(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	return strings.TrimRightFunc(string([]rune(s)[:n-1]), unicode.IsSpace) + "…"
}

// quiet is what an agent says when there is nothing to say.
const quiet = "NO_REPLY"

// reply joins the texts of a turn and judges the mark once, on the whole: a last
// line, or a last sentence, that is nothing but the mark is taken off, and what is
// empty then is silent. A sentence that speaks about the mark stays.
func reply(texts []string) (text string, silent bool) {
	var kept []string
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			kept = append(kept, strings.Trim(t, "\n"))
		}
	}
	text = strings.TrimSpace(strings.Join(kept, "\n\n"))
	for {
		rest, ok := cutMark(text)
		if !ok {
			return text, text == ""
		}
		text = rest
	}
}

// cutMark takes one mark off the end.
func cutMark(text string) (rest string, ok bool) {
	bare := strings.TrimRight(text, " \t\n*_`.")
	if len(bare) < len(quiet) || !strings.EqualFold(bare[len(bare)-len(quiet):], quiet) {
		return text, false
	}
	rest = strings.TrimRight(bare[:len(bare)-len(quiet)], "*_`")
	ends := strings.TrimRight(rest, " \t")
	switch {
	case strings.TrimSpace(rest) == "", strings.HasSuffix(ends, "\n"):
	case len(ends) < len(rest) && strings.ContainsAny(ends[len(ends)-1:], ".!?:)") && bare[len(bare)-len(quiet):] == quiet:
	default:
		return text, false
	}
	return strings.TrimSpace(rest), true
}
