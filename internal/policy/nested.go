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

// elsewhere is a shell on another machine or in a container, of which nothing
// is known.
func (s *shell) elsewhere() *shell {
	f := s.fork()
	f.vars = []binding{{name: "PWD", alts: []string{someText}}}
	f.funcs, f.alias, f.args, f.locals = nil, nil, nil, nil
	f.hazy, f.foreign, f.nounset = true, true, false
	f.name = "bash"
	return f
}

func (s *shell) ssh(args []string) tri {
	g := grammar{short: "bcDEeFIiJLlmOopPQRSWw", long: " ssh ", first: true}
	l := g.split(args)
	for _, o := range l.options {
		switch o.name {
		case "o":
			if _, text, ok := strings.Cut(o.value, "="); ok && strings.HasPrefix(strings.ToLower(o.value), "proxycommand") {
				s.child(s.fork(), plain(text), nil)
			}
		case "i", "F", "E":
			s.reads([]string{o.value})
		}
	}
	if len(l.operands) == 0 {
		return maybe
	}
	s.note(effect{kind: connect, path: hostOf(l.operands[0])})
	rest := g.split(l.operands[1:]).operands
	f := s.elsewhere()
	f.set("PWD", someHome)
	switch {
	case len(rest) > 0:
		return f.top(plain(strings.Join(rest, " ")))
	case s.stdin != nil:
		return f.top(plain(s.input()))
	}
	s.print(someText)
	return maybe
}

// containerSwitches are the options of docker run and exec that take no value.
const containerSwitches = "detach interactive tty rm init privileged read-only publish-all no-healthcheck oom-kill-disable sig-proxy disable-content-trust quiet help no-TTY no-deps build service-ports use-aliases replace all latest"

// docker runs commands in containers; the rest of it is judged like any program.
func (s *shell) docker(name string, args []string) (tri, bool) {
	verb, rest := dockerVerb(args)
	if verb != "exec" && verb != "run" && verb != "create" {
		return maybe, false
	}
	entry, i := "", 0
	for i < len(rest) {
		a := rest[i]
		if len(a) < 2 || a[0] != '-' {
			break
		}
		i++
		if a == "--" {
			break
		}
		key, value, inline := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if !inline && takesValue(a, key) && i < len(rest) {
			value = rest[i]
			i++
		} else if !inline && a[1] != '-' {
			value = strings.TrimLeft(key, "ditPqT")
			if value != "" {
				key, value = value[:1], value[1:]
			}
		}
		switch key {
		case "entrypoint":
			entry = value
		case "v", "volume", "mount", "env-file", "secret", "cidfile":
			s.operands([]string{value})
		}
	}
	rest = rest[min(i+1, len(rest)):] // the container or the image
	if entry != "" {
		rest = append([]string{entry}, rest...)
	}
	if len(rest) == 0 {
		return maybe, true
	}
	return s.elsewhere().run(rest), true
}

// takesValue reports whether an option of docker run takes the next argument.
func takesValue(a, key string) bool {
	if strings.HasPrefix(a, "--") {
		return !oneOf(key, containerSwitches)
	}
	letters := strings.TrimLeft(key, "ditPqT")
	return len(letters) == 1
}

// dockerVerb finds the verb behind docker's own options and object names.
func dockerVerb(args []string) (verb string, rest []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case oneOf(a, "-H --host -c --context -l --log-level --config -f --file -p --project-name --profile --project-directory --env-file --connection --url --namespace -n"):
			i++
		case len(a) > 0 && a[0] == '-':
		case oneOf(a, "container compose"):
		default:
			return a, args[i+1:]
		}
	}
	return "", nil
}

func (s *shell) kubectl(name string, args []string) (tri, bool) {
	verb := ""
	for i, a := range args {
		if oneOf(a, "exec run debug rsh ssh") {
			verb = a
			args = slices.Concat(args[:i], args[i+1:])
			break
		}
	}
	if verb == "" {
		return maybe, false
	}
	if i := slices.Index(args, "--"); i >= 0 {
		s.operands(args[:i])
		if i+1 < len(args) {
			return s.elsewhere().run(args[i+1:]), true
		}
		return maybe, true
	}
	if verb == "run" || verb == "debug" {
		return maybe, false
	}
	l := grammar{short: "ncfs", long: " namespace container context cluster kubeconfig filename user server pod-running-timeout "}.split(args)
	if len(l.operands) > 1 {
		f := s.elsewhere()
		if verb == "ssh" {
			return f.top(plain(strings.Join(l.operands, " "))), true
		}
		return f.run(l.operands[1:]), true
	}
	return maybe, true
}

// remoteOption finds the script in "--command script" of tools that reach other
// machines; the rest of them is judged like any program.
func (s *shell) remoteOption(args []string) (tri, bool) {
	for i, a := range args {
		key, value, inline := strings.Cut(a, "=")
		if !oneOf(key, "--command -c -C") {
			if a == "--" && i+1 < len(args) && i > 0 {
				return s.elsewhere().run(args[i+1:]), true
			}
			continue
		}
		if !inline && i+1 < len(args) {
			value = args[i+1]
		}
		f := s.elsewhere()
		f.set("PWD", someHome)
		return f.top(plain(value)), true
	}
	return maybe, false
}

// terminal is tmux and screen: what they start and what they type.
func (s *shell) terminal(args []string) {
	if i := slices.IndexFunc(args, func(a string) bool { return oneOf(a, "send-keys send stuff") }); i >= 0 {
		l := grammar{short: "tN"}.split(args[i+1:])
		var keys []string
		for _, k := range l.operands {
			if !oneOf(k, "Enter C-m KPEnter") {
				keys = append(keys, k)
			}
		}
		s.child(s.fork(), plain(strings.Join(keys, "")), nil)
		return
	}
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		if !oneOf(args[0], "new new-session new-window neww split-window splitw run run-shell respawn-pane if-shell") {
			return
		}
		args = args[1:]
	}
	l := grammar{short: "snctxyeFLSfhpTl", first: true}.split(args)
	if len(l.operands) > 0 {
		s.child(s.fork(), plain(strings.Join(l.operands, " ")), nil)
	}
}

// crontab judges the commands of a table on standard input.
func (s *shell) crontab(args []string) {
	l := grammar{short: "u"}.split(args)
	s.reads(l.operands)
	if len(l.options) > 0 && !l.has("u") || s.stdin == nil {
		return
	}
	for line := range strings.SplitSeq(s.input(), "\n") {
		line = strings.TrimSpace(line)
		fields := 5
		if strings.HasPrefix(line, "@") {
			fields = 1
		}
		for range fields {
			_, rest, _ := strings.Cut(line, " ")
			line = strings.TrimLeft(rest, " \t")
		}
		if line != "" && line[0] != '#' {
			s.child(s.fork(), plain(line), nil)
		}
	}
}

// makeRecipe judges the recipes of a makefile that the script itself holds.
func (s *shell) makeRecipe(args []string) {
	l := grammar{short: "fCIjloWE", long: " file makefile directory eval include-dir jobs justfile working-directory "}.split(args)
	f := s.fork()
	if dir, ok := l.value("C", "directory"); ok {
		f.set("PWD", resolve(s.cwd(), dir))
	}
	for _, o := range l.operands {
		if n, v, ok := strings.Cut(o, "="); ok && isName(n) {
			f.set(n, v)
			f.find(n).exported = true
		}
	}
	for _, o := range l.options {
		if o.name == "eval" || o.name == "E" {
			f.recipes(plain(o.value))
		}
	}
	file, ok := l.value("f", "file", "makefile", "justfile")
	switch {
	case file == "-" || file == "/dev/stdin":
		f.recipes(s.input())
	case ok:
		f.reads([]string{file})
		f.recipes(s.r.files[f.path(file)])
	default:
		f.recipes(s.r.files[f.path("Makefile")])
	}
}

func (s *shell) recipes(text string) {
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		recipe, ok := strings.CutPrefix(line, "\t")
		if !ok {
			if n, v, isVar := strings.Cut(line, "="); isVar && isName(strings.TrimRight(n, " :?+")) {
				n = strings.TrimRight(n, " :?+")
				s.set(n, strings.TrimSpace(v))
				s.find(n).exported = true
				continue
			}
			target, after, found := strings.Cut(line, ";")
			if !found || !strings.Contains(target, ":") {
				continue
			}
			recipe = after
		}
		s.child(s.fork(), fromMake(strings.TrimLeft(recipe, "@-+ \t")), nil)
	}
}

// fromMake turns make's $$ and $(name) into the shell's.
func fromMake(recipe string) string {
	var b strings.Builder
	for i := 0; i < len(recipe); i++ {
		if recipe[i] != '$' || i+1 == len(recipe) {
			b.WriteByte(recipe[i])
			continue
		}
		i++
		end := -1
		if recipe[i] == '(' {
			end = strings.IndexByte(recipe[i:], ')')
		}
		switch {
		case recipe[i] == '$':
			b.WriteByte('$')
		case end > 0 && isName(recipe[i+1:i+end]):
			b.WriteString("${" + recipe[i+1:i+end] + "}")
			i += end
		default:
			b.WriteByte('$')
			b.WriteByte(recipe[i])
		}
	}
	return b.String()
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
