package policy

import "strings"

// search judges programs whose first operand is a pattern or a program of their
// own. It reports whether name is one.
func (s *shell) search(name string, args []string) bool {
	var g grammar
	switch name {
	case "grep", "egrep", "fgrep", "zgrep", "bzgrep", "xzgrep", "ggrep", "pcregrep":
		g = grammar{short: "efmABCdD", long: " regexp file max-count after-context before-context context include exclude exclude-dir exclude-from directories devices binary-files label color colour "}
	case "rg", "ag", "ack", "ugrep", "ug":
		g = grammar{short: "efgmABCtTjMdErG", long: " regexp file glob iglob max-count after-context before-context context type type-not threads max-columns max-depth sort sortr replace ignore-file pre ignore ignore-dir encoding color colors "}
	case "awk", "gawk", "mawk", "nawk":
		s.awk(args)
		return true
	case "jq", "yq", "gojq", "jaq", "dasel", "xmllint", "fx":
		s.jq(name, args)
		return true
	default:
		return false
	}
	l := g.split(args)
	given := false
	for _, o := range l.options {
		switch o.name {
		case "e", "regexp":
			given = true
		case "f", "file":
			given = true
			s.reads([]string{o.value})
		case "ignore-file", "exclude-from":
			s.reads([]string{o.value})
		}
	}
	files := l.operands
	if !given && !l.has("files", "type-list") {
		files = files[min(1, len(files)):]
	}
	s.reads(files)
	if len(files) == 0 && s.stdin != nil {
		s.print(grepped(&l, s.stdin.text))
	} else {
		s.print(someText)
	}
	return true
}

// grepped is what grep lets through, as far as it is known: with a plain
// pattern the lines that have it or, with -v, have it not.
func grepped(l *line, text string) string {
	pattern := ""
	if v, ok := l.value("e", "regexp"); ok {
		pattern = v
	} else if len(l.operands) > 0 {
		pattern = l.operands[0]
	}
	if l.has("o", "c", "count", "only-matching", "q", "l") {
		return someText
	}
	pattern = plain(pattern)
	if hasAny(pattern, `\.*[]^$+?(){}|`) || !known(pattern) {
		return text
	}
	invert := l.has("v", "invert-match")
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		if strings.Contains(line, pattern) != invert || !known(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func (s *shell) awk(args []string) {
	l := grammar{short: "Ffvie", long: " field-separator file assign include source ", first: true}.split(args)
	operands := l.operands
	given, inPlace := false, false
	for _, o := range l.options {
		switch o.name {
		case "f", "file":
			given = true
			s.reads([]string{o.value})
		case "e", "source":
			given = true
			s.code("awk", o.value)
		case "i", "include":
			inPlace = inPlace || o.value == "inplace"
		}
	}
	if !given && len(operands) > 0 {
		s.code("awk", operands[0])
		s.printedByAwk(operands)
		operands = operands[1:]
	} else {
		s.print(someText)
	}
	s.reads(operands)
	if inPlace {
		s.writes(operands)
	}
}

// printedByAwk is the output of the programs that only pick a field.
func (s *shell) printedByAwk(operands []string) {
	program := strings.Join(strings.Fields(operands[0]), " ")
	field, ok := strings.CutPrefix(program, "{print $")
	if !ok {
		field, ok = strings.CutPrefix(program, "{ print $")
	}
	field = strings.TrimRight(field, " }")
	if !ok || len(operands) > 1 || s.stdin == nil || len(field) != 1 || !isDigit(field[0]) {
		s.print(someText)
		return
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(s.stdin.text, "\n"), "\n") {
		fields := strings.Fields(line)
		if n := int(field[0] - '0'); n > 0 && n <= len(fields) {
			line = fields[n-1]
		} else if n > 0 {
			line = ""
		}
		s.print(line + "\n")
	}
}

// jq reads its files behind the filter; some options take two values.
func (s *shell) jq(name string, args []string) {
	var operands []string
	given := name == "xmllint"
	inPlace := false
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case oneOf(a, "--arg --argjson"):
			i += 2
		case oneOf(a, "--slurpfile --rawfile --argfile") && i+2 < len(args):
			s.reads(args[i+2 : i+3])
			i += 2
		case oneOf(a, "-f --from-file") && i+1 < len(args) && name != "yq":
			given = true
			i++
			s.reads(args[i : i+1])
		case oneOf(a, "--args --jsonargs"):
			i = len(args)
		case oneOf(a, "--indent -p -o --xpath -L --tab -I"):
			if i+1 < len(args) && name != "jq" || a == "--indent" {
				i++
			}
		case a == "-i" || a == "--inplace":
			inPlace = true
		case oneOf(a, "eval e eval-all ea") && name == "yq" && len(operands) == 0:
		case a != "" && a[0] == '-':
			s.operands(args[i : i+1])
		default:
			operands = append(operands, a)
		}
	}
	if !given {
		operands = operands[min(1, len(operands)):]
	}
	s.reads(operands)
	if inPlace {
		s.writes(operands)
	}
	s.print(someText)
}
