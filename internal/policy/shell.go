package policy

import (
	"path"
	"slices"
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
