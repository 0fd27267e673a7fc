// Package facilitatetest puts a room to the test: random histories run twice
// with other secrets, a mind that means harm, injections, and every vote vector
// there is. Each check returns what it found, so that a test can also require
// that it finds something: a checker that cannot fail proves nothing.
package facilitatetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/surface/builtin"
)

// People are the ids of the rooms in these tests.
var People = []facilitate.ID{"ana", "ben", "cy", "di", "eve"}

// Participants seats n of [People]; read gives each what Iris knows already.
func Participants(n int, read func(facilitate.ID) string) (out []facilitate.Participant) {
	for _, id := range People[:n] {
		p := facilitate.Participant{ID: id, Name: strings.ToUpper(string(id[:1])) + string(id[1:])}
		if read != nil {
			p.Read = read(id)
		}
		out = append(out, p)
	}
	return out
}

// A History is a random sequence of events in two versions that differ only in
// what is sealed and does not belong to Fixed. What the policy of a surface
// makes public anyway (counts, thresholds, turnout) is the same in both.
type History struct {
	Fixed  facilitate.ID // whose sealed inputs are the same
	Reads  [2]map[facilitate.ID]string
	Events [2][]facilitate.Event
}

// secret is a sealed text that no phrase list, detector or tripwire knows.
func secret(r *rand.Rand) string {
	w := func() string { return fmt.Sprintf("q%cz%cv", 'a'+rune(r.IntN(26)), 'a'+rune(r.IntN(26))) }
	return "kx" + w() + " " + w() + " " + w() + " " + w()
}

// NewHistory makes a history of about n events on s.
func NewHistory(seed uint64, n int, s *surface.Surface) History {
	r := rand.New(rand.NewPCG(seed, 7))
	h := History{Fixed: People[r.IntN(len(People))], Reads: [2]map[facilitate.ID]string{{}, {}}}
	sealed := func(id facilitate.ID) [2]string {
		a, b := secret(r), secret(r)
		if id == h.Fixed {
			b = a
		}
		return [2]string{a, b}
	}
	for _, id := range People {
		x := sealed(id)
		h.Reads[0][id], h.Reads[1][id] = x[0], x[1]
	}
	both := func(ev facilitate.Event) {
		h.Events[0], h.Events[1] = append(h.Events[0], ev), append(h.Events[1], ev)
	}
	pair := func(a, b facilitate.Event) {
		h.Events[0], h.Events[1] = append(h.Events[0], a), append(h.Events[1], b)
	}
	label := "The alpha question"
	if f, _ := s.Field(s.Label()); f.Writer == surface.Released { // items open in released words only
		label = "the pay is not fair"
		both(facilitate.Caucus("cy", "PROPOSE<"+label+">"))
		both(facilitate.Consent("cy", "r1", true))
		both(facilitate.Message("ben", "Good morning to all of you"))
	}
	both(facilitate.OpenItem("ana", "alpha", label, "red", "blue", "green"))
	ballots := newBallots(r, s, h.Fixed)
	lines, proposers := 0, People[:0:0]
	for range n {
		id := People[r.IntN(len(People))]
		switch k := r.IntN(20); {
		case k < 6:
			both(facilitate.Message(id, line(r)))
			lines++
		case k < 11:
			x := sealed(id)
			pair(facilitate.Caucus(id, x[0]), facilitate.Caucus(id, x[1]))
		case k < 14:
			if a, b, ok := ballots.next(id, sealed); ok {
				pair(a, b)
			}
		case k == 14:
			x := sealed(id) // a proposal in the same words, told among other ones
			w := fmt.Sprintf(" PROPOSE<wish %d of the evening>", len(h.Events[0]))
			pair(facilitate.Caucus(id, x[0]+w), facilitate.Caucus(id, x[1]+w))
			proposers = append(proposers, id)
		case k == 15 && len(proposers) > 0:
			id = proposers[r.IntN(len(proposers))]
			both(facilitate.Consent(id, fmt.Sprintf("r%d", 1+r.IntN(2)), r.IntN(4) > 0))
		case k == 16:
			both([]facilitate.Event{facilitate.Tick("t"), facilitate.Hook("ci", line(r)), facilitate.Revoke(id, "r1"), facilitate.OptOut(id, "record")}[r.IntN(4)])
		case k == 17 && lines > 0:
			both([]facilitate.Event{facilitate.Edit(id, uint64(1+r.IntN(lines)), line(r)), facilitate.Delete(id, uint64(1+r.IntN(lines)))}[r.IntN(2)])
		case k == 18:
			both([]facilitate.Event{facilitate.Leave(id), facilitate.Join(facilitate.Participant{ID: id, Name: "Again"})}[r.IntN(2)])
		default:
			if len(s.Closing) > 0 && r.IntN(3) == 0 && ballots.settled() {
				both(facilitate.Set("ana", "alpha", s.Status, s.Closing[0]))
			}
		}
	}
	return h
}

func line(r *rand.Rand) string {
	return []string{
		"Where do we meet?", "I propose the red hall", "how about blue", "I disagree with that", "Agreed, the red hall", "I'll take it",
		"I could live with blue", "ok", "that is done", "Iris, what do you think?", "what about the costs?", "I withdraw the red hall",
	}[r.IntN(12)] + fmt.Sprint(" ", r.IntN(50))
}

// ballots plans contributions: who gives what, so that the votes of the second
// version are those of the first handed round among the others.
type ballots struct {
	r      *rand.Rand
	s      *surface.Surface
	order  []facilitate.ID
	values [2]map[facilitate.ID]map[string]any
	given  map[facilitate.ID]bool
}

func newBallots(r *rand.Rand, s *surface.Surface, fixed facilitate.ID) *ballots {
	b := &ballots{r: r, s: s, given: map[facilitate.ID]bool{}, values: [2]map[facilitate.ID]map[string]any{{}, {}}}
	b.order = slices.Clone(People)
	for _, id := range b.order {
		b.values[0][id] = b.value()
		b.values[1][id] = b.values[0][id]
	}
	if s.Unanimous != "" {
		return b // whether all agree is public: the same people take the same position
	}
	var others []facilitate.ID
	for _, id := range b.order {
		if id != fixed {
			others = append(others, id)
		}
	}
	for i, id := range others {
		b.values[1][id] = b.values[0][others[(i+1)%len(others)]]
	}
	return b
}

func (b *ballots) value() map[string]any {
	v := map[string]any{}
	for _, c := range b.s.Contribution {
		switch c.Kind {
		case surface.Word:
			v[c.Name] = c.Of[b.r.IntN(len(c.Of))]
		case surface.Option:
			v[c.Name] = []string{"red", "blue", "green"}[b.r.IntN(3)]
		case surface.Set:
			v[c.Name] = []string{[]string{"red", "blue", "green"}[b.r.IntN(3)]}
		case surface.Number:
			v[c.Name] = c.Min + b.r.IntN(c.Max-c.Min+1)
		case surface.Flag:
			v[c.Name] = b.r.IntN(2) == 0
		}
	}
	return v
}

// next is the contribution of id in both versions, each person's once; free
// texts differ unless id is fixed.
func (b *ballots) next(id facilitate.ID, sealed func(facilitate.ID) [2]string) (x, y facilitate.Event, ok bool) {
	if b.given[id] {
		return x, y, false
	}
	b.given[id] = true
	text := sealed(id)
	var out [2]facilitate.Event
	for k := range 2 {
		v := map[string]any{}
		for name, val := range b.values[k][id] {
			v[name] = val
		}
		for _, c := range b.s.Contribution {
			if c.Kind == surface.Text {
				v[c.Name] = text[k]
			}
		}
		out[k] = facilitate.Contribution(id, "alpha", v)
	}
	return out[0], out[1], true
}

// settled reports whether all have contributed, or nobody has: only then are
// the counts of both versions the same.
func (b *ballots) settled() bool { return len(b.given) == 0 || len(b.given) == len(b.order) }

// Values makes n random valid contributions to s.
func Values(r *rand.Rand, s *surface.Surface, n int) (out []surface.Value) {
	b := &ballots{r: r, s: s}
	lists := map[string][]string{}
	for _, f := range s.Shared {
		if f.List {
			lists[f.Name] = []string{"red", "blue", "green"}
		}
	}
	for range n {
		raw := b.value()
		for _, c := range s.Contribution {
			if c.Kind == surface.Text {
				raw[c.Name] = secret(r)
			}
		}
		if v, err := s.Check(raw, lists); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// Delta is a room delta that opens one item on s and touches each field.
func Delta(s *surface.Surface) room.RoomDelta {
	p := room.ItemPatch{ID: "alpha", Fields: map[string]room.FieldPatch{}, Ops: map[string][]room.ListOp{}}
	for _, f := range s.Shared {
		if f.List {
			p.Ops[f.Name] = []room.ListOp{{Op: "add", Label: "red", Evidence: []uint64{1}}}
		} else {
			p.Fields[f.Name] = room.FieldPatch{Text: "words of " + f.Name, Evidence: []uint64{1}}
		}
	}
	return room.RoomDelta{Items: []room.ItemPatch{p}, Summary: "sum"}
}

// Surface returns a built-in surface by name, nil when there is none.
func Surface(name string) *surface.Surface { return builtin.Named(name) }

// Fresh is what [TwoRun] and [Ballots] want of a built-in surface.
func Fresh(name string) func() *surface.Surface {
	return func() *surface.Surface { return builtin.Named(name) }
}
