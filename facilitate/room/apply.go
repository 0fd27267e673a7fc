package room

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
)

// ErrEntry is what an entry that cannot be applied at all is.
var ErrEntry = errors.New("entry does not apply")

// level is where each kind belongs; an entry at another level is refused.
var level = map[Kind]flow.Rank{
	KCaucus: flow.RankPerson, KCast: flow.RankPerson, KRecord: flow.RankPerson, KAsk: flow.RankPerson,
	KAnswer: flow.RankPerson, KLower: flow.RankPerson, KOptOut: flow.RankPerson,
	KChoice: flow.RankSelf, KTick: flow.RankSelf, KPolicy: flow.RankSelf, KFailed: flow.RankSelf,
	KPlan: flow.RankSelf, KTell: flow.RankSelf, KRead: flow.RankSelf, KReceipt: flow.RankSelf, KGone: flow.RankSelf, KTurn: flow.RankSelf,
}

// Apply returns the state after e. Entries of a model are merged by these
// rules, each drop with a [Diag]:
//   - ids follow the grammar; an unseen id whose label resembles an open item
//     is that item; open items are bounded, and a new one needs a label;
//   - a status is of the vocabulary and reached by a legal change;
//   - what needs evidence cites public lines at hand that carry its words, a
//     resolution one that settles, a withdrawal one by the proposer;
//   - derived, host's and people's own fields are not a model's to write;
//   - a person-level entry touches the file of its owner and nothing else;
//   - everything is bounded, and turns are stamped here.
//
// An entry that is malformed as a whole gives the old state and ErrEntry.
func (s State) Apply(e Entry) (State, []Diag, error) {
	if want, fixed := level[e.Kind]; fixed && want != e.Level || !fixed && e.Level != flow.RankRoom {
		return s, nil, fmt.Errorf("%s at level %s: %w", e.Kind, e.Level, ErrEntry)
	}
	if e.Level == flow.RankPerson {
		if _, ok := s.files[e.Owner]; !ok {
			return s, nil, fmt.Errorf("%s for %q: %w: %w", e.Kind, e.Owner, principal.ErrUnknown, ErrEntry)
		}
	}
	b := open.Open(e.Body)
	n := s
	n.Seq = e.Seq
	if b.Key != "" {
		n = n.withInner(func(in *Inner) { in.remember(b.Key); in.Turn++ })
	}
	m := &merge{s: n, e: e, b: b}
	if err := m.run(); err != nil {
		return s, m.diags, err
	}
	return m.s, m.diags, nil
}

type merge struct {
	s     State
	e     Entry
	b     Body
	diags []Diag
}

func (m *merge) drop(where, format string, args ...any) {
	m.diags = append(m.diags, Diag{where, fmt.Sprintf(format, args...)})
}

func (m *merge) missing(what string) error {
	return fmt.Errorf("%s without %s: %w", m.e.Kind, what, ErrEntry)
}

func (m *merge) run() error {
	switch m.e.Kind {
	case KMessage:
		return m.message()
	case KEdit, KDelete:
		return m.edit()
	case KReact:
		return m.react()
	case KJoin, KLeave:
		return m.presence()
	case KOpen:
		return m.openItem()
	case KSet:
		return m.set()
	case KItems:
		return m.items()
	case KStatement:
		return m.statement()
	case KCaucus:
		return m.caucus()
	case KCast:
		m.cast(m.b.Item, m.b.Value)
	case KRecord:
		return m.record()
	case KAsk, KAnswer, KLower:
		return m.release()
	case KOptOut:
		m.s = m.s.withFile(m.e.Owner, func(f *File) { f.OptOut[m.b.Text] = true })
	case KChoice:
		return m.choice()
	case KPin:
		m.pin()
	case KTick:
		m.s = m.s.withInner(func(in *Inner) {
			in.Ticks++
			in.Tick = m.b.Tick
			in.Plans = slices.DeleteFunc(slices.Clone(in.Plans), func(p Plan) bool { return p.Name == m.b.Tick })
		})
	case KPlan:
		m.s = m.s.withInner(func(in *Inner) {
			in.Plans = slices.DeleteFunc(slices.Clone(in.Plans), func(p Plan) bool { return p.Name == m.b.Tick })
			if len(in.Plans) < MaxPlans {
				in.Plans = append(in.Plans, Plan{m.b.Tick, int64(m.b.To)})
			}
		})
	case KTell:
		m.s = m.s.withInner(func(in *Inner) { in.Told = m.e.At })
	case KPolicy:
		m.s = m.s.withInner(func(in *Inner) { in.Policy = m.b.Text })
	case KRead:
		m.s = m.s.withInner(func(in *Inner) { in.RoomTo = max(in.RoomTo, m.b.To) })
	case KFailed, KReceipt, KGone, KTurn:
	default:
		return fmt.Errorf("kind %q: %w", m.e.Kind, ErrEntry)
	}
	return nil
}

func (m *merge) message() error {
	if m.b.Message == nil {
		return m.missing("message")
	}
	msg := *m.b.Message
	if msg.Author != principal.Iris && msg.Author != principal.System && !m.s.People.Has(msg.Author) {
		return fmt.Errorf("line by %q: %w: %w", msg.Author, principal.ErrUnknown, ErrEntry)
	}
	msg.Text = clip(msg.Text, MaxLine)
	if msg.At == 0 {
		msg.At = m.e.At
	}
	msg.entry = m.e.Seq
	m.s.Log = m.s.Log.Append(msg)
	if m.b.Release != "" {
		m.s.Statements = slices.Clone(m.s.Statements)
		for i := range m.s.Statements {
			m.s.Statements[i].Posted = m.s.Statements[i].Posted || m.s.Statements[i].ID == m.b.Release
		}
	}
	m.s.Spoken = maps.Clone(m.s.Spoken)
	m.s.Spoken[msg.Author]++
	if msg.Author == principal.Iris {
		m.call(m.b.Poll)
		m.s = m.s.withInner(func(in *Inner) {
			in.LastPost = m.s.Log.Len()
			in.Posts = append(slices.DeleteFunc(slices.Clone(in.Posts), func(at int64) bool { return at <= m.e.At-3600_000 }), m.e.At)
		})
		return nil
	}
	m.s.Turn++
	return nil
}

func (m *merge) edit() error {
	if m.b.Message == nil {
		return m.missing("message")
	}
	old, ok := m.s.Log.Get(m.b.Message.Seq)
	switch {
	case !ok:
		m.drop("edit", "line %d is not at hand", m.b.Message.Seq)
		return nil
	case old.Author != m.b.Author:
		return fmt.Errorf("line %d belongs to somebody else: %w", old.Seq, ErrEntry)
	}
	if m.e.Kind == KDelete {
		old.Text, old.Deleted = "", true
	} else {
		old.Text, old.Edited = clip(m.b.Message.Text, MaxLine), true
	}
	m.s.Log, _ = m.s.Log.Set(old)
	m.s.Turn++
	return nil
}

func (m *merge) react() error {
	if _, ok := m.s.Log.Get(m.b.To); !ok {
		m.drop("react", "line %d is not at hand", m.b.To)
		return nil
	}
	r := map[uint64][]string{}
	for k, v := range m.s.Reactions {
		if _, ok := m.s.Log.Get(k); ok {
			r[k] = v
		}
	}
	r[m.b.To] = append(slices.Clone(r[m.b.To]), line(m.b.Text, 16))
	m.s.Reactions = r
	return nil
}

func (m *merge) presence() error {
	if m.b.Person == nil {
		return m.missing("person")
	}
	p := *m.b.Person
	if m.e.Kind == KLeave {
		if !m.s.People.Has(p.ID) {
			return fmt.Errorf("leave %q: %w: %w", p.ID, principal.ErrUnknown, ErrEntry)
		}
		m.s.People = m.s.People.Leave(p.ID)
	} else {
		p.Name, p.Role, p.Away = line(p.Name, 64), line(p.Role, 64), false
		people, err := m.s.People.Join(p)
		if err != nil {
			return fmt.Errorf("join: %w: %w", err, ErrEntry)
		}
		m.s.People = people
		if _, ok := m.s.files[p.ID]; !ok {
			m.s.files = maps.Clone(m.s.files)
			m.s.files[p.ID] = open.Seal(blank())
		}
	}
	m.s.Turn++
	for _, it := range m.s.Items {
		if it.Answered == 0 && !m.s.Surface.Closes(it.Fields[m.s.Surface.Status]) {
			c := it.clone()
			c.Eligible = m.present()
			m.publish(c)
		}
	}
	return nil
}

func (m *merge) present() (out []principal.ID) {
	for _, p := range m.s.People.All() {
		if !p.Away {
			out = append(out, p.ID)
		}
	}
	return out
}

func (m *merge) choice() error {
	if m.b.Self == nil {
		return m.missing("choice")
	}
	d := m.b.Self
	turn := open.Open(m.s.inner).Turn
	m.s = m.s.withInner(func(in *Inner) {
		notes := maps.Clone(in.Notes)
		for _, n := range d.Notes {
			if m.s.Item(n.Item) == nil {
				m.drop("notes", "no such item")
				continue
			}
			kept := maps.Clone(notes[n.Item])
			if kept == nil {
				kept = map[string]string{}
			}
			for name, text := range map[string]string{"heartbeat": n.Heartbeat, "read": n.Read} {
				if slices.Contains(m.s.Surface.Notes, name) && text != "" {
					kept[name] = clip(text, MaxField)
				}
			}
			notes[n.Item] = kept
		}
		in.Notes = notes
		in.Thoughts = append(slices.Clone(in.Thoughts), Thought{Turn: turn, Tool: d.Choice.Tool, Target: d.Choice.Target, Note: m.b.Text})
		if len(in.Thoughts) > MaxThoughts {
			in.Thoughts = in.Thoughts[len(in.Thoughts)-MaxThoughts:]
		}
		in.Count++
		in.Bits += m.b.Bits
		in.ReadTo, in.Choice = m.b.To, m.e.Seq
		in.PublicTo, in.TickTo = m.s.Turn, in.Ticks
	})
	return nil
}
