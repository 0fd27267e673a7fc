package policy

import (
	"slices"
	"strconv"
	"strings"
)

// maxRuns bounds how often xargs and find run their command here.
const maxRuns = 256

// xargs runs a command with the words of its input.
func (s *shell) xargs(args []string) {
	l := grammar{short: "IJRndLPsEaS", long: " arg-file delimiter max-args max-lines max-procs replace max-chars eof process-slot-var ", first: true}.split(args)
	if f, ok := l.value("a", "arg-file"); ok {
		s.reads([]string{f})
	}
	text := s.input()
	if f, ok := l.value("a", "arg-file"); ok {
		text = someText
		if known, ok := s.r.files[s.path(f)]; ok {
			text = known
		}
	}
	argv := l.operands
	if len(argv) == 0 {
		argv = []string{"echo"}
	}
	mark, replace := l.value("I", "J", "replace")
	if l.has("i", "replace") && mark == "" {
		mark, replace = "{}", true
	}
	d, byDelim := l.value("d", "delimiter")
	var items []string
	switch {
	case l.has("0", "null"):
		items = strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
	case byDelim && d != "":
		items = strings.Split(strings.TrimSuffix(text, "\n"), backslashes(d)[:1])
	case replace:
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			items = append(items, strings.TrimLeft(line, " \t"))
		}
	default:
		items = xargsWords(text)
	}
	s.runWith(argv, items, mark, replace, perRun(&l))
}

func perRun(l *line) int {
	for _, name := range []string{"n", "max-args", "L", "max-lines"} {
		if v, ok := l.value(name); ok {
			if n, err := strconv.Atoi(v); err == nil && n > 0 {
				return n
			}
		}
	}
	return 0
}

// runWith runs a command with items behind it or, where replace is set, in
// place of mark; n at a time, or all together.
func (s *shell) runWith(argv, items []string, mark string, replace bool, n int) {
	f := s.fork()
	f.stdin, f.funcs, f.alias = nil, nil, nil
	if replace && mark != "" {
		if len(items) > maxRuns {
			s.giveUp("xargs has too many items")
		}
		for _, item := range items[:min(len(items), maxRuns)] {
			words := slices.Clone(argv)
			for i, w := range words {
				words[i] = strings.ReplaceAll(w, mark, item)
			}
			f.run(words)
		}
		return
	}
	if n <= 0 {
		n = max(1, len(items))
	}
	for i := 0; i < len(items) && !s.r.done; i += n {
		if i/n == maxRuns {
			n = len(items) // the rest at once
		}
		f.run(slices.Concat(argv, items[i:min(len(items), i+n)]))
	}
	if len(items) == 0 {
		f.run(argv)
	}
}

// xargsWords splits as xargs does: blanks, quotes and backslashes.
func xargsWords(text string) (words []string) {
	var b []byte
	in, quoteChar := false, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoteChar != 0:
			if c == quoteChar {
				quoteChar = 0
			} else {
				b = append(b, c)
			}
		case c == '\'' || c == '"':
			quoteChar, in = c, true
		case c == '\\' && i+1 < len(text):
			i++
			b, in = append(b, text[i]), true
		case isSpace(c):
			if in {
				words = append(words, string(b))
			}
			b, in = b[:0], false
		default:
			b, in = append(b, c), true
		}
	}
	if in {
		words = append(words, string(b))
	}
	return words
}

// parallel is GNU parallel: a command for each item, through a shell.
func (s *shell) parallel(args []string) {
	l := grammar{short: "jaIndNCLmP", long: " jobs arg-file delay timeout joblog results colsep max-args retries sshlogin workdir tmpdir halt load memfree ", first: true}.split(args)
	argv := l.operands
	var items []string
	if f, ok := l.value("a", "arg-file"); ok {
		s.reads([]string{f})
		items = []string{someText}
	} else if i := slices.IndexFunc(argv, func(a string) bool { return oneOf(a, "::: :::+ ::::") }); i >= 0 {
		if argv[i] == "::::" {
			s.reads(argv[i+1:])
			items = []string{someText}
		} else {
			items = slices.DeleteFunc(slices.Clone(argv[i+1:]), func(a string) bool { return a == ":::" })
		}
		argv = argv[:i]
	} else {
		items = strings.Split(strings.TrimSuffix(s.input(), "\n"), "\n")
	}
	command := plain(strings.Join(argv, " "))
	for _, item := range items[:min(len(items), maxRuns)] {
		text := strings.ReplaceAll(command, "{}", quote(item))
		switch {
		case command == "":
			text = plain(item)
		case text == command:
			text += " " + quote(item)
		}
		s.child(s.fork(), text, nil)
	}
}

func (s *shell) su(args []string) tri {
	l := grammar{short: "cugGsTw", long: " command session-command user group shell supp-group whitelist-environment "}.split(args)
	if text, ok := l.value("c", "command", "session-command"); ok {
		return s.child(s.fork(), plain(text), nil)
	}
	operands := l.operands
	if _, ok := l.value("u", "user"); !ok && len(operands) > 0 {
		if operands[0] == "-" {
			operands = operands[1:]
		}
		operands = operands[min(1, len(operands)):]
	}
	if len(operands) > 0 {
		first := grammar{short: "ugGsTw", long: " user group shell ", first: true}.split(args)
		if first.has("u", "user") {
			return s.fork().run(first.operands)
		}
		return s.fork().run(operands)
	}
	if s.stdin != nil {
		return s.child(s.fork(), plain(s.input()), nil)
	}
	return maybe
}

func (s *shell) flock(args []string) tri {
	l := grammar{short: "wE", long: " timeout wait conflict-exit-code ", first: true}.split(args)
	if len(l.operands) < 2 {
		return maybe
	}
	rest := l.operands[1:]
	if oneOf(rest[0], "-c --command") && len(rest) > 1 {
		return s.child(s.fork(), plain(rest[1]), nil)
	}
	return s.fork().run(rest)
}

// watch runs the command it is given again and again.
func (s *shell) watch(name string, args []string) tri {
	l := grammar{short: "nqwedirMmpSNE", long: " interval warmup runs min-runs prepare cleanup setup export-json export-markdown exts watch filter ignore shell ", first: true}.split(args)
	if name == "watch" {
		l = grammar{short: "nq", long: " interval equexit ", first: true}.split(args)
	}
	for _, o := range l.options {
		if name == "hyperfine" && oneOf(o.name, "prepare cleanup setup p") {
			s.child(s.fork(), plain(o.value), nil)
		}
	}
	if len(l.operands) == 0 {
		return maybe
	}
	if name == "entr" || name == "watch" && l.has("x", "exec") {
		return s.fork().run(l.operands)
	}
	if name == "hyperfine" {
		for _, o := range l.operands {
			s.child(s.fork(), plain(o), nil)
		}
		return maybe
	}
	return s.child(s.fork(), plain(strings.Join(l.operands, " ")), nil)
}

// afterWord finds the command behind "run", "exec" or "--" of tools that set up
// an environment; the rest of them is judged like any program.
func (s *shell) afterWord(name string, args []string) (tri, bool) {
	i := slices.IndexFunc(args, func(a string) bool { return oneOf(a, "run exec x dlx develop shell --") })
	if i < 0 {
		return maybe, false
	}
	if args[i] != "--" && oneOf(name, "npm yarn pnpm") && args[i] == "run" {
		return maybe, false // a script of package.json
	}
	rest := args[i+1:]
	if k := slices.Index(rest, "--"); k >= 0 {
		s.operands(rest[:k])
		rest = rest[k+1:]
	} else if name == "direnv" {
		rest = rest[min(1, len(rest)):]
	}
	l := grammar{short: "nepcf", long: " with name file env-file extra group python config profile project environment command ", first: true}.split(rest)
	s.operands(args[:i])
	for _, o := range l.options {
		s.operands([]string{o.value})
	}
	if len(l.operands) == 0 {
		return maybe, true
	}
	return s.fork().run(l.operands), true
}
