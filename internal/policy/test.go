package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// test is the truth of what stands between [[ and ]].
func (s *shell) test(x syntax.TestExpr) tri {
	if s.enter(); s.r.done {
		return maybe
	}
	defer s.leaveLevel()
	switch x := x.(type) {
	case *syntax.Word:
		return nonEmpty(s.one(x))
	case *syntax.ParenTest:
		return s.test(x.X)
	case *syntax.UnaryTest:
		return s.unaryTest(x)
	case *syntax.BinaryTest:
		return s.binaryTest(x)
	}
	return maybe
}

func (s *shell) unaryTest(x *syntax.UnaryTest) tri {
	if x.Op == syntax.TsNot {
		return s.test(x.X).not()
	}
	w, ok := x.X.(*syntax.Word)
	if !ok {
		return s.test(x.X)
	}
	v := s.one(w)
	switch x.Op {
	case syntax.TsEmpStr:
		return nonEmpty(v).not()
	case syntax.TsNempStr:
		return nonEmpty(v)
	case syntax.TsVarSet:
		if !s.hazy && s.find(v) == nil {
			_, ok := s.environ(v)
			return truth(ok)
		}
	}
	return maybe
}

func (s *shell) binaryTest(x *syntax.BinaryTest) tri {
	switch x.Op {
	case syntax.AndTest:
		a := s.test(x.X)
		if a == no {
			return no
		}
		return both(a, s.test(x.Y))
	case syntax.OrTest:
		a := s.test(x.X)
		if a == yes {
			return yes
		}
		return both(a.not(), s.test(x.Y).not()).not()
	}
	a, ok := x.X.(*syntax.Word)
	b, ok2 := x.Y.(*syntax.Word)
	if !ok || !ok2 {
		return maybe
	}
	left := s.one(a)
	switch x.Op {
	case syntax.TsMatch, syntax.TsMatchShort:
		return s.like(left, s.pattern(b))
	case syntax.TsNoMatch:
		return s.like(left, s.pattern(b)).not()
	}
	return s.compare(left, x.Op.String(), s.one(b), true)
}

func both(a, b tri) tri {
	switch {
	case a == no || b == no:
		return no
	case a == yes && b == yes:
		return yes
	}
	return maybe
}

// nonEmpty is whether a value has text.
func nonEmpty(v string) tri {
	if v == "" {
		return no
	}
	if strings.Trim(v, someText) == "" {
		return maybe
	}
	return yes
}

// compare is the truth of "a op b" in test.
func (s *shell) compare(a, op, b string, arithmetic bool) tri {
	if !known(a) || !known(b) {
		return maybe
	}
	a, b = plain(a), plain(b)
	switch op {
	case "=", "==":
		return truth(a == b)
	case "!=":
		return truth(a != b)
	case "<":
		return truth(a < b)
	case ">":
		return truth(a > b)
	case "-eq", "-ne", "-lt", "-le", "-gt", "-ge":
		if !arithmetic && (isName(a) || isName(b)) {
			return maybe
		}
		x, ok := s.number(a, 0)
		y, ok2 := s.number(b, 0)
		if !ok || !ok2 {
			return maybe
		}
		return numbers(op, x, y)
	}
	return maybe
}

func numbers(op string, x, y int64) tri {
	switch op {
	case "-eq":
		return truth(x == y)
	case "-ne":
		return truth(x != y)
	case "-lt":
		return truth(x < y)
	case "-le":
		return truth(x <= y)
	case "-gt":
		return truth(x > y)
	}
	return truth(x >= y)
}

// testCommand is the truth of test and [.
func (s *shell) testCommand(args []string) tri {
	if len(args) == 3 && oneOf(args[1], "= == != -eq -ne -lt -le -gt -ge < >") {
		return s.compare(args[0], args[1], args[2], false)
	}
	if len(args) > 1 && args[0] == "!" {
		return s.testCommand(args[1:]).not()
	}
	switch len(args) {
	case 0:
		return no
	case 1:
		return nonEmpty(args[0])
	case 2:
		switch args[0] {
		case "-z":
			return nonEmpty(args[1]).not()
		case "-n":
			return nonEmpty(args[1])
		}
	}
	return maybe
}
