package policy

import (
	"slices"
	"strings"
)

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
	s.operand(rest[0]) // an image may have its program inside
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
