package app

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/iris-operator/iris/facilitate"
)

// CouncilDemoOptions describes the play of a council.
type CouncilDemoOptions struct {
	Out io.Writer
	// Environ is the environment; a terminal is drawn on in color.
	Environ []string
	// Pause is what a reader gets between two lines; 0 plays at once.
	Pause time.Duration
}

// A scene is one thing that happens in the play. say is a line to the room, tell
// one on the person's private line, answer the yes or no under a question for
// consent, note what a narrator says before it.
type scene struct {
	who, say, tell, answer, note string
}

// gardeners are the six of the play.
func gardeners() []facilitate.Participant {
	return []facilitate.Participant{
		{ID: "ida", Name: "Ida", Role: "host"}, {ID: "jonas", Name: "Jonas"}, {ID: "mara", Name: "Mara"},
		{ID: "noor", Name: "Noor"}, {ID: "pavel", Name: "Pavel"}, {ID: "tilda", Name: "Tilda"},
	}
}

// garden is the play: six neighbours, one garden, nine hundred euros.
func garden() []scene {
	return []scene{
		{note: "Six neighbours share a garden. The city gave them nine hundred euros.", who: "ida", say: "What shall the garden get for the nine hundred euros?"},
		{who: "jonas", say: "Something for the summer evenings, I think."},
		{who: "mara", say: "I propose a fire pit with benches around it."},
		{note: "A proposal is on the board, and Noor has not said a word. Iris asks her where nobody else reads.",
			who: "noor", tell: "Smoke is hard for me. I need 20 metres between a fire and my window, my lungs are bad since spring."},
		{note: "Nothing of this is in the room. Iris shows Noor the words that would be, and waits.",
			who: "pavel", say: "A fire pit sounds good. How about a pizza oven instead?"},
		{note: "Noor has better words, and says no to these.", who: "noor", answer: "no"},
		{who: "noor", tell: "a fire needs 20 metres to the nearest window"},
		{note: "Now the words are hers.", who: "noor", answer: "yes"},
		{note: "Iris does not speak at once: a post right behind a private word would point at who said it.",
			who: "tilda", say: "I don't mind which, as long as children can be near it."},
		{who: "mara", say: "Good to know. Then I propose a long table under the lime tree, with lanterns."},
		{who: "jonas", say: "The table can be used by day too. I like that."},
		{who: "ida", say: "Agreed: the long table under the lime tree. Who builds it?"},
		{who: "pavel", say: "I'll build the frame, and Tilda's children may paint it."},
	}
}

// CouncilDemo plays a council of six with the offline mind: the words of the six
// are written, what Iris does is decided while it runs. It needs no key and no
// network and keeps nothing.
func CouncilDemo(ctx context.Context, opts CouncilDemoOptions) error {
	p := &play{opts: opts, asked: map[facilitate.ID]string{}, names: map[facilitate.ID]string{}, color: colorful(opts.Out, opts.Environ)}
	people := gardeners()
	for _, m := range people {
		p.names[m.ID] = m.Name
	}
	a, err := facilitate.New(ctx, facilitate.Config{ID: "garden", Topic: "What the garden gets", Participants: people, Port: p})
	if err != nil {
		return err
	}
	defer a.Close()
	p.title(people)
	for _, s := range garden() {
		if err := p.act(ctx, a, s); err != nil {
			return err
		}
	}
	p.end(a)
	return p.err
}

// A play draws what happens. It is the room's port: what Iris does is drawn
// when it is delivered.
type play struct {
	opts  CouncilDemoOptions
	names map[facilitate.ID]string
	asked map[facilitate.ID]string // the open question for consent of each
	board []string
	color bool
	err   error
}

func (p *play) act(ctx context.Context, a *facilitate.Agent, s scene) error {
	who := facilitate.ID(s.who)
	if s.note != "" {
		p.note(s.note)
	}
	var ev facilitate.Event
	switch {
	case s.say != "":
		p.public(p.names[who], s.say)
		ev = facilitate.Message(who, s.say)
	case s.tell != "":
		p.private(p.names[who]+" to Iris", s.tell)
		ev = facilitate.Caucus(who, s.tell)
	default:
		p.private(p.names[who]+" presses", "["+s.answer+"]")
		ev = facilitate.Consent(who, p.asked[who], s.answer == "yes")
	}
	if err := p.pause(ctx); err != nil {
		return err
	}
	if _, err := a.Run(ctx, ev); err != nil {
		return err
	}
	p.cards(a)
	return ctx.Err()
}

// Room implements facilitate.Port.
func (p *play) Room(ctx context.Context, e facilitate.RoomEffect) error {
	p.public("Iris", e.Text)
	return p.pause(ctx)
}

// Person implements facilitate.Port.
func (p *play) Person(ctx context.Context, e facilitate.PersonEffect) error {
	p.private("Iris to "+p.names[e.To], e.Text)
	if e.Release != "" {
		p.asked[e.To] = e.Release
		p.line(p.dim("          ┆ ") + "[yes] [no]")
	}
	return p.pause(ctx)
}

func (p *play) pause(ctx context.Context) error {
	if p.opts.Pause == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(p.opts.Pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *play) title(people []facilitate.Participant) {
	var names []string
	for _, m := range people {
		names = append(names, m.Name)
	}
	p.line(p.bold("A council of six, and Iris"))
	p.line(p.dim("In the room: " + strings.Join(names, ", ") + ". Marked with ┆: what only Iris and one person read."))
}

// cards draws the board when it has changed.
func (p *play) cards(a *facilitate.Agent) {
	var now []string
	for _, c := range a.Canvas() {
		head := c.Fields["title"] + "  " + p.dim(c.Fields["status"])
		if r := c.Fields["resolution"]; r != "" {
			head += p.dim(": ") + r
		}
		now = append(now, head)
		for _, o := range c.Options["options"] {
			now = append(now, "  · "+o)
		}
	}
	if slices.Equal(now, p.board) {
		return
	}
	p.board = now
	for i, l := range now {
		label := "   board  "
		if i > 0 {
			label = "          "
		}
		p.line(p.cyan(label+"│ ") + l)
	}
}

func (p *play) end(a *facilitate.Agent) {
	p.note("The end. What the room has of Noor is what she said yes to, word for word:")
	for _, s := range a.Room().Statements {
		p.line("          “" + s.Wording + "”")
	}
	p.line("")
	p.line(p.dim("A room of your own: the page Council of iris serve. How it is held: docs/facilitation.md"))
}

// width is how long a line of the play gets.
const width = 88

func (p *play) public(who, text string) {
	name := fmt.Sprintf("%9s ", who)
	if who == "Iris" {
		name = p.violet(name)
	} else {
		name = p.bold(name)
	}
	p.wrapped(name, strings.Repeat(" ", 10), text)
}

func (p *play) private(who, text string) {
	bar := p.dim("          ┆ ")
	p.wrapped(bar+p.dim(who+": "), bar, text)
}

func (p *play) note(text string) {
	p.line("")
	p.wrapped("", "", p.dimEach(text))
}

// wrapped writes text with a first and a following margin.
func (p *play) wrapped(first, rest, text string) {
	margin := first
	used := visible(first)
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := ""
		for w := range strings.FieldsSeq(paragraph) {
			if line != "" && used+visible(line)+1+visible(w) > width {
				p.line(margin + line)
				margin, line, used = rest, "", visible(rest)
			}
			if line != "" {
				line += " "
			}
			line += w
		}
		p.line(margin + line)
		margin, used = rest, visible(rest)
	}
}

// visible is how many characters of s are seen: what is between ESC and m only
// colors.
func visible(s string) int {
	n, escape := 0, false
	for _, r := range s {
		switch {
		case r == 0x1b:
			escape = true
		case escape:
			escape = r != 'm'
		default:
			n++
		}
	}
	return n
}

func (p *play) line(s string) {
	if _, err := fmt.Fprintln(p.opts.Out, strings.TrimRight(s, " ")); err != nil && p.err == nil {
		p.err = err
	}
}

func (p *play) paint(code, s string) string {
	if !p.color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p *play) bold(s string) string   { return p.paint("1", s) }
func (p *play) dim(s string) string    { return p.paint("2", s) }
func (p *play) cyan(s string) string   { return p.paint("36", s) }
func (p *play) violet(s string) string { return p.paint("1;35", s) }

// dimEach dims word by word, so that a wrapped line stays dim.
func (p *play) dimEach(s string) string {
	if !p.color {
		return s
	}
	words := strings.Fields(s)
	for i, w := range words {
		words[i] = p.dim(w)
	}
	return strings.Join(words, " ")
}

// colorful reports whether out is a terminal that wants colors.
func colorful(out io.Writer, environ []string) bool {
	f, ok := out.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd())) && lookup(environ, "NO_COLOR") == "" && lookup(environ, "TERM") != "dumb"
}
