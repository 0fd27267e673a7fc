package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// simple runs a simple command once for every combination of the values its
// words may have.
func (s *shell) simple(c *syntax.CallExpr) (st tri) {
	at := s.at
	s.at = c
	s.r.worlds(func() { st = s.agree(st, s.call(c)) })
	s.at = at
	return st
}

func (s *shell) call(c *syntax.CallExpr) tri {
	s.status = yes
	argv := s.fields(c.Args)
	if s.halt != running || s.r.done {
		return maybe
	}
	if len(argv) == 0 {
		for _, a := range c.Assigns {
			s.assign(a)
		}
		return s.status
	}
	if len(c.Assigns) == 0 {
		return s.run(argv)
	}
	// The assignments hold for this command only.
	scope := len(s.locals)
	s.locals = append(slices.Clip(s.locals), nil)
	for _, a := range c.Assigns {
		if a.Name == nil {
			continue
		}
		s.local(a.Name.Value)
		s.assign(a)
		if b := s.find(a.Name.Value); b != nil {
			b.exported = true
			if b.kind == scalar {
				s.setting(b.name, b.alts[len(b.alts)-1])
			}
		}
	}
	st := s.run(argv)
	if len(s.locals) > scope {
		s.restore()
	}
	return st
}

// assign carries out one assignment.
func (s *shell) assign(a *syntax.Assign) {
	if a.Name == nil {
		return
	}
	name := a.Name.Value
	b := s.find(name)
	switch {
	case a.Array != nil:
		s.assignArray(a, b)
	case a.Index != nil:
		s.assignElement(a, b)
	default:
		value := s.single(a.Value, oneWord, true)
		if a.Append {
			if b != nil && (b.kind == array || b.kind == assoc) {
				value = b.list0() + value
			} else {
				old, _ := s.get(name)
				value = old + value
			}
		}
		s.set(name, value)
	}
}

// list0 is the first element of an array.
func (b *binding) list0() string {
	if len(b.list) == 0 {
		return ""
	}
	return b.list[0]
}

func (s *shell) assignArray(a *syntax.Assign, b *binding) {
	var list, keys []string
	isMap := b != nil && b.kind == assoc
	if a.Append && b != nil {
		list, keys = slices.Clone(b.list), slices.Clone(b.keys)
		if b.kind == scalar {
			v, _ := s.get(b.name)
			list = []string{v}
		}
	}
	for _, e := range a.Array.Elems {
		switch {
		case e.Index == nil && e.Value != nil:
			s.elements = true // where "x=~" is no assignment
			list = append(list, s.fields([]*syntax.Word{e.Value})...)
			s.elements = false
		case isMap:
			keys = append(keys, s.key(e.Index))
			list = append(list, s.one(e.Value))
		default:
			s.arith(e.Index)
			list = append(list, s.one(e.Value))
		}
	}
	if isMap && keys == nil {
		keys = []string{}
	}
	for isMap && len(keys) < len(list) {
		keys = append(keys, someText)
	}
	s.setList(a.Name.Value, list, keys)
}

// maxIndex keeps a script from making an array of any size.
const maxIndex = 1024

func (s *shell) assignElement(a *syntax.Assign, b *binding) {
	name := a.Name.Value
	value := s.one(a.Value)
	if a.Append && b != nil && (b.kind == array || b.kind == assoc) {
		old, _ := s.element(b, a.Index)
		value = old + value
	}
	if b != nil && b.kind == assoc {
		key := s.key(a.Index)
		list := slices.Clone(b.list)
		if i := slices.Index(b.keys, key); i >= 0 {
			list[i] = value
			s.setList(name, list, b.keys)
			return
		}
		s.setList(name, append(list, value), append(slices.Clone(b.keys), key))
		return
	}
	var list []string
	if b != nil && b.kind == array {
		list = slices.Clone(b.list)
	}
	n, ok := s.arith(a.Index)
	switch {
	case ok && n >= 0 && n < maxIndex:
		for int64(len(list)) <= n {
			list = append(list, "") // bash leaves a gap; an empty element does no harm
		}
		list[n] = value
	case len(list) < maxIndex:
		list = append(list, value)
	}
	s.setList(name, list, nil)
}

// proxyNames are variables that send a client's requests through a host.
const proxyNames = "http_proxy https_proxy ftp_proxy all_proxy"

// startFiles are variables that name a file a shell reads when it starts.
const startFiles = "BASH_ENV ENV"

// setting looks at what a variable does to the programs that see it.
func (s *shell) setting(name, value string) {
	switch {
	case oneOf(strings.ToLower(name), proxyNames):
		s.note(effect{kind: connect, path: hostOf(value)})
	case oneOf(name, startFiles):
		s.note(effect{kind: readFile, path: s.path(value)})
	case oneOf(name, "PAGER GIT_PAGER EDITOR VISUAL GIT_EDITOR GIT_SSH_COMMAND GIT_EXTERNAL_DIFF GIT_SEQUENCE_EDITOR PROMPT_COMMAND MANPAGER LESSOPEN"):
		s.child(s.fork(), value, nil)
	}
}

// run judges a command whose words are values.
func (s *shell) run(argv []string) tri {
	if s.r.steps++; s.r.steps > maxSteps {
		s.giveUp("it has too many steps")
	}
	if s.r.depth >= maxDepth {
		s.giveUp("it is nested too deeply")
	}
	if s.r.done || len(argv) == 0 {
		return maybe
	}
	s.r.depth++
	defer func() { s.r.depth-- }()
	name := argv[0]
	if name == string(anySet) {
		name = "["
	}
	if s.r.trace != nil && name == "argv" {
		s.r.trace(argv[1:])
		return yes
	}
	if f := s.function(name); f != nil {
		return s.invoke(f, argv[1:])
	}
	for i := len(s.alias) - 1; i >= 0; i-- {
		if s.alias[i].name == name {
			return s.expandAlias(i, argv[1:])
		}
	}
	if !literal(name) {
		return s.anyProgram(argv)
	}
	if strings.IndexByte(name, '/') >= 0 {
		p := s.path(name)
		if text, ok := s.r.files[p]; ok {
			return s.child(s.fork(), text, argv)
		}
		s.note(effect{kind: readFile, path: p})
		name = baseName(name)
	} else if st, ok := s.builtin(name, argv[1:]); ok {
		return st
	}
	return s.program(name, argv[1:])
}

func (s *shell) function(name string) *function {
	for i := len(s.funcs) - 1; i >= 0; i-- {
		if s.funcs[i].name == name {
			return &s.funcs[i]
		}
	}
	return nil
}

// invoke calls a function with its arguments.
func (s *shell) invoke(f *function, args []string) tri {
	args0, src, at := s.args, s.src, s.at
	s.args, s.src = args, f.src
	s.locals = append(slices.Clip(s.locals), nil)
	st := s.stmt(f.body)
	if s.halt == returning {
		s.halt = running
		st = s.status
	}
	s.args, s.src, s.at = args0, src, at
	s.restore()
	return st
}

// local hides a variable until the function at work returns.
func (s *shell) local(name string) {
	if len(s.locals) == 0 {
		return
	}
	top := len(s.locals) - 1
	for _, v := range s.locals[top] {
		if v.name == name {
			return
		}
	}
	v := saved{name: name}
	if b := s.find(name); b != nil {
		old := *b
		v.old = &old
	}
	s.locals = slices.Clone(s.locals)
	s.locals[top] = append(slices.Clip(s.locals[top]), v)
}

// restore brings back what a function has hidden.
func (s *shell) restore() {
	if len(s.locals) == 0 {
		return
	}
	top := len(s.locals) - 1
	for _, v := range s.locals[top] {
		if v.old != nil {
			*s.find(v.name) = *v.old
		} else if b := s.find(v.name); b != nil {
			i := slices.IndexFunc(s.vars, func(b binding) bool { return b.name == v.name })
			s.vars = slices.Delete(slices.Clone(s.vars), i, i+1)
		}
	}
	s.locals = s.locals[:top]
}

// expandAlias runs what an alias stands for, with further words behind it.
func (s *shell) expandAlias(i int, args []string) tri {
	text := s.alias[i].value
	saved := s.alias
	s.alias = append(slices.Clone(saved[:i]), saved[i+1:]...) // not within itself
	for _, a := range args {
		text += " " + quote(a)
	}
	st := s.script(text)
	s.alias = saved
	return st
}

// quote makes a value one word of a script again; its globs stay at work.
func quote(v string) string {
	if v != "" && !hasAny(v, " \t\n'\"\\$`;&|<>()#~{}*?[!") {
		return plain(v)
	}
	if isGlob(v) {
		return plain(v)
	}
	return "'" + strings.ReplaceAll(v, "'", `'\''`) + "'"
}

// anyProgram judges a command whose program is not known: what it may be.
func (s *shell) anyProgram(argv []string) tri {
	name := argv[0]
	if isGlob(name) && known(name) {
		base := baseName(name)
		for n := range strings.SplitSeq(disguised, " ") {
			if matches(base, n) {
				s.fork().program(n, argv[1:])
			}
		}
		return maybe
	}
	s.operands(argv[1:])
	if strings.Trim(name, someText) == "" && len(argv) > 1 && known(argv[1]) && argv[1] != "" && argv[1][0] != '-' {
		return s.run(argv[1:]) // $SUDO rm …
	}
	if base := baseName(name); known(base) && base != "" && strings.IndexByte(name, '/') >= 0 {
		return s.program(base, argv[1:]) // $PREFIX/bin/rm …
	}
	s.print(someText)
	return maybe
}

// disguised are the programs that a glob in a command's name is taken for.
const disguised = "rm cat dd mkfs bash sh find git tee cp mv curl wget terraform systemctl sudo env xargs head tail sed awk python3 perl node"
