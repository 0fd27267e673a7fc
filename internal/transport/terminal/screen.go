package terminal

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/turn"
)

// A screen draws the events of one turn after the other. It is safe for
// concurrent use.
type screen struct {
	out   io.Writer // replies
	notes io.Writer // progress; may be the same as out
	// live draws text as it arrives; else only the reply is written, whole.
	live bool
	// ansi allows to rewrite the last line, color to paint.
	ansi, color bool
	// width is the number of columns, 0 if not known.
	width func() int

	// mu guards the fields below and the order of what is written.
	mu   sync.Mutex
	open bool // the last line is unfinished reply text
	wait bool // the last line is one that the next output takes the place of
	tool string
	// said are the whole texts of the turn, piece what came after the last.
	said  []string
	piece strings.Builder
	// waits are the questions that wait inside of the turn, oldest first.
	waits []*turn.Ask
}

func (s *screen) paint(style, text string) string {
	if !s.color || text == "" {
		return text
	}
	return style + text + plain
}

// begin forgets the turn before.
func (s *screen) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.said, s.tool, s.waits = nil, "", nil
	s.piece.Reset()
	s.passing("…")
}

// draw shows one event and reports whether the turn goes on.
func (s *screen) draw(e turn.Event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Kind {
	case turn.Thinking:
		s.passing("thinking…")
	case turn.Status:
		// A tool's own line says the same and more.
		if !strings.HasPrefix(e.Label, "→") {
			s.passing(e.Label)
		}
	case turn.Text:
		s.text(e)
	case turn.ToolUse:
		if e.Tool != nil && s.live {
			s.toolUse(e.Tool)
		}
	case turn.FileOut:
		s.line(cmp.Or(oneLine(e.Title), "file") + ": " + e.ShownName() + " (" + e.Local + ")")
	case turn.AskFor:
		s.ask(e.Ask)
	case turn.Final:
		s.final(e)
	case turn.Failed:
		s.fail(e)
	}
	return !e.Terminal()
}

func (s *screen) text(e turn.Event) {
	switch {
	case !s.live:
	case e.Void:
		if s.piece.Len() > 0 {
			s.line("(starting again)")
		}
		s.piece.Reset()
	case e.Partial:
		s.put(e.Text)
		s.piece.WriteString(e.Text)
	default:
		s.complete(e.Text)
		s.said = append(s.said, e.Text)
		s.piece.Reset()
	}
}

// complete brings what is on the screen to the whole text: nothing when it is
// there, the rest when its beginning is, else all of it on a line of its own.
func (s *screen) complete(whole string) {
	shown := s.piece.String()
	rest, begun := strings.CutPrefix(whole, shown)
	if !begun {
		if rest, begun = strings.CutPrefix(whole, strings.TrimRight(shown, " \n")); !begun {
			s.endLine()
		}
		if strings.TrimSpace(rest) == "" {
			rest = ""
		}
	}
	s.put(rest)
	s.endLine()
}

// told is all text of the turn, as the text of a turn that was cut short.
func (s *screen) told() string {
	all := s.said[:len(s.said):len(s.said)]
	if s.piece.Len() > 0 {
		all = append(all, s.piece.String())
	}
	return strings.Join(all, "\n\n")
}

func (s *screen) final(e turn.Event) {
	s.settle()
	repeats := e.Stopped && s.live && strings.TrimSpace(e.Text) == strings.TrimSpace(s.told())
	if !e.Silent && !repeats {
		s.complete(e.Text)
	}
	s.endLine()
	if e.Stopped {
		s.line("(stopped)")
	}
	s.usage(e.Usage)
}

func (s *screen) fail(e turn.Event) {
	s.settle()
	s.endLine()
	if e.Code == turn.CodeStopped {
		s.line("(stopped)")
		return
	}
	fmt.Fprintln(s.notes, s.paint(red, "error: "+clean(cmp.Or(e.Error, "the turn failed"))))
	s.usage(e.Usage)
}

func (s *screen) usage(u *turn.Usage) {
	if u == nil || !s.live {
		return
	}
	line := fmt.Sprintf("%s · %d tokens in · %d out", u.Model, u.Input+u.CacheRead+u.CacheWrite, u.Output)
	if u.Cost > 0 {
		line += fmt.Sprintf(" · $%.4f", u.Cost)
	}
	s.line(line)
}

// maxResult is how many lines of a failed tool's result are shown.
const maxResult = 5

// toolUse draws a call as it starts, and its end in the same line if nothing
// came between them.
func (s *screen) toolUse(t *turn.Tool) {
	name := oneLine(cmp.Or(t.Label, t.Name))
	if t.Phase == turn.Start {
		s.settle()
		s.endLine()
		s.tool = t.ID
		text := s.fit("→ " + name)
		if s.ansi {
			io.WriteString(s.notes, s.paint(dim, text))
			s.wait = true
		} else {
			fmt.Fprintln(s.notes, text)
		}
		return
	}
	if s.wait && s.tool == t.ID {
		s.erase()
	}
	s.settle()
	s.endLine()
	s.tool = ""
	took := " " + (time.Duration(t.DurationMS) * time.Millisecond).String()
	if !t.IsError {
		fmt.Fprintln(s.notes, s.paint(green, "✓ ")+s.paint(dim, s.fit(name+took)))
		return
	}
	fmt.Fprintln(s.notes, s.paint(red, "✗ "+name)+s.paint(dim, took))
	if result := clean(head(t.Result, maxResult)); result != "" {
		fmt.Fprintln(s.notes, s.paint(dim, indent(result)))
	}
}

// fit cuts a line that must not wrap, because it is rewritten.
func (s *screen) fit(line string) string {
	if s.width == nil {
		return line
	}
	return cut(line, s.width()-4)
}

// ask shows a question, and how it ended. One that waits inside of its turn is kept,
// so that what is typed answers it.
func (s *screen) ask(a *turn.Ask) {
	if a == nil {
		return
	}
	s.settle()
	s.endLine()
	if a.Outcome != "" {
		s.waits = slices.DeleteFunc(s.waits, func(w *turn.Ask) bool { return w.ID == a.ID })
		line := a.Outcome
		if a.By != "" {
			line += " by " + a.By
		}
		if a.Picked != "" {
			line += ": " + a.Picked
		}
		fmt.Fprintln(s.notes, indent(oneLine(line)))
		return
	}
	fmt.Fprintln(s.notes, s.paint(bold, "? "+oneLine(a.Text)))
	if a.Command != "" {
		fmt.Fprintln(s.notes, indent(clean(a.Command)))
	}
	for i, o := range a.Options {
		fmt.Fprintln(s.notes, indent(oneLine(fmt.Sprintf("%d. %s  %s", i+1, o.Label, o.About))))
	}
	if a.Tool == "" && len(a.Options) == 0 {
		return
	}
	s.waits = append(s.waits, a)
	how := "(yes or no)"
	switch {
	case a.Many:
		how = "(numbers, as in 1, 2, or your own words; no gives no answer)"
	case len(a.Options) > 0:
		how = "(a number or your own words; no gives no answer)"
	case a.Always:
		how = "(yes, no, or always for this session)"
	}
	if !s.live {
		how = "(answer with: iris approvals answer " + a.ID[:min(len(a.ID), 8)] + " …)"
	}
	fmt.Fprintln(s.notes, indent(how))
}

// asked is the question that a line typed now answers, nil if there is none.
func (s *screen) asked() *turn.Ask {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waits) == 0 {
		return nil
	}
	return s.waits[0]
}

// passing shows a line that the next output takes the place of.
func (s *screen) passing(text string) {
	text = oneLine(text)
	if !s.live || !s.ansi || s.open || s.tool != "" || text == "" {
		return
	}
	if s.wait {
		s.erase()
	}
	io.WriteString(s.notes, s.paint(dim, s.fit(text)))
	s.wait = true
}

func (s *screen) erase() {
	io.WriteString(s.notes, wipe)
	s.wait = false
}

// settle makes room for the next line: a call that runs keeps its line, what is
// only passing goes.
func (s *screen) settle() {
	switch {
	case !s.wait:
	case s.tool != "":
		io.WriteString(s.notes, "\n")
		s.wait = false
	default:
		s.erase()
	}
	s.tool = ""
}

// put writes reply text and keeps track of whether the line is finished.
func (s *screen) put(text string) {
	if text = clean(text); text == "" {
		return
	}
	s.settle()
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

// entered tells that the person pressed Enter, which ended the line.
func (s *screen) entered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.wait = false, false
}

// interrupted writes a line over the ^C that the terminal has shown.
func (s *screen) interrupted(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	if s.ansi && !s.open {
		io.WriteString(s.notes, wipe)
	}
	s.line(line)
}

// rest leaves a clean line for the prompt.
func (s *screen) rest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	s.endLine()
}

func (s *screen) line(line string) {
	s.settle()
	s.endLine()
	fmt.Fprintln(s.notes, s.paint(dim, clean(line)))
}

// trouble shows an error that is no part of a turn.
func (s *screen) trouble(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	s.endLine()
	fmt.Fprintln(s.notes, s.paint(red, "error: "+clean(err.Error())))
}

// answer shows what a command in words brought about.
func (s *screen) answer(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	s.put(strings.Trim(text, "_"))
	s.endLine()
}
