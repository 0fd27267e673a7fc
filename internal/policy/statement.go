package policy

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// stmts runs a list until it ends, halts or the verdict is final.
func (s *shell) stmts(list []*syntax.Stmt) tri {
	st := yes
	for _, stmt := range list {
		if s.r.done || s.halt != running {
			break
		}
		st = s.stmt(stmt)
		s.status = st
	}
	return st
}

// stmt runs one statement with its redirections.
func (s *shell) stmt(st *syntax.Stmt) tri {
	if s.r.steps++; s.r.steps > maxSteps {
		s.giveUp("it has too many steps")
	}
	if s.enter(); s.r.done {
		return maybe
	}
	defer s.leaveLevel()
	t := s
	if st.Background || st.Coprocess {
		t = s.fork()
	}
	at := t.at
	t.at = st
	var status tri
	if len(st.Redirs) == 0 {
		status = t.command(st.Cmd)
	} else {
		status = t.redirected(st)
	}
	t.at = at
	if st.Background {
		return yes
	}
	if st.Negated {
		return status.not()
	}
	return status
}

// enter goes one level deeper into the script.
func (s *shell) enter() {
	if s.r.level++; s.r.level > 4*maxDepth {
		s.giveUp("it is nested too deeply")
	}
}

func (s *shell) leaveLevel() { s.r.level-- }

// redirected runs a statement's command with its streams changed.
func (s *shell) redirected(st *syntax.Stmt) tri {
	stdin, out := s.stdin, s.out
	var to string
	var appending bool
	s.r.worlds(func() {
		for _, rd := range st.Redirs {
			if file, add, ok := s.redirect(rd); ok {
				to, appending = file, add
				s.out = &strings.Builder{}
			}
		}
	})
	var status tri
	if st.Cmd == nil {
		status = maybe
		if out != nil && s.stdin != nil { // $(<file)
			out.WriteString(s.stdin.text)
		}
	} else {
		status = s.command(st.Cmd)
	}
	if to != "" && s.out != nil {
		s.wrote(to, s.out.String(), appending)
	}
	if call, ok := st.Cmd.(*syntax.CallExpr); !ok || !isExec(call) {
		s.stdin, s.out = stdin, out
	}
	return status
}

// isExec recognises "exec" without a command: its redirections stay.
func isExec(c *syntax.CallExpr) bool {
	return len(c.Args) == 1 && c.Args[0].Lit() == "exec"
}

// wrote remembers what the script itself has put into a file.
func (s *shell) wrote(file, text string, appending bool) {
	if s.r.files == nil {
		s.r.files = map[string]string{}
	}
	if appending {
		text = s.r.files[file] + text
	}
	if len(text) <= maxText && s.spend(len(text)) {
		s.r.files[file] = text
	}
}

// command runs what a statement is.
func (s *shell) command(c syntax.Command) tri {
	switch c := c.(type) {
	case nil:
		return yes
	case *syntax.CallExpr:
		return s.simple(c)
	case *syntax.Block:
		return s.stmts(c.Stmts)
	case *syntax.Subshell:
		f := s.fork()
		st := f.stmts(c.Stmts)
		f.finish()
		return st
	case *syntax.BinaryCmd:
		return s.binary(c)
	case *syntax.IfClause:
		return s.ifClause(c)
	case *syntax.WhileClause:
		return s.while(c)
	case *syntax.ForClause:
		return s.forClause(c)
	case *syntax.CaseClause:
		return s.caseClause(c)
	case *syntax.FuncDecl:
		s.declare(c)
		return yes
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return s.stmt(c.Stmt)
		}
		return yes
	case *syntax.CoprocClause:
		return s.fork().stmt(c.Stmt)
	case *syntax.TestClause:
		st := maybe
		s.r.worlds(func() { st = s.agree(st, s.test(c.X)) })
		return st
	case *syntax.ArithmCmd:
		if n, ok := s.arith(c.X); ok {
			return truth(n != 0)
		}
		return maybe
	case *syntax.LetClause:
		for _, x := range c.Exprs {
			s.arith(x)
		}
		return maybe
	case *syntax.DeclClause:
		s.r.worlds(func() { s.declClause(c) })
		return yes
	}
	s.giveUp("a part of it is not understood")
	return maybe
}

// agree unites the truths of several worlds.
func (s *shell) agree(sofar, now tri) tri {
	if !s.r.again || sofar == now {
		return now
	}
	return maybe
}

func (s *shell) declare(c *syntax.FuncDecl) {
	if c.Name == nil {
		return
	}
	s.funcs = append(slices.Clip(s.funcs), function{c.Name.Value, c.Body, s.src})
}

func (s *shell) binary(c *syntax.BinaryCmd) tri {
	switch c.Op {
	case syntax.Pipe, syntax.PipeAll:
		return s.pipe(c)
	case syntax.AndStmt:
		return s.chain(c)
	}
	left := s.stmt(c.X)
	s.status = left
	if s.r.done || s.halt != running || left == yes {
		return left
	}
	if left == no {
		return s.stmt(c.Y)
	}
	f := s.fork()
	right := f.stmt(c.Y)
	if left == likely {
		return likely
	}
	s.merge(s.fork(), f)
	if right == yes {
		return yes
	}
	return maybe
}

// chain runs "a && b && c". Each link counts on the ones before it; what comes
// after the chain counts on its directory but not on its variables.
func (s *shell) chain(c *syntax.BinaryCmd) tri {
	links := []*syntax.Stmt{c.Y}
	first := c.X
	for {
		b, ok := first.Cmd.(*syntax.BinaryCmd)
		if !ok || b.Op != syntax.AndStmt || len(first.Redirs) > 0 || first.Negated || first.Background {
			break
		}
		links = append(links, b.Y)
		first = b.X
	}
	links = append(links, first)
	all := yes
	var failed []*shell
	for i := len(links) - 1; i >= 0; i-- {
		st := s.stmt(links[i])
		s.status = st
		if s.r.done || st == no {
			return st
		}
		if st != yes && all == yes {
			all = st
		}
		if st == maybe {
			all = maybe
			if i > 0 {
				failed = append(failed, s.fork())
			}
		}
		if s.halt != running {
			break
		}
	}
	if len(failed) > 0 {
		s.unite(failed)
	}
	return all
}

// unite merges the ends of a chain.
func (s *shell) unite(failed []*shell) {
	for _, f := range failed {
		if b := s.find("PWD"); b != nil && s.halt == running {
			*f.find("PWD") = *b
		}
	}
	s.merge(append(failed, s.fork())...)
	s.halt, s.levels = running, 0
}

func (s *shell) pipe(c *syntax.BinaryCmd) tri {
	left := s.fork()
	left.out = &strings.Builder{}
	left.stmt(c.X)
	if s.r.done {
		return maybe
	}
	right := s.fork()
	right.stdin = &stream{left.out.String()}
	return right.stmt(c.Y)
}

func (s *shell) ifClause(c *syntax.IfClause) tri {
	if len(c.Cond) == 0 { // else
		return s.stmts(c.Then)
	}
	cond := s.stmts(c.Cond)
	if s.r.done || s.halt != running {
		return maybe
	}
	switch cond {
	case likely:
		if c.Else != nil {
			s.fork().ifClause(c.Else)
		}
		return s.stmts(c.Then)
	case yes:
		return s.stmts(c.Then)
	case no:
		if c.Else != nil {
			return s.ifClause(c.Else)
		}
		return yes
	}
	a, b := s.fork(), s.fork()
	a.stmts(c.Then)
	if c.Else != nil {
		b.ifClause(c.Else)
	}
	s.merge(a, b)
	return maybe
}

// round starts one more round of a loop.
func (s *shell) round() bool {
	s.r.rounds++
	return !s.r.done && s.halt == running && s.r.rounds <= maxRounds
}

// looped takes back a break or continue of a loop's body and reports whether
// the loop goes on.
func (s *shell) looped() bool {
	switch s.halt {
	case breaking, continuing:
		if s.levels--; s.levels > 0 {
			return false
		}
		on := s.halt == continuing
		s.halt = running
		return on
	case running:
		return true
	}
	return false
}

// maxWhile is enough for lines of text; a loop for ever is cut.
const maxWhile = 100

func (s *shell) while(c *syntax.WhileClause) tri {
	st := yes
	for i := 0; i < maxWhile && s.round(); i++ {
		cond := s.stmts(c.Cond)
		if c.Until {
			cond = cond.not()
		}
		if cond == no || s.r.done || s.halt != running {
			break
		}
		if cond == maybe {
			f := s.fork()
			f.stmts(c.Do)
			f.looped()
			s.merge(s.fork(), f)
			return maybe
		}
		st = s.stmts(c.Do)
		if !s.looped() {
			break
		}
	}
	return st
}

func (s *shell) forClause(c *syntax.ForClause) tri {
	st := yes
	switch loop := c.Loop.(type) {
	case *syntax.WordIter:
		items := s.args
		if loop.InPos.IsValid() {
			items = nil
			s.r.worlds(func() { items = append(items, s.fields(loop.Items)...) })
		}
		for _, item := range items {
			if !s.round() {
				break
			}
			s.set(loop.Name.Value, item)
			st = s.stmts(c.Do)
			if !s.looped() {
				break
			}
		}
	case *syntax.CStyleLoop:
		st = s.cStyle(loop, c.Do)
	}
	if s.r.rounds > maxRounds {
		s.giveUp("its loops have too many rounds")
	}
	return st
}

func (s *shell) cStyle(loop *syntax.CStyleLoop, body []*syntax.Stmt) tri {
	st := yes
	if loop.Init != nil {
		s.arith(loop.Init)
	}
	for i := 0; i < maxWhile && s.round(); i++ {
		if loop.Cond != nil {
			n, ok := s.arith(loop.Cond)
			if ok && n == 0 {
				return st
			}
			if !ok {
				i = maxWhile
			}
		}
		st = s.stmts(body)
		if !s.looped() {
			break
		}
		if loop.Post != nil {
			s.arith(loop.Post)
		}
	}
	return st
}

func (s *shell) caseClause(c *syntax.CaseClause) tri {
	word := ""
	s.r.worlds(func() {
		if w := s.one(c.Word); s.r.again && w != word {
			word = someText
		} else {
			word = w
		}
	})
	var branches []*shell
	for i, item := range c.Items {
		hit := s.caseHit(word, item)
		if hit == no {
			continue
		}
		if hit == yes && len(branches) == 0 {
			return s.fallThrough(c.Items[i:])
		}
		f := s.fork()
		f.fallThrough(c.Items[i:])
		branches = append(branches, f)
		if hit == yes {
			s.merge(branches...)
			return maybe
		}
	}
	s.merge(append(branches, s.fork())...)
	return maybe
}

// fallThrough runs the first item and those it falls into.
func (s *shell) fallThrough(items []*syntax.CaseItem) tri {
	st := yes
	for _, item := range items {
		st = s.stmts(item.Stmts)
		if item.Op == syntax.Break {
			break
		}
	}
	return st
}

func (s *shell) caseHit(word string, item *syntax.CaseItem) tri {
	hit := no
	for _, p := range item.Patterns {
		switch s.like(word, s.pattern(p)) {
		case yes:
			return yes
		case maybe:
			hit = maybe
		}
	}
	return hit
}

// like matches a value against a pattern.
func (s *shell) like(word, pattern string) tri {
	if pattern == "\x02" {
		return yes
	}
	if !known(word) || !known(pattern) || len(word) > maxPattern || !s.spend(len(word)*len(pattern)) {
		return maybe
	}
	return truth(matches(pattern, plain(word)))
}
