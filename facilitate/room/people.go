package room

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/iris-operator/iris/facilitate/disclose"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/release"
	"github.com/iris-operator/iris/facilitate/surface"
)

var arcs = []string{"digging in", "softening", "converging", "quiet", "forming"}
var confidences = []string{"hunch", "forming", "confirmed"}

func (m *merge) caucus() error {
	if m.b.Line == nil {
		return m.missing("line")
	}
	l := *m.b.Line
	if l.From != principal.Iris && l.From != m.e.Owner {
		return fmt.Errorf("a private line of %s by somebody else: %w", m.e.Owner, ErrEntry)
	}
	l.Text, l.Seq, l.At = clip(l.Text, MaxLine), m.e.Seq, m.e.At
	m.s = m.s.withFile(m.e.Owner, func(f *File) {
		f.Thread = append(slices.Clone(f.Thread), l)
		if len(f.Thread) > MaxThread {
			f.Thread = f.Thread[len(f.Thread)-MaxThread:]
		}
		f.Lines++
		if f.Asked++; l.From != principal.Iris {
			f.Asked = 0
		}
	})
	return nil
}

// record merges what a person-level beat wrote about its person.
func (m *merge) record() error {
	d := m.b.Record
	if d == nil {
		return m.missing("record")
	}
	turn := open.Open(m.s.inner).Turn
	m.s = m.s.withFile(m.e.Owner, func(f *File) {
		f.ReadTo, f.ReadLine = max(f.ReadTo, d.ReadTo), max(f.ReadLine, d.ReadLine)
		if f.Out("record") {
			m.drop("record", "the person opted out")
			return
		}
		for to, text := range map[*string]string{&f.Interest: d.Interest, &f.Position: d.Position, &f.Beliefs: d.Beliefs, &f.WatchingFor: d.WatchingFor, &f.HelpNext: d.HelpNext} {
			if t := clip(text, MaxFacet); t != "" {
				*to = t
			}
		}
		m.enum("arc", &f.Arc, d.Arc, arcs)
		m.enum("confidence", &f.Confidence, d.Confidence, confidences)
		for _, r := range d.Regards[:min(len(d.Regards), MaxRegards)] {
			m.regard(f, r)
		}
		if sh := d.Shift; sh != nil && (sh.Observed != "" || sh.To != "") {
			f.Shifts = append(slices.Clone(f.Shifts), Shift{turn, clip(sh.Observed, MaxFacet), clip(sh.From, MaxFacet), clip(sh.To, MaxFacet)})
			f.Shifts = f.Shifts[max(0, len(f.Shifts)-MaxShifts):]
			f.ShiftCount++
		}
		if d.Wording != "" {
			m.propose(f, d)
		}
	})
	if d.Item != "" && d.Value != nil {
		if m.s.Surface.OwnHand {
			m.drop("contribution", "only the person's own hand contributes here")
		} else {
			m.cast(d.Item, d.Value)
		}
	}
	return nil
}

func (m *merge) enum(where string, to *string, v string, of []string) {
	v = strings.ToLower(strings.TrimSpace(v))
	switch {
	case v == "":
	case slices.Contains(of, v):
		*to = v
	default:
		m.drop("record."+where, "outside the vocabulary")
	}
}

func (m *merge) regard(f *File, r Regard) {
	if !m.s.People.Has(r.Toward) || r.Toward == m.e.Owner {
		m.drop("record.regards", "toward nobody else on the roster")
		return
	}
	r.Note = clip(r.Note, MaxFacet)
	if i := slices.IndexFunc(f.Regards, func(o Regard) bool { return o.Toward == r.Toward }); i >= 0 {
		f.Regards[i] = r
	} else if len(f.Regards) < MaxRegards {
		f.Regards = append(f.Regards, r)
	}
}

// propose starts a release unless the same words are under way already. Past
// ones that ended make room first.
func (m *merge) propose(f *File, d *PersonDelta) {
	wording := line(d.Wording, release.MaxWording)
	for _, r := range f.Releases {
		if r.Hash == flow.Hash(wording) || r.State == release.Proposed || r.State == release.Asked {
			m.drop("proposal", "one is under way")
			return
		}
	}
	if len(f.Releases) >= MaxReleases {
		if i := slices.IndexFunc(f.Releases, func(r release.Release) bool { return r.State != release.Granted }); i >= 0 {
			f.Releases = slices.Delete(f.Releases, i, i+1)
		} else {
			m.drop("proposal", "too many are granted and undelivered")
			return
		}
	}
	r, err := release.Propose(fmt.Sprintf("r%d", f.ReleaseCount+1), m.e.Owner, flow.Private(m.e.Owner, wording), release.Attribution(d.Attribution))
	if err != nil {
		m.drop("proposal", "not a wording")
		return
	}
	f.ReleaseCount++
	f.Releases = append(f.Releases, r)
}

// release moves a release of the owner along.
func (m *merge) release() error {
	file := open.Open(m.s.files[m.e.Owner])
	i := slices.IndexFunc(file.Releases, func(r release.Release) bool { return r.ID == m.b.Release })
	if i < 0 {
		return fmt.Errorf("release %q of %s is unknown: %w", m.b.Release, m.e.Owner, ErrEntry)
	}
	r, err := file.Releases[i], error(nil)
	switch step := string(m.e.Kind) + " " + m.b.Answer; step {
	case "ask ":
		r, err = r.Ask(m.e.Seq)
	case "answer grant":
		r, err = r.Grant(m.e.Seq, m.s.Others(m.e.Owner), open.Open(m.s.inner).Ticks)
	case "answer decline":
		r, err = r.Decline(m.e.Seq)
	case "answer revoke":
		r, err = r.Revoke(m.e.Seq)
	case "answer expire":
		r, err = r.Expire()
	case "lower ":
		r, err = r.Deliver(m.b.Text)
	default:
		err = fmt.Errorf("no such answer: %w", ErrEntry)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrEntry)
	}
	m.s = m.s.withFile(m.e.Owner, func(f *File) { f.Releases[i] = r })
	return nil
}

// statement takes released words into the room: those, and only those, whose
// owner granted them and whose release was lowered under this id.
func (m *merge) statement() error {
	st := m.b.Statement
	if st == nil {
		return m.missing("statement")
	}
	for id, box := range m.s.files {
		for _, r := range open.Open(box).Releases {
			if r.State == release.Delivered && r.Statement == st.ID && r.Hash == flow.Hash(st.Wording) && (st.By == "" || st.By == id && r.Attribution == release.Named) {
				released := *st
				released.entry, released.Posted = m.e.Seq, false
				m.s.Statements = append(slices.Clone(m.s.Statements), released)
				m.s.Statements = m.s.Statements[max(0, len(m.s.Statements)-MaxStatements):]
				return nil
			}
		}
	}
	return fmt.Errorf("statement %s without a release: %w", st.ID, ErrEntry)
}

// cast takes a contribution of the owner.
func (m *merge) cast(item string, raw map[string]any) {
	it := m.s.Item(item)
	switch {
	case it == nil:
		m.drop("contribution", "no such item")
		return
	case m.s.Surface.Closes(it.Fields[m.s.Surface.Status]):
		m.drop("contribution", "the item is closed")
		return
	case !slices.Contains(it.Eligible, m.e.Owner):
		m.drop("contribution", "not among those who may contribute")
		return
	}
	v, err := m.s.Surface.Check(raw, it.lists())
	if err != nil {
		m.drop("contribution", "outside the declared shape")
		return
	}
	m.s = m.s.withFile(m.e.Owner, func(f *File) { f.Casts[item] = Cast{Value: v, Version: it.Version} })
	m.publish(it.clone())
}

// values returns the contributions that count for it, in no meaningful order.
func (m *merge) values(it *Item) (out []surface.Value) {
	for _, id := range it.Eligible {
		if c, ok := open.Open(m.s.files[id]).Casts[it.ID]; ok && c.Version == it.Version {
			out = append(out, c.Value)
		}
	}
	return out
}

func (m *merge) unanimous(it *Item) bool {
	vs := m.values(it)
	return len(vs) > 0 && len(vs) == len(it.Eligible) && !slices.ContainsFunc(vs, func(v surface.Value) bool { return !m.s.Surface.Agrees(v) })
}

// publish stores it with what its policy lets the room know. It is the only
// place where sealed contributions become public, and it sees them as a
// multiset.
func (m *merge) publish(it *Item) {
	s := m.s.Surface
	vs := m.values(it)
	closed := s.Closes(it.Fields[s.Status])
	n := len(it.Eligible)
	tally, veto, support := s.Tally(vs)
	was := it.Result
	res := map[string]string{}
	it.Answered = len(vs)
	if s.Voices != "" {
		res[s.Voices] = fmt.Sprint(len(it.Voices))
	}
	if s.Count != nil {
		res["notice"] = it.Policy.Notice(n)
		if !it.Policy.HideTurnout {
			res["turnout"] = fmt.Sprintf("%d of %d", len(vs), n)
		}
		if it.Called && !closed {
			res["vote"] = "open"
		}
		m.outcome(it, res, tally, veto, it.Policy.Grain(n, closed))
	}
	if s.Supports != nil {
		k, ok := it.Policy.Threshold(support)
		named := slices.ContainsFunc(m.s.Statements, func(st Statement) bool {
			return st.By != "" && Norm(st.Wording) == Norm(it.Fields[s.Label()])
		})
		if ok || was["support"] != "" {
			res["support"] = fmt.Sprintf(s.Statement, k)
		}
		it.Hidden = s.HiddenBelow && res["support"] == "" && !named
	}
	it.Result = res
	m.s = m.s.withItem(it)
}

func (m *merge) outcome(it *Item, res map[string]string, tally map[string]int, veto map[string]bool, g disclose.Grain) {
	s := m.s.Surface
	keys := s.Keys
	if s.List != "" {
		keys = it.Labels(s.List)
	}
	if g == disclose.Hidden || len(tally) == 0 {
		return
	}
	possible := map[string]int{}
	for k, n := range maps.All(tally) {
		if !veto[k] {
			possible[k] = n
		}
	}
	lead := disclose.Lead(keys, possible)
	if _, ok := s.Field(s.Outcome); ok {
		it.Fields[s.Outcome] = lead
	} else {
		res[s.Outcome] = lead
	}
	if g == disclose.Exact {
		var counts []string
		for _, k := range keys {
			if veto[k] {
				counts = append(counts, k+" not possible")
			} else {
				counts = append(counts, fmt.Sprintf("%s %d", k, tally[k]))
			}
		}
		res["counts"] = strings.Join(counts, " · ")
	}
}
