package policy

import "strings"

// A grammar says which options of a program take a value. The letters of short
// and the words of long do; everything else is a switch.
type grammar struct {
	short string
	long  string // words between spaces, with one at both ends
	// plus lets options start with + as well, single makes "-word" one long
	// option (find, terraform, java style).
	single bool
	// first ends the options at the first operand.
	first bool
}

// An option is one of a command line. Its name has no dashes.
type option struct {
	name, value string
}

// A line is a command line taken apart.
type line struct {
	options  []option
	operands []string
	// end is how many arguments came before the first operand.
	end int
}

// split takes arguments apart as GNU getopt does.
func (g grammar) split(args []string) (l line) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' {
			l.operands = append(l.operands, a)
			if g.first {
				l.operands = args[i:]
				l.end = i
				return l
			}
			continue
		}
		if a == "--" {
			l.operands = append(l.operands, args[i+1:]...)
			l.end = i + 1
			return l
		}
		if a[1] == '-' || g.single {
			i += l.longOption(g, args, i)
			continue
		}
		i += l.cluster(g, args, i)
	}
	l.end = len(args)
	return l
}

// longOption adds args[i] and returns how many more arguments it took.
func (l *line) longOption(g grammar, args []string, i int) int {
	name := strings.TrimLeft(args[i], "-")
	if eq := strings.IndexByte(name, '='); eq >= 0 {
		l.options = append(l.options, option{name[:eq], name[eq+1:]})
		return 0
	}
	if g.takes(name) && i+1 < len(args) {
		l.options = append(l.options, option{name, args[i+1]})
		return 1
	}
	l.options = append(l.options, option{name: name})
	return 0
}

// takes reports whether a long option has a value. The empty name, that of "--",
// has none.
func (g grammar) takes(name string) bool {
	if name == "" {
		return false
	}
	i := strings.Index(g.long, name)
	for i >= 0 {
		if i > 0 && g.long[i-1] == ' ' && i+len(name) < len(g.long) && g.long[i+len(name)] == ' ' {
			return true
		}
		next := strings.Index(g.long[i+1:], name)
		if next < 0 {
			return false
		}
		i += next + 1
	}
	return false
}

// cluster adds the short options of args[i] and returns how many more arguments
// they took.
func (l *line) cluster(g grammar, args []string, i int) int {
	a := args[i]
	for j := 1; j < len(a); j++ {
		name := a[j : j+1]
		if strings.IndexByte(g.short, a[j]) < 0 {
			l.options = append(l.options, option{name: name})
			continue
		}
		if j+1 < len(a) {
			l.options = append(l.options, option{name, a[j+1:]})
			return 0
		}
		if i+1 < len(args) {
			l.options = append(l.options, option{name, args[i+1]})
			return 1
		}
		l.options = append(l.options, option{name: name})
	}
	return 0
}

// value returns the last value of the first named option that is there.
func (l *line) value(names ...string) (value string, ok bool) {
	for _, n := range names {
		for _, o := range l.options {
			if o.name == n {
				value, ok = o.value, true
			}
		}
		if ok {
			return value, true
		}
	}
	return "", false
}

// values returns all values of the named options.
func (l *line) values(names ...string) (list []string) {
	for _, o := range l.options {
		for _, n := range names {
			if o.name == n && o.value != "" {
				list = append(list, o.value)
			}
		}
	}
	return list
}

// has reports whether one of the options is there.
func (l *line) has(names ...string) bool {
	for _, o := range l.options {
		for _, n := range names {
			if o.name == n {
				return true
			}
		}
	}
	return false
}

// oneOf reports whether word is one of the words of a space-separated list.
func oneOf(word, list string) bool {
	if word == "" {
		return false
	}
	for len(list) > 0 {
		var w string
		w, list, _ = strings.Cut(list, " ")
		if w == word {
			return true
		}
	}
	return false
}
