package policy

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arith evaluates an arithmetic expression. What depends on something unknown is
// not ok; its assignments and substitutions happen all the same.
func (s *shell) arith(x syntax.ArithmExpr) (n int64, ok bool) {
	if s.r.steps++; s.r.steps > maxSteps {
		s.giveUp("it has too many steps")
	}
	if s.enter(); s.r.done {
		return 0, false
	}
	defer s.leaveLevel()
	switch x := x.(type) {
	case *syntax.Word:
		return s.number(s.one(x), 0)
	case *syntax.ParenArithm:
		return s.arith(x.X)
	case *syntax.UnaryArithm:
		return s.unary(x)
	case *syntax.BinaryArithm:
		return s.binaryArith(x)
	}
	return 0, false
}

// number reads a number or the variable that holds one.
func (s *shell) number(text string, depth int) (int64, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return 0, true
	}
	if isName(text) && depth < 8 {
		v, set := s.get(text)
		if !set {
			return 0, true
		}
		return s.number(v, depth+1)
	}
	if base, digits, found := strings.Cut(text, "#"); found {
		b, err := strconv.Atoi(base)
		if err != nil || b < 2 || b > 36 {
			return 0, false
		}
		n, err := strconv.ParseInt(digits, b, 64)
		return n, err == nil
	}
	if strings.ContainsAny(text, "_oObB") && !strings.HasPrefix(text, "0x") && !strings.HasPrefix(text, "0X") {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 0, 64)
	return n, err == nil
}

func (s *shell) unary(x *syntax.UnaryArithm) (int64, bool) {
	n, ok := s.arith(x.X)
	switch x.Op {
	case syntax.Inc, syntax.Dec:
		was := n
		if x.Op == syntax.Inc {
			n++
		} else {
			n--
		}
		s.setNumber(x.X, n, ok)
		if x.Post {
			return was, ok
		}
	case syntax.Minus:
		n = -n
	case syntax.BitNegation:
		n = ^n
	case syntax.Not:
		n = number(n == 0)
	}
	return n, ok
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// setNumber assigns to the variable that an expression names.
func (s *shell) setNumber(x syntax.ArithmExpr, n int64, ok bool) {
	w, isWord := x.(*syntax.Word)
	if !isWord || !isName(w.Lit()) {
		return
	}
	value := someText
	if ok {
		value = strconv.FormatInt(n, 10)
	}
	if b := s.find(w.Lit()); b != nil && b.kind != scalar && b.kind != gone {
		return
	}
	s.set(w.Lit(), value)
}

func (s *shell) binaryArith(x *syntax.BinaryArithm) (int64, bool) {
	switch x.Op {
	case syntax.AndArit, syntax.OrArit:
		a, ok := s.arith(x.X)
		if ok && (a != 0) == (x.Op == syntax.OrArit) {
			return number(x.Op == syntax.OrArit), true
		}
		b, ok2 := s.arith(x.Y)
		return number(b != 0), ok && ok2
	case syntax.TernQuest:
		cond, ok := s.arith(x.X)
		branches, isPair := x.Y.(*syntax.BinaryArithm)
		if !ok || !isPair {
			return 0, false
		}
		if cond != 0 {
			return s.arith(branches.X)
		}
		return s.arith(branches.Y)
	case syntax.Assgn:
		n, ok := s.arith(x.Y)
		s.setNumber(x.X, n, ok)
		return n, ok
	}
	a, ok := s.arith(x.X)
	b, ok2 := s.arith(x.Y)
	n, ok3 := calculate(x.Op, a, b)
	ok = ok && ok2 && ok3
	if x.Op >= syntax.AddAssgn {
		switch x.Op {
		case syntax.AddAssgn, syntax.SubAssgn, syntax.MulAssgn, syntax.QuoAssgn, syntax.RemAssgn,
			syntax.AndAssgn, syntax.OrAssgn, syntax.XorAssgn, syntax.ShlAssgn, syntax.ShrAssgn:
			s.setNumber(x.X, n, ok)
		}
	}
	return n, ok
}

func calculate(op syntax.BinAritOperator, a, b int64) (int64, bool) {
	switch op {
	case syntax.Add, syntax.AddAssgn:
		return a + b, true
	case syntax.Sub, syntax.SubAssgn:
		return a - b, true
	case syntax.Mul, syntax.MulAssgn:
		return a * b, true
	case syntax.Quo, syntax.QuoAssgn:
		if b == 0 || b == -1 {
			return -a, b == -1
		}
		return a / b, true
	case syntax.Rem, syntax.RemAssgn:
		if b == 0 || b == -1 {
			return 0, b == -1
		}
		return a % b, true
	case syntax.Pow:
		return power(a, b)
	case syntax.And, syntax.AndAssgn:
		return a & b, true
	case syntax.Or, syntax.OrAssgn:
		return a | b, true
	case syntax.Xor, syntax.XorAssgn:
		return a ^ b, true
	case syntax.Shl, syntax.ShlAssgn:
		return a << (uint64(b) & 63), true
	case syntax.Shr, syntax.ShrAssgn:
		return a >> (uint64(b) & 63), true
	case syntax.Eql:
		return number(a == b), true
	case syntax.Neq:
		return number(a != b), true
	case syntax.Lss:
		return number(a < b), true
	case syntax.Leq:
		return number(a <= b), true
	case syntax.Gtr:
		return number(a > b), true
	case syntax.Geq:
		return number(a >= b), true
	case syntax.Comma:
		return b, true
	}
	return 0, false
}

func power(a, b int64) (int64, bool) {
	if b < 0 {
		return 0, false
	}
	n := int64(1)
	for ; b > 0; b >>= 1 {
		if b&1 == 1 {
			n *= a
		}
		a *= a
	}
	return n, true
}
