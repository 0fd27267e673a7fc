package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/iris-operator/iris/internal/turn"
)

// A screen draws the events of one turn after the other.
type screen struct {
	out   io.Writer // replies
	notes io.Writer // progress; may be the same as out
	// live draws text as it arrives; else only the reply is written, whole.
	live  bool
	color bool

	// mu guards the fields below and the order of what is written.
	mu   sync.Mutex
	open bool // a line is unfinished
	said bool // pieces of the current text are on the screen
}

// The few escape sequences the screen uses (ECMA-48).
const (
	dim   = "\x1b[2m"
	red   = "\x1b[31m"
	green = "\x1b[32m"
	plain = "\x1b[0m"
)

func (s *screen) paint(style, text string) string {
	if !s.color {
		return text
	}
	return style + text + plain
}

// draw shows one event and reports whether the turn goes on.
func (s *screen) draw(e turn.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Kind {
	case turn.Text:
		s.text(e)
	case turn.ToolUse:
		s.tool(e.Tool)
	case turn.FileOut:
		s.line("file: " + e.Filename + " (" + e.Local + ")")
	case turn.AskFor:
		s.line("question: " + e.Ask.Text + " " + e.Ask.Command)
	case turn.Status:
		// A tool's own line says the same and more.
		if s.live && !strings.HasPrefix(e.Label, "→") {
			s.line(e.Label)
		}
	case turn.Final:
		s.final(e)
	case turn.Failed:
		s.endLine()
		fmt.Fprintln(s.notes, s.paint(red, "error: "+clean(e.Error)))
	}
	return !e.Terminal()
}

func (s *screen) text(e turn.Event) {
	switch {
	case e.Void:
		if s.said {
			s.line("(starting again)")
		}
		s.said = false
	case !s.live:
	case e.Partial:
		s.put(clean(e.Text))
		s.said = true
	default:
		if !s.said {
			s.put(clean(e.Text))
		}
		s.endLine()
		s.said = false
	}
}

func (s *screen) tool(t *turn.Tool) {
	if t == nil || !s.live {
		return
	}
	name := t.Label
	if name == "" {
		name = t.Name
	}
	if t.Phase == turn.Start {
		s.line("→ " + name)
		return
	}
	took := (time.Duration(t.DurationMS) * time.Millisecond).String()
	if t.IsError {
		s.endLine()
		fmt.Fprintln(s.notes, s.paint(red, "✗ "+clean(name))+s.paint(dim, " "+took))
		fmt.Fprintln(s.notes, s.paint(dim, indent(clean(head(t.Result, 5)))))
		return
	}
	s.endLine()
	fmt.Fprintln(s.notes, s.paint(green, "✓ ")+s.paint(dim, clean(name)+" "+took))
}

func (s *screen) final(e turn.Event) {
	switch {
	case e.Silent:
	case s.live && s.said:
		s.endLine()
	case e.Text != "":
		s.endLine()
		s.put(clean(e.Text))
		s.endLine()
	}
	s.said = false
	if e.Stopped {
		s.line("(stopped)")
	}
	if u := e.Usage; u != nil && s.live {
		s.line(usage(u))
	}
}

func usage(u *turn.Usage) string {
	line := fmt.Sprintf("%s · %d in · %d out", u.Model, u.Input+u.CacheRead+u.CacheWrite, u.Output)
	if u.Cost > 0 {
		line += fmt.Sprintf(" · $%.4f", u.Cost)
	}
	return line
}

// put writes reply text and keeps track of whether the line is finished.
func (s *screen) put(text string) {
	if text == "" {
		return
	}
	io.WriteString(s.out, text)
	s.open = !strings.HasSuffix(text, "\n")
}

func (s *screen) endLine() {
	if s.open {
		io.WriteString(s.out, "\n")
		s.open = false
	}
}

// note writes a line of progress between events.
func (s *screen) note(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line(line)
}

func (s *screen) line(line string) {
	s.endLine()
	fmt.Fprintln(s.notes, s.paint(dim, clean(line)))
}

// clean drops control characters, so that text from a model or a file cannot
// drive the terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}

func head(text string, lines int) string {
	parts := strings.SplitN(strings.TrimSpace(text), "\n", lines+1)
	if len(parts) > lines {
		parts[lines] = "…"
	}
	return strings.Join(parts, "\n")
}

func indent(text string) string { return "  " + strings.ReplaceAll(text, "\n", "\n  ") }
