package room

import (
	"fmt"
	"slices"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/surface"
)

// likeness is the trigram similarity from which an unseen item is an open one
// under another id.
const likeness = .85

// items merges what a room-level beat wrote.
func (m *merge) items() error {
	if m.b.Items == nil {
		return m.missing("items")
	}
	d := m.b.Items
	for _, p := range d.Items[:min(len(d.Items), MaxOpenItems)] {
		m.patch(p)
	}
	if s := clip(d.Summary, MaxSummary); s != "" {
		m.s.Summary, m.s.SummaryTo = s, d.To
	}
	m.s = m.s.withInner(func(in *Inner) { in.RoomTo = max(in.RoomTo, d.To) })
	m.s.board = m.e.Seq
	m.archive()
	return nil
}

func (m *merge) patch(p ItemPatch) {
	s := m.s.Surface
	label := line(p.Fields[s.Label()].Text, MaxLabel)
	it := m.s.Item(p.ID)
	if it == nil && label != "" {
		for _, o := range m.s.Items {
			if !o.Archived && !s.Closes(o.Fields[s.Status]) && alike(o.Fields[s.Label()], label) >= likeness {
				it = o
				m.drop("items", "an unseen id is item %s under another name", o.ID)
				break
			}
		}
	}
	if it == nil {
		if it = m.create(p.ID, label); it == nil {
			return
		}
		if f, _ := s.Field(s.Label()); f.Writer == surface.Released && !slices.ContainsFunc(m.s.Statements, func(st Statement) bool { return Norm(st.Wording) == Norm(label) }) {
			m.drop("items", "a new %s takes the words of a released statement", s.Label())
			return
		}
		it.Fields[s.Label()] = label
	} else {
		it = it.clone()
	}
	before := it.Fields[s.Status]
	for _, f := range s.Shared {
		if fp, ok := p.Fields[f.Name]; ok && f.Name != s.Status {
			m.field(it, f, fp, p.Fields[s.Status].Text)
		}
		if ops := p.Ops[f.Name]; f.List && len(ops) > 0 {
			m.list(it, f, ops)
		}
	}
	if fp, ok := p.Fields[s.Status]; ok && fp.Text != before {
		m.status(it, fp.Text, surface.Agent)
	}
	for _, msg := range m.s.Log.Since(m.b.Items.From) {
		if msg.Seq <= m.b.Items.To && m.s.People.Has(msg.Author) && !slices.Contains(it.Voices, msg.Author) {
			it.Voices = append(it.Voices, msg.Author)
		}
	}
	it.Rev++
	size := it.size()
	for _, o := range m.s.Items {
		if !o.Archived && o.ID != it.ID {
			size += o.size()
		}
	}
	if size > MaxBoard {
		m.drop("items", "the board is full")
		return
	}
	m.publish(it)
}

// create returns a new item, or nil when there may be none.
func (m *merge) create(id, label string) *Item {
	if label == "" {
		m.drop("items", "a new item needs a label")
		return nil
	}
	openItems := 0
	for _, o := range m.s.Items {
		if !o.Archived && !m.s.Surface.Closes(o.Fields[m.s.Surface.Status]) {
			openItems++
		}
	}
	if openItems >= MaxOpenItems {
		m.drop("items", "%d items are open already", MaxOpenItems)
		return nil
	}
	if !principal.Valid(id) || m.s.Item(id) != nil {
		m.drop("items", "an id outside the grammar or taken was replaced")
		if id = Slug(label); id == "" || m.s.Item(id) != nil {
			for n := len(m.s.Items) + 1; ; n++ {
				if id = fmt.Sprintf("item-%d", n); m.s.Item(id) == nil {
					break
				}
			}
		}
	}
	return &Item{
		ID: id, Fields: map[string]string{m.s.Surface.Status: m.s.Surface.Statuses[0]},
		Lists: map[string][]Option{}, Evidence: map[string][]uint64{}, Result: map[string]string{},
		Opened: m.s.Log.Len(), Eligible: m.present(), Policy: m.s.Surface.Policy.Defaults(),
	}
}

// cited returns the lines of people that ev names and that are at hand.
func (m *merge) cited(ev []uint64) (out []Message) {
	for _, seq := range ev[:min(len(ev), 16)] {
		if msg, ok := m.s.Log.Get(seq); ok && !msg.Deleted && m.s.People.Has(msg.Author) {
			out = append(out, msg)
		}
	}
	return out
}

func seqs(ms []Message) (out []uint64) {
	for _, m := range ms {
		out = append(out, m.Seq)
	}
	return out
}

func (m *merge) field(it *Item, f surface.Field, p FieldPatch, status string) {
	text := clip(p.Text, MaxField)
	where := it.ID + "." + f.Name
	switch {
	case f.List:
		m.drop(where, "a list is changed by its operations")
		return
	case f.Name == m.s.Surface.Label():
		if l := line(text, MaxLabel); l != "" && f.Writer == surface.Agent {
			it.Fields[f.Name] = l
		}
		return
	case f.Writer == surface.Derived || f.Writer == surface.Host || f.Writer == surface.Released:
		m.drop(where, "not a model's to write")
		return
	case p.Clear:
		delete(it.Fields, f.Name)
		delete(it.Evidence, f.Name)
		return
	case text == "":
		return
	case f.OnlyIn != "" && status != f.OnlyIn && it.Fields[m.s.Surface.Status] != f.OnlyIn:
		m.drop(where, "only with status %s", f.OnlyIn)
		return
	}
	lines := m.cited(p.Evidence)
	if f.Writer == surface.Proposer {
		who := principal.ID(text)
		if !slices.ContainsFunc(lines, func(l Message) bool { return l.Author == who }) {
			m.drop(where, "only by a cited claim of the person")
			return
		}
	} else if f.Evidence {
		if !Grounded(text, lines) {
			m.drop(where, "the cited lines do not carry it")
			return
		}
		if f.OnlyIn != "" && !slices.ContainsFunc(lines, func(l Message) bool { return Settles(l.Text) }) {
			m.drop(where, "no cited line settles it")
			return
		}
	}
	it.Fields[f.Name] = text
	it.Evidence[f.Name] = seqs(lines)
	m.version(it, f.Name)
}

// version voids contributions that were given for other words.
func (m *merge) version(it *Item, field string) {
	if s := m.s.Surface; s.Versioned == field {
		it.Version = flow.Hash(it.Fields[field])[:8]
		if s.VersionIn != "" {
			it.Fields[s.VersionIn] = it.Version
		}
	}
}

// status moves an item, if by may and the item is ready.
func (m *merge) status(it *Item, to string, by surface.Writer) {
	s := m.s.Surface
	f, _ := s.Field(s.Status)
	where := it.ID + "." + s.Status
	switch {
	case f.Writer == surface.Host && by != surface.Host:
		m.drop(where, "only a host moves it")
		return
	case !s.Legal(it.Fields[s.Status], to):
		m.drop(where, "no legal change")
		return
	}
	for _, f := range s.Shared {
		if f.OnlyIn == to && it.Fields[f.Name] == "" {
			m.drop(where, "%s needs a %s with evidence", to, f.Name)
			return
		}
	}
	if s.Unanimous == to && !m.unanimous(it) {
		m.drop(where, "not everybody accepts this version")
		return
	}
	for _, f := range s.Shared {
		if f.OnlyIn != "" && f.OnlyIn != to {
			delete(it.Fields, f.Name)
			delete(it.Evidence, f.Name)
		}
	}
	it.Fields[s.Status] = to
}

func (m *merge) list(it *Item, f surface.Field, ops []ListOp) {
	where := it.ID + "." + f.Name
	if f.Writer == surface.Derived || f.Writer == surface.Host {
		m.drop(where, "not a model's to write")
		return
	}
	if f.Freeze && (it.Answered > 0 || it.Called) {
		m.drop(where, "fixed since the first contribution or the opening of the vote")
		return
	}
	for _, op := range ops[:min(len(ops), MaxOptions)] {
		m.option(it, f, op)
	}
}

func (m *merge) option(it *Item, f surface.Field, op ListOp) {
	where := it.ID + "." + f.Name
	label := line(op.Label, MaxLabel)
	lines := m.cited(op.Evidence)
	by := principal.ID(op.By)
	if by == "" && len(lines) > 0 {
		by = lines[0].Author
	}
	own := slices.DeleteFunc(slices.Clone(lines), func(l Message) bool { return l.Author != by })
	at := slices.IndexFunc(it.Lists[f.Name], func(o Option) bool { return Norm(o.Label) == Norm(label) && !o.Withdrawn })
	if f.Evidence && len(own) == 0 {
		m.drop(where, "an option needs a public line of its proposer")
		return
	}
	switch op.Op {
	case "add":
		switch {
		case label == "" || Norm(label) == "":
			m.drop(where, "an option needs a label")
		case at >= 0:
		case f.Evidence && !Grounded(label, own):
			m.drop(where, "the cited lines do not carry it")
		case len(it.Lists[f.Name]) >= MaxOptions:
			m.drop(where, "%d options already", MaxOptions)
		default:
			it.Lists[f.Name] = append(it.Lists[f.Name], Option{Label: label, By: by, Evidence: seqs(own)})
		}
	case "reword":
		text := line(op.New, MaxLabel)
		if at < 0 || text == "" || it.Lists[f.Name][at].By != by || f.Evidence && !Grounded(text, own) {
			m.drop(where, "only the proposer rewords an option")
			return
		}
		o := it.Lists[f.Name][at]
		o.Label, o.Evidence = text, append(slices.Clone(o.Evidence), seqs(own)...)
		it.Lists[f.Name][at] = o
	case "withdraw":
		if at < 0 {
			return
		}
		o := it.Lists[f.Name][at]
		later := slices.ContainsFunc(own, func(l Message) bool {
			return Withdraws(l.Text) && (len(o.Evidence) == 0 || l.Seq > o.Evidence[0]) && (Grounded(o.Label, []Message{l}) || len(it.Labels(f.Name)) == 1)
		})
		if f.Evidence && (o.By != by || !later) {
			m.drop(where, "only its proposer withdraws an option")
			return
		}
		o.Withdrawn = true
		it.Lists[f.Name][at] = o
	default:
		m.drop(where, "no such operation")
	}
}

// openItem is an item opened by a person's own hand, with its options.
func (m *merge) openItem() error {
	s := m.s.Surface
	label := line(m.b.Text, MaxLabel)
	if f, _ := s.Field(s.Label()); f.Writer == surface.Released && !slices.ContainsFunc(m.s.Statements, func(st Statement) bool { return Norm(st.Wording) == Norm(label) }) {
		return fmt.Errorf("a %s takes the words of a released statement: %w", s.Label(), ErrEntry)
	}
	it := m.create(m.b.Item, label)
	if it == nil {
		return fmt.Errorf("open %q: %w", m.b.Item, ErrEntry)
	}
	it.Fields[s.Label()] = label
	for _, f := range s.Shared {
		if f.List {
			for _, o := range m.b.Options[:min(len(m.b.Options), MaxOptions)] {
				if o = line(o, MaxLabel); Norm(o) != "" && !slices.ContainsFunc(it.Lists[f.Name], func(x Option) bool { return Norm(x.Label) == Norm(o) }) {
					it.Lists[f.Name] = append(it.Lists[f.Name], Option{Label: o, By: m.b.Author})
				}
			}
			break
		}
	}
	it.Voices, it.ByHand = []principal.ID{m.b.Author}, true
	m.s.Turn++
	m.publish(it)
	return nil
}

// Callable reports whether the vote on it may be opened: the surface counts
// votes on options, there are two, and it is neither open nor over.
func (s *State) Callable(it *Item) bool {
	f := s.Surface
	return it != nil && !it.Called && !it.Hidden && !it.Archived && f.Count != nil && f.List != "" &&
		!f.Closes(it.Fields[f.Status]) && len(it.Labels(f.List)) >= 2
}

// call opens the vote on an item.
func (m *merge) call(id string) {
	if id == "" {
		return
	}
	it := m.s.Item(id)
	if !m.s.Callable(it) {
		m.drop("poll", "there is no vote to open")
		return
	}
	it = it.clone()
	it.Called = true
	it.Rev++
	m.publish(it)
}

// pin puts an item first, and the one that was takes its place again.
func (m *merge) pin() {
	to := m.s.Item(m.b.Item)
	if to == nil || to.Hidden || to.Archived {
		m.drop("pin", "no such item")
		return
	}
	for _, it := range m.s.Items {
		if it.Pinned != (it.ID == to.ID) {
			it = it.clone()
			it.Pinned = !it.Pinned
			m.s = m.s.withItem(it)
		}
	}
}

// set is a field set by a person's own hand: a host, or anybody where the room
// has none; a field in a person's name by that person too.
func (m *merge) set() error {
	s := m.s.Surface
	it := m.s.Item(m.b.Item)
	f, ok := s.Field(m.b.Field)
	if it == nil || !ok || f.List || f.Writer == surface.Derived || f.Name == s.Label() {
		return fmt.Errorf("set %s.%s: no such field to set: %w", m.b.Item, m.b.Field, ErrEntry)
	}
	p, _ := m.s.People.Get(m.b.Author)
	if !p.Host() && m.s.People.HasHost() && !(f.Writer == surface.Proposer && m.b.Text == string(p.ID)) {
		return fmt.Errorf("set %s.%s: only a host may: %w", m.b.Item, m.b.Field, ErrEntry)
	}
	it = it.clone()
	if f.Name == s.Status {
		before := it.Fields[s.Status]
		if m.status(it, m.b.Text, surface.Host); before == it.Fields[s.Status] && before != m.b.Text {
			return fmt.Errorf("set %s.%s: %s: %w", m.b.Item, m.b.Field, m.diags[len(m.diags)-1].Note, ErrEntry)
		}
	} else {
		it.Fields[f.Name] = clip(m.b.Text, MaxField)
		m.version(it, f.Name)
	}
	it.Rev++
	m.s.Turn++
	m.publish(it)
	m.archive()
	return nil
}

// archive takes all but the newest closed items off the board.
func (m *merge) archive() {
	closed := 0
	for i := len(m.s.Items) - 1; i >= 0; i-- {
		it := m.s.Items[i]
		if it.Archived || !m.s.Surface.Closes(it.Fields[m.s.Surface.Status]) {
			continue
		}
		if closed++; closed > keptClosed {
			it = it.clone()
			it.Archived = true
			m.s = m.s.withItem(it)
		}
	}
}
