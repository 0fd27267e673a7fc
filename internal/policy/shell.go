package policy

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The limits of one judgement. Beyond them a command is held.
const (
	maxCommand = 128 << 10
	maxWords   = 16 << 10
	maxDepth   = 64
	maxSteps   = 20_000 // simple commands, loops included
	maxRounds  = 2_000  // rounds of all loops together
	maxAlts    = 8      // values a variable may have at one point
	maxWorlds  = 32     // combinations of them tried for one command
	maxText    = 1 << 20
	maxWork    = 8 << 20 // bytes copied and compared, roughly
)

// A run is one judgement: what all its shells share.
type run struct {
	j        *Judge
	env      []string
	home     string
	ownPaths []ownPath
	verdict  Verdict
	done     bool // nothing can change the verdict any more

	steps, rounds, words, depth, work, level int

	// choices are the ways taken where a value may be one of several.
	choices []choice
	again   bool // this is not the first world of the current command

	files map[string]string // what the script itself has written
	pipes int               // process substitutions so far
	trace func([]string)    // for tests: sees "argv" commands
}

type choice struct {
	key    string
	n, cur int
}

// A binding is a variable with the values it may have.
type binding struct {
	name string
	alts []string
	list []string // of an array, instead of alts
	keys []string // of an associative array, beside list
	kind bindKind
	// exported variables reach the shells that are started.
	exported bool
}

type bindKind uint8

const (
	scalar bindKind = iota
	array
	assoc
	gone // unset on purpose
)

// A function is what a name was declared as.
type function struct {
	name string
	body *syntax.Stmt
	src  string
}

// saved is a variable that a function has hidden.
type saved struct {
	name string
	old  *binding
}

// A stream is text on its way into a command.
type stream struct{ text string }

// someHome is a home directory that nobody has named, here or elsewhere.
const someHome = "/~"

// A shell is the state of one (sub)shell.
type shell struct {
	r      *run
	src    string
	vars   []binding
	funcs  []function
	alias  []option
	args   []string
	stdin  *stream // nil: unknown
	out    *strings.Builder
	traps  []string
	locals [][]saved   // what the functions at work have hidden
	at     syntax.Node // the simple command at work
	name   string      // $0
	status tri         // of the last command

	hazy    bool // variables that are not set may be
	foreign bool // the environment is another machine's
	nounset bool
	allExp  bool // set -a

	elements bool // the words at work are elements of an array
	halt     halt
	levels   int // of break and continue
}

// halt is why the rest of a list is not run.
type halt uint8

const (
	running halt = iota
	breaking
	continuing
	returning
	exiting
)

// tri is a truth that may not be known.
type tri uint8

const (
	maybe tri = iota
	yes
	no
	likely // nearly always yes
)

func truth(b bool) tri {
	if b {
		return yes
	}
	return no
}

func (t tri) not() tri {
	switch t {
	case yes:
		return no
	case no:
		return yes
	}
	return maybe
}

// start makes the shell that the command is given to.
func (r *run) start(cwd string) *shell {
	s := &shell{r: r, name: "bash", out: nil}
	if cwd == "" {
		cwd = r.j.opts.Workspace
	}
	s.vars = append(make([]binding, 0, 8), binding{name: "PWD", alts: []string{path.Clean("/" + bare(cwd))}})
	r.home = r.j.opts.Home
	if h, ok := s.environ("HOME"); ok && h != "" {
		r.home = h
	}
	if r.home == "" {
		r.home = someHome // nobody says where it is; it still must not vanish
	}
	r.home = path.Clean(r.home)
	return s
}

// fork is a subshell: what it sets is lost. Its output goes where s's goes.
func (s *shell) fork() *shell {
	s.spend(16 * len(s.vars))
	f := *s
	f.vars = slices.Clone(s.vars)
	f.funcs = slices.Clip(s.funcs)
	f.alias = slices.Clip(s.alias)
	f.traps = nil
	return &f
}

// note judges an effect of the command at work.
func (s *shell) note(e effect) {
	v := s.r.rule(e)
	if v.Decision == Allow || rank(v.Decision) <= rank(s.r.verdict.Decision) {
		return
	}
	v.Span = s.span()
	s.r.raise(v)
}

func (r *run) raise(v Verdict) {
	if rank(v.Decision) > rank(r.verdict.Decision) {
		r.verdict = v
		r.done = v.Decision == Deny
	}
}

// giveUp holds the command because it cannot be judged, and ends the judgement.
func (s *shell) giveUp(why string) {
	s.r.raise(unjudged(why))
	s.r.done = true
}

// spend counts work, so that no script takes long, and reports whether there is
// some left.
func (s *shell) spend(n int) bool {
	if s.r.work += n; s.r.work < 0 || s.r.work > maxWork {
		s.giveUp("it makes too much work")
		return false
	}
	return true
}

const maxSpan = 200

// span is the source of the command at work.
func (s *shell) span() string {
	if s.at == nil {
		return ""
	}
	from, to := int(s.at.Pos().Offset()), int(s.at.End().Offset())
	if from > to || to > len(s.src) {
		return ""
	}
	text := strings.ReplaceAll(s.src[from:to], someText, "…")
	if len(text) > maxSpan {
		text = strings.ToValidUTF8(text[:maxSpan], "") + "…"
	}
	return text
}

// script parses and runs a text.
func (s *shell) script(text string) tri {
	if s.r.done || strings.TrimSpace(text) == "" {
		return yes
	}
	if !s.spend(4 * len(text)) {
		return maybe
	}
	if len(text) > maxCommand {
		s.giveUp("a script in it is longer than 128 KiB")
		return maybe
	}
	if s.r.depth >= maxDepth {
		s.giveUp("it is nested too deeply")
		return maybe
	}
	file, err := s.r.parse(text)
	if err != nil {
		s.r.raise(unjudged("it is not valid shell"))
		return maybe
	}
	s.r.depth++
	src, at := s.src, s.at
	s.src = text
	st := s.stmts(file.Stmts)
	s.src, s.at = src, at
	s.r.depth--
	return st
}

// top runs a text as a shell of its own, traps included.
func (s *shell) top(text string) tri {
	st := s.script(text)
	s.finish()
	return st
}

// finish runs the traps of a shell that ends.
func (s *shell) finish() {
	traps := s.traps
	s.traps = nil
	s.halt = running
	for _, t := range traps {
		s.script(t)
	}
}

func (r *run) parse(text string) (*syntax.File, error) {
	p := r.j.parsers.Get().(*syntax.Parser)
	defer r.j.parsers.Put(p)
	if depth(text) > maxDepth || tooNested(text) {
		return nil, errDeep
	}
	return p.Parse(strings.NewReader(text), "")
}

// depth is how deeply brackets are nested at most, so that the parser, which
// recurses, is not given what would exhaust the stack.
func depth(text string) int {
	deepest, now := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{':
			now++
			deepest = max(deepest, now)
		case ')', '}':
			now = max(0, now-1)
		}
	}
	return deepest
}

// maxNested bounds the words that may nest without brackets.
const maxNested = 4096

// tooNested reports whether a long text could nest too deeply by other means.
func tooNested(text string) bool {
	if len(text) <= 2*maxNested {
		return false
	}
	if strings.Contains(text, strings.Repeat("! ", maxDepth)) || strings.Count(text, "()") > maxNested {
		return true
	}
	n, run := 0, 0
	for word := range strings.FieldsSeq(text) {
		switch word {
		case "if", "while", "until", "for", "case", "select", "time", "coproc", "!", "then", "do", "elif", "else":
			n++
		}
		if len(word) == 1 && hasAny(word, "-+~!*?") {
			run++
		} else {
			run = 0
		}
		if n > maxNested || run > maxNested {
			return true
		}
	}
	for _, c := range []string{"~", "!", "-+", "**", "?"} {
		if strings.Contains(text, strings.Repeat(c, maxNested/len(c))) {
			return true
		}
	}
	return false
}

// find returns the binding of a variable.
func (s *shell) find(name string) *binding {
	for i := range s.vars {
		if s.vars[i].name == name {
			return &s.vars[i]
		}
	}
	return nil
}

// environ looks a name up in the child's environment.
func (s *shell) environ(name string) (string, bool) {
	if s.foreign {
		return "", false
	}
	for i := len(s.r.env) - 1; i >= 0; i-- {
		e := s.r.env[i]
		if len(e) > len(name) && e[len(name)] == '=' && e[:len(name)] == name {
			return bare(e[len(name)+1:]), true
		}
	}
	return "", false
}

// shellSets are variables that bash sets by itself.
const shellSets = "BASH BASHPID BASH_VERSION BASHOPTS SHELLOPTS EUID UID PPID HOSTNAME HOSTTYPE OSTYPE MACHTYPE RANDOM SRANDOM SECONDS LINENO EPOCHSECONDS EPOCHREALTIME SHLVL PATH OPTIND PS4 TERM REPLY _ FUNCNAME PIPESTATUS GROUPS DIRSTACK BASH_SOURCE BASH_REMATCH COLUMNS LINES"

// get returns one of the values a variable may have. What is not set is empty,
// or unknown where the environment is another's.
func (s *shell) get(name string) (value string, set bool) {
	if b := s.find(name); b != nil {
		switch b.kind {
		case gone:
			return "", false
		case array, assoc:
			if len(b.list) == 0 {
				return "", false
			}
			return b.list[0], true
		}
		if len(b.alts) == 1 {
			return b.alts[0], true
		}
		return b.alts[s.r.choose(name, len(b.alts))], true
	}
	if len(name) == 1 || isDigit(name[0]) {
		return s.special(name)
	}
	if v, ok := s.environ(name); ok {
		return v, true
	}
	switch {
	case name == "HOME":
		if s.foreign {
			return someHome, true
		}
		return s.r.home, true
	case oneOf(name, shellSets), s.hazy:
		return someText, true
	}
	if s.nounset {
		s.halt = exiting
	}
	return "", false
}

// ifs is what separates fields.
func (s *shell) ifs() string {
	if b := s.find("IFS"); b != nil && b.kind == scalar {
		return b.alts[0]
	}
	return " \t\n"
}

// special are the parameters without a name.
func (s *shell) special(name string) (string, bool) {
	switch c := name[0]; {
	case c == '0':
		return s.name, true
	case c == '#':
		return strconv.Itoa(len(s.args)), true
	case c == '?':
		if s.status == yes {
			return "0", true
		}
		return someText, true
	case c == '*' || c == '@':
		return strings.Join(s.args, " "), len(s.args) > 0
	case isDigit(c):
		n, err := strconv.Atoi(name)
		if err == nil && n <= len(s.args) {
			return s.args[n-1], true
		}
		if s.hazy {
			return someText, true
		}
		return "", false
	case isNameByte(c):
		if v, ok := s.environ(name); ok || s.hazy && c != '_' {
			if !ok {
				v = someText
			}
			return v, true
		}
		if c == '_' {
			return someText, true
		}
		if s.nounset {
			s.halt = exiting
		}
		return "", false
	}
	return someText, true
}

// set assigns a variable. In a second world of the same command the value is
// one more that the variable may have.
func (s *shell) set(name, value string) {
	s.spend(4*len(s.vars) + len(value))
	b := s.find(name)
	if b == nil {
		_, exported := s.environ(name)
		s.vars = append(s.vars, binding{name: name, alts: []string{value}, exported: exported || s.allExp})
		return
	}
	if s.r.again && b.kind == scalar {
		b.alts = union(b.alts, []string{value})
		return
	}
	*b = binding{name: name, alts: []string{value}, exported: b.exported}
}

// setList assigns an array.
func (s *shell) setList(name string, list, keys []string) {
	n := binding{name: name, list: list, keys: keys, kind: array}
	if keys != nil {
		n.kind = assoc
	}
	if b := s.find(name); b != nil {
		n.exported = b.exported
		*b = n
		return
	}
	s.vars = append(s.vars, n)
}

func (s *shell) unset(name string) {
	if b := s.find(name); b != nil {
		*b = binding{name: name, kind: gone}
		return
	}
	s.vars = append(s.vars, binding{name: name, kind: gone})
}

// union of the values a variable may have; too many become unknown.
func union(a, b []string) []string {
	u := slices.Clip(a)
	for _, v := range b {
		if !slices.Contains(u, v) {
			u = append(u, v)
		}
	}
	if len(u) > maxAlts {
		u = append(slices.Clone(u[:maxAlts-1]), someText)
	}
	return u
}

// merge makes the state of s what it may be after any of the branches.
func (s *shell) merge(branches ...*shell) {
	live := branches[:0:0]
	for _, b := range branches {
		if b.halt == running {
			live = append(live, b)
		}
		s.traps = append(s.traps, b.traps...)
		for _, f := range b.funcs[min(len(s.funcs), len(b.funcs)):] {
			s.funcs = append(slices.Clip(s.funcs), f)
		}
		s.hazy = s.hazy || b.hazy
	}
	if len(live) == 0 {
		s.halt, s.levels = branches[0].halt, branches[0].levels
		return
	}
	vars := live[0].vars
	for _, b := range live[1:] {
		vars = mergeVars(vars, b.vars)
	}
	s.vars = vars
}

// mergeVars unites two sets of variables. One that only one side has was unset
// on the other.
func mergeVars(a, b []binding) []binding {
	u := slices.Clone(a)
	seen := func(list []binding, name string) *binding {
		for i := range list {
			if list[i].name == name {
				return &list[i]
			}
		}
		return nil
	}
	for i := range u {
		o := seen(b, u[i].name)
		switch {
		case o == nil:
			if u[i].kind == scalar {
				u[i].alts = union(u[i].alts, []string{""})
			}
		case u[i].kind == scalar && o.kind == scalar:
			if !slices.Equal(u[i].alts, o.alts) {
				u[i].alts = union(u[i].alts, o.alts)
			}
		case u[i].kind == array && o.kind == array:
			if len(o.list) > len(u[i].list) {
				u[i].list = o.list
			}
		}
	}
	for _, o := range b {
		if seen(a, o.name) == nil {
			if o.kind == scalar {
				o.alts = union(o.alts, []string{""})
			}
			u = append(u, o)
		}
	}
	return u
}

// choose picks one of n for a key; worlds goes through them all.
func (r *run) choose(key string, n int) int {
	for _, c := range r.choices {
		if c.key == key {
			return min(c.cur, n-1)
		}
	}
	r.choices = append(r.choices, choice{key: key, n: n})
	return 0
}

// worlds calls f once for every combination of the values it looks at.
func (r *run) worlds(f func()) {
	choices, again := r.choices, r.again
	r.choices, r.again = nil, false
	for range maxWorlds {
		f()
		if r.done || !r.advance() {
			break
		}
		r.again = true
	}
	r.choices, r.again = choices, again
}

// advance moves to the next combination.
func (r *run) advance() bool {
	for i := len(r.choices) - 1; i >= 0; i-- {
		if r.choices[i].cur+1 < r.choices[i].n {
			r.choices[i].cur++
			r.choices = r.choices[:i+1]
			return true
		}
	}
	return false
}

// cwd is the directory at work; it starts with a mark when it is unknown.
func (s *shell) cwd() string {
	dir, _ := s.get("PWD")
	return dir
}

// path resolves a path against the directory at work.
func (s *shell) path(p string) string {
	if p != "" && p[0] == '/' {
		return resolve("/", p)
	}
	return resolve(s.cwd(), p)
}
