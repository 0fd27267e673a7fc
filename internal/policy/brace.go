package policy

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

const (
	// maxBraces bounds what one word expands to; the last ones stand for the rest.
	maxBraces = 512
	// maxSequence bounds {1..n}: further numbers are no news.
	maxSequence = 64
)

// braces expands the braces of a word to lists of parts.
func braces(w *syntax.Word) [][]syntax.WordPart {
	found := false
	for _, p := range w.Parts {
		l, ok := p.(*syntax.Lit)
		found = found || ok && strings.IndexByte(l.Value, '{') >= 0
	}
	if !found {
		return [][]syntax.WordPart{w.Parts}
	}
	copied := &syntax.Word{Parts: w.Parts}
	if !syntax.SplitBraces(copied) {
		return [][]syntax.WordPart{w.Parts}
	}
	return product(copied.Parts)
}

// product combines the alternatives of all brace expressions.
func product(parts []syntax.WordPart) [][]syntax.WordPart {
	all := [][]syntax.WordPart{nil}
	for _, p := range parts {
		b, ok := p.(*syntax.BraceExp)
		if !ok {
			for i := range all {
				all[i] = glue(all[i], []syntax.WordPart{p})
			}
			continue
		}
		var choices [][]syntax.WordPart
		if b.Sequence {
			choices = sequence(b)
		} else {
			for _, e := range b.Elems {
				choices = append(choices, product(e.Parts)...)
			}
		}
		if len(all)*len(choices) > maxBraces {
			choices = choices[:max(1, maxBraces/len(all))]
		}
		grown := make([][]syntax.WordPart, 0, len(all)*len(choices))
		for _, head := range all {
			for _, tail := range choices {
				grown = append(grown, glue(head, tail))
			}
		}
		all = grown
	}
	return all
}

// glue joins parts as text would be: what braces put behind "$name" may be more
// of the name.
func glue(head, tail []syntax.WordPart) []syntax.WordPart {
	joined := append(head[:len(head):len(head)], tail...)
	if len(head) == 0 || len(tail) == 0 {
		return joined
	}
	p, ok := head[len(head)-1].(*syntax.ParamExp)
	l, isLit := tail[0].(*syntax.Lit)
	if !ok || !isLit || !p.Short || p.Index != nil || p.Param == nil || !isName(p.Param.Value) {
		return joined
	}
	n := 0
	for n < len(l.Value) && isNameByte(l.Value[n]) {
		n++
	}
	if n == 0 {
		return joined
	}
	longer := *p
	longer.Param = &syntax.Lit{Value: p.Param.Value + l.Value[:n]}
	joined[len(head)-1] = &longer
	if n == len(l.Value) {
		return append(joined[:len(head)], joined[len(head)+1:]...)
	}
	joined[len(head)] = &syntax.Lit{Value: l.Value[n:]}
	return joined
}

// sequence expands {a..b[..step]}.
func sequence(b *syntax.BraceExp) (out [][]syntax.WordPart) {
	from, to := b.Elems[0].Lit(), b.Elems[1].Lit()
	var step int64 = 1
	if len(b.Elems) > 2 {
		step, _ = strconv.ParseInt(b.Elems[2].Lit(), 10, 32)
	}
	if step < 0 {
		step = -step
	}
	step = max(step, 1)
	var first, last int64
	width := 0
	letters := len(from) == 1 && isLetter(from[0])
	if letters {
		first, last = int64(from[0]), int64(to[0])
	} else {
		first, _ = strconv.ParseInt(from, 10, 32)
		last, _ = strconv.ParseInt(to, 10, 32)
		if padded(from) || padded(to) {
			width = max(len(from), len(to))
		}
	}
	if first > last {
		step = -step
	}
	for n := first; (step > 0 && n <= last || step < 0 && n >= last) && len(out) < maxSequence; n += step {
		text := string(rune(n))
		if !letters {
			text = pad(n, width)
		}
		out = append(out, []syntax.WordPart{&syntax.Lit{Value: text}})
	}
	return out
}

func padded(n string) bool {
	n = strings.TrimPrefix(n, "-")
	return len(n) > 1 && n[0] == '0'
}

func pad(n int64, width int) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for len(sign)+len(text) < width {
		text = "0" + text
	}
	return sign + text
}
