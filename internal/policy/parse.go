package policy

import (
	"errors"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

var errDeep = errors.New("nested too deeply")

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
		why := "it is not valid shell"
		if errors.Is(err, errDeep) {
			why = "it is nested too deeply"
		}
		s.r.raise(unjudged(why))
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
