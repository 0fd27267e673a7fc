package policy

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// redirect applies one redirection. When standard output goes to a file that is
// known, it returns which.
func (s *shell) redirect(rd *syntax.Redirect) (file string, appending, ok bool) {
	fd := ""
	if rd.N != nil {
		fd = rd.N.Value
	}
	switch rd.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		s.stdin = &stream{s.heredoc(rd)}
	case syntax.WordHdoc:
		s.stdin = &stream{s.one(rd.Word) + "\n"}
	case syntax.RdrIn, syntax.RdrInOut:
		return "", false, s.redirectIn(s.target(rd.Word), fd)
	case syntax.DplIn:
		s.one(rd.Word)
	case syntax.DplOut:
		to := s.one(rd.Word)
		if to == "-" || isNumber(to) {
			if fd == "" || fd == "1" {
				s.out = nil
			}
			return "", false, false
		}
		return s.redirectOut(s.target(rd.Word), false, true)
	case syntax.RdrOut, syntax.RdrClob:
		return s.redirectOut(s.target(rd.Word), false, fd == "" || fd == "1")
	case syntax.AppOut:
		return s.redirectOut(s.target(rd.Word), true, fd == "" || fd == "1")
	case syntax.RdrAll:
		return s.redirectOut(s.target(rd.Word), false, true)
	case syntax.AppAll:
		return s.redirectOut(s.target(rd.Word), true, true)
	}
	return "", false, false
}

// target is the file a redirection names; globs work there.
func (s *shell) target(w *syntax.Word) string { return s.pattern(w) }

func (s *shell) redirectIn(to, fd string) bool {
	if s.viaSocket(to) {
		return false
	}
	p := s.path(to)
	if fd == "" || fd == "0" {
		s.stdin = nil
		if text, ok := s.r.files[p]; ok {
			s.stdin = &stream{text}
		}
	}
	s.note(effect{kind: readFile, path: p})
	return false
}

func (s *shell) redirectOut(to string, appending, stdout bool) (string, bool, bool) {
	if s.viaSocket(to) {
		return "", false, false
	}
	p := s.path(to)
	s.note(effect{kind: writeFile, path: p})
	return p, appending, stdout && literal(p)
}

// viaSocket notes the connection that bash makes for /dev/tcp/host/port.
func (s *shell) viaSocket(to string) bool {
	rest, ok := strings.CutPrefix(to, "/dev/tcp/")
	if !ok {
		rest, ok = strings.CutPrefix(to, "/dev/udp/")
	}
	if !ok {
		return false
	}
	host, _, _ := strings.Cut(rest, "/")
	s.note(effect{kind: connect, path: host})
	return true
}

// heredoc is the text of a here-document.
func (s *shell) heredoc(rd *syntax.Redirect) string {
	if rd.Hdoc == nil {
		return ""
	}
	var text string
	if isQuoted(rd.Word) {
		text = rd.Hdoc.Lit()
	} else {
		x := expansion{s: s}
		x.quoted(rd.Hdoc.Parts)
		text = string(x.buf)
	}
	if rd.Op == syntax.DashHdoc {
		lines := strings.SplitAfter(text, "\n")
		for i, l := range lines {
			lines[i] = strings.TrimLeft(l, "\t")
		}
		text = strings.Join(lines, "")
	}
	return text
}

// isQuoted reports whether any part of a here-document's end word is quoted.
func isQuoted(w *syntax.Word) bool {
	for _, p := range w.Parts {
		l, ok := p.(*syntax.Lit)
		if !ok || strings.IndexByte(l.Value, '\\') >= 0 {
			return true
		}
	}
	return false
}

func isNumber(text string) bool {
	for i := range len(text) {
		if !isDigit(text[i]) {
			return false
		}
	}
	return text != ""
}

// input takes what is left of the command's standard input.
func (s *shell) input() string {
	if s.stdin == nil {
		return someText
	}
	text := s.stdin.text
	s.stdin.text = ""
	s.spend(len(text))
	return text
}

// print adds to the command's output, if anybody looks at it.
func (s *shell) print(text string) {
	if s.out != nil && s.spend(len(text)) && s.out.Len()+len(text) <= maxText {
		s.out.WriteString(text)
	}
}
