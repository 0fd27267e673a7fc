package facilitate

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/iris-operator/iris/facilitate/beat"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/mind"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/release"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/tool"
	"github.com/iris-operator/iris/facilitate/view"
)

// vocabulary is what a choice may say now.
func (s *session) vocabulary(st *room.State) beat.Vocabulary {
	pol := s.policy()
	v := beat.Vocabulary{Tools: s.tools.Names(), Releases: st.Granted()}
	for _, n := range v.Tools {
		spec, _ := s.tools.Spec(n)
		for _, i := range spec.Intents {
			if !slices.Contains(v.Intents, i) && (pol.Allows(i) || spec.Silent) {
				v.Intents = append(v.Intents, i)
			}
		}
	}
	for _, p := range st.People.All() {
		if !p.Away {
			v.People = append(v.People, string(p.ID))
		}
	}
	for _, it := range st.Items {
		if !it.Archived && !it.Hidden {
			v.Items = append(v.Items, it.ID)
		}
	}
	return v
}

// Bits is the upper bound of what one choice can tell the room: the logarithm
// of the different acts on the room it can pick, and one for whether to act.
func (s *session) bits(v beat.Vocabulary) float64 {
	return math.Log2(float64(Outcomes(s.tools, v))) + 1
}

// Outcomes counts the different acts that choices within v can bring about and
// that the room, or whoever runs it, can see. A timer counts: what comes of it
// may be seen.
func Outcomes(set *tool.Set, v beat.Vocabulary) int {
	n := 0
	for _, name := range set.Names() {
		if _, ok := set.Person(name); ok {
			continue
		}
		_, self := set.Self(name)
		spec, _ := set.Spec(name)
		intents := 0
		for _, i := range spec.Intents {
			if slices.Contains(v.Intents, i) {
				intents++
			}
		}
		switch {
		case spec.OnItem:
			n += intents * len(v.Items)
		case spec.Silent || self:
			n += intents
		case slices.Contains(spec.Intents, tool.CarryRelease) && slices.Contains(v.Intents, tool.CarryRelease):
			n += (intents - 1 + len(v.Releases)) * (len(v.Items) + 1) // that intent needs one, the others have none
		default:
			n += intents * (len(v.Items) + 1)
		}
	}
	return max(n, 1)
}

// menu says what each tool does and which intents go with it: the schema alone
// does not tell which values belong together.
func (a *Agent) menu(v beat.Vocabulary) string {
	var b strings.Builder
	b.WriteString("\n\n# The tools\n\n")
	for _, name := range v.Tools {
		spec, _ := a.tools.Spec(name)
		var intents []string
		for _, i := range spec.Intents {
			if slices.Contains(v.Intents, i) {
				intents = append(intents, i)
			}
		}
		if len(intents) == 0 && len(spec.Intents) > 0 {
			continue // the policy leaves it out
		}
		fmt.Fprintf(&b, "- %s: %s. Intents: %s.", name, spec.Description, strings.Join(intents, ", "))
		if _, ok := a.tools.Person(name); ok {
			b.WriteString(" Needs a target.")
		}
		if spec.OnItem {
			b.WriteString(" Needs an item in focus.")
		}
		b.WriteByte('\n')
	}
	b.WriteString("- none: hold.\n")
	return b.String()
}

// A choiceSchema is the schema of a choice within v.
type choiceSchema struct {
	v    beat.Vocabulary
	json json.RawMessage
}

// schema returns the schema of a choice within v.
func (a *Agent) schema(v beat.Vocabulary) json.RawMessage {
	if c := a.choices.Load(); c != nil && c.v.Equal(v) {
		return c.json
	}
	c := &choiceSchema{v, beat.SelfSchema(v)}
	a.choices.Store(c)
	return c.json
}

// decide asks for the choice, checks it against the closed vocabulary and the
// guards, and journals it. What does not pass becomes a hold.
func (s *session) decide(ctx context.Context) (room.Choice, error) {
	st := s.track.now()
	in := open.Open(st.Inner())
	v := s.vocabulary(&st)
	pol := s.policy()
	d := room.SelfDelta{Choice: room.Choice{Tool: room.None}}
	p, err := flow.Ask(beat.System(pol.Text, beat.SelfBeat)+s.menu(v), s.schema(v), view.Self(&st, s.view()))
	if err != nil {
		return d.Choice, err
	}
	got, err := think(ctx, s, p, func(ctx context.Context, p flow.Prompt[flow.Self]) (flow.Text[flow.Self], error) {
		return s.thinker().Self(ctx, mind.SelfBeat{Prompt: p, State: &st, Vocabulary: v, From: in.ReadTo, Policy: pol})
	}, func(text string) (room.SelfDelta, []beat.Repair, error) {
		d, r, err := beat.Self(text)
		if err == nil {
			if why := s.incoherent(&st, v, &d.Choice); why != "" {
				err = fmt.Errorf("%s: %w", why, errShape)
			}
		}
		return d, r, err
	})
	note := ""
	switch {
	case err == nil:
		d = got
		if why := s.guard(&st, d.Choice); why != "" {
			s.hub.guard(why)
			note = "kept quiet (" + why + "), wanted: "
			d.Choice = room.Choice{Tool: room.None, Rationale: d.Choice.Rationale}
		}
	case ctx.Err() != nil:
		return d.Choice, ctx.Err()
	default:
		if err := s.beatFailed(ctx, "decide", err); err != nil {
			return d.Choice, err
		}
		d.Choice.Rationale = "no valid choice"
		d.Notes = nil
	}
	parents := st.Sources(in.ReadTo)
	for _, p := range st.People.All() {
		box, _ := st.File(p.ID)
		if f := open.Open(box); f.Seq > 0 {
			parents = append(parents, f.Seq)
		}
	}
	if in.Choice > 0 {
		parents = append(parents, in.Choice)
	}
	note += lead(&st, d.Choice) + ": " + d.Choice.Rationale
	_, err = s.track.add(ctx, draft{kind: room.KChoice, level: flow.RankSelf, parents: parents, body: room.Body{Self: &d, Text: note, Bits: s.bits(v), To: st.Log.Len()}})
	return d.Choice, err
}

func (s *session) guard(st *room.State, c room.Choice) string {
	if c.Tool == room.None {
		return ""
	}
	_, onRoom := s.tools.Room(c.Tool)
	_, onHost := s.tools.Host(c.Tool)
	if (onRoom || onHost) && !s.cfg.Compat && c.Intent != tool.CarryRelease && !s.public && !news(st) {
		// A post right behind a private reply would tell that there was one.
		return "only something private is new"
	}
	g := s.cfg.Guards
	if q := s.policy().Quietness; q > 0 && g.MinGap == 0 {
		g.MinGap = q
	}
	return g.Check(st, s.tools, c, s.cfg.Clock())
}

// incoherent reports what a choice combines that does not belong together. A
// target of an act on the room is dropped, not judged.
func (s *session) incoherent(st *room.State, v beat.Vocabulary, c *room.Choice) string {
	if c.Tool == room.None {
		*c = room.Choice{Tool: room.None, Rationale: c.Rationale}
		return ""
	}
	spec, ok := s.tools.Spec(c.Tool)
	if !ok {
		return "tool is outside the vocabulary"
	}
	_, onRoom := s.tools.Room(c.Tool)
	_, private := s.tools.Person(c.Tool)
	_, self := s.tools.Self(c.Tool)
	if !private {
		c.Target = ""
	}
	if private || self {
		c.Focus = ""
	}
	if !onRoom {
		c.Release = ""
	}
	if c.Intent == "" && len(spec.Intents) > 0 {
		c.Intent = defaultIntent(spec)
	}
	if why := v.Allows(*c); why != "" {
		return why
	}
	switch {
	case spec.OnItem && c.Focus == "":
		return "the tool needs an item in focus"
	case !slices.Contains(spec.Intents, c.Intent) && len(spec.Intents) > 0:
		return "the intent does not belong to the tool"
	case private && c.Target == "":
		return "a private act needs a target"
	case onRoom && (c.Intent == tool.CarryRelease) != (c.Release != ""):
		return "intent carry_release and a release belong together"
	case c.Intent == tool.AskConsent && s.proposed(st, c.Target) == nil:
		return "nothing is proposed for that person"
	}
	return ""
}

func defaultIntent(spec tool.Spec) string {
	for _, i := range []string{tool.HoldSpace, tool.DiscoverSpecific} {
		if slices.Contains(spec.Intents, i) {
			return i
		}
	}
	return spec.Intents[0]
}

func (s *session) proposed(st *room.State, id principal.ID) *release.Release {
	box, ok := st.File(id)
	if !ok {
		return nil
	}
	f := open.Open(box)
	for _, r := range f.Releases {
		if r.State == release.Proposed && len(f.Pending()) == 0 {
			return &r
		}
	}
	return nil
}

// lead is how an entry of the introspection begins.
func lead(st *room.State, c room.Choice) string {
	switch {
	case c.Tool == room.None:
		return "I held"
	case c.Target != "" && c.Tool == "caucus":
		return "I opened a private line with " + st.People.Name(c.Target)
	case c.Tool == "post":
		return "I spoke to the room"
	}
	return "I used " + c.Tool
}

// overlap reports whether text carries words that were only said in private: a
// run of five, or a rare one. It is a second line: the beat that wrote text
// has not read what is sealed.
func overlap(st *room.State, text string) bool {
	public := map[string]bool{}
	note := func(s string) {
		for _, w := range room.Words(s) {
			public[w] = true
		}
	}
	for _, m := range st.Log.Recent(200) {
		note(m.Text)
	}
	for _, x := range st.Statements {
		note(x.Wording)
	}
	for _, it := range st.Items {
		note(view.Item(it, st.Surface))
	}
	for _, p := range st.People.All() {
		note(p.Name + " " + string(p.ID) + " " + p.Role)
	}
	note(st.Topic + " " + st.Summary)
	words := room.Words(text)
	said := " " + strings.Join(words, " ") + " "
	for _, p := range st.People.All() {
		box, _ := st.File(p.ID)
		for _, l := range open.Open(box).Thread {
			if l.From != p.ID {
				continue
			}
			ws := room.Words(l.Text)
			for i, w := range ws {
				rare := !public[w] && (len(w) >= 12 || len(w) >= 3 && strings.ContainsAny(w, "0123456789"))
				if rare && slices.Contains(words, w) {
					return true
				}
				if i+5 <= len(ws) && strings.Contains(said, " "+strings.Join(ws[i:i+5], " ")+" ") && slices.ContainsFunc(ws[i:i+5], func(w string) bool { return !public[w] }) {
					return true
				}
			}
		}
	}
	return false
}
