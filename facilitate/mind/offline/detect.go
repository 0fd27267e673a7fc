package offline

import (
	"strings"
	"unicode"

	"github.com/iris-operator/iris/facilitate/room"
)

// has reports whether the words of s contain one of the phrases.
func has(s string, phrases ...string) bool {
	s = " " + room.Norm(s) + " "
	for _, p := range phrases {
		if strings.Contains(s, " "+p+" ") {
			return true
		}
	}
	return false
}

// Asks reports whether a line asks the group something.
func Asks(s string) bool {
	if strings.Contains(s, "?") {
		return true
	}
	w := room.Words(s)
	return len(w) > 2 && strings.Contains(" who what when where which why how should shall ", " "+w[0]+" ")
}

// starts are how proposals begin; what follows is the proposal.
var starts = []string{"i propose that we ", "i propose we ", "i propose to ", "i propose ", "i suggest we ", "i suggest ", "my proposal is ", "my proposal: ", "proposal: ", "how about we ", "how about ", "what about ", "why don't we ", "let's just ", "let's ", "we could ", "we should ", "i'd go for ", "i vote for ", "i would go for "}

// Proposes returns what a line proposes, or "".
func Proposes(s string) string {
	low := strings.ToLower(strings.ReplaceAll(s, "’", "'"))
	if len(low) != len(s) { // lower case or the quote changed the length
		s = low
	}
	for _, p := range starts {
		if i := strings.Index(low, p); i >= 0 && (i == 0 || !unicode.IsLetter(rune(low[i-1]))) {
			rest := s[i+len(p):]
			if e := strings.IndexAny(rest, ".?!;\n"); e >= 0 {
				rest = rest[:e]
			}
			if len(room.Words(rest)) > 0 && !room.Settles(s) {
				return strings.TrimSpace(rest)
			}
		}
	}
	return ""
}

// Objects reports whether a line stands against something.
func Objects(s string) bool {
	return has(s, "i disagree", "i object", "i m against", "i am against", "no way", "that won t work", "won t work", "can t do", "i can t", "not ok with", "not okay with", "unacceptable", "out of the question", "i don t like", "i don t want", "too expensive", "too late", "too early")
}

// Softens reports whether a line gives way.
func Softens(s string) bool {
	return has(s, "could live with", "can live with", "maybe", "fair point", "you re right", "i see", "if that helps", "willing to", "open to")
}

// Claims reports whether somebody takes something on.
func Claims(s string) bool {
	return has(s, "i ll do", "i ll take", "i can do", "i can take", "i will do", "i will take", "i ll write", "i ll bring", "i ll handle", "i take it", "i got this", "count me in", "i volunteer", "i ll join", "i m in", "leave it to me")
}

// Finishes reports whether somebody reports work as done.
func Finishes(s string) bool {
	return has(s, "is done", "done with", "i finished", "finished the", "completed", "shipped", "merged")
}

// Addressed reports whether a line asks Iris.
func Addressed(s string) bool {
	w := room.Words(s)
	if len(w) == 0 || !has(s, "iris") {
		return false
	}
	return Asks(s) || w[0] == "iris"
}

// Specific reports whether a private reply pins something down: a digit, or at
// least four words.
func Specific(s string) bool {
	return strings.ContainsFunc(s, unicode.IsDigit) || len(room.Words(s)) >= 4
}

func need(s string) string {
	for _, p := range []string{"i need ", "i want ", "important to me is ", "what matters to me is ", "because "} {
		if i := strings.Index(strings.ToLower(s), p); i >= 0 && i+len(p) < len(s) {
			return strings.TrimSpace(s[i+len(p):])
		}
	}
	return ""
}

func trimEnd(s string) string {
	return strings.TrimRightFunc(strings.Join(strings.Fields(s), " "), func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSpace(r) })
}

func join(of []string) string {
	switch len(of) {
	case 0:
		return "nothing yet"
	case 1:
		return of[0]
	}
	return strings.Join(of[:len(of)-1], ", ") + " and " + of[len(of)-1]
}
