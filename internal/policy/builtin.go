package policy

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// builtin runs a command of the shell itself.
func (s *shell) builtin(name string, args []string) (tri, bool) {
	switch name {
	case "true", ":":
		return yes, true
	case "false":
		return no, true
	case "cd", "pushd", "popd":
		return s.changeDir(name, args), true
	case "echo", "printf", "pwd":
		return s.text(name, args)
	case "test":
		return s.testCommand(args), true
	case "[":
		return s.testCommand(args[:max(0, len(args)-1)]), true
	case "eval":
		return s.eval(args), true
	case "source", ".":
		return s.source(args), true
	case "exec":
		return s.exec(args), true
	case "command", "builtin":
		return s.commandBuiltin(args), true
	case "trap":
		s.trap(args)
		return yes, true
	case "read", "mapfile", "readarray":
		return s.read(name, args), true
	case "set":
		s.setOptions(args)
		return yes, true
	case "shift":
		n := 1
		if len(args) > 0 {
			n, _ = strconv.Atoi(args[0])
		}
		s.args = s.args[min(max(n, 0), len(s.args)):]
		return yes, true
	case "exit", "return", "break", "continue":
		return s.leave(name, args), true
	case "alias":
		for _, a := range args {
			if n, v, ok := strings.Cut(a, "="); ok {
				s.alias = append(slices.Clip(s.alias), option{n, v})
			}
		}
		return yes, true
	case "unset":
		for _, a := range args {
			if !strings.HasPrefix(a, "-") {
				s.unset(a)
			}
		}
		return yes, true
	case "export", "declare", "local", "typeset", "readonly":
		for _, a := range args {
			s.declareText(name, a)
		}
		return yes, true
	case "getopts":
		if len(args) > 1 && isName(args[1]) {
			s.set(args[1], someText)
			s.set("OPTARG", someText)
		}
		return maybe, true
	case "let":
		return maybe, true
	case "type", "hash", "wait", "jobs", "bg", "fg", "umask", "ulimit", "shopt", "enable", "bind", "complete", "compgen", "compopt",
		"caller", "disown", "history", "times", "suspend", "logout", "dirs", "unalias", "kill", "help":
		s.print(someText)
		return maybe, true
	}
	return maybe, false
}

func (s *shell) changeDir(name string, args []string) tri {
	l := grammar{}.split(args)
	to := ""
	switch {
	case name == "popd":
		s.set("PWD", someText)
		return likely
	case len(l.operands) == 0:
		to, _ = s.get("HOME")
	default:
		to = l.operands[0]
	}
	old := s.cwd()
	if to == "-" || len(args) > 0 && args[0] == "-" {
		to, _ = s.get("OLDPWD")
		if to == "" {
			to = someText
		}
	}
	s.set("PWD", resolve(old, to))
	s.set("OLDPWD", old)
	return likely
}

func (s *shell) eval(args []string) tri {
	text := plain(strings.Join(args, " "))
	if !known(text) {
		s.hazy = true
	}
	return s.script(text)
}

func (s *shell) source(args []string) tri {
	if len(args) == 0 {
		return maybe
	}
	p := s.path(args[0])
	text, ok := s.r.files[p]
	if p == "/dev/stdin" || p == "/dev/fd/0" {
		text, ok = s.input(), true
	}
	if !ok {
		s.note(effect{kind: readFile, path: p})
		s.hazy = true
		s.print(someText)
		return maybe
	}
	saved := s.args
	if len(args) > 1 {
		s.args = args[1:]
	}
	st := s.script(text)
	if s.halt == returning {
		s.halt = running
	}
	s.args = saved
	return st
}

func (s *shell) exec(args []string) tri {
	l := grammar{short: "a", first: true}.split(args)
	if len(l.operands) == 0 {
		return yes
	}
	st := s.run(l.operands)
	s.halt = exiting
	return st
}

func (s *shell) commandBuiltin(args []string) tri {
	l := grammar{first: true}.split(args)
	if l.has("v", "V") {
		for _, o := range l.operands {
			s.print(o + "\n")
		}
		return maybe
	}
	if len(l.operands) == 0 {
		return yes
	}
	funcs, alias := s.funcs, s.alias
	s.funcs, s.alias = nil, nil
	st := s.run(l.operands)
	s.funcs, s.alias = funcs, alias
	return st
}

func (s *shell) trap(args []string) {
	l := grammar{first: true}.split(args)
	if len(l.operands) > 1 && l.operands[0] != "-" && l.operands[0] != "" && !isNumber(l.operands[0]) {
		s.traps = append(slices.Clip(s.traps), plain(l.operands[0]))
	}
}

func (s *shell) read(name string, args []string) tri {
	g := grammar{short: "adinNptu"}
	if name != "read" {
		g.short = "dnOsucC"
	}
	l := g.split(args)
	if name != "read" {
		if script, ok := l.value("C"); ok {
			s.script(plain(script))
		}
		to := "MAPFILE"
		if len(l.operands) > 0 {
			to = l.operands[0]
		}
		lines := strings.Split(strings.TrimSuffix(s.input(), "\n"), "\n")
		s.setList(to, lines, nil)
		return yes
	}
	text, end := someText, false
	if s.stdin != nil && !l.has("u") {
		text, end = s.nextLine(&l)
	}
	if list, ok := l.value("a"); ok {
		s.setList(list, s.splitFields(text, 0), nil)
	} else {
		s.readInto(l.operands, text)
	}
	if s.stdin == nil {
		return maybe
	}
	return truth(!end)
}

// nextLine takes a line off the input; end is true behind the last one.
func (s *shell) nextLine(l *line) (text string, end bool) {
	delim := "\n"
	if d, ok := l.value("d"); ok {
		delim = "\x00"
		if d != "" {
			delim = d[:1]
		}
	}
	text, rest, found := strings.Cut(s.stdin.text, delim)
	s.spend(len(text))
	s.stdin.text = rest
	return text, !found && text == ""
}

func (s *shell) readInto(names []string, text string) {
	if len(names) == 0 {
		s.set("REPLY", text)
		return
	}
	fields := s.splitFields(text, len(names))
	for i, n := range names {
		v := ""
		if i < len(fields) {
			v = fields[i]
		} else if !known(text) {
			v = someText
		}
		if isName(n) {
			s.set(n, v)
		}
	}
}

// splitFields splits a line as read does; the last field takes the rest.
func (s *shell) splitFields(text string, limit int) []string {
	ifs := s.ifs()
	if ifs == "" {
		return []string{text}
	}
	var out []string
	for {
		text = strings.TrimLeft(text, " \t")
		if text == "" {
			return out
		}
		i := strings.IndexAny(text, ifs)
		if i < 0 || limit > 0 && len(out) == limit-1 {
			return append(out, strings.TrimRight(text, " \t\n"))
		}
		out = append(out, text[:i])
		text = text[i+1:]
	}
}

func (s *shell) setOptions(args []string) {
	for i, a := range args {
		switch {
		case a == "--":
			s.args = args[i+1:]
			return
		case a == "-o" || a == "+o":
			if i+1 < len(args) {
				s.option(args[i+1], a[0] == '-')
			}
			return
		case len(a) > 1 && (a[0] == '-' || a[0] == '+'):
			s.nounset = a[0] == '-' && (s.nounset || strings.Contains(a, "u"))
			s.allExp = a[0] == '-' && (s.allExp || strings.Contains(a, "a"))
			if strings.HasSuffix(a, "o") && i+1 < len(args) {
				s.option(args[i+1], a[0] == '-')
				return
			}
		default:
			s.args = args[i:]
			return
		}
	}
}

func (s *shell) option(name string, on bool) {
	switch name {
	case "nounset":
		s.nounset = on
	case "allexport":
		s.allExp = on
	}
}

func (s *shell) leave(name string, args []string) tri {
	switch name {
	case "exit":
		s.halt = exiting
	case "return":
		s.halt = returning
		if len(args) > 0 {
			s.status = maybe
			if isNumber(args[0]) {
				s.status = truth(args[0] == "0")
			}
		}
		return s.status
	default:
		s.halt = breaking
		if name == "continue" {
			s.halt = continuing
		}
		s.levels = 1
		if len(args) > 0 {
			s.levels, _ = strconv.Atoi(args[0])
			s.levels = max(1, s.levels)
		}
	}
	return yes
}

// declClause is export, declare, local and their like.
func (s *shell) declClause(c *syntax.DeclClause) {
	export := c.Variant.Value == "export"
	isMap := false
	for _, a := range c.Args {
		if a.Name == nil {
			for _, f := range s.fields([]*syntax.Word{a.Value}) {
				if strings.HasPrefix(f, "-") {
					export = export || strings.Contains(f, "x")
					isMap = isMap || strings.Contains(f, "A")
					continue
				}
				s.declareText(c.Variant.Value, f)
			}
			continue
		}
		if c.Variant.Value == "local" {
			s.local(a.Name.Value)
		}
		if isMap {
			s.setList(a.Name.Value, nil, []string{})
		}
		if a.Naked {
			if c.Variant.Value == "local" {
				s.set(a.Name.Value, "")
			}
		} else {
			s.assign(a)
		}
		s.exported(a.Name.Value, export)
	}
}

// exported looks at a variable that programs see from now on.
func (s *shell) exported(name string, export bool) {
	b := s.find(name)
	if !export || b == nil {
		return
	}
	b.exported = true
	if b.kind == scalar {
		s.setting(name, b.alts[len(b.alts)-1])
	}
}

// declareText declares what a word expanded to.
func (s *shell) declareText(variant, word string) {
	name, value, ok := strings.Cut(word, "=")
	if !known(name) {
		s.hazy = true // export $(… unknown …)
	}
	if !isName(name) {
		return
	}
	if variant == "local" {
		s.local(name)
	}
	if ok {
		s.set(name, value)
	}
	s.exported(name, variant == "export")
}
