package policy

import (
	"slices"
	"strings"
)

// A wrapper is a program that runs the command given to it.
type wrapper struct {
	grammar grammar
	// skip is how many operands stand before the command.
	skip int
	// assigns lets NAME=value stand before the command.
	assigns bool
}

// wrapperOf is the table of programs that run a command as it is.
func wrapperOf(name string) (w wrapper, ok bool) {
	g := func(short, long string) grammar { return grammar{short: short, long: long, first: true} }
	switch name {
	case "sudo":
		return wrapper{grammar: g("ugUhpCrtTRD", " user group host prompt chdir chroot role type command-timeout other-user close-from "), assigns: true}, true
	case "doas":
		return wrapper{grammar: g("uC", " ")}, true
	case "env":
		return wrapper{grammar: g("uCS", " unset chdir split-string "), assigns: true}, true
	case "setsid", "caffeinate":
		return wrapper{grammar: g("", " ")}, true
	case "nohup", "builtin", "fakeroot", "eatmydata", "unbuffer", "dbus-run-session", "catchsegv", "torsocks", "proxychains", "proxychains4", "tsocks", "setarch", "linux64", "pkexec", "gosu", "su-exec", "tini", "dumb-init", "time", "gtime", "faketime", "chronic":
		w = wrapper{grammar: g("fougs", " output format user ")}
		if name == "gosu" || name == "su-exec" || name == "faketime" {
			w.skip = 1
		}
		return w, true
	case "exec":
		return wrapper{grammar: g("a", " ")}, true
	case "timeout", "gtimeout":
		return wrapper{grammar: g("sk", " signal kill-after "), skip: 1}, true
	case "nice":
		return wrapper{grammar: g("n", " adjustment ")}, true
	case "ionice":
		return wrapper{grammar: g("cnpPu", " class classdata ")}, true
	case "stdbuf":
		return wrapper{grammar: g("ioe", " input output error ")}, true
	case "chrt":
		return wrapper{grammar: g("TPD", " "), skip: 1}, true
	case "taskset":
		return wrapper{grammar: g("", " "), skip: 1}, true
	case "cpulimit":
		return wrapper{grammar: g("lepP", " limit pid exe path ")}, true
	case "chroot":
		return wrapper{grammar: g("", " userspec groups "), skip: 1}, true
	case "unshare", "nsenter":
		return wrapper{grammar: g("tSGRw", " target setuid setgid root wd kill-child ")}, true
	case "strace", "ltrace":
		return wrapper{grammar: g("abeoOpPsSuEIX", " output trace ")}, true
	case "xvfb-run":
		return wrapper{grammar: g("efnpsw", " server-args server-num ")}, true
	case "systemd-run":
		return wrapper{grammar: g("pEHMtuS", " unit property description slice uid gid nice working-directory setenv on-calendar on-active on-boot service-type machine host ")}, true
	case "systemd-inhibit":
		return wrapper{grammar: g("", " what who why mode ")}, true
	case "busybox", "toybox":
		return wrapper{grammar: g("", " ")}, true
	case "ssh-agent", "dotenvx", "aws-vault", "chpst", "setuidgid", "softlimit":
		return wrapper{grammar: g("atEu", " ")}, true
	case "npx", "bunx", "pnpx", "uvx", "pipx":
		return wrapper{grammar: g("pc", " package call from with python ")}, true
	}
	return wrapper{}, false
}

// unwrap runs what is inside a wrapper. It reports whether name is one.
func (s *shell) unwrap(name string, args []string) (tri, bool) {
	w, ok := wrapperOf(name)
	if !ok {
		return maybe, false
	}
	l := w.grammar.split(args)
	f := s.fork()
	if st, done := f.wrapperOptions(name, &l); done {
		return st, true
	}
	rest := l.operands
	for w.assigns && len(rest) > 0 {
		n, v, isAssign := strings.Cut(rest[0], "=")
		if !isAssign || !isName(n) {
			break
		}
		f.set(n, v)
		f.find(n).exported = true
		f.setting(n, v)
		rest = rest[1:]
	}
	rest = rest[min(w.skip, len(rest)):]
	if len(rest) == 0 {
		if name == "env" {
			s.print(someText)
		}
		return maybe, true
	}
	// A wrapper runs programs: the shell's functions and aliases are not there.
	f.funcs, f.alias = nil, nil
	return f.run(rest), true
}

// wrapperOptions applies the options that change what is run.
func (s *shell) wrapperOptions(name string, l *line) (tri, bool) {
	switch name {
	case "env", "sudo":
		if dir, ok := l.value("C", "chdir", "D"); ok && dir != "" && !isNumber(dir) {
			s.set("PWD", resolve(s.cwd(), dir))
		}
		if text, ok := l.value("S", "split-string"); ok && name == "env" {
			words := append(strings.Fields(text), l.operands...)
			st, _ := s.unwrap("env", words)
			return st, true
		}
		if name == "sudo" && l.has("e", "edit") {
			s.writes(l.operands)
			return maybe, true
		}
		if name == "sudo" && l.has("i", "s", "login", "shell") && len(l.operands) > 0 {
			return s.child(s.fork(), plain(strings.Join(l.operands, " ")), nil), true
		}
		if name == "sudo" && l.has("i", "s", "login", "shell") && s.stdin != nil {
			return s.child(s.fork(), s.input(), nil), true
		}
	case "npx", "pnpx":
		if text, ok := l.value("c", "call"); ok {
			return s.child(s.fork(), plain(text), nil), true
		}
	case "exec":
		s.halt = exiting
	}
	return maybe, false
}

// nested runs programs that have their own way of saying what to run. It
// reports whether name is one.
func (s *shell) nested(name string, args []string) (tri, bool) {
	switch name {
	case "sh", "bash", "zsh", "dash", "ksh", "ash", "rbash", "mksh", "yash", "fish":
		return s.shellProgram(name, args), true
	case "xargs":
		s.xargs(args)
	case "parallel":
		s.parallel(args)
	case "su", "runuser":
		return s.su(args), true
	case "flock":
		return s.flock(args), true
	case "watch", "entr", "watchexec", "hyperfine":
		return s.watch(name, args), true
	case "script":
		l := grammar{short: "cEIOBTmo", long: " command log-out log-in "}.split(args)
		if text, ok := l.value("c", "command"); ok {
			return s.child(s.fork(), plain(text), nil), true
		}
		s.writes(l.operands)
	case "ssh", "autossh", "mosh":
		return s.ssh(args), true
	case "sshpass":
		l := grammar{short: "pfdP", first: true}.split(args)
		if f, ok := l.value("f"); ok {
			s.reads([]string{f})
		}
		return s.run(l.operands), true
	case "docker", "podman", "nerdctl", "docker-compose", "podman-compose", "finch":
		return s.docker(name, args)
	case "kubectl", "oc", "k3s", "microk8s", "minikube":
		return s.kubectl(name, args)
	case "lxc", "incus":
		if i := slices.Index(args, "--"); i >= 0 && len(args) > 0 && args[0] == "exec" {
			return s.elsewhere().run(args[i+1:]), true
		}
		if len(args) > 2 && args[0] == "exec" {
			return s.elsewhere().run(args[2:]), true
		}
		return maybe, false
	case "vagrant", "gcloud", "fly", "flyctl", "machinectl", "multipass", "wsl", "limactl", "orb", "toolbox", "distrobox":
		return s.remoteOption(args)
	case "tmux", "screen":
		s.terminal(args)
	case "at", "batch":
		l := grammar{short: "fqt"}.split(args)
		if f, ok := l.value("f"); ok {
			s.reads([]string{f})
		} else if s.stdin != nil {
			return s.child(s.fork(), s.input(), nil), true
		}
	case "crontab":
		s.crontab(args)
	case "make", "gmake", "just", "task":
		s.makeRecipe(args)
	case "direnv", "mise", "asdf", "poetry", "pipenv", "bundle", "pnpm", "npm", "yarn", "uv", "conda", "nix", "rye", "hatch", "op", "doppler", "infisical", "chamber", "dotenv":
		return s.afterWord(name, args)
	case "nix-shell":
		l := grammar{long: " run command "}.split(args)
		if text, ok := l.value("run", "command"); ok {
			return s.child(s.fork(), plain(text), nil), true
		}
		return maybe, false
	default:
		return maybe, false
	}
	s.print(someText)
	return maybe, true
}

// child runs a script in a shell of its own: of this one's variables it sees
// those that are exported.
func (s *shell) child(f *shell, text string, argv []string) tri {
	vars := make([]binding, 0, len(f.vars))
	for _, b := range f.vars {
		_, inherited := f.environ(b.name)
		if b.exported || inherited || b.name == "PWD" {
			vars = append(vars, b)
		}
	}
	f.vars = vars
	f.nounset, f.allExp, f.halt, f.locals = false, false, running, nil
	f.args, f.alias, f.name = nil, nil, "bash"
	if len(argv) > 0 {
		f.name, f.args = argv[0], argv[1:]
	}
	if !known(text) {
		f.hazy = true
	}
	return f.top(text)
}

// shellProgram runs sh, bash and their like.
func (s *shell) shellProgram(name string, args []string) tri {
	isScript, fromStdin := false, false
	i := 0
	for ; i < len(args); i++ {
		a := args[i]
		if a == "--" || a == "-" {
			i++
			break
		}
		if len(a) < 2 || a[0] != '-' && a[0] != '+' {
			break
		}
		if strings.HasPrefix(a, "--") {
			if oneOf(a, "--rcfile --init-file") && i+1 < len(args) {
				i++
				s.reads(args[i : i+1])
			}
			if a == "--command" && name == "fish" {
				isScript = true
			}
			continue
		}
		isScript = isScript || a[0] == '-' && strings.IndexByte(a, 'c') > 0
		fromStdin = fromStdin || strings.IndexByte(a, 's') > 0
		if c := a[len(a)-1]; c == 'o' || c == 'O' {
			i++
		}
	}
	rest := args[min(i, len(args)):]
	f := s.fork()
	switch {
	case isScript:
		if len(rest) == 0 {
			return maybe
		}
		return s.child(f, plain(rest[0]), rest[1:])
	case len(rest) > 0 && !fromStdin:
		return s.shellFile(f, rest)
	case s.stdin != nil:
		return s.child(f, plain(s.input()), append([]string{name}, rest...))
	}
	s.print(someText)
	return maybe
}

// shellFile runs a script that is a file.
func (s *shell) shellFile(f *shell, argv []string) tri {
	p := s.path(argv[0])
	if p == "/dev/stdin" || p == "/dev/fd/0" || p == "/proc/self/fd/0" {
		return s.child(f, plain(s.input()), argv)
	}
	if text, ok := s.r.files[p]; ok {
		return s.child(f, plain(text), argv)
	}
	s.note(effect{kind: readFile, path: p})
	s.operands(argv[1:])
	s.print(someText)
	return maybe
}
