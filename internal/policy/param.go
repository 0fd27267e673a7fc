package policy

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

// param is the value of a parameter expansion. Where many is true each value is
// a field of its own, and there may be none; otherwise there is exactly one.
func (s *shell) param(p *syntax.ParamExp, quoted bool) (values []string, many bool) {
	if p.Param == nil {
		return []string{someText}, false
	}
	name := p.Param.Value
	switch {
	case p.Names != 0:
		return []string{someText}, false
	case p.Excl:
		return s.indirect(p, name)
	}
	values, set, many := s.values(name, p.Index, quoted)
	if p.Length {
		return []string{length(values, many)}, false
	}
	switch {
	case p.Exp != nil:
		values = s.operate(p.Exp, name, values, set, quoted)
	case p.Slice != nil:
		values = s.slice(p.Slice, values, many, name)
	case p.Repl != nil:
		values = s.replace(p.Repl, values)
	}
	if !many && len(values) != 1 {
		values = []string{strings.Join(values, " ")}
	}
	return values, many
}

// indirect is ${!name} or ${!name[@]}.
func (s *shell) indirect(p *syntax.ParamExp, name string) ([]string, bool) {
	if index := subscript(p.Index); index == "@" || index == "*" {
		b := s.find(name)
		if b == nil {
			return nil, true
		}
		if b.kind == assoc {
			return b.keys, true
		}
		keys := make([]string, len(b.list))
		for i := range keys {
			keys[i] = strconv.Itoa(i)
		}
		return keys, true
	}
	target, set := s.get(name)
	if !set || !isName(target) {
		return []string{someText}, false
	}
	q := *p
	q.Excl = false
	q.Param = &syntax.Lit{Value: target}
	return s.param(&q, true)
}

// values looks a parameter up, with its subscript.
func (s *shell) values(name string, index syntax.ArithmExpr, quoted bool) (values []string, set, many bool) {
	if name == "@" || name == "*" {
		return s.join(s.args, name, quoted)
	}
	b := s.find(name)
	if index == nil {
		v, set := s.get(name)
		return []string{v}, set, false
	}
	all := subscript(index)
	if all == "@" || all == "*" {
		switch {
		case b == nil, b.kind == gone:
			v, set := s.get(name)
			if !set {
				return nil, false, all == "@" || !quoted
			}
			return s.join([]string{v}, all, quoted)
		case b.kind == scalar:
			v, _ := s.get(name)
			return s.join([]string{v}, all, quoted)
		}
		return s.join(b.list, all, quoted)
	}
	if b == nil || b.kind == scalar {
		v, set := s.get(name)
		return []string{v}, set, false
	}
	v, set := s.element(b, index)
	return []string{v}, set, false
}

// join is a list as "$@" or as "$*" give it.
func (s *shell) join(list []string, how string, quoted bool) ([]string, bool, bool) {
	if how == "*" && quoted {
		ifs := s.ifs()
		sep := ifs[:min(1, len(ifs))]
		return []string{strings.Join(list, sep)}, len(list) > 0, false
	}
	return slices.Clone(list), len(list) > 0, true
}

// subscript is the text of a subscript that is a plain word.
func subscript(index syntax.ArithmExpr) string {
	if w, ok := index.(*syntax.Word); ok {
		return w.Lit()
	}
	return ""
}

// element is one element of an array.
func (s *shell) element(b *binding, index syntax.ArithmExpr) (string, bool) {
	if b.kind == assoc {
		key := s.key(index)
		for i, k := range b.keys {
			if k == key {
				return b.list[i], true
			}
		}
		return "", false
	}
	n, ok := s.arith(index)
	if !ok {
		if len(b.list) == 0 {
			return "", false
		}
		return b.list[s.r.choose(b.name+"[]", len(b.list))], true
	}
	if n < 0 {
		n += int64(len(b.list))
	}
	if n < 0 || n >= int64(len(b.list)) {
		return "", false
	}
	return b.list[n], true
}

// key is the key of an associative array.
func (s *shell) key(index syntax.ArithmExpr) string {
	if w, ok := index.(*syntax.Word); ok {
		return s.one(w)
	}
	if n, ok := s.arith(index); ok {
		return strconv.FormatInt(n, 10)
	}
	return someText
}

func length(values []string, many bool) string {
	if many {
		return strconv.Itoa(len(values))
	}
	if !known(values[0]) {
		return someText
	}
	return strconv.Itoa(utf8.RuneCountInString(values[0]))
}

// operate applies ${a:-b}, ${a#b}, ${a^^} and their like.
func (s *shell) operate(e *syntax.Expansion, name string, values []string, set, quoted bool) []string {
	switch e.Op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull, syntax.DefaultUnset, syntax.DefaultUnsetOrNull,
		syntax.ErrorUnset, syntax.ErrorUnsetOrNull, syntax.AssignUnset, syntax.AssignUnsetOrNull:
		return s.whenUnset(e, name, values, set, quoted)
	}
	arg := ""
	if e.Word != nil {
		if e.Op == syntax.OtherParamOps {
			arg = e.Word.Lit()
		} else {
			arg = s.pattern(e.Word)
		}
	}
	for i, v := range values {
		if !s.affordable(v, arg) {
			return []string{someText}
		}
		values[i] = s.operated(e.Op, v, arg)
	}
	return values
}

// whenUnset applies the operators that ask whether a parameter has a value.
func (s *shell) whenUnset(e *syntax.Expansion, name string, values []string, set, quoted bool) []string {
	there := s.there(e, name, values, set)
	switch e.Op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		if there {
			return []string{s.word(e.Word, quoted)}
		}
		return []string{""}
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull:
		if !there {
			return []string{s.word(e.Word, quoted)}
		}
	case syntax.AssignUnset, syntax.AssignUnsetOrNull:
		if !there {
			v := s.single(e.Word, oneWord, true)
			s.set(name, v)
			return []string{v}
		}
	default:
		if !there && !s.hazy {
			s.halt = exiting
		}
	}
	return values
}

// there reports whether a parameter has the value that an operator asks for.
func (s *shell) there(e *syntax.Expansion, name string, values []string, set bool) bool {
	if !set && s.halt == exiting && s.nounset {
		s.halt = running // an operator forgives what nounset does not
	}
	if !set || e.Op != syntax.AlternateUnsetOrNull && e.Op != syntax.DefaultUnsetOrNull &&
		e.Op != syntax.ErrorUnsetOrNull && e.Op != syntax.AssignUnsetOrNull {
		return set
	}
	joined := strings.Join(values, "")
	return joined != "" && (joined != someText || s.r.choose("?"+name, 2) == 0)
}

// instead returns the word that ${a:-word} or ${a:+word} stands for, nil where
// the parameter's own value does.
func (s *shell) instead(p *syntax.ParamExp) *syntax.Word {
	if p.Exp == nil || p.Param == nil || p.Excl || p.Length {
		return nil
	}
	alternate := false
	switch p.Exp.Op {
	case syntax.AlternateUnset, syntax.AlternateUnsetOrNull:
		alternate = true
	case syntax.DefaultUnset, syntax.DefaultUnsetOrNull:
	default:
		return nil
	}
	values, set, _ := s.values(p.Param.Value, p.Index, false)
	if s.there(p.Exp, p.Param.Value, values, set) != alternate {
		return nil
	}
	return p.Exp.Word
}

// word is the word of an operator. Within double quotes single ones are text.
func (s *shell) word(w *syntax.Word, quoted bool) string {
	if !quoted || w == nil {
		return s.one(w)
	}
	x := expansion{s: s}
	for i, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			x.add(unescape(p.Value))
		case *syntax.SglQuoted:
			if p.Dollar {
				x.add(ansi(p.Value))
			} else {
				x.add("'" + p.Value + "'")
			}
		default:
			x.parts(w.Parts[i : i+1])
		}
	}
	return string(x.buf)
}

// maxPattern bounds the values that patterns are applied to, in bytes, and the
// comparisons that one application may take.
const (
	maxPattern = 4096
	maxCompare = 1 << 20
)

// affordable reports whether a pattern can be tried at every place of a value.
// Patterns without stars are cheap.
func (s *shell) affordable(v, pattern string) bool {
	cost := len(v) * (len(v) + len(pattern)) / 4
	if stars := strings.Count(pattern, string(anyRun)); stars > 1 {
		cost *= len(pattern)
	}
	return len(v) <= maxPattern && cost <= maxCompare*4 && s.spend(cost/4)
}

// operated applies an operator to one value.
func (s *shell) operated(op syntax.ParExpOperator, v, arg string) string {
	if !known(v) || !known(arg) {
		return partlyKnown(op, v, arg)
	}
	switch op {
	case syntax.RemSmallPrefix, syntax.RemLargePrefix:
		return trimPrefix(v, arg, op == syntax.RemLargePrefix)
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		return trimSuffix(v, arg, op == syntax.RemLargeSuffix)
	case syntax.UpperAll, syntax.LowerAll, syntax.UpperFirst, syntax.LowerFirst:
		return fit(v, arg, op)
	case syntax.OtherParamOps:
		switch arg {
		case "U":
			return strings.ToUpper(v)
		case "L":
			return strings.ToLower(v)
		case "E":
			return ansi(v)
		case "u":
			return fit(v, "", syntax.UpperFirst)
		}
	}
	return someText
}

// partlyKnown trims what is known of a value's ends.
func partlyKnown(op syntax.ParExpOperator, v, arg string) string {
	switch op {
	case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
		tail := v[strings.LastIndexByte(v, unknown)+1:]
		if literal(arg) && strings.HasSuffix(tail, arg) {
			return v[:len(v)-len(arg)]
		}
		if arg == "/\x02" && strings.IndexByte(tail, '/') >= 0 {
			return v[:strings.LastIndexByte(v, '/')]
		}
	case syntax.RemSmallPrefix, syntax.RemLargePrefix:
		tail := v[strings.LastIndexByte(v, unknown)+1:]
		if arg == "\x02/" && op == syntax.RemLargePrefix && strings.IndexByte(tail, '/') >= 0 {
			return v[strings.LastIndexByte(v, '/')+1:]
		}
	}
	return someText
}

func trimPrefix(v, pattern string, longest bool) string {
	best := -1
	for i := 0; i <= len(v); i++ {
		if (i == len(v) || utf8.RuneStart(v[i])) && matches(pattern, v[:i]) {
			best = i
			if !longest {
				break
			}
		}
	}
	return v[max(best, 0):]
}

func trimSuffix(v, pattern string, longest bool) string {
	best := len(v)
	for i := len(v); i >= 0; i-- {
		if (i == len(v) || utf8.RuneStart(v[i])) && matches(pattern, v[i:]) {
			best = i
			if !longest {
				break
			}
		}
	}
	return v[:best]
}

// fit changes the case of the letters that match a pattern, all if it is empty.
func fit(v, pattern string, op syntax.ParExpOperator) string {
	i := -1
	return strings.Map(func(r rune) rune {
		i++
		first := op == syntax.UpperFirst || op == syntax.LowerFirst
		if first && i > 0 || pattern != "" && !matches(pattern, string(r)) {
			return r
		}
		if op == syntax.UpperAll || op == syntax.UpperFirst {
			return unicode.ToUpper(r)
		}
		return unicode.ToLower(r)
	}, v)
}

// slice is ${a:from:length}.
func (s *shell) slice(sl *syntax.Slice, values []string, many bool, name string) []string {
	from, ok := s.arith(sl.Offset)
	length, limited := int64(0), sl.Length != nil
	if limited && ok {
		length, ok = s.arith(sl.Length)
	}
	if many {
		if !ok {
			return values
		}
		if name == "@" || name == "*" {
			values = append([]string{s.name}, values...)
		}
		return cut(values, from, length, limited)
	}
	if !ok || !known(values[0]) {
		return []string{someText}
	}
	return []string{string(cut([]rune(values[0]), from, length, limited))}
}

// cut takes part of a list; a negative length counts from the end.
func cut[T any](v []T, from, length int64, limited bool) []T {
	n := int64(len(v))
	if from < 0 {
		from += n
	}
	if from < 0 || from > n {
		return nil
	}
	end := n
	if limited {
		end = from + length
		if length < 0 {
			end = n + length
		}
	}
	return v[from:max(from, min(end, n))]
}

// replace is ${a/pattern/text}.
func (s *shell) replace(rp *syntax.Replace, values []string) []string {
	pattern, with := s.pattern(rp.Orig), s.one(rp.With)
	anchor := byte(0)
	if !rp.All && pattern != "" && (pattern[0] == '#' || pattern[0] == '%') {
		anchor, pattern = pattern[0], pattern[1:]
	}
	for i, v := range values {
		if !known(v) || !known(pattern) || !s.affordable(v, pattern+with) {
			values[i] = someText
			continue
		}
		values[i] = replaced(v, pattern, with, anchor, rp.All)
	}
	return values
}

func replaced(v, pattern, with string, anchor byte, all bool) string {
	if pattern == "" && anchor == 0 {
		return v
	}
	var b strings.Builder
	for i := 0; i <= len(v); {
		end := -1
		if anchor != '#' || i == 0 {
			for k := len(v); k >= i; k-- {
				if (anchor != '%' || k == len(v)) && matches(pattern, v[i:k]) {
					end = k
					break
				}
			}
		}
		if end < 0 || end == i && anchor == 0 {
			if i < len(v) {
				b.WriteByte(v[i])
			}
			i++
			continue
		}
		b.WriteString(with)
		if !all || end == i {
			b.WriteString(v[end:])
			return b.String()
		}
		i = end
		if i == len(v) {
			break
		}
	}
	return b.String()
}
