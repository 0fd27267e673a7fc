package room

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/iris-operator/iris/facilitate/principal"
)

// clip bounds s to n bytes at a rune and drops what does not print.
func clip(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
	s = strings.TrimSpace(s)
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimSpace(s[:n])
}

// line is clip for what has to stay on one line.
func line(s string, n int) string { return clip(strings.Join(strings.Fields(s), " "), n) }

// Words returns the words of s, lower case.
func Words(s string) []string {
	return strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// Norm is s as it is compared: its words, lower case.
func Norm(s string) string { return strings.Join(Words(s), " ") }

func content(s string) (out []string) {
	for _, w := range Words(s) {
		if !strings.Contains(" the a an and or of to in on at for with is are be we us our it this that do not no ", " "+w+" ") {
			out = append(out, w)
		}
	}
	return out
}

// Grounded reports whether at least half of the words that matter in s occur
// in lines.
func Grounded(s string, lines []Message) bool {
	have := map[string]bool{}
	for _, m := range lines {
		for _, w := range Words(m.Text) {
			have[w] = true
		}
	}
	want, hit := content(s), 0
	for _, w := range want {
		if have[w] {
			hit++
		}
	}
	return len(want) > 0 && hit*2 >= len(want)
}

// Settles reports whether a line says that the group has decided.
func Settles(s string) bool {
	return contains(s, "agreed", "we agree", "decided", "settled", "lets go with", "let s go with", "go with", "going with", "we ll do", "we do it", "final", "deal", "all in favour", "consensus", "works for everyone", "einverstanden", "beschlossen")
}

// Withdraws reports whether a line takes something back.
func Withdraws(s string) bool {
	return contains(s, "withdraw", "take back", "retract", "drop it", "drop my", "i drop", "scrap", "forget my", "never mind", "nevermind", "no longer propose", "ziehe zurück")
}

func contains(s string, phrases ...string) bool {
	s = " " + Norm(s) + " "
	for _, p := range phrases {
		if strings.Contains(s, " "+p+" ") {
			return true
		}
	}
	return false
}

// alike is the trigram similarity of two labels, 0 to 1.
func alike(a, b string) float64 {
	a, b = Norm(a), Norm(b)
	if a == b {
		return 1
	}
	x, y := trigrams(a), trigrams(b)
	both := 0
	for t := range x {
		if y[t] {
			both++
		}
	}
	if len(x)+len(y) == 0 {
		return 0
	}
	return 2 * float64(both) / float64(len(x)+len(y))
}

func trigrams(s string) map[string]bool {
	r := []rune("  " + s + " ")
	out := map[string]bool{}
	for i := 0; i+3 <= len(r); i++ {
		out[string(r[i:i+3])] = true
	}
	return out
}

// Slug makes an item id out of a label.
func Slug(s string) string {
	var b strings.Builder
	for _, w := range Words(s) {
		for _, r := range w {
			if r < 128 {
				b.WriteRune(r)
			}
		}
		b.WriteByte('-')
		if b.Len() > 40 {
			break
		}
	}
	out := strings.Trim(b.String(), "-")
	if len(out) > 48 {
		out = strings.Trim(out[:48], "-")
	}
	if !principal.Valid(out) {
		return ""
	}
	return out
}
