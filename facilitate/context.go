package facilitate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/policy"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/view"
)

// Context is what a beat for that audience reads. It is the only way to build
// a prompt. An unknown audience is [ErrAudience].
func (a *Agent) Context(w Audience) (string, error) {
	if err := a.admit(w); err != nil {
		return "", err
	}
	s := a.snapshot()
	switch w.rank {
	case flow.RankRoom:
		return flow.Reveal(view.Room(&s.Public, s.Surface, a.view())), nil
	case flow.RankPerson:
		box, _ := s.File(w.id)
		return open.Open(view.Person(&s.Public, s.Surface, w.id, box, a.view()).Sealed()).Text, nil
	}
	return open.Open(view.Self(&s, a.view()).Sealed()).Text, nil
}

// A Line is one message on a private line.
type Line struct {
	From principal.ID
	Text flow.Text[flow.Person]
}

// Caucus returns the private line with id, oldest first, sealed; nothing for an
// unknown id. The newest 200 lines are kept at hand.
func (a *Agent) Caucus(id principal.ID) []Line {
	s := a.snapshot()
	box, ok := s.File(id)
	if !ok {
		return nil
	}
	var out []Line
	for _, l := range open.Open(box).Thread {
		out = append(out, Line{l.From, flow.Private(id, l.Text)})
	}
	return out
}

// A Card is the public projection of an item.
type Card struct {
	ID      string
	Fields  map[string]string
	Options map[string][]string
	Result  map[string]string // what the disclosure policy shows
	Pinned  bool              // before the others
	// Vote reports that the vote on the options is open, by a person's hand with two
	// options or more, or by Iris. Slot is the part of a contribution that holds it.
	Vote bool
	Slot string
}

// Canvas is the board as everybody sees it.
func (a *Agent) Canvas() []Card {
	s := a.snapshot()
	out := []Card{}
	for _, it := range s.Items {
		if it.Hidden || it.Archived {
			continue
		}
		c := Card{ID: it.ID, Pinned: it.Pinned, Fields: maps.Clone(it.Fields), Options: map[string][]string{}, Result: maps.Clone(it.Result)}
		for name := range it.Lists {
			c.Options[name] = it.Labels(name)
		}
		if c.Slot = s.Surface.Ballot(); c.Slot != "" {
			c.Vote = (it.Called || it.ByHand) && !s.Surface.Closes(it.Fields[s.Surface.Status]) && len(it.Labels(s.Surface.List)) >= 2
		}
		out = append(out, c)
	}
	slices.SortStableFunc(out, func(a, b Card) int {
		switch {
		case a.Pinned == b.Pinned:
			return 0
		case a.Pinned:
			return -1
		}
		return 1
	})
	return out
}

// Plans returns the ticks that Iris asked for and that did not come yet, for the
// host's timer: [Tick] of that name at that time. They say nothing of why.
func (a *Agent) Plans() []Plan {
	s := a.snapshot()
	return slices.Clone(open.Open(s.Inner()).Plans)
}

// Room returns the public part of the state, to be read only.
func (a *Agent) Room() room.Public {
	s := a.snapshot()
	return s.Public
}

// LastMessage is who acted last and by which kind of event, or nil before the
// first one. It holds no text.
func (a *Agent) LastMessage() *Last {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// Participants returns the people, in order.
func (a *Agent) Participants() []principal.Person {
	s := a.snapshot()
	return s.People.All()
}

// SubjectView is what id may see of what Iris holds about them, by the mirror
// of the policy: nothing, their own contributions, or the record too.
func (a *Agent) SubjectView(id principal.ID) (string, error) {
	if err := a.admit(ForPerson(id)); err != nil {
		return "", err
	}
	s := a.snapshot()
	a.mu.Lock()
	mirror := a.policy.Mirror
	a.mu.Unlock()
	box, _ := s.File(id)
	f := open.Open(box)
	var b strings.Builder
	if mirror == policy.MirrorNone {
		return "", nil
	}
	for _, item := range slices.Sorted(maps.Keys(f.Casts)) {
		fmt.Fprintf(&b, "contribution to %s: %v\n", item, map[string]any(f.Casts[item].Value))
	}
	for _, r := range f.Releases {
		fmt.Fprintf(&b, "release %s, %s, %s: %s\n", r.ID, r.State, r.Attribution, open.Open(r.Wording.Sealed()).Text)
	}
	if mirror == policy.MirrorRecord {
		for _, kv := range [][2]string{{"interest", f.Interest}, {"position", f.Position}, {"beliefs", f.Beliefs}, {"arc", f.Arc}, {"confidence", f.Confidence}, {"watching for", f.WatchingFor}, {"help next", f.HelpNext}} {
			if kv[1] != "" {
				fmt.Fprintf(&b, "%s: %s\n", kv[0], kv[1])
			}
		}
		for _, r := range f.Regards {
			fmt.Fprintf(&b, "toward %s: %s\n", r.Toward, r.Note)
		}
	}
	return b.String(), nil
}

// Export writes what an audience may take along, as Markdown by path: room.md
// for everybody; people/<id>.md too for that person, as far as the mirror
// goes, and the private line; everything with iris/introspection/log.md for
// the operator.
func (a *Agent) Export(w Audience) (map[string]string, error) {
	if err := a.admit(w); err != nil {
		return nil, err
	}
	s := a.snapshot()
	out := map[string]string{"room.md": roomPage(&s)}
	if w.rank == flow.RankPerson {
		own, err := a.SubjectView(w.id)
		if err != nil {
			return nil, err
		}
		out["people/"+string(w.id)+".md"] = own + "\n" + threadPage(&s, w.id)
	}
	if w.rank == flow.RankSelf {
		for _, p := range s.People.All() {
			box, _ := s.File(p.ID)
			out["people/"+string(p.ID)+".md"] = open.Open(view.Person(&s.Public, s.Surface, p.ID, box, a.view()).Sealed()).Text
		}
		var b strings.Builder
		for _, t := range open.Open(s.Inner()).Thoughts {
			fmt.Fprintf(&b, "- turn %d, %s %s: %s\n", t.Turn, t.Tool, t.Target, t.Note)
		}
		out["iris/introspection/log.md"] = b.String()
	}
	return out, nil
}

func roomPage(s *room.State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n## Board\n\n", s.Topic)
	for _, it := range s.Items {
		if !it.Hidden {
			b.WriteString(view.Item(it, s.Surface) + "\n")
		}
	}
	b.WriteString("\n## Lines\n\n")
	for _, m := range s.Log.Recent(512) {
		if !m.Deleted {
			fmt.Fprintf(&b, "- %s: %s\n", m.Author, m.Text)
		}
	}
	return b.String()
}

func threadPage(s *room.State, id principal.ID) string {
	box, _ := s.File(id)
	var b strings.Builder
	b.WriteString("## Private line\n\n")
	for _, l := range open.Open(box).Thread {
		fmt.Fprintf(&b, "- %s: %s\n", l.From, l.Text)
	}
	return b.String()
}
