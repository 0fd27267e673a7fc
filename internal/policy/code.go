package policy

import (
	"slices"
	"strconv"
	"strings"
)

// The words that tell what inline code does. They are looked for outside its
// strings; what they do to a file is decided by the strings beside them.
const (
	codeOpens   = "open read load source require include slurp file path parse import getline config dotenv"
	codeWrites  = "write_text write_bytes writefile appendfile createwritestream .write( file_put_contents copyfile copy( move( rename symlink truncate chmod chown"
	codeDeletes = "rmtree rmsync rm_rf rm_r remove_tree rimraf rmdir removesync rm( deltree remove_entry unlink"
	codeCalls   = "urlopen requests fetch connect socket get( http net lwp axios urllib curl request post( put( urlretrieve httpx open( file_get_contents"

	// quietCalls take a name without opening the file.
	quietCalls = "exists isfile is_file existsSync file_exists print puts log echo console.log info debug warn error startswith endswith startsWith endsWith write append add push includes includes? writelines stat statSync getmtime lstat remove unlink unlinkSync die say"
	execCalls  = "system popen Popen run call check_call check_output getoutput getstatusoutput exec execSync execFile execFileSync spawn spawnSync shell_exec passthru proc_open capture2 capture2e capture3 execvp execv execl execlp execve spawnl execute sh pclose"
)

// A quoted is a string of inline code.
type quoted struct {
	value  string
	callee string // what it is an argument of, innermost
	outer  string // all calls around it
	group  int    // which call
	before byte   // the last character before it
	after  byte   // and the first one behind
	raw    byte   // its quote
}

// code judges inline code of another language by its strings. It is made to
// miss rather than to guess.
func (s *shell) code(lang, text string) {
	if text == "" || text == someText || len(text) > maxCommand || s.r.done {
		return
	}
	c := readCode(lang, plain(text))
	skeleton := strings.ToLower(c.skeleton.String())
	for _, q := range c.strings {
		s.codeString(lang, q, skeleton, c.modes)
		if s.r.done {
			return
		}
	}
	for group := 1; group <= c.groups; group++ {
		s.codeExec(c.strings, group)
	}
	for _, script := range c.scripts {
		s.child(s.fork(), script, nil)
	}
}

func containsWord(skeleton, words string) bool {
	for w := range strings.SplitSeq(words, " ") {
		if strings.Contains(skeleton, w) {
			return true
		}
	}
	return false
}

// codeString judges one string.
func (s *shell) codeString(lang string, q quoted, skeleton string, modes bool) {
	if q.value == "" || len(q.value) > 4096 || hasAny(q.value, "\n") {
		return
	}
	last := q.callee[strings.LastIndexByte(q.callee, '.')+1:]
	fileWrite := oneOf(q.callee, "File.write IO.write File.binwrite")
	quiet := !fileWrite && (oneOf(q.callee, quietCalls) || oneOf(last, quietCalls))
	if containsWord(skeleton, codeCalls) && !quiet {
		if schemeOf(q.value) > 0 {
			s.url(q.value)
		} else if isMetadata(q.value) {
			s.note(effect{kind: connect, path: q.value})
		}
	}
	if hasAny(q.value, " \t") {
		return
	}
	p := s.path(s.homeOf(q.value))
	if containsWord(skeleton, codeOpens) && !quiet {
		s.note(effect{kind: readFile, path: p})
	}
	writes := modes || fileWrite || containsWord(skeleton, codeWrites) || lang == "awk" && q.before == '>'
	if writes && !quiet && q.value[0] == '/' {
		s.note(effect{kind: writeFile, path: p})
	}
	if hasAny(q.value[:1], "/~.") && containsWord(skeleton, codeDeletes) && (q.outer == "" || containsWord(strings.ToLower(q.outer)+"(", codeDeletes)) {
		s.note(effect{kind: deleteTree, path: p, recursive: true})
	}
}

// homeOf expands a leading "~/".
func (s *shell) homeOf(p string) string {
	if p == "~" || strings.HasPrefix(p, "~/") {
		home, _ := s.get("HOME")
		return home + p[1:]
	}
	return p
}

// codeExec runs the strings of one call that starts programs.
func (s *shell) codeExec(all []quoted, group int) {
	var argv []string
	for _, q := range all {
		if q.group == group {
			argv = append(argv, q.value)
		}
	}
	switch {
	case len(argv) == 0:
	case len(argv) == 1 || hasAny(argv[0], " \t\n"):
		s.child(s.fork(), argv[0], nil)
	default:
		f := s.fork()
		f.funcs, f.alias = nil, nil
		f.run(argv)
	}
}

// A reader takes inline code apart.
type reader struct {
	lang     string
	text     string
	strings  []quoted
	scripts  []string // backticks
	skeleton strings.Builder
	modes    bool // a string that opens for writing is there
	calls    []codeCall
	groups   int // calls that start programs so far
}

type codeCall struct {
	name  string
	group int
}

func readCode(lang, text string) *reader {
	r := &reader{lang: lang, text: text}
	for i := 0; i < len(text); {
		i = r.step(i)
	}
	return r
}

// step reads what starts at i and returns where the next thing does.
func (r *reader) step(i int) int {
	c := r.text[i]
	switch {
	case c == '#' && r.lang != "node" && (i == 0 || isSpace(r.text[i-1])):
		return i + lineLen(r.text[i:])
	case c == '/' && (r.lang == "node" || r.lang == "php") && strings.HasPrefix(r.text[i:], "//") && (i == 0 || isSpace(r.text[i-1]) || r.text[i-1] == ';'):
		return i + lineLen(r.text[i:])
	case c == '"' || c == '\'' || c == '`':
		return r.quote(i)
	case (r.lang == "perl" || r.lang == "ruby") && (strings.HasPrefix(r.text[i:], "qx") || strings.HasPrefix(r.text[i:], "%x")) && i+3 < len(r.text) && hasAny(r.text[i+2:i+3], "({[</|!"):
		closing := map[byte]byte{'(': ')', '{': '}', '[': ']', '<': '>'}[r.text[i+2]]
		if closing == 0 {
			closing = r.text[i+2]
		}
		if end := strings.IndexByte(r.text[i+3:], closing); end >= 0 {
			r.scripts = append(r.scripts, r.text[i+3:i+3+end])
			return i + 4 + end
		}
	case c == '(':
		call := codeCall{name: nameBefore(r.text, i)}
		last := call.name[strings.LastIndexByte(call.name, '.')+1:]
		if oneOf(last, execCalls) {
			r.groups++
			call.group = r.groups
		} else if len(r.calls) > 0 {
			call.group = r.calls[len(r.calls)-1].group
		}
		if len(r.calls) < maxDepth {
			r.calls = append(r.calls, call)
		}
	case c == ')' && len(r.calls) > 0:
		r.calls = r.calls[:len(r.calls)-1]
	}
	r.skeleton.WriteByte(c)
	return i + 1
}

func lineLen(text string) int {
	if n := strings.IndexByte(text, '\n'); n >= 0 {
		return n
	}
	return len(text)
}

// nameBefore is the dotted name that ends at i, blanks between skipped.
func nameBefore(text string, i int) string {
	for i > 0 && (text[i-1] == ' ' || text[i-1] == '\t') {
		i--
	}
	from := i
	for from > 0 && (isNameByte(text[from-1]) || text[from-1] == '.' || text[from-1] == ':' || text[from-1] == '?') {
		from--
	}
	return strings.ReplaceAll(text[from:i], "::", ".")
}

// quote reads the string that starts at i.
func (r *reader) quote(i int) int {
	mark := r.text[i : i+1]
	if r.lang == "python" && strings.HasPrefix(r.text[i:], strings.Repeat(mark, 3)) {
		mark = strings.Repeat(mark, 3)
	}
	value, size := unquote(r.text[i:], mark)
	end := i + size
	if mark == "`" && oneOf(r.lang, "perl ruby php") {
		r.scripts = append(r.scripts, value)
		return end
	}
	q := quoted{value: value, raw: mark[0], before: lastByte(r.text[:i]), after: firstByte(r.text[end:])}
	if len(r.calls) > 0 {
		top := r.calls[len(r.calls)-1]
		q.callee, q.group = top.name, top.group
		for _, c := range r.calls {
			q.outer += c.name + " "
		}
	}
	if name := nameBefore(r.text, i); name != "" && isName(name) && len(name) > 1 {
		q.callee, q.outer = name, q.outer+name+" "
		if oneOf(name, execCalls) {
			r.groups++
			q.group = r.groups
		}
	}
	if r.lang == "awk" && (q.after == '|' || q.before == '|') {
		r.groups++
		q.group = r.groups
	}
	if oneOf(value, "w a x r+ w+ a+ wb ab wt at > >> +<") {
		r.modes = true
	}
	if r.joined(q, i) {
		return end
	}
	r.strings = append(r.strings, q)
	r.skeleton.WriteByte(' ')
	return end
}

// joined adds a string to the one before it if the code concatenates them.
func (r *reader) joined(q quoted, at int) bool {
	if len(r.strings) == 0 {
		return false
	}
	prev := &r.strings[len(r.strings)-1]
	if q.before == '+' && prev.after == '+' || q.before == '.' && prev.after == '.' && (r.lang == "perl" || r.lang == "php") ||
		r.lang == "python" && prev.after == q.raw && q.before == prev.raw {
		prev.value += q.value
		prev.after = q.after
		return true
	}
	return false
}

func lastByte(text string) byte {
	text = strings.TrimRight(text, " \t\n")
	if text == "" {
		return 0
	}
	return text[len(text)-1]
}

func firstByte(text string) byte {
	text = strings.TrimLeft(text, " \t\n")
	if text == "" {
		return 0
	}
	return text[0]
}

// unquote decodes a string with a backslash as escape and returns its length in
// the source; one that does not end takes all.
func unquote(text, mark string) (value string, size int) {
	b := []byte{}
	i := len(mark)
	for i < len(text) {
		if strings.HasPrefix(text[i:], mark) {
			return bare(string(b)), i + len(mark)
		}
		if text[i] == '\\' && i+1 < len(text) {
			i++
			if n := digits(text[i:], 3, 8); n > 0 {
				x, _ := strconv.ParseUint(text[i:i+n], 8, 32)
				b = append(b, byte(x))
				i += n
				continue
			}
			grown, n := escape(b, text[i:])
			if n > 0 {
				b = grown
				i += n
				continue
			}
			b = append(b, text[i])
			i++
			continue
		}
		b = append(b, text[i])
		i++
	}
	return bare(string(slices.Clip(b))), len(text)
}
