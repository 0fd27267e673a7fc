// Package offline is the mind that needs no model. It works by rules on any
// roster and surface: detectors for questions, proposals, objections, claims
// and numbers, counters of who has not spoken, one decision table per stance,
// and template sentences. The same state gives the same bytes.
//
// It shows the whole arc (discover, pin, wording, consent, release) without an
// account and is what tests of restraint run against. It does not understand
// anything.
package offline

import (
	"context"

	"github.com/iris-operator/iris/facilitate/beat"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/mind"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/release"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/tool"
)

// A Mind implements [mind.Mind]. It has no state.
type Mind struct{}

var _ mind.Mind = Mind{}

// New returns the mind.
func New() Mind { return Mind{} }

// Room implements [mind.Mind].
func (Mind) Room(_ context.Context, b mind.RoomBeat) (flow.Text[flow.Room], error) {
	k := &clerk{p: b.Public, s: b.Surface, at: map[string]int{}}
	for _, l := range b.Public.Log.Since(b.From) {
		if b.Public.People.Has(l.Author) && !l.Deleted {
			k.line(l)
		}
	}
	k.themes()
	d := room.RoomDelta{Items: k.out}
	if n := b.Public.Log.Len(); n > b.Public.SummaryTo+200 {
		d.Summary = k.summary()
	}
	return flow.Public(beat.Encode(d, b.Surface)), nil
}

// Person implements [mind.Mind].
func (Mind) Person(_ context.Context, b mind.PersonBeat) (flow.Text[flow.Person], error) {
	f := open.Open(b.File)
	var d room.PersonDelta
	note := func(text string) {
		switch {
		case Objects(text):
			d.Position, d.Arc = text, "digging in"
		case Softens(text):
			d.Position, d.Arc = text, "softening"
		case Proposes(text) != "":
			d.Position = Proposes(text)
		}
		if n := need(text); n != "" {
			d.Interest = n
		}
	}
	for _, l := range b.Public.Log.Since(f.ReadLine) {
		if l.Author == b.Who {
			note(l.Text)
		}
	}
	for _, l := range f.Thread {
		if l.Seq <= f.ReadTo || l.From != b.Who || release.Read(l.Text) != release.None || tool.Acknowledges(l.Text) {
			continue
		}
		note(l.Text)
		if !Specific(l.Text) {
			d.Confidence, d.HelpNext = "forming", "ask for one concrete thing"
			continue
		}
		d.Confidence, d.HelpNext = "confirmed", "ask leave to carry it"
		d.Shift = &room.Shift{Observed: "named a specific", To: l.Text}
		if d.Wording = wording(l.Text); b.Surface.OwnHand {
			continue
		}
		if it := current(b.Public, b.Surface); it != nil {
			for _, c := range b.Surface.Contribution {
				if c.Kind == surface.Text && d.Item == "" {
					d.Item, d.Value = it.ID, map[string]any{c.Name: l.Text}
				}
			}
		}
	}
	d.WatchingFor = "whether they speak to the board"
	return flow.Private(b.Who, beat.EncodePerson(d)), nil
}

// wording turns what somebody said in private into what they might let the
// room hear.
func wording(text string) string {
	return "For one of us this matters: " + trimEnd(text) + "."
}

// Self implements [mind.Mind].
func (Mind) Self(_ context.Context, b mind.SelfBeat) (flow.Text[flow.Self], error) {
	t := newTable(b)
	c := t.choose()
	d := room.SelfDelta{Choice: c}
	for _, it := range b.State.Items {
		if it.Opened > b.From {
			d.Notes = append(d.Notes, room.Note{Item: it.ID, Heartbeat: "new", Read: "just opened"})
		}
	}
	return flow.Inner(beat.EncodeSelf(d)), nil
}

// Say implements [mind.Mind].
func (Mind) Say(_ context.Context, b mind.SayBeat) (flow.Text[flow.Room], error) {
	return flow.Public(beat.EncodeText(say(b))), nil
}

func say(b mind.SayBeat) string {
	about := "this"
	if b.Focus != nil {
		about = "“" + b.Focus.Fields[b.Surface.Label()] + "”"
	}
	switch b.Intent {
	case tool.CarryRelease:
		if b.Statement != nil {
			if b.Statement.By != "" {
				return b.Public.People.Name(b.Statement.By) + " asked me to say this: " + b.Statement.Wording
			}
			return "I was asked to bring this in: " + b.Statement.Wording
		}
		return ""
	case tool.OpenQuestion:
		return "One question is on the board now: " + about + ". What would each of you need there?"
	case tool.NameTension:
		return "I hear two things pulling apart on " + about + ". Is it about the end, or about the way there?"
	case tool.ListOptions:
		if b.Focus != nil {
			for _, f := range b.Surface.Shared {
				if f.List {
					return "So far for " + about + ": " + join(b.Focus.Labels(f.Name)) + ". Is anything missing?"
				}
			}
		}
		return "What are the options so far?"
	case "open_poll":
		if b.Focus != nil {
			return "The vote on " + about + " is open: " + join(b.Focus.Labels(b.Surface.List)) + ". Vote on your private line; only the turnout shows before it closes."
		}
		return ""
	case tool.Stuck, tool.Conflict, tool.Safety, tool.NeedsHost:
		return "The room could use you, on " + about + "."
	case tool.InviteQuiet:
		return "Before we go on: some of us have not spoken yet. What would you add?"
	case tool.CheckDecision:
		return "Can I write " + about + " down as you have it now, or does something still stand against it?"
	case tool.Recap:
		return "On the board as it stands: " + about + "."
	case tool.ProposeProcess:
		return "Shall each of us say one sentence on " + about + " first, and weigh after?"
	case tool.AnswerDirect:
		return "I have no vote in this. What is on the board is what you said; tell me what to correct."
	}
	return "Let us take a moment with " + about + "."
}

// Whisper implements [mind.Mind].
func (Mind) Whisper(_ context.Context, b mind.WhisperBeat) (flow.Text[flow.Person], error) {
	about := "what is on the board"
	for i := len(b.Public.Items) - 1; i >= 0; i-- {
		if it := b.Public.Items[i]; !it.Archived {
			for _, v := range []string{"title", "question", "clause", "theme"} {
				if it.Fields[v] != "" {
					about = "“" + it.Fields[v] + "”"
				}
			}
			break
		}
	}
	name := b.Public.People.Name(b.Who)
	text := ""
	switch b.Intent {
	case tool.DiscoverSpecific:
		if f := open.Open(b.File); f.Lines > 1 {
			text = "Could you make it one concrete thing: a number, a date, or a limit?"
		} else {
			text = name + ", this stays between us. On " + about + ": is there one thing that has to be true for you, a number or a limit?"
		}
	case tool.CoachWording:
		text = "You could say it to the room yourself, in one sentence that starts with “I need”. Shall we find the words?"
	case tool.ReflectBack:
		text = "I heard that. Is it what you want to stand for when the room talks about " + about + "?"
	case tool.NudgeIntent:
		text = "My question from before is still open. Whenever you like, also not at all."
	case tool.Receipt:
		text = "Thank you. It stays here."
	default:
		text = "I have no vote in this. Ask me what is on the board, or tell me what you need."
	}
	return flow.Private(b.Who, beat.EncodeText(text)), nil
}

// current is the newest open item, or nil.
func current(p *room.Public, s *surface.Surface) *room.Item {
	for i := len(p.Items) - 1; i >= 0; i-- {
		if it := p.Items[i]; !it.Archived && !s.Closes(it.Fields[s.Status]) {
			return it
		}
	}
	return nil
}

// silent lists the people present who have not spoken in public, in order of
// the roster.
func silent(p *room.Public) (out []principal.ID) {
	for _, m := range p.People.All() {
		if !m.Away && p.Spoken[m.ID] == 0 {
			out = append(out, m.ID)
		}
	}
	return out
}
