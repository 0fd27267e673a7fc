package policy

import (
	"slices"
	"strconv"
	"strings"
)

// A binding is a variable with the values it may have.
type binding struct {
	name string
	alts []string
	list []string // of an array, instead of alts
	keys []string // of an associative array, beside list
	kind bindKind
	// exported variables reach the shells that are started.
	exported bool
}

type bindKind uint8

const (
	scalar bindKind = iota
	array
	assoc
	gone // unset on purpose
)

// someHome is a home directory that nobody has named, here or elsewhere.
const someHome = "/~"

// find returns the binding of a variable.
func (s *shell) find(name string) *binding {
	for i := range s.vars {
		if s.vars[i].name == name {
			return &s.vars[i]
		}
	}
	return nil
}

// environ looks a name up in the child's environment.
func (s *shell) environ(name string) (string, bool) {
	if s.foreign {
		return "", false
	}
	for i := len(s.r.env) - 1; i >= 0; i-- {
		e := s.r.env[i]
		if len(e) > len(name) && e[len(name)] == '=' && e[:len(name)] == name {
			return bare(e[len(name)+1:]), true
		}
	}
	return "", false
}

// shellSets are variables that bash sets by itself.
const shellSets = "BASH BASHPID BASH_VERSION BASHOPTS SHELLOPTS EUID UID HOSTNAME HOSTTYPE OSTYPE MACHTYPE RANDOM SRANDOM SECONDS LINENO EPOCHSECONDS EPOCHREALTIME SHLVL PATH OPTIND PS4 TERM REPLY _ FUNCNAME PIPESTATUS GROUPS DIRSTACK BASH_SOURCE BASH_REMATCH COLUMNS LINES"

// get returns one of the values a variable may have. What is not set is empty,
// or unknown where the environment is another's.
func (s *shell) get(name string) (value string, set bool) {
	if b := s.find(name); b != nil {
		switch b.kind {
		case gone:
			return "", false
		case array, assoc:
			if len(b.list) == 0 {
				return "", false
			}
			return b.list[0], true
		}
		if len(b.alts) == 1 {
			return b.alts[0], true
		}
		return b.alts[s.r.choose(name, len(b.alts))], true
	}
	if len(name) == 1 || isDigit(name[0]) {
		return s.special(name)
	}
	if name == "PPID" {
		return "1", true // whatever its number, it is another process
	}
	if v, ok := s.environ(name); ok {
		return v, true
	}
	switch {
	case name == "HOME":
		if s.foreign {
			return someHome, true
		}
		return s.r.home, true
	case oneOf(name, shellSets), s.hazy:
		return someText, true
	}
	if s.nounset {
		s.halt = exiting
	}
	return "", false
}

// ifs is what separates fields.
func (s *shell) ifs() string {
	if b := s.find("IFS"); b != nil && b.kind == scalar {
		return b.alts[0]
	}
	return " \t\n"
}

// special are the parameters without a name.
func (s *shell) special(name string) (string, bool) {
	switch c := name[0]; {
	case c == '0':
		return s.name, true
	case c == '#':
		return strconv.Itoa(len(s.args)), true
	case c == '?':
		if s.status == yes {
			return "0", true
		}
		return someText, true
	case c == '*' || c == '@':
		return strings.Join(s.args, " "), len(s.args) > 0
	case isDigit(c):
		n, err := strconv.Atoi(name)
		if err == nil && n <= len(s.args) {
			return s.args[n-1], true
		}
		if s.hazy {
			return someText, true
		}
		return "", false
	case isNameByte(c):
		if v, ok := s.environ(name); ok || s.hazy && c != '_' {
			if !ok {
				v = someText
			}
			return v, true
		}
		if c == '_' {
			return someText, true
		}
		if s.nounset {
			s.halt = exiting
		}
		return "", false
	}
	return someText, true
}

// set assigns a variable. In a second world of the same command the value is
// one more that the variable may have.
func (s *shell) set(name, value string) {
	s.spend(4*len(s.vars) + len(value))
	b := s.find(name)
	if b == nil {
		_, exported := s.environ(name)
		s.vars = append(s.vars, binding{name: name, alts: []string{value}, exported: exported || s.allExp})
		return
	}
	if s.r.again && b.kind == scalar {
		b.alts = union(b.alts, []string{value})
		return
	}
	*b = binding{name: name, alts: []string{value}, exported: b.exported}
}

// setList assigns an array.
func (s *shell) setList(name string, list, keys []string) {
	n := binding{name: name, list: list, keys: keys, kind: array}
	if keys != nil {
		n.kind = assoc
	}
	if b := s.find(name); b != nil {
		n.exported = b.exported
		*b = n
		return
	}
	s.vars = append(s.vars, n)
}

func (s *shell) unset(name string) {
	if b := s.find(name); b != nil {
		*b = binding{name: name, kind: gone}
		return
	}
	s.vars = append(s.vars, binding{name: name, kind: gone})
}

// union of the values a variable may have; too many become unknown.
func union(a, b []string) []string {
	u := slices.Clip(a)
	for _, v := range b {
		if !slices.Contains(u, v) {
			u = append(u, v)
		}
	}
	if len(u) > maxAlts {
		u = append(slices.Clone(u[:maxAlts-1]), someText)
	}
	return u
}

// merge makes the state of s what it may be after any of the branches.
func (s *shell) merge(branches ...*shell) {
	live := branches[:0:0]
	for _, b := range branches {
		if b.halt == running {
			live = append(live, b)
		}
		s.traps = append(s.traps, b.traps...)
		for _, f := range b.funcs[min(len(s.funcs), len(b.funcs)):] {
			s.funcs = append(slices.Clip(s.funcs), f)
		}
		s.hazy = s.hazy || b.hazy
	}
	if len(live) == 0 {
		s.halt, s.levels = branches[0].halt, branches[0].levels
		return
	}
	vars := live[0].vars
	for _, b := range live[1:] {
		vars = mergeVars(vars, b.vars)
	}
	s.vars = vars
}

// mergeVars unites two sets of variables. One that only one side has was unset
// on the other.
func mergeVars(a, b []binding) []binding {
	u := slices.Clone(a)
	seen := func(list []binding, name string) *binding {
		for i := range list {
			if list[i].name == name {
				return &list[i]
			}
		}
		return nil
	}
	for i := range u {
		o := seen(b, u[i].name)
		switch {
		case o == nil:
			if u[i].kind == scalar {
				u[i].alts = union(u[i].alts, []string{""})
			}
		case u[i].kind == scalar && o.kind == scalar:
			if !slices.Equal(u[i].alts, o.alts) {
				u[i].alts = union(u[i].alts, o.alts)
			}
		case u[i].kind == array && o.kind == array:
			if len(o.list) > len(u[i].list) {
				u[i].list = o.list
			}
		}
	}
	for _, o := range b {
		if seen(a, o.name) == nil {
			if o.kind == scalar {
				o.alts = union(o.alts, []string{""})
			}
			u = append(u, o)
		}
	}
	return u
}
