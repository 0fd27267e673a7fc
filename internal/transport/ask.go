package transport

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/iris-operator/iris/internal/turn"
)

// An AskButton is one answer to a question, as a platform draws it.
type AskButton struct {
	// Label is what stands on it: one line without markup.
	Label string
	// Yes and Choice are as in Answer.
	Yes    bool
	Choice string
	// Word names the answer in what a platform sends back when it is pressed: "yes",
	// "no", "always", or the number of an option. PressedWord reads it.
	Word string
}

// maxPicks is how many options are drawn as buttons; what a platform holds at the
// least. Others are answered in words.
const maxPicks = 20

// Words of buttons. An option is its number.
const (
	wordYes    = "yes"
	wordNo     = "no"
	wordAlways = "always"
)

// AskButtons are the answers that people may press. Where several options may be
// picked there are none of them: those are answered in words.
func AskButtons(a *turn.Ask) []AskButton {
	if len(a.Options) > 0 {
		var all []AskButton
		if !a.Many {
			for i, o := range a.Options[:min(len(a.Options), maxPicks)] {
				n := strconv.Itoa(i + 1)
				all = append(all, AskButton{Label: label(o.Label, n), Yes: true, Choice: "#" + n, Word: n})
			}
		}
		return append(all, AskButton{Label: "No answer", Word: wordNo})
	}
	if a.Tool == "" {
		return []AskButton{{Label: "Approve once", Yes: true, Word: wordYes}, {Label: "Decline", Word: wordNo}}
	}
	all := []AskButton{{Label: "Allow once", Yes: true, Word: wordYes}}
	if a.Always {
		all = append(all, AskButton{Label: "Allow for this session", Yes: true, Choice: "always", Word: wordAlways})
	}
	return append(all, AskButton{Label: "Deny", Word: wordNo})
}

// PressedWord reads the word of a button. Whether the question has such an answer
// is for who keeps it to say.
func PressedWord(word string) (yes bool, choice string, ok bool) {
	switch word {
	case wordYes:
		return true, "", true
	case wordNo:
		return false, "", true
	case wordAlways:
		return true, "always", true
	}
	if n, err := strconv.Atoi(word); err == nil && n > 0 && n <= maxPicks && word == strconv.Itoa(n) {
		return true, "#" + word, true
	}
	return false, "", false
}

// AskText is a question as Markdown: what is asked, and its options.
func AskText(a *turn.Ask) string {
	text := strings.TrimSpace(a.Text)
	if len(a.Options) == 0 {
		return text
	}
	var b strings.Builder
	b.WriteString(text + "\n\n")
	for i, o := range a.Options {
		fmt.Fprintf(&b, "%d. **%s**", i+1, plainLine(o.Label))
		if about := plainLine(o.About); about != "" {
			b.WriteString(" " + about)
		}
		b.WriteString("\n")
	}
	if a.Many {
		b.WriteString("\nMore than one may be picked: say their numbers, as in “1, 2”, or answer in your own words.")
	} else {
		b.WriteString("\nOr answer in your own words.")
	}
	return b.String()
}

// label is what fits on a button.
func label(s, otherwise string) string {
	if s = strings.Join(strings.Fields(s), " "); s == "" {
		return otherwise
	}
	return Button{Label: s}.Cut()
}

// plainLine is text in one line whose signs are no markup.
func plainLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("*_`[]<>|", r) {
			return -1
		}
		return r
	}, s)
}
