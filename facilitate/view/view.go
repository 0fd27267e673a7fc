// Package view writes what a model may read, one function per level. Each takes
// only the state of its level, so a room view cannot hold what is sealed: the
// compiler keeps it out. The same state gives the same bytes; no clock, no
// journal sequence and no counter of private events gets in.
//
// Everything a participant wrote is fenced as data. Board and statements are
// always whole; of the transcript the newest lines that fit the budget.
package view

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface"
)

// maxShown bounds one line of a transcript, in bytes.
const maxShown = 2000

// Options of the views.
type Options struct {
	// Tokens is the budget of one view, counted as four bytes each; 0 is 12,000.
	Tokens int
	// Secret keys the fences, so that no participant can close one. The same
	// secret gives the same bytes.
	Secret []byte
}

func (o Options) bytes() int {
	if o.Tokens == 0 {
		return 12_000 * 4
	}
	return o.Tokens * 4
}

// Room writes what everybody sees.
func Room(p *room.Public, s *surface.Surface, o Options) flow.Text[flow.Room] {
	w := &writer{left: o.bytes()}
	w.public(p, s, nil, nil)
	w.transcript(p)
	return flow.Public(w.fence(o.Secret))
}

// Person writes what everybody sees and the file of id.
func Person(p *room.Public, s *surface.Surface, id principal.ID, file open.Box[room.File], o Options) flow.Text[flow.Person] {
	f := open.Open(file)
	w := &writer{left: o.bytes()}
	w.public(p, s, &f, nil)
	w.record(p.People.Name(id), &f)
	w.thread("Private line with "+p.People.Name(id), &f, w.left/3)
	w.transcript(p)
	return flow.Private(id, w.fence(o.Secret))
}

// Self writes everything. Records, threads and transcript share what the board
// leaves of the budget, the newest first.
func Self(st *room.State, o Options) flow.Text[flow.Self] {
	in := open.Open(st.Inner())
	w := &writer{left: o.bytes()}
	w.public(&st.Public, st.Surface, nil, &in)
	files := map[principal.ID]room.File{}
	for _, p := range st.People.All() {
		b, _ := st.File(p.ID)
		files[p.ID] = open.Open(b)
	}
	w.casts(st, files)
	share := w.left / 4 / max(1, len(files))
	for _, p := range st.People.All() {
		f := files[p.ID]
		before := w.left
		w.left = min(w.left, share)
		w.record(p.Name, &f)
		w.left = before - (min(before, share) - w.left)
	}
	for _, p := range st.People.All() {
		if f := files[p.ID]; f.Lines > 0 {
			w.thread("Private line with "+p.Name, &f, share)
		}
	}
	w.section("Your own log")
	for _, t := range in.Thoughts[max(0, len(in.Thoughts)-10):] {
		w.add(fmt.Sprintf("- turn %d: %s", t.Turn, short(t.Note, 300)))
	}
	w.add(fmt.Sprintf("- last post at line %d of %d; %d posts within the hour", in.LastPost, st.Log.Len(), len(in.Posts)))
	w.transcript(&st.Public)
	return flow.Inner(w.fence(o.Secret))
}

const openMark, closeMark = "<data ", "</data "

// Fenced reports whether text is one fenced block that nothing in it closes.
func Fenced(text string) bool {
	rest, ok := strings.CutPrefix(text, openMark)
	if !ok {
		return false
	}
	mark, body, ok := strings.Cut(rest, ">\n")
	end := closeMark + mark + ">\n"
	return ok && strings.HasSuffix(body, end) && strings.Count(body, mark) == 1
}

type writer struct {
	b    strings.Builder
	left int
}

// add writes a line if it fits.
func (w *writer) add(s string) bool {
	if len(s)+1 > w.left {
		return false
	}
	w.left -= len(s) + 1
	w.b.WriteString(s)
	w.b.WriteByte('\n')
	return true
}

func (w *writer) section(name string) { w.add("\n## " + name) }

// fence wraps what was written. The mark depends on the secret and on every
// byte inside, so it differs per call and nobody inside can know it.
func (w *writer) fence(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	io.WriteString(mac, w.b.String())
	mark := hex.EncodeToString(mac.Sum(nil))[:20]
	return openMark + mark + ">\n" + w.b.String() + closeMark + mark + ">\n"
}

func (w *writer) public(p *room.Public, s *surface.Surface, own *room.File, in *room.Inner) {
	w.left -= 100 // the fence
	w.add("# " + flat(p.Topic))
	w.add("Board: " + s.Name + ", " + s.About)
	w.section("People")
	for _, m := range p.People.All() {
		line := "- " + string(m.ID) + ": " + flat(m.Name)
		if m.Role != "" {
			line += ", " + flat(m.Role)
		}
		if m.Away {
			line += " (away)"
		}
		w.add(line)
	}
	w.section("Board")
	none := true
	for _, it := range p.Items {
		if it.Archived || it.Hidden && own == nil && in == nil {
			continue
		}
		none = false
		w.add(Item(it, s))
		if own != nil {
			if c, ok := own.Casts[it.ID]; ok {
				w.add("  yours: " + value(c.Value))
			}
		}
		if in != nil {
			for _, n := range slices.Sorted(maps.Keys(in.Notes[it.ID])) {
				w.add("  " + n + ": " + flat(in.Notes[it.ID][n]))
			}
		}
	}
	if none {
		w.add("(none)")
	}
	w.section("Released statements")
	for _, st := range p.Statements {
		by := "someone"
		if st.By != "" {
			by = string(st.By)
		}
		w.add("- " + st.ID + " by " + by + ": " + flat(st.Wording))
	}
	if len(p.Statements) == 0 {
		w.add("(none)")
	}
	if p.Summary != "" {
		w.section(fmt.Sprintf("Summary up to line %d", p.SummaryTo))
		w.add(flat(p.Summary))
	}
}

// Item is the public projection of an item as one line.
func Item(it *room.Item, s *surface.Surface) string {
	var b strings.Builder
	fmt.Fprintf(&b, "- [%s]", it.ID)
	for _, f := range s.Shared {
		if f.List {
			fmt.Fprintf(&b, " %s:", f.Name)
			for i, o := range it.Lists[f.Name] {
				if o.Withdrawn {
					continue
				}
				if i > 0 {
					b.WriteByte(';')
				}
				b.WriteString(" " + flat(o.Label))
				if o.By != "" {
					b.WriteString(" (" + string(o.By) + ")")
				}
			}
			b.WriteString(" |")
		} else if v := it.Fields[f.Name]; v != "" {
			fmt.Fprintf(&b, " %s: %s |", f.Name, flat(v))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(it.Result)) {
		fmt.Fprintf(&b, " %s: %s |", k, flat(it.Result[k]))
	}
	if it.Pinned {
		b.WriteString(" pinned |")
	}
	return strings.TrimSuffix(b.String(), " |")
}

func (w *writer) record(name string, f *room.File) {
	w.section("What you hold about " + flat(name))
	n := w.left
	for _, kv := range [][2]string{
		{"first read", f.Prior}, {"interest", f.Interest}, {"position", f.Position}, {"beliefs", f.Beliefs}, {"arc", f.Arc},
		{"confidence", f.Confidence}, {"watching for", f.WatchingFor}, {"help next", f.HelpNext},
	} {
		if kv[1] != "" {
			w.add("- " + kv[0] + ": " + flat(kv[1]))
		}
	}
	for _, r := range f.Regards {
		w.add("- toward " + string(r.Toward) + ": " + flat(r.Note))
	}
	for _, s := range f.Shifts[max(0, len(f.Shifts)-3):] {
		w.add("- shift: " + flat(s.Observed) + " from " + flat(s.From) + " to " + flat(s.To))
	}
	for _, r := range f.Releases {
		w.add("- release " + r.ID + " (" + string(r.State) + ", " + string(r.Attribution) + "): " + flat(open.Open(r.Wording.Sealed()).Text))
	}
	if n == w.left {
		w.add("(none)")
	}
}

func (w *writer) casts(st *room.State, files map[principal.ID]room.File) {
	w.section("Sealed contributions")
	n := w.left
	for _, it := range st.Items {
		for _, p := range st.People.All() {
			if c, ok := files[p.ID].Casts[it.ID]; ok && !it.Archived {
				w.add("- " + it.ID + " by " + string(p.ID) + ": " + value(c.Value))
			}
		}
	}
	if n == w.left {
		w.add("(none)")
	}
}

// tail writes the newest of lines that fit into room bytes, oldest first.
func (w *writer) tail(lines []string, room int) {
	from, used := len(lines), 0
	for from > 0 && used+len(lines[from-1])+1 <= min(room, w.left) {
		from--
		used += len(lines[from]) + 1
	}
	for _, l := range lines[from:] {
		w.add(l)
	}
	if len(lines) == 0 {
		w.add("(none)")
	}
}

func (w *writer) thread(head string, f *room.File, room int) {
	w.section(flat(head))
	var lines []string
	for _, l := range f.Thread {
		lines = append(lines, string(l.From)+": "+short(l.Text, maxShown))
	}
	w.tail(lines, room)
}

// shownLines is the most lines a transcript holds, so that the cost of a view
// does not grow with the budget either.
const shownLines = 200

func (w *writer) transcript(p *room.Public) {
	w.section("Transcript")
	type shown struct {
		m    *room.Message
		text string
	}
	var lines [shownLines]shown
	n, seen, alive, used := 0, 0, 0, 0
	for m := range p.Log.Backward() {
		if seen++; seen > shownLines {
			break
		}
		if m.Deleted {
			continue
		}
		alive++
		text := short(m.Text, maxShown)
		size := digits(m.Seq) + 1 + len(m.Author) + len(edited(m)) + 2 + len(text) + 1
		if used+size > w.left {
			break
		}
		used += size
		lines[n] = shown{m, text}
		n++
	}
	if alive == 0 {
		w.add("(none)")
		return
	}
	w.b.Grow(used + 64)
	w.left -= used
	var number [20]byte
	for i := n - 1; i >= 0; i-- {
		l := lines[i]
		w.b.Write(strconv.AppendUint(number[:0], l.m.Seq, 10))
		w.b.WriteByte(' ')
		w.b.WriteString(string(l.m.Author))
		w.b.WriteString(edited(l.m))
		w.b.WriteString(": ")
		w.b.WriteString(l.text)
		w.b.WriteByte('\n')
	}
}

func edited(m *room.Message) string {
	if m.Edited {
		return " (edited)"
	}
	return ""
}

func digits(n uint64) int {
	d := 1
	for ; n > 9; n /= 10 {
		d++
	}
	return d
}

func value(v surface.Value) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(v)) {
		out = append(out, k+" "+flat(fmt.Sprint(v[k])))
	}
	return strings.Join(out, ", ")
}

// flat keeps a text on one line, so that it cannot pass for another.
func flat(s string) string {
	space := true // before, for a space at the beginning
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f {
			space = false
		} else if c != ' ' || space {
			return strings.Join(strings.Fields(s), " ")
		} else {
			space = true
		}
	}
	if space {
		return strings.TrimSpace(s)
	}
	return s
}

func short(s string, n int) string {
	s = flat(s)
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + " …"
	}
	return s
}
