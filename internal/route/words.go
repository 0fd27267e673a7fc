package route

import (
	"strings"

	"github.com/iris-operator/iris/internal/transport"
)

// ParseCommand reads a whole message as a command: stop, compact, reset (or
// clear), help, verbose [on|off|status], each with an optional leading slash
// and in any case. The argument of verbose is "status" when there is none; the
// other verbs take none, and a message that says more is no command.
func ParseCommand(text string) (verb transport.Verb, argument string, ok bool) {
	words := strings.Fields(strings.ToLower(text))
	if len(words) == 0 || len(words) > 2 {
		return "", "", false
	}
	verb = transport.Verb(strings.TrimPrefix(words[0], "/"))
	if verb == transport.Verbose {
		if len(words) == 1 {
			return verb, "status", true
		}
		switch words[1] {
		case "on", "off", "status":
			return verb, words[1], true
		}
		return "", "", false
	}
	if len(words) > 1 {
		return "", "", false
	}
	switch verb {
	case transport.Stop, transport.Compact, transport.Reset, transport.Help:
		return verb, "", true
	case "clear":
		return transport.Reset, "", true
	}
	return "", "", false
}

// Mention reads "@name query", "@name: query" or "@name, query" at the very
// start of the trimmed text. Names are ASCII letters, digits, _ and -, compared
// without case; the registry's spelling is returned. Without a query the whole
// text is the query. A name that is not in agents is no mention.
func Mention(text string, agents []string) (name, query string, ok bool) {
	text = strings.TrimSpace(text)
	rest, at := strings.CutPrefix(text, "@")
	n := 0
	for n < len(rest) && word(rest[n]) {
		n++
	}
	if !at || n == 0 {
		return "", "", false
	}
	called, rest := rest[:n], rest[n:]
	after := strings.TrimLeft(rest, " \t\r\n")
	switch {
	case strings.HasPrefix(rest, ":"), strings.HasPrefix(rest, ","):
		after = strings.TrimSpace(rest[1:])
	case rest != "" && after == rest:
		return "", "", false // "@name.example" is something else
	}
	for _, a := range agents {
		if strings.EqualFold(a, called) {
			if after == "" {
				after = text
			}
			return a, after, true
		}
	}
	return "", "", false
}

func word(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}
