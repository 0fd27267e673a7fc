package policy

import (
	"slices"
	"strings"
)

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
