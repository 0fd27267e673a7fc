package offline

import (
	"slices"
	"strings"

	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/mind"
	"github.com/iris-operator/iris/facilitate/policy"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/release"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/tool"
)

// opening is how many public lines Iris only listens to.
const opening = 2

// A table decides. Its rows are tried in order; the first that fits wins.
type table struct {
	b     mind.SelfBeat
	s     *room.State
	files map[principal.ID]room.File
	lines []room.Message // new public lines by people
}

func newTable(b mind.SelfBeat) *table {
	t := &table{b: b, s: b.State, files: map[principal.ID]room.File{}}
	for _, p := range b.State.People.All() {
		box, _ := b.State.File(p.ID)
		t.files[p.ID] = open.Open(box)
	}
	for _, l := range b.State.Log.Since(b.From) {
		if b.State.People.Has(l.Author) && !l.Deleted {
			t.lines = append(t.lines, l)
		}
	}
	return t
}

func (t *table) choose() room.Choice {
	for _, row := range []func() (room.Choice, bool){t.carry, t.ask, t.private, t.asked, t.direct, t.due, t.listen, t.vote, t.followUp, t.volunteer, t.standup, t.affected, t.tension, t.quiet} {
		if c, ok := row(); ok && t.can(c) {
			return c
		}
	}
	return room.Choice{Tool: room.None, Rationale: "nothing asks for me"}
}

// can leaves out what the closed vocabulary, which tools and policy made, does not
// offer.
func (t *table) can(c room.Choice) bool {
	return c.Tool == room.None || t.b.Vocabulary.Allows(c) == ""
}

func (t *table) post(intent, focus, why string) (room.Choice, bool) {
	return room.Choice{Tool: "post", Intent: intent, Focus: focus, Rationale: why}, true
}

func (t *table) caucus(who principal.ID, intent, why string) (room.Choice, bool) {
	return room.Choice{Tool: "caucus", Target: who, Intent: intent, Rationale: why}, true
}

func no() (room.Choice, bool) { return room.Choice{}, false }

// carry says what was released.
func (t *table) carry() (room.Choice, bool) {
	if r := t.b.Vocabulary.Releases; len(r) > 0 {
		return room.Choice{Tool: "post", Intent: tool.CarryRelease, Release: r[0], Rationale: "I have leave to carry this"}, true
	}
	return no()
}

// ask shows a proposed wording to its owner.
func (t *table) ask() (room.Choice, bool) {
	for _, p := range t.s.People.All() {
		f := t.files[p.ID]
		for _, r := range f.Releases {
			if r.State == release.Proposed && !p.Away && len(f.Pending()) == 0 && !f.Out("caucus") {
				if t.b.Policy.Stance == policy.Coach && !slices.ContainsFunc(f.Thread, func(l room.Line) bool { return strings.Contains(l.Text, "I need") && l.From == principal.Iris }) {
					return t.caucus(p.ID, tool.CoachWording, "they could say it themselves")
				}
				if t.b.Policy.Stance == policy.Coach && f.Asked > 0 {
					continue // the words are theirs to find first
				}
				return t.caucus(p.ID, tool.AskConsent, "the specific is known")
			}
		}
	}
	return no()
}

// private answers whoever wrote on a private line last.
func (t *table) private() (room.Choice, bool) {
	for _, p := range t.s.People.All() {
		f := t.files[p.ID]
		if len(f.Thread) == 0 || f.Out("caucus") || f.Thread[len(f.Thread)-1].From != p.ID {
			continue
		}
		last := f.Thread[len(f.Thread)-1].Text
		switch {
		case release.Read(last) != release.None:
			return t.caucus(p.ID, tool.Receipt, "an answer deserves a receipt")
		case tool.Acknowledges(last):
			continue
		case strings.Contains(last, "?"):
			return t.caucus(p.ID, tool.AnswerDirect, "I was asked")
		case !Specific(last):
			return t.caucus(p.ID, tool.DiscoverSpecific, "nothing specific yet")
		}
		return t.caucus(p.ID, tool.Receipt, "heard")
	}
	return no()
}

// asked does what somebody asked Iris for in public, where there is a tool for it.
func (t *table) asked() (room.Choice, bool) {
	for _, l := range t.lines {
		if !Addressed(l.Text) {
			continue
		}
		for _, w := range []struct {
			words  []string
			choice room.Choice
		}{
			{[]string{"pin"}, room.Choice{Tool: "pin", Intent: "pin", Focus: t.focus()}},
			{[]string{"vote", "poll"}, room.Choice{Tool: "open_poll", Intent: "open_poll", Focus: t.callable()}},
			{[]string{"tomorrow"}, room.Choice{Tool: "schedule", Intent: tool.Tomorrow}},
			{[]string{"in an hour", "later"}, room.Choice{Tool: "schedule", Intent: tool.Later}},
			{[]string{"remind us", "in ten minutes"}, room.Choice{Tool: "schedule", Intent: tool.Soon}},
			{[]string{"host", "operator", "a human"}, room.Choice{Tool: "escalate", Intent: tool.NeedsHost, Focus: t.focus()}},
		} {
			c := w.choice
			if has(l.Text, w.words...) && (c.Tool != "pin" && c.Tool != "open_poll" || c.Focus != "") && t.can(c) {
				c.Rationale = "I was asked to in public"
				return c, true
			}
		}
	}
	return no()
}

// callable is the newest item whose vote may be opened, or "".
func (t *table) callable() string {
	for i := len(t.s.Items) - 1; i >= 0; i-- {
		if it := t.s.Items[i]; t.s.Callable(it) {
			return it.ID
		}
	}
	return ""
}

// vote opens the vote when a teller hears that it is time.
func (t *table) vote() (room.Choice, bool) {
	if it := t.callable(); it != "" && t.b.Policy.Stance == policy.Teller && slices.ContainsFunc(t.lines, func(l room.Message) bool { return has(l.Text, "vote", "ballot") }) {
		return room.Choice{Tool: "open_poll", Intent: "open_poll", Focus: it, Rationale: "the options are there"}, true
	}
	return no()
}

// due says where things stand when the moment came that Iris had planned.
func (t *table) due() (room.Choice, bool) {
	in := open.Open(t.s.Inner())
	if in.Ticks == in.TickTo || len(t.lines) > 0 || tool.After(in.Tick) == 0 || t.focus() == "" {
		return no()
	}
	return t.post(tool.Recap, t.focus(), "I had planned to look again")
}

func (t *table) direct() (room.Choice, bool) {
	for _, l := range t.lines {
		if Addressed(l.Text) {
			return t.post(tool.AnswerDirect, "", "I was asked in public")
		}
	}
	return no()
}

// listen holds while the conversation opens, and when nothing public is new.
func (t *table) listen() (room.Choice, bool) {
	spoken := 0
	for _, n := range t.s.Spoken {
		spoken += n
	}
	spoken -= t.s.Spoken[principal.Iris] + t.s.Spoken[principal.System]
	if spoken <= opening || len(t.lines) == 0 {
		return room.Choice{Tool: room.None, Rationale: "I listen"}, true
	}
	return no()
}

// followUp puts a question before the room that came up as another was settled.
func (t *table) followUp() (room.Choice, bool) {
	settled := slices.ContainsFunc(t.lines, func(l room.Message) bool { return room.Settles(l.Text) })
	if it := current(&t.s.Public, t.s.Surface); settled && it != nil && it.Opened > t.b.From {
		return t.post(tool.OpenQuestion, it.ID, "one is settled and the next is open")
	}
	return no()
}

// volunteer acts when the last person who was missing has taken something on.
func (t *table) volunteer() (room.Choice, bool) {
	for _, l := range t.lines {
		if Claims(l.Text) && len(silent(&t.s.Public)) == 0 && !t.unclaimed() {
			if f := t.files[l.Author]; t.b.Policy.Stance == policy.Coach && !f.Out("caucus") {
				return t.caucus(l.Author, tool.ReflectBack, "they took the last piece")
			}
			return t.post(tool.Recap, t.focus(), "everything is taken")
		}
	}
	return no()
}

func (t *table) unclaimed() bool {
	return slices.ContainsFunc(t.s.Items, func(it *room.Item) bool {
		return it.Fields[t.s.Surface.Status] == "open" && !it.Archived
	})
}

func (t *table) focus() string {
	if it := current(&t.s.Public, t.s.Surface); it != nil {
		return it.ID
	}
	return ""
}

// standup asks who has not reported, once each.
func (t *table) standup() (room.Choice, bool) {
	if t.b.Policy.Stance != policy.Standup {
		return no()
	}
	for _, id := range silent(&t.s.Public) {
		if f := t.files[id]; f.Lines == 0 && !f.Out("caucus") {
			return t.caucus(id, tool.DiscoverSpecific, "they have not reported")
		}
	}
	return no()
}

// affected opens a private line to somebody silent whom a proposal touches.
func (t *table) affected() (room.Choice, bool) {
	for _, l := range t.lines {
		if Proposes(l.Text) == "" {
			continue
		}
		quiet := silent(&t.s.Public)
		slices.SortStableFunc(quiet, func(a, b principal.ID) int { // whom the line names comes first
			return rank(t, l, a) - rank(t, l, b)
		})
		for _, id := range quiet {
			if f := t.files[id]; f.Lines == 0 && id != l.Author && !f.Out("caucus") {
				return t.caucus(id, tool.DiscoverSpecific, "a proposal touches somebody who is silent")
			}
		}
	}
	return no()
}

func rank(t *table, l room.Message, id principal.ID) int {
	if has(l.Text, room.Norm(t.s.People.Name(id)), room.Norm(string(id))) {
		return 0
	}
	return 1
}

// tension names that people stand against each other, once per item.
func (t *table) tension() (room.Choice, bool) {
	against := map[principal.ID]bool{}
	for _, l := range t.s.Log.Recent(6) {
		if t.s.People.Has(l.Author) && Objects(l.Text) {
			against[l.Author] = true
		}
	}
	if len(against) < 2 || !slices.ContainsFunc(t.lines, func(l room.Message) bool { return Objects(l.Text) }) {
		return no()
	}
	return t.post(tool.NameTension, t.focus(), "two people object")
}

// quiet invites those who have not spoken, by what is public only, once the
// others have gone round.
func (t *table) quiet() (room.Choice, bool) {
	n := 0
	for _, p := range t.s.People.All() {
		n += t.s.Spoken[p.ID]
	}
	quiet, present := silent(&t.s.Public), t.s.People.Present()
	if len(quiet) == 0 || len(quiet)*2 >= present || n < 3*present || t.s.Spoken[principal.Iris] > 0 && t.s.Log.Len()-open.Open(t.s.Inner()).LastPost < uint64(3*present) {
		return no()
	}
	return t.post(tool.InviteQuiet, "", "some have not spoken")
}
