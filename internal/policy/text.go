package policy

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"path"
	"slices"
	"strconv"
	"strings"
)

// text runs the builtins that print.
func (s *shell) text(name string, args []string) (tri, bool) {
	switch name {
	case "echo":
		if s.out != nil {
			s.print(echo(args))
		}
	case "printf":
		s.printf(args)
	case "pwd":
		s.print(s.cwd() + "\n")
	}
	return yes, true
}

func echo(args []string) string {
	newline, escapes := "\n", false
options:
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		for _, c := range args[0][1:] {
			if c != 'n' && c != 'e' && c != 'E' {
				break options
			}
		}
		if strings.Contains(args[0], "n") {
			newline = ""
		}
		escapes = strings.LastIndexByte(args[0], 'e') > strings.LastIndexByte(args[0], 'E')
		args = args[1:]
	}
	text := plain(strings.Join(args, " "))
	if escapes {
		text = backslashes(text)
	}
	return text + newline
}

// backslashes decodes the escapes of echo -e and printf.
func backslashes(v string) string {
	if strings.IndexByte(v, '\\') < 0 {
		return v
	}
	b := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' || i+1 == len(v) {
			b = append(b, v[i])
			continue
		}
		i++
		if v[i] >= '0' && v[i] <= '7' {
			from := i
			if v[i] == '0' {
				from++
			}
			n := digits(v[from:], 3, 8)
			x, _ := strconv.ParseUint(v[from:from+n], 8, 32)
			b = append(b, byte(x))
			i = from + n - 1
			continue
		}
		if v[i] == 'c' {
			break
		}
		var size int
		if b, size = escape(b, v[i:]); size == 0 {
			b = append(b, '\\', v[i])
		} else {
			i += size - 1
		}
	}
	return bare2(string(b), v)
}

// bare2 takes marks out of decoded text unless the source had them.
func bare2(text, source string) string {
	if hasAny(source, marks) {
		return text
	}
	return bare(text)
}

func (s *shell) printf(args []string) {
	to := ""
	if len(args) > 1 && args[0] == "-v" {
		to, args = args[1], args[2:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || s.out == nil && to == "" {
		return
	}
	text := formatted(plain(args[0]), args[1:])
	if to != "" && isName(to) {
		s.set(to, text)
		return
	}
	s.print(text)
}

// formatted is printf's output: the format is used until the arguments are.
func formatted(format string, args []string) string {
	var b strings.Builder
	for {
		rest := formatOnce(&b, format, args)
		if len(rest) == 0 || len(rest) == len(args) || b.Len() > maxText {
			return b.String()
		}
		args = rest
	}
}

func formatOnce(b *strings.Builder, format string, args []string) []string {
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c == '\\' {
			end := i + 2
			for end < len(format) && format[end] != '\\' && format[end] != '%' {
				end++
			}
			b.WriteString(backslashes(format[i:min(end, len(format))]))
			i = end - 1
			continue
		}
		if c != '%' || i+1 == len(format) {
			b.WriteByte(c)
			continue
		}
		if format[i+1] == '%' {
			b.WriteByte('%')
			i++
			continue
		}
		end := i + 1
		for end < len(format) && !isLetter(format[end]) && format[end] != '(' {
			end++
		}
		if end == len(format) {
			break
		}
		arg := ""
		if len(args) > 0 {
			arg, args = plain(args[0]), args[1:]
		}
		b.WriteString(directive(format[i+1:end], format[end], arg))
		i = end
	}
	return args
}

// directive is one %… of printf.
func directive(flags string, verb byte, arg string) string {
	switch verb {
	case 'q':
		return quote(arg)
	case 'b':
		arg = backslashes(arg)
	case 'c':
		arg = arg[:min(1, len(arg))]
	case 'd', 'i', 'u', 'x', 'X', 'o':
		if !known(arg) {
			return someText
		}
		n, _ := strconv.ParseInt(strings.TrimSpace(arg), 0, 64)
		base := map[byte]int{'x': 16, 'X': 16, 'o': 8}[verb]
		arg = strconv.FormatInt(n, max(base, 10-10*min(base, 1)))
		if verb == 'X' {
			arg = strings.ToUpper(arg)
		}
	case 's':
	default:
		return someText
	}
	return padTo(flags, arg, verb)
}

// padTo applies width and precision.
func padTo(flags, arg string, verb byte) string {
	if flags == "" {
		return arg
	}
	width, precision, dot := strings.Cut(strings.TrimLeft(flags, "-+ #0"), ".")
	if dot && (verb == 's' || verb == 'b') {
		n, _ := strconv.Atoi(precision)
		arg = arg[:min(n, len(arg))]
	}
	n, _ := strconv.Atoi(width)
	if n = min(n, 1000) - len(arg); n <= 0 {
		return arg
	}
	fill := " "
	if strings.HasPrefix(flags, "0") && verb != 's' {
		fill = "0"
	}
	if strings.HasPrefix(flags, "-") {
		return arg + strings.Repeat(" ", n)
	}
	return strings.Repeat(fill, n) + arg
}

// filter judges programs that turn text into text, and says what comes out.
func (s *shell) filter(name string, args []string) bool {
	switch name {
	case "cat", "tac", "sort", "uniq", "head", "tail", "nl", "fmt", "fold", "column", "shuf", "dos2unix", "strings", "iconv", "unexpand", "expand", "more", "less", "pv", "sponge":
		s.through(name, args)
	case "base64", "base32", "gbase64":
		s.decode(name, args)
	case "xxd":
		s.hexdump(args)
	case "rev":
		s.operandsOr(args, func(in string) string {
			lines := strings.Split(in, "\n")
			for i, l := range lines {
				r := []byte(l)
				slices.Reverse(r)
				lines[i] = string(r)
			}
			return strings.Join(lines, "\n")
		})
	case "tr":
		s.translate(args)
	case "cut":
		s.cutFields(args)
	case "seq":
		s.sequence(args)
	case "basename", "dirname", "realpath", "readlink":
		s.pathText(name, args)
	case "which":
		for _, a := range args {
			s.print(a + "\n")
		}
	default:
		return false
	}
	return true
}

// operandsOr reads the operands, or changes the input where there are none.
func (s *shell) operandsOr(operands []string, change func(string) string) {
	files := operands[:0:0]
	for _, o := range operands {
		if o != "-" && o != "" && o[0] != '-' {
			files = append(files, o)
		}
	}
	if len(files) == 0 {
		s.print(change(s.input()))
		return
	}
	for _, f := range files {
		p := s.path(f)
		s.note(effect{kind: readFile, path: p})
		if text, ok := s.r.files[p]; ok {
			s.print(change(text))
		} else if p == "/dev/stdin" {
			s.print(change(s.input()))
		} else {
			s.print(someText + "\n")
		}
	}
}

// through passes text on; that less of it may come out does not matter.
func (s *shell) through(name string, args []string) {
	short := map[string]string{"head": "nc", "tail": "ncs", "sort": "kotSTk", "uniq": "fsw", "fold": "w", "fmt": "w", "column": "sco", "shuf": "ino", "strings": "nte", "iconv": "fto", "nl": "bdfhilnsvw", "less": "bhjkoOpPtTxyz"}[name]
	l := grammar{short: short, long: " output key lines bytes field-separator from-code to-code "}.split(args)
	if o, ok := l.value("o", "output"); ok {
		s.note(effect{kind: writeFile, path: s.path(o)})
	}
	if name == "sponge" {
		for _, o := range l.operands {
			s.note(effect{kind: writeFile, path: s.path(o)})
		}
		return
	}
	s.operandsOr(l.operands, func(in string) string { return in })
}

func (s *shell) decode(name string, args []string) {
	l := grammar{short: "wioD", long: " wrap input output "}.split(args)
	d := l.has("d", "decode", "D")
	if l.has("D") { // macOS: -D is a switch
		l = grammar{short: "wio", long: " wrap input output "}.split(args)
	}
	if in, ok := l.value("i", "input"); ok && in != "" {
		s.note(effect{kind: readFile, path: s.path(in)})
	}
	s.operandsOr(l.operands, func(in string) string {
		in = strings.Map(func(r rune) rune {
			if r == '\n' || r == ' ' {
				return -1
			}
			return r
		}, in)
		if !known(in) {
			return someText
		}
		if !d {
			return base64.StdEncoding.EncodeToString([]byte(in)) + "\n"
		}
		return decoded(name, in)
	})
}

func decoded(name, in string) string {
	in = strings.TrimRight(in, "=")
	var out []byte
	var err error
	if name == "base32" {
		out, err = base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(in)
	} else {
		out, err = base64.RawStdEncoding.DecodeString(in)
	}
	if err != nil && len(out) == 0 {
		return someText
	}
	return bare(string(out))
}

func (s *shell) hexdump(args []string) {
	l := grammar{short: "cglos"}.split(args)
	back := l.has("r")
	s.operandsOr(l.operands, func(in string) string {
		if !back || !known(in) {
			return someText
		}
		in = strings.Map(func(r rune) rune {
			if r < 0x80 && (isDigit(byte(r)) || r|0x20 >= 'a' && r|0x20 <= 'f') {
				return r
			}
			return -1
		}, in)
		out, _ := hex.DecodeString(in[:len(in)/2*2])
		return bare(string(out))
	})
}

func (s *shell) translate(args []string) {
	l := grammar{}.split(args)
	in := s.input()
	if len(l.operands) == 0 || !known(in) {
		s.print(in)
		return
	}
	from := charSet(plain(l.operands[0]))
	if l.has("d", "delete") {
		s.print(strings.Map(func(r rune) rune {
			if strings.ContainsRune(from, r) {
				return -1
			}
			return r
		}, in))
		return
	}
	if len(l.operands) < 2 || l.has("c", "C", "s") {
		s.print(in)
		return
	}
	to := charSet(plain(l.operands[1]))
	s.print(bare(strings.Map(func(r rune) rune {
		i := strings.LastIndexByte(from, byte(r))
		if r >= 0x80 || i < 0 || to == "" {
			return r
		}
		return rune(to[min(i, len(to)-1)])
	}, in)))
}

// charSet expands the sets of tr.
func charSet(set string) string {
	set = backslashes(set)
	switch set {
	case "[:lower:]":
		set = "a-z"
	case "[:upper:]":
		set = "A-Z"
	case "[:digit:]":
		set = "0-9"
	case "[:space:]":
		set = " \t\n\v\f\r"
	}
	var b strings.Builder
	for i := 0; i < len(set); i++ {
		if i+2 < len(set) && set[i+1] == '-' && set[i] <= set[i+2] {
			for c := int(set[i]); c <= int(set[i+2]); c++ {
				b.WriteByte(byte(c))
			}
			i += 2
			continue
		}
		b.WriteByte(set[i])
	}
	return b.String()
}

func (s *shell) cutFields(args []string) {
	l := grammar{short: "dfcb", long: " delimiter fields characters bytes output-delimiter "}.split(args)
	delim, ok := l.value("d", "delimiter")
	if !ok || delim == "" {
		delim = "\t"
	}
	list, _ := l.value("f", "fields")
	n, err := strconv.Atoi(list)
	s.operandsOr(l.operands, func(in string) string {
		if err != nil || n < 1 {
			return someText
		}
		lines := strings.Split(in, "\n")
		for i, line := range lines {
			if parts := strings.Split(line, delim); len(parts) >= n {
				lines[i] = parts[n-1]
			} else if len(parts) > 1 {
				lines[i] = ""
			}
		}
		return strings.Join(lines, "\n")
	})
}

func (s *shell) sequence(args []string) {
	l := grammar{short: "fs", long: " format separator "}.split(args)
	from, step, to := 1, 1, 0
	nums := make([]int, 0, 3)
	for _, o := range l.operands {
		n, err := strconv.Atoi(o)
		if err != nil {
			s.print(someText)
			return
		}
		nums = append(nums, n)
	}
	switch len(nums) {
	case 1:
		to = nums[0]
	case 2:
		from, to = nums[0], nums[1]
	case 3:
		from, step, to = nums[0], nums[1], nums[2]
	default:
		return
	}
	for i := 0; i < maxSequence && step != 0 && (step > 0 && from <= to || step < 0 && from >= to); i++ {
		s.print(strconv.Itoa(from) + "\n")
		from += step
	}
}

func (s *shell) pathText(name string, args []string) {
	l := grammar{short: "s", long: " suffix relative-to relative-base "}.split(args)
	for i, o := range l.operands {
		switch {
		case name == "basename":
			o = baseName(o)
			if len(l.operands) == 2 && i == 0 {
				s.print(strings.TrimSuffix(o, l.operands[1]) + "\n")
				return
			}
		case name == "dirname":
			if !known(o) && strings.IndexByte(o, '/') < 0 {
				o = someText
			} else {
				o = path.Dir(o)
			}
		default:
			o = s.path(o)
		}
		s.print(o + "\n")
	}
}
