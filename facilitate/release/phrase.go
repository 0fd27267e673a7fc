package release

import (
	"strings"
	"unicode"
)

// An Answer is what a whole message says to an open question.
type Answer uint8

// The answers. None is everything that is not on the list.
const (
	None Answer = iota
	Yes
	No
)

// yes is closed on purpose: hedges, conditions, sarcasm and half sentences are
// not on it, and a message must match as a whole. Words that also end a
// conversation ("ok", "fine", "sure") are left out: they do not name what is
// agreed to.
var yes = list(`
yes|yes please|yes share it|yes please share it|yes you can share it|yes you may share it|yes you can share that|yes you may share that
yes share that|yes go ahead|yes go ahead and share it|yes you may|yes you can|yes say it|yes tell them|yes tell the room|yes post it
yes i agree|yes i consent|i agree|i consent|i consent to this|i consent to sharing it|i agree to share it
share it|please share it|share it please|go ahead|go ahead and share it|go ahead share it|please go ahead|you can share it|you may share it
you can share that|you may share that|you can say that|you may say that|you can tell them|you may tell them|feel free to share it|post it|tell them
yes with these words|yes in these words|yes exactly like that|share it as written|yes as written|share it exactly as written
ja|ja bitte|ja gerne|ja teil es|oui|oui partage le|si|sí|sí compártelo|sim|да|はい|是`)

var no = list(`
no|no thanks|no thank you|no please dont|no dont|no do not|no dont share it|no do not share it|dont share it|do not share it|please dont share it|please do not share it
please dont|please do not|do not|dont|dont share this|do not share this|please do not share this|please dont share this|keep it private|keep it between us|keep this between us
not now|not yet|rather not|id rather not|i would rather not|never|no way|absolutely not|nein|nein danke|non|não|nie|нет|いいえ|不`)

func list(s string) map[string]bool {
	out := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(s), "\n") {
		for _, p := range strings.Split(line, "|") {
			out[p] = true
		}
	}
	return out
}

// Read says what the whole message answers. A question mark makes it None.
// Case, spaces, a final stop and commas do not matter.
func Read(message string) Answer {
	if len(message) > 80 {
		return None
	}
	var b strings.Builder
	for _, r := range strings.ToLower(strings.TrimSpace(message)) {
		switch {
		case r == '?' || r == '¿' || r == '"' || r == '(' || r == '…' || r == '*' || r == ':' || r == ';' || r == '/' || r == '-':
			return None
		case r == '\'' || r == '’' || r == '.' || r == '!' || r == ',':
			if r == ',' {
				b.WriteRune(' ')
			}
		case unicode.IsSpace(r):
			b.WriteRune(' ')
		default:
			b.WriteRune(r)
		}
	}
	if strings.Contains(message, "..") {
		return None
	}
	s := strings.Join(strings.Fields(b.String()), " ")
	switch {
	case yes[s]:
		return Yes
	case no[s]:
		return No
	}
	return None
}
