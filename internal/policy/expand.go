package policy

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// mode is what an expansion is for.
type mode uint8

const (
	oneWord  mode = iota // no splitting, glob characters are text
	splitUp              // arguments: split, glob characters are marks
	patterns             // no splitting, glob characters are marks
)

// An expansion turns the parts of words into values.
type expansion struct {
	s      *shell
	mode   mode
	assign bool // a tilde behind "=" or ":" counts as well
	buf    []byte
	out    []string
	has    bool // the field at work is there, even if empty
}

// fields expands words as arguments.
func (s *shell) fields(words []*syntax.Word) []string {
	out := make([]string, 0, len(words))
	for _, w := range words {
		if len(w.Parts) == 1 {
			switch p := w.Parts[0].(type) {
			case *syntax.Lit:
				if !hasAny(p.Value, "\\*?[{~") {
					out = append(out, p.Value)
					continue
				}
			case *syntax.SglQuoted:
				if !p.Dollar {
					out = append(out, p.Value)
					continue
				}
			}
		}
		out = s.expandWord(w, out)
	}
	if s.r.words += len(out); s.r.words > maxWords {
		s.giveUp("it has too many words")
	}
	return out
}

func (s *shell) expandWord(w *syntax.Word, out []string) []string {
	for _, parts := range braces(w) {
		if !s.spend(8 * len(parts)) {
			break
		}
		x := expansion{s: s, mode: splitUp, out: out}
		x.parts(parts)
		x.flush()
		out = x.out
	}
	return out
}

// one expands a word to one value: assignments, redirections, here-strings.
func (s *shell) one(w *syntax.Word) string { return s.single(w, oneWord, false) }

// pattern expands a word to a pattern.
func (s *shell) pattern(w *syntax.Word) string { return s.single(w, patterns, false) }

func (s *shell) single(w *syntax.Word, m mode, assign bool) string {
	if w == nil {
		return ""
	}
	if len(w.Parts) == 1 {
		switch p := w.Parts[0].(type) {
		case *syntax.Lit:
			if !hasAny(p.Value, "\\*?[~") {
				return p.Value
			}
		case *syntax.SglQuoted:
			if !p.Dollar {
				return p.Value
			}
		}
	}
	x := expansion{s: s, mode: m, assign: assign}
	x.parts(w.Parts)
	return string(x.buf)
}

func (x *expansion) flush() {
	if x.has {
		x.out = append(x.out, string(x.buf))
	}
	x.buf, x.has = x.buf[:0], false
}

func (x *expansion) add(text string) {
	if !x.s.spend(len(text)) {
		return
	}
	x.buf = append(x.buf, text...)
	x.has = true
}

func (x *expansion) parts(parts []syntax.WordPart) {
	for i, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			x.lit(p.Value, i == 0, i == len(parts)-1)
		case *syntax.SglQuoted:
			if p.Dollar {
				x.add(ansi(p.Value))
			} else {
				x.add(p.Value)
			}
		case *syntax.DblQuoted:
			x.quoted(p.Parts)
		case *syntax.ExtGlob:
			x.add(string(anyRun))
		default:
			x.value(p)
		}
	}
}

// lit adds unquoted text of the script.
func (x *expansion) lit(v string, first, last bool) {
	if v == "" {
		return
	}
	x.has = true
	if first && (last || strings.IndexByte(v, '/') >= 0) {
		if eq := strings.IndexByte(v, '='); eq > 0 && eq+1 < len(v) && v[eq+1] == '~' && x.mode == splitUp && !x.s.elements && isName(v[:eq]) {
			x.add(v[:eq+1])
			v = v[eq+1:]
		}
		if v[0] == '~' {
			v = x.tilde(v)
		}
	}
	for i := 0; i < len(v); i++ {
		c := v[i]
		switch {
		case c == '\\':
			if i++; i < len(v) && v[i] != '\n' {
				x.buf = append(x.buf, v[i])
			} else if i == len(v) {
				x.buf = append(x.buf, c)
			}
		case x.mode != oneWord:
			x.buf = append(x.buf, active(c))
		case x.assign && c == ':' && i+1 < len(v) && v[i+1] == '~':
			x.buf = append(x.buf, c)
			v = x.tilde(v[i+1:])
			i = -1
		default:
			x.buf = append(x.buf, c)
		}
	}
}

// tilde adds what a leading ~ stands for and returns the rest.
func (x *expansion) tilde(v string) string {
	end := strings.IndexAny(v, "/:")
	if end < 0 || v[end] == ':' && !x.assign {
		end = len(v)
		if i := strings.IndexByte(v, '/'); i >= 0 {
			end = i
		}
	}
	user := v[1:end]
	switch {
	case user == "":
		home, _ := x.s.get("HOME")
		x.add(home)
	case user == "+":
		x.add(x.s.cwd())
	case user == "root":
		x.add("/root")
	case isName(strings.ReplaceAll(user, "-", "_")):
		x.add("/home/" + user)
	default:
		return v
	}
	return v[end:]
}

// quoted adds what stands in double quotes.
func (x *expansion) quoted(parts []syntax.WordPart) {
	if len(parts) != 1 {
		x.has = true
	}
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			x.add(unescape(p.Value))
		case *syntax.ParamExp:
			values, many := x.s.param(p, true)
			if !many {
				x.add(values[0])
				continue
			}
			for i, v := range values {
				if i > 0 {
					x.next()
				}
				x.add(v)
			}
		default:
			x.add(x.s.substitute(p))
		}
	}
}

// next ends a field; where there is only one, a space does.
func (x *expansion) next() {
	if x.mode == splitUp {
		x.flush()
		return
	}
	x.add(" ")
}

// unescape takes the backslashes away that double quotes let work.
func unescape(v string) string {
	if strings.IndexByte(v, '\\') < 0 {
		return v
	}
	b := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		if v[i] == '\\' && i+1 < len(v) {
			switch v[i+1] {
			case '$', '`', '"', '\\':
				i++
			case '\n':
				i++
				continue
			}
		}
		b = append(b, v[i])
	}
	return string(b)
}

// value adds an unquoted expansion.
func (x *expansion) value(p syntax.WordPart) {
	e, ok := p.(*syntax.ParamExp)
	if !ok {
		x.unquoted(x.s.substitute(p))
		return
	}
	if w := x.s.instead(e); w != nil && x.mode == splitUp {
		x.replacement(w)
		return
	}
	values, _ := x.s.param(e, false)
	for i, v := range values {
		if i > 0 {
			x.next()
		}
		x.unquoted(v)
	}
}

// replacement adds the word of an unquoted ${a:-word}: what it quotes is not split.
func (x *expansion) replacement(w *syntax.Word) {
	for i, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			v := p.Value
			if i == 0 && v != "" && v[0] == '~' {
				v = x.tilde(v)
			}
			x.unquotedLit(v)
		default:
			x.parts(w.Parts[i : i+1])
		}
	}
}

// unquotedLit adds text of the script that is split like a value; what a
// backslash quotes is not.
func (x *expansion) unquotedLit(v string) {
	for {
		i := strings.IndexByte(v, '\\')
		if i < 0 || i+1 == len(v) {
			x.unquoted(v)
			return
		}
		x.unquoted(v[:i])
		if v[i+1] != '\n' {
			x.add(v[i+1 : i+2])
		}
		v = v[i+2:]
	}
}

// unquoted adds a value that is split into fields where that is wanted.
func (x *expansion) unquoted(v string) {
	switch x.mode {
	case oneWord:
		x.add(v)
		return
	case patterns:
		x.add(activate(v))
		return
	}
	if !x.s.spend(len(v)) {
		return
	}
	ifs := x.s.ifs()
	for i := 0; i < len(v); {
		if strings.IndexByte(ifs, v[i]) < 0 {
			x.buf = append(x.buf, active(v[i]))
			x.has = true
			i++
			continue
		}
		hard := false
		for i < len(v) && strings.IndexByte(ifs, v[i]) >= 0 && isSpace(v[i]) {
			i++
		}
		if i < len(v) && strings.IndexByte(ifs, v[i]) >= 0 && !isSpace(v[i]) {
			hard = true
			i++
			for i < len(v) && strings.IndexByte(ifs, v[i]) >= 0 && isSpace(v[i]) {
				i++
			}
		}
		x.has = x.has || hard
		x.flush()
	}
}

// substitute is the value of an arithmetic, command or process substitution.
func (s *shell) substitute(p syntax.WordPart) string {
	switch p := p.(type) {
	case *syntax.ArithmExp:
		if n, ok := s.arith(p.X); ok {
			return strconv.FormatInt(n, 10)
		}
	case *syntax.CmdSubst:
		return strings.TrimRight(s.capture(p.Stmts), "\n")
	case *syntax.ProcSubst:
		return s.process(p)
	case *syntax.ParamExp:
		values, _ := s.param(p, true)
		return strings.Join(values, " ")
	case *syntax.DblQuoted:
		x := expansion{s: s}
		x.quoted(p.Parts)
		return string(x.buf)
	case *syntax.Lit:
		return p.Value
	}
	return someText
}

// capture runs a list in a subshell and returns its output.
func (s *shell) capture(list []*syntax.Stmt) string {
	if s.r.depth >= maxDepth {
		s.giveUp("it is nested too deeply")
		return someText
	}
	s.r.depth++
	f := s.fork()
	f.out = &strings.Builder{}
	s.status = f.stmts(list)
	f.finish()
	s.r.depth--
	return f.out.String()
}

// process runs a process substitution and returns the path that stands for it.
func (s *shell) process(p *syntax.ProcSubst) string {
	s.r.pipes++
	name := "/dev/fd/" + strconv.Itoa(s.r.pipes+62)
	if p.Op == syntax.CmdIn {
		s.wrote(name, s.capture(p.Stmts), false)
		return name
	}
	f := s.fork()
	f.stdin = nil
	f.stmts(p.Stmts)
	return name
}

// ansi decodes the inside of $'…'.
func ansi(v string) string {
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
		switch c := v[i]; c {
		case 'c':
			if i++; i < len(v) {
				b = append(b, v[i]&0x1f)
			}
		case '\'', '"', '\\', '?':
			b = append(b, c)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			n := digits(v[i:], 3, 8)
			x, _ := strconv.ParseUint(v[i:i+n], 8, 32)
			b = append(b, byte(x))
			i += n - 1
		default:
			var size int
			b, size = escape(b, v[i:])
			if size == 0 {
				b = append(b, '\\', c)
			} else {
				i += size - 1
			}
		}
	}
	if i := strings.IndexByte(string(b), 0); i >= 0 {
		b = b[:i]
	}
	return bare(string(b))
}

// escape decodes the escapes that $'…', echo -e and printf share, without the
// backslash, and returns how long they are.
func escape(b []byte, v string) ([]byte, int) {
	switch v[0] {
	case 'a':
		return append(b, 7), 1
	case 'b':
		return append(b, 8), 1
	case 'e', 'E':
		return append(b, 27), 1
	case 'f':
		return append(b, 12), 1
	case 'n':
		return append(b, 10), 1
	case 'r':
		return append(b, 13), 1
	case 't':
		return append(b, 9), 1
	case 'v':
		return append(b, 11), 1
	case '\\':
		return append(b, '\\'), 1
	case 'x', 'u', 'U':
		width := 2
		if v[0] == 'u' {
			width = 4
		} else if v[0] == 'U' {
			width = 8
		}
		n := digits(v[1:], width, 16)
		if n == 0 {
			return b, 0
		}
		x, _ := strconv.ParseUint(v[1:1+n], 16, 32)
		if v[0] == 'x' {
			return append(b, byte(x)), 1 + n
		}
		return append(b, string(rune(x))...), 1 + n
	}
	return b, 0
}

// digits counts digits of a base at the start of v, at most limit.
func digits(v string, limit, base int) int {
	n := 0
	for n < len(v) && n < limit {
		c := v[n]
		switch {
		case c >= '0' && c <= '7', base > 8 && c >= '8' && c <= '9':
		case base == 16 && c|0x20 >= 'a' && c|0x20 <= 'f':
		default:
			return n
		}
		n++
	}
	return n
}
