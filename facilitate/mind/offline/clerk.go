package offline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface"
)

// A clerk keeps the board: it turns public lines into item patches for whatever
// fields the surface has.
type clerk struct {
	p   *room.Public
	s   *surface.Surface
	out []room.ItemPatch
	at  map[string]int // item id → its place in out
	now string         // the item opened last in this beat
}

func (k *clerk) patch(id string) *room.ItemPatch {
	i, ok := k.at[id]
	if !ok {
		i = len(k.out)
		k.at[id] = i
		k.out = append(k.out, room.ItemPatch{ID: id, Fields: map[string]room.FieldPatch{}, Ops: map[string][]room.ListOp{}})
	}
	return &k.out[i]
}

// list returns the first list field whose entries are people's proposals.
func (k *clerk) list() (surface.Field, bool) {
	i := slices.IndexFunc(k.s.Shared, func(f surface.Field) bool { return f.List && f.Writer == surface.Proposer })
	if i < 0 {
		return surface.Field{}, false
	}
	return k.s.Shared[i], true
}

// text returns the first plain field that takes people's words with evidence.
func (k *clerk) text(writer surface.Writer, only bool) (surface.Field, bool) {
	i := slices.IndexFunc(k.s.Shared, func(f surface.Field) bool {
		return !f.List && f.Evidence && f.Writer == writer && (f.OnlyIn != "") == only
	})
	if i < 0 {
		return surface.Field{}, false
	}
	return k.s.Shared[i], true
}

// item returns the id of the item that a line is about: the open one that
// shares most words with it, else the newest open one.
func (k *clerk) item(text string) string {
	words, best, hits := room.Words(text), k.now, 0
	if it := current(k.p, k.s); it != nil && best == "" {
		best = it.ID
	}
	for _, it := range k.p.Items {
		if it.Archived || k.s.Closes(it.Fields[k.s.Status]) {
			continue
		}
		n := 0
		for _, w := range room.Words(it.Fields[k.s.Label()]) {
			if len(w) > 3 && slices.Contains(words, w) {
				n++
			}
		}
		if n > hits {
			best, hits = it.ID, n
		}
	}
	return best
}

func (k *clerk) open(label string) string {
	if f, _ := k.s.Field(k.s.Label()); f.Writer != surface.Agent {
		return ""
	}
	id := room.Slug(label)
	if id == "" {
		id = fmt.Sprintf("item-%d", k.p.Log.Len())
	}
	p := k.patch(id)
	if p.Fields[k.s.Label()].Text == "" {
		p.Fields[k.s.Label()] = room.FieldPatch{Text: label}
	}
	k.now = id
	return id
}

func (k *clerk) line(l room.Message) {
	ev := []uint64{l.Seq}
	what := Proposes(l.Text)
	list, hasList := k.list()
	done := ""
	if room.Settles(l.Text) {
		done = k.settle(l)
	}
	if q := question(l.Text); q != "" && !Addressed(l.Text) && what == "" {
		k.open(q)
		return
	}
	id := k.item(l.Text)
	if claim, ok := k.text(surface.Proposer, false); ok && Claims(l.Text) && id != "" {
		p := k.patch(id)
		p.Fields[claim.Name] = room.FieldPatch{Text: string(l.Author), Evidence: ev}
		k.status(p, "claimed")
		return
	}
	if Finishes(l.Text) && id != "" {
		k.status(k.patch(id), "done")
		return
	}
	if room.Withdraws(l.Text) && hasList && id != "" {
		if it := k.p.Item(id); it != nil {
			for _, o := range it.Lists[list.Name] {
				if !o.Withdrawn && o.By == l.Author {
					k.patch(id).Ops[list.Name] = append(k.patch(id).Ops[list.Name], room.ListOp{Op: "withdraw", Label: o.Label, By: string(l.Author), Evidence: ev})
				}
			}
		}
		return
	}
	if what != "" && done == "" {
		if id == "" {
			if id = k.open(what); id == "" {
				return
			}
		}
		if hasList {
			k.patch(id).Ops[list.Name] = append(k.patch(id).Ops[list.Name], room.ListOp{Op: "add", Label: what, By: string(l.Author), Evidence: ev})
		} else if f, ok := k.text(surface.Agent, false); ok && k.s.Versioned == f.Name {
			k.patch(id).Fields[f.Name] = room.FieldPatch{Text: what, Evidence: ev}
		}
		return
	}
	if Objects(l.Text) && id != "" && done == "" {
		k.status(k.patch(id), "groan")
	}
}

// settle closes the item that l decides, with the option it names or its own
// words. It returns the item's id.
func (k *clerk) settle(l room.Message) string {
	id := k.item(l.Text)
	it := k.p.Item(id)
	f, ok := k.text(surface.Agent, true)
	if it == nil || !ok {
		return ""
	}
	text := trimEnd(l.Text)
	if i := strings.IndexAny(l.Text, ".!?"); i > 0 {
		text = trimEnd(l.Text[:i])
	}
	if list, ok := k.list(); ok {
		for _, o := range it.Labels(list.Name) {
			if room.Grounded(o, []room.Message{l}) {
				text = o
			}
		}
	}
	p := k.patch(id)
	p.Fields[f.Name] = room.FieldPatch{Text: text, Evidence: []uint64{l.Seq}}
	p.Fields[k.s.Status] = room.FieldPatch{Text: f.OnlyIn}
	return id
}

func (k *clerk) status(p *room.ItemPatch, to string) {
	if slices.Contains(k.s.Statuses, to) && p.Fields[k.s.Status].Text == "" {
		p.Fields[k.s.Status] = room.FieldPatch{Text: to}
	}
}

// themes opens an item for each released statement, where items are opened in
// released words.
func (k *clerk) themes() {
	if f, _ := k.s.Field(k.s.Label()); f.Writer != surface.Released {
		return
	}
	for _, st := range k.p.Statements {
		if !slices.ContainsFunc(k.p.Items, func(it *room.Item) bool { return room.Norm(it.Fields[k.s.Label()]) == room.Norm(st.Wording) }) {
			id := room.Slug(st.Wording)
			if id == "" {
				id = st.ID
			}
			k.patch(id).Fields[k.s.Label()] = room.FieldPatch{Text: st.Wording}
		}
	}
}

// question returns the question a line asks the group, or "".
func question(s string) string {
	if i := strings.LastIndex(s, "?"); i >= 0 {
		s = s[:i]
		if j := strings.LastIndexAny(s, ".!?\n"); j >= 0 {
			s = s[j+1:]
		}
		if s = strings.TrimSpace(s); len(room.Words(s)) >= 2 {
			return s + "?"
		}
		return ""
	}
	if Asks(s) {
		return trimEnd(s)
	}
	return ""
}

// summary names who spoke and what is on the board; the words of lines that
// left the window are not kept.
func (k *clerk) summary() string {
	var who, what []string
	for _, p := range k.p.People.All() {
		if k.p.Spoken[p.ID] > 0 {
			who = append(who, p.Name)
		}
	}
	for _, it := range k.p.Items {
		if !it.Archived && !it.Hidden {
			what = append(what, it.Fields[k.s.Label()])
		}
	}
	return fmt.Sprintf("Up to here %s spoke; the board is about %s.", join(who), join(what))
}
