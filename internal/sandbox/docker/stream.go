package docker

import (
	"bytes"
	"io"
	"strings"
)

// begin passes on what is written and keeps the first of it, in which an engine
// says why a program could not be started. The receiver's errors are its own.
type begin struct {
	to   io.Writer
	kept bytes.Buffer
}

func (b *begin) Write(p []byte) (int, error) {
	if room := 512 - b.kept.Len(); room > 0 {
		b.kept.Write(p[:min(room, len(p))])
	}
	if b.to != nil {
		_, _ = b.to.Write(p) // a full disk of ours is no failure of theirs
	}
	return len(p), nil
}

func (b *begin) head() string { return b.kept.String() }

// maxSignature is longer than any last words: the nonce and two numbers.
const maxSignature = 64

// signature passes on what is written but for the supervisor's last words, which
// may come in pieces: "\n", the nonce, a space, some words and "\n" at the end of
// the stream.
type signature struct {
	to     io.Writer
	nonce  string
	held   []byte
	signed chan struct{} // closed when the last words have been seen
	words  string
	done   bool
}

func newSignature(to io.Writer, nonce string) *signature {
	return &signature{to: to, nonce: nonce, signed: make(chan struct{})}
}

func (s *signature) Write(p []byte) (int, error) {
	s.held = append(s.held, p...)
	if s.nonce != "" && !s.done {
		if text, ok := strings.CutSuffix(string(s.held[max(0, len(s.held)-maxSignature):]), "\n"); ok {
			if at := strings.LastIndex(text, "\n"+s.nonce+" "); at >= 0 {
				s.words, s.done = text[at+len(s.nonce)+2:], true
				s.held = s.held[:len(s.held)-(len(text)+1-at)]
				close(s.signed)
			}
		}
	}
	if n := len(s.held) - maxSignature; n > 0 && !s.done {
		s.pass(s.held[:n])
		s.held = append(s.held[:0], s.held[n:]...)
	}
	return len(p), nil
}

func (s *signature) pass(p []byte) {
	if s.to != nil && len(p) > 0 {
		_, _ = s.to.Write(p)
	}
}

// flush passes on what was held back. Nothing is written after it.
func (s *signature) flush() {
	s.pass(s.held)
	s.held = nil
}

// last returns the last words. It may be called when the stream has ended.
func (s *signature) last() (string, bool) { return s.words, s.done }
