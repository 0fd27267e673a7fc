package policy

import "strings"

// interpreter judges the programs of other languages: inline code, code on
// standard input, and the files they are given. It reports whether name is one.
func (s *shell) interpreter(name string, args []string) bool {
	lang := strings.TrimRight(name, "0123456789.")
	switch lang {
	case "python", "pypy", "ipython":
		s.python(args)
	case "node", "nodejs", "deno", "bun", "ts-node", "tsx":
		s.evaluates("node", args, "ep", "eval print", "r", " require env-file import loader ")
	case "ruby", "perl":
		s.scripts(lang, args)
	case "php", "lua", "luajit", "Rscript", "R", "osascript", "groovy", "scala", "elixir", "tclsh", "expect", "julia":
		s.evaluates(lang, args, "er", "eval run", "c", " ")
	default:
		return false
	}
	return true
}

func (s *shell) python(args []string) {
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.HasSuffix(a, "c") && i+1 < len(args):
			s.code("python", args[i+1])
			s.operands(args[i+2:])
			return
		case len(a) > 2 && strings.HasPrefix(a, "-c"):
			s.code("python", a[2:])
			return
		case a == "-m":
			s.operands(args[min(len(args), i+2):])
			return
		case a == "-W" || a == "-X":
			i++
		case a == "-" || a == "/dev/stdin":
			s.code("python", s.input())
			return
		case a != "" && a[0] == '-':
		default:
			s.codeFile("python", args[i:])
			return
		}
	}
	s.code("python", s.input())
}

// codeFile judges a program that is a file: one that the script itself has
// written is known.
func (s *shell) codeFile(lang string, args []string) {
	p := s.path(args[0])
	if text, ok := s.r.files[p]; ok {
		s.code(lang, text)
	}
	s.reads(args[:1])
	s.operands(args[1:])
}

// evaluates judges interpreters whose options in short and long take code.
func (s *shell) evaluates(lang string, args []string, short, long, values, valuesLong string) {
	done := false
	for i := 0; i < len(args); i++ {
		a := args[i]
		name := strings.TrimLeft(a, "-")
		key, value, inline := strings.Cut(name, "=")
		switch {
		case a == "-":
		case len(a) > 1 && a[0] == '-' && a[1] != '-' && hasAny(name[len(name)-1:], short), strings.HasPrefix(a, "--") && oneOf(key, long):
			done = true
			if !inline && i+1 < len(args) {
				i++
				value = args[i]
			}
			s.code(lang, value)
		case oneOf(a, "eval run test task exec repl") && i == 0:
			if a == "eval" && i+1 < len(args) {
				s.code(lang, args[i+1])
				return
			}
		case len(a) > 1 && a[0] == '-':
			s.operands(args[i : i+1])
			if len(a) == 2 && hasAny(name, values) || grammarTakes(valuesLong, key) && !inline {
				i++
				s.operands(args[i:min(i+1, len(args))])
			}
		default:
			if done {
				s.operands(args[i:])
			} else {
				s.codeFile(lang, args[i:])
			}
			return
		}
	}
	if !done && s.stdin != nil {
		s.code(lang, s.input())
	}
}

func grammarTakes(long, key string) bool { return grammar{long: long}.takes(key) }

// scripts judges perl and ruby, whose switches come in clusters.
func (s *shell) scripts(lang string, args []string) {
	done, inPlace := false, false
	for i := 0; i < len(args); i++ {
		a := args[i]
		if len(a) < 2 || a[0] != '-' || a[1] == '-' {
			if a == "-" {
				break
			}
			if done {
				s.reads(args[i:])
				if inPlace {
					s.writes(args[i:])
				}
			} else {
				s.codeFile(lang, args[i:])
			}
			return
		}
	letters:
		for k := 1; k < len(a); k++ {
			switch a[k] {
			case 'e', 'E':
				done = true
				if k+1 < len(a) && lang == "ruby" {
					s.code(lang, a[k+1:])
				} else if i+1 < len(args) {
					i++
					s.code(lang, args[i])
				}
				break letters
			case 'i':
				inPlace = true
				break letters
			case 'M', 'm', 'I', 'F', 'x', 'r', 'C':
				if k+1 == len(a) && hasAny(a[k:k+1], "Ir") {
					i++
				}
				break letters
			}
		}
	}
	if !done {
		s.code(lang, s.input())
	}
}
