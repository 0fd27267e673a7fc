package policy

import (
	"slices"
	"strings"
)

// program judges a program by its name. What no part knows is judged by its
// operands.
func (s *shell) program(name string, args []string) tri {
	s.operatorRules(name, args)
	switch name {
	case "iris":
		s.iris(args)
	case "iris-secret":
		s.iris(append([]string{"secret"}, args...))
	}
	if st, ok := s.unwrap(name, args); ok {
		return st
	}
	if st, ok := s.nested(name, args); ok {
		return st
	}
	if s.filter(name, args) {
		return maybe
	}
	switch name {
	case "echo", "printf", "true", "false", "test", "[", "pwd":
		st, _ := s.builtin(name, args)
		return st
	case "find":
		s.findFiles(args)
		return maybe
	case "fd", "fdfind":
		s.fd(args)
		return maybe
	case "gh", "glab", "hub":
		s.forge(args)
		return maybe
	case "tee":
		s.tee(args)
		return maybe
	}
	if !s.system(name, args) && !s.network(name, args) && !s.files(name, args) && !s.search(name, args) && !s.interpreter(name, args) {
		s.operands(args)
	}
	s.print(someText)
	return maybe
}

// operatorRules applies the operator's own rules.
func (s *shell) operatorRules(name string, args []string) {
	for _, m := range s.r.j.opts.Deny {
		s.operatorRule(m, Deny, name, args)
	}
	for _, m := range s.r.j.opts.Confirm {
		s.operatorRule(m, Confirm, name, args)
	}
}

func (s *shell) operatorRule(m Match, d Decision, name string, args []string) {
	if m.Words[0] != name {
		return
	}
	rest := m.Words[1:]
	for _, a := range args {
		if len(rest) > 0 && a == rest[0] {
			rest = rest[1:]
		}
	}
	if len(rest) > 0 {
		return
	}
	reason := m.Reason
	if reason == "" {
		reason = "a rule of the operator is about " + strings.Join(m.Words, " ")
	}
	if rank(d) > rank(s.r.verdict.Decision) {
		s.r.raise(Verdict{d, ruleOperator, s.span(), reason})
	}
}

// mentionOnly are programs whose operands are words, not files.
const mentionOnly = "logger notify-send wall say cowsay figlet banner man info help apropos whatis tldr apt apt-get apt-cache aptitude dnf yum apk brew dpkg rpm snap flatpak" +
	" whereis locate plocate mlocate sleep kill pkill pgrep killall id groups hostname expr bc getent host nslookup dig whois iptables ip6tables nft ufw firewall-cmd ip route ipset sysctl tcpdump ss netstat conntrack loginctl timedatectl journalctl dmesg jira slack task cal date factor printenv seq uname uptime"

// touchOnly are programs that do not look into the files they name.
const touchOnly = "ls dir vdir stat test [ du df exa eza lsd tree mkdir rmdir unlink lsattr getfacl which type namei fuser lsof inotifywait mountpoint"

// wordOptions are options whose value is never a file that is read.
func wordOption(name string) bool {
	for w := range strings.SplitSeq("exclude ignore include message title subject body comment description pattern regex glob label search query grep match", " ") {
		if strings.Contains(name, w) {
			return !strings.Contains(name, "file") && !strings.Contains(name, "from")
		}
	}
	return oneOf(name, "name header user-agent data-urlencode arg argjson set")
}

// outputOption reports whether an option's value is a file that is written.
func outputOption(name string) bool {
	return oneOf(name, "o output out outfile output-file output-document log-file logfile out-file dest output-path")
}

// operands judges arguments of a program that is not known: any of them may be
// a file it reads or a host it calls.
func (s *shell) operands(args []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		if a == "" {
			continue
		}
		if a[0] != '-' {
			s.operand(a)
			continue
		}
		name := strings.TrimLeft(a, "-")
		key, value, inline := strings.Cut(name, "=")
		switch {
		case wordOption(key) && len(key) > 1:
			if !inline {
				i++
			}
		case outputOption(key):
			if !inline && i+1 < len(args) {
				i++
				value = args[i]
			}
			s.note(effect{kind: writeFile, path: s.path(value)})
		case inline:
			s.operand(value)
		case len(a) > 2 && a[1] != '-':
			s.operand(a[2:])
		}
	}
}

// operand judges one argument: all of it, and the parts that could be a path.
func (s *shell) operand(a string) {
	if len(a) > 4096 {
		return
	}
	if i := schemeOf(a); i > 0 {
		s.url(a)
		return
	}
	if isMetadata(a) && strings.ContainsAny(a, ".:") {
		s.note(effect{kind: connect, path: a})
	}
	s.candidate(a)
	if !hasAny(a, "=,:@;") {
		return
	}
	s.candidate(a[:strings.IndexAny(a, "=,:@;")])
	for rest := a; ; {
		i := strings.IndexAny(rest, "=,:@;")
		if i < 0 {
			return
		}
		rest = rest[i+1:]
		if end := strings.IndexAny(rest, ",:;"); end >= 0 {
			s.candidate(rest[:end])
		} else {
			s.candidate(rest)
		}
		if j := schemeOf(rest); j > 0 {
			s.url(rest)
			return
		}
	}
}

// url judges a URL that a program was given.
func (s *shell) url(u string) {
	if rest, ok := strings.CutPrefix(u, "file://"); ok {
		rest = strings.TrimPrefix(rest, "localhost")
		s.candidate(rest)
		return
	}
	s.note(effect{kind: connect, path: hostOf(u)})
}

// candidate notes a read if the text, taken as a path, could matter.
func (s *shell) candidate(text string) {
	if text == "" {
		return
	}
	base := baseName(text)
	if s.r.j.secretName(base) != "" && (!hasAny(text, " \t\n") || hasAny(text[:1], "/.~")) || s.keyAt(text) {
		s.note(effect{kind: readFile, path: s.path(text)})
		return
	}
	if s.stateAt(text) {
		s.note(effect{kind: readFile, path: s.path(text)})
	}
}

// stateAt reports whether a path could be of Iris's own state; cheap for what
// is not.
func (s *shell) stateAt(text string) bool {
	if hasAny(text, " \n") || !strings.Contains(text, "state") && !isGlob(text) && !strings.Contains(s.cwd(), "/state") {
		return false
	}
	return s.r.j.isState(s.path(text))
}

// keyAt reports whether a path could be of Iris's own keys, or the environment of
// another process; cheap for what is no path.
func (s *shell) keyAt(text string) bool {
	if hasAny(text, " \n") || text[0] != '~' && strings.IndexByte(text, '/') < 0 && !strings.Contains(s.cwd(), keyDir) {
		return false
	}
	return s.r.j.secretPath(s.path(text)) != ""
}

// touches judges operands that are named but not opened.
func (s *shell) touches(args []string) {
	for _, a := range args {
		if a != "" && a[0] != '-' && s.stateAt(a) {
			s.note(effect{kind: deleteFile, path: s.r.j.state})
		}
	}
}

// reads judges operands that are opened for reading.
func (s *shell) reads(paths []string) {
	for _, p := range paths {
		if p == "" || p == "-" {
			continue
		}
		if schemeOf(p) > 0 {
			s.url(p)
			continue
		}
		s.note(effect{kind: readFile, path: s.path(p)})
	}
}

// writes judges operands that are written.
func (s *shell) writes(paths []string) {
	for _, p := range paths {
		if p != "" && p != "-" {
			s.note(effect{kind: writeFile, path: s.path(p)})
		}
	}
}

// fd runs the command behind -x on what it finds; its own operands are patterns
// and directories.
func (s *shell) fd(args []string) {
	i := slices.IndexFunc(args, func(a string) bool { return oneOf(a, "-x -X --exec --exec-batch") })
	if i >= 0 && i+1 < len(args) {
		f := s.fork()
		f.funcs, f.alias = nil, nil
		f.run(append(slices.Clone(args[i+1:]), someText))
	}
	s.print(someText)
}

// forge judges gh and its like: titles and texts are words, files are files.
func (s *shell) forge(args []string) {
	l := grammar{short: "tbmnRlaBHqsFfe", long: " title body notes message repo label assignee base head search query milestone project reviewer jq template field raw-field body-file notes-file env-file file env "}.split(args)
	for _, o := range l.options {
		switch o.name {
		case "F", "field":
			_, v, ok := strings.Cut(o.value, "=@")
			if !ok {
				v = o.value
			}
			s.candidate(v)
		case "f", "body-file", "notes-file", "env-file", "file":
			s.candidate(o.value)
		}
	}
	if len(l.operands) > 1 && oneOf(l.operands[0], "gist release") {
		s.operands(l.operands[2:])
	}
	s.print(someText)
}
