package systemd

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// A unitText is the text of a unit file while it is put together. Its methods are
// the only way to add a line, and each kind of value has its own quoting.
// EnvironmentFile= cannot be added: systemd merges such a file last, so that it
// would silently bring back whatever the parent's .env holds, chat tokens
// included.
type unitText struct {
	b   strings.Builder
	err error
}

// setting is what the name of a directive looks like.
var setting = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Z][A-Za-z]*$`)
})

// forbidden are directives that would let in what the unit does not say.
var forbidden = map[string]bool{"EnvironmentFile": true, "PassEnvironment": true}

func (u *unitText) fail(format string, args ...any) {
	if u.err == nil {
		u.err = fmt.Errorf(format, args...)
	}
}

func (u *unitText) section(name string) {
	if u.b.Len() > 0 {
		u.b.WriteByte('\n')
	}
	u.b.WriteString("[" + name + "]\n")
}

// line adds a directive whose value is quoted already. A value with a line end
// would be a second directive, one with a backslash at its end would swallow the
// next.
func (u *unitText) line(key, value string) {
	switch {
	case forbidden[key]:
		u.fail("%s= is not for the unit of an agent", key)
	case !setting().MatchString(key):
		u.fail("%q is no directive", key)
	case strings.ContainsFunc(value, control) || strings.HasSuffix(value, `\`):
		u.fail("the value of %s= cannot be written into a unit", key)
	}
	u.b.WriteString(key + "=" + value + "\n")
}

func control(c rune) bool { return c < 0x20 || c == 0x7f }

// text adds what is for people: on one line, and nothing in it means anything.
func (u *unitText) text(key, value string) {
	value = strings.Map(func(c rune) rune {
		if control(c) {
			return ' '
		}
		return c
	}, value)
	u.line(key, percent(strings.TrimRight(strings.Join(strings.Fields(value), " "), `\`)))
}

// path adds a file name that systemd takes to the end of the line.
func (u *unitText) path(key, prefix, path string) {
	if strings.ContainsAny(path, "\\\"'") || strings.TrimSpace(path) != path || !strings.HasPrefix(path, "/") {
		u.fail("%s=: %q cannot be a path in a unit", key, path)
	}
	u.line(key, prefix+percent(path))
}

// words adds a list, each of its words quoted.
func (u *unitText) words(key string, words ...string) {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = quote(w)
	}
	u.line(key, strings.Join(quoted, " "))
}

// environ adds a variable.
func (u *unitText) environ(name, value string) { u.words("Environment", name+"="+value) }

// command adds a command line: no shell, no variables.
func (u *unitText) command(key string, words ...string) {
	if len(words) == 0 || !strings.HasPrefix(words[0], "/") {
		u.fail("%s= needs the absolute path of a program", key)
		return
	}
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = strings.ReplaceAll(quote(w), "$", "$$")
	}
	u.line(key, strings.Join(quoted, " "))
}

// finish returns the text, or the first thing that went wrong.
func (u *unitText) finish() ([]byte, error) {
	if u.err != nil {
		return nil, u.err
	}
	return []byte(u.b.String()), nil
}

// percent keeps systemd from expanding specifiers.
func percent(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// quote writes a word so that systemd reads it back as it is.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '%':
			b.WriteString("%%")
		case c < 0x20 || c == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
