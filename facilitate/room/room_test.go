package room_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/release"
	"github.com/iris-operator/iris/facilitate/room"
	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/surface/builtin"
)

// A desk applies entries one after the other.
type desk struct {
	t     *testing.T
	s     room.State
	diags []room.Diag
}

func sit(t *testing.T, surf string, ids ...string) *desk {
	t.Helper()
	var seats []room.Seat
	for _, id := range ids {
		seats = append(seats, room.Seat{Person: principal.Person{ID: principal.ID(id)}})
	}
	s, err := room.New("r", "topic", builtin.Named(surf), seats...)
	if err != nil {
		t.Fatal(err)
	}
	return &desk{t: t, s: s}
}

func (d *desk) try(k room.Kind, l flow.Rank, owner string, b room.Body) error {
	s, diags, err := d.s.Apply(room.Entry{Seq: d.s.Seq + 1, Kind: k, Level: l, Owner: principal.ID(owner), At: 1000, Body: open.Seal(b)})
	d.s, d.diags = s, diags
	return err
}

func (d *desk) must(k room.Kind, l flow.Rank, owner string, b room.Body) {
	d.t.Helper()
	if err := d.try(k, l, owner, b); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) say(who, text string) uint64 {
	d.t.Helper()
	d.must(room.KMessage, flow.RankRoom, "", room.Body{Message: &room.Message{Author: principal.ID(who), Text: text}})
	return d.s.Log.Len()
}

func (d *desk) patch(id string, fields map[string]room.FieldPatch, ops map[string][]room.ListOp) {
	d.t.Helper()
	d.must(room.KItems, flow.RankRoom, "", room.Body{Items: &room.RoomDelta{
		From: 0, To: d.s.Log.Len(), Items: []room.ItemPatch{{ID: id, Fields: fields, Ops: ops}},
	}})
}

func (d *desk) said(want string) {
	d.t.Helper()
	if !strings.Contains(fmt.Sprint(d.diags), want) {
		d.t.Errorf("no diagnostic about %q in %v", want, d.diags)
	}
}

func (d *desk) file(id string) room.File {
	b, _ := d.s.File(principal.ID(id))
	return open.Open(b)
}

func text(s string, ev ...uint64) room.FieldPatch { return room.FieldPatch{Text: s, Evidence: ev} }

func title(s string) map[string]room.FieldPatch {
	return map[string]room.FieldPatch{"title": text(s), "question": text(s), "clause": text(s)}
}

func TestUnknownAuthorsStoreNothing(t *testing.T) {
	d := sit(t, "decisions", "ana")
	err := d.try(room.KMessage, flow.RankRoom, "", room.Body{Message: &room.Message{Author: "zoe", Text: "x"}})
	if !errors.Is(err, principal.ErrUnknown) || d.s.Log.Len() != 0 {
		t.Errorf("a stranger's line: %v", err)
	}
	for _, k := range []room.Kind{room.KCaucus, room.KCast, room.KRecord, room.KAnswer} {
		if err := d.try(k, flow.RankPerson, "zoe", room.Body{Line: &room.Line{From: "zoe"}, Record: &room.PersonDelta{}}); !errors.Is(err, principal.ErrUnknown) {
			t.Errorf("%s of a stranger: %v", k, err)
		}
	}
}

func TestEntriesStayAtTheirLevel(t *testing.T) {
	d := sit(t, "decisions", "ana", "ben")
	for k, l := range map[room.Kind]flow.Rank{room.KCaucus: flow.RankRoom, room.KChoice: flow.RankPerson, room.KMessage: flow.RankSelf, room.KItems: flow.RankPerson} {
		if err := d.try(k, l, "ana", room.Body{}); !errors.Is(err, room.ErrEntry) {
			t.Errorf("%s at %s: %v", k, l, err)
		}
	}
	if err := d.try(room.KCaucus, flow.RankPerson, "ana", room.Body{Line: &room.Line{From: "ben", Text: "x"}}); !errors.Is(err, room.ErrEntry) {
		t.Errorf("ben writes on ana's private line: %v", err)
	}
	for _, k := range []room.Kind{room.KMessage, room.KEdit, room.KJoin, room.KItems, room.KStatement, "zz"} {
		if err := d.try(k, flow.RankRoom, "", room.Body{}); !errors.Is(err, room.ErrEntry) {
			t.Errorf("empty %s: %v", k, err)
		}
	}
	for _, k := range []room.Kind{room.KCaucus, room.KRecord, room.KAsk} {
		if err := d.try(k, flow.RankPerson, "ana", room.Body{}); !errors.Is(err, room.ErrEntry) {
			t.Errorf("empty %s: %v", k, err)
		}
	}
	if err := d.try(room.KChoice, flow.RankSelf, "", room.Body{}); !errors.Is(err, room.ErrEntry) {
		t.Errorf("empty choice: %v", err)
	}
}

func TestItemsAreMergedByTheRules(t *testing.T) {
	d := sit(t, "decisions", "ana", "ben")
	l1 := d.say("ana", "Where do we meet? I propose the library.")
	d.patch("__proto__", title("Where to meet"), nil)
	d.said("grammar")
	id := d.s.Items[0].ID
	if id != "where-to-meet" {
		t.Errorf("id %q", id)
	}
	d.patch("other", title("Where to meet?"), nil)
	d.said("under another name")
	d.patch("empty", nil, nil)
	d.said("needs a label")
	if len(d.s.Items) != 1 {
		t.Fatalf("%d items", len(d.s.Items))
	}
	d.patch(id, map[string]room.FieldPatch{"status": text("nonsense")}, nil)
	d.said("no legal change")
	d.patch(id, map[string]room.FieldPatch{"status": text("decided")}, nil)
	d.said("needs a resolution")
	d.patch(id, map[string]room.FieldPatch{"resolution": text("the library", l1)}, nil)
	d.said("only with status")
	d.patch(id, map[string]room.FieldPatch{"status": text("decided"), "resolution": text("the library", l1)}, nil)
	d.said("no cited line settles")
	l2 := d.say("ben", "Agreed, the library it is.")
	d.patch(id, map[string]room.FieldPatch{"status": text("decided"), "resolution": text("the harbour bar", l2)}, nil)
	d.said("do not carry")
	d.patch(id, map[string]room.FieldPatch{"status": text("decided"), "resolution": text("meet in the library", l2)}, nil)
	it := d.s.Item(id)
	if it.Fields["status"] != "decided" || it.Fields["resolution"] != "meet in the library" || it.Result["weighedIn"] != "2" {
		t.Errorf("item %+v", it)
	}
	d.patch(id, map[string]room.FieldPatch{"status": text("gathering")}, nil)
	if it := d.s.Item(id); it.Fields["resolution"] != "" || it.Fields["status"] != "gathering" {
		t.Errorf("reopened %+v", it)
	}
}

func TestOptionsNeedTheirProposersWords(t *testing.T) {
	d := sit(t, "decisions", "ana", "ben")
	l1 := d.say("ana", "I propose the old library")
	l2 := d.say("ben", "or the garden")
	d.patch("where", title("Where"), nil)
	ops := func(o ...room.ListOp) { d.patch("where", nil, map[string][]room.ListOp{"options": o}) }
	labels := func() string { return strings.Join(d.s.Item("where").Labels("options"), ",") }
	ops(room.ListOp{Op: "add", Label: "old library", Evidence: []uint64{l1}}, room.ListOp{Op: "add", Label: "garden", By: "ben", Evidence: []uint64{l2}})
	if labels() != "old library,garden" || d.s.Item("where").Lists["options"][0].By != "ana" {
		t.Fatalf("options %v", d.s.Item("where").Lists)
	}
	ops(room.ListOp{Op: "add", Label: "casino", Evidence: []uint64{l1}})
	d.said("do not carry")
	ops(room.ListOp{Op: "add", Label: "casino"})
	d.said("needs a public line")
	ops(room.ListOp{Op: "add", Label: "garden", By: "ana", Evidence: []uint64{l2}})
	d.said("needs a public line")
	d.say("iris", "what about the casino")
	ops(room.ListOp{Op: "add", Label: "casino", By: "iris", Evidence: []uint64{3}})
	d.said("needs a public line")
	ops(room.ListOp{Op: "withdraw", Label: "garden", Evidence: []uint64{l2}})
	d.said("only its proposer")
	ops(room.ListOp{Op: "withdraw", Label: "garden", By: "ana", Evidence: []uint64{l1}})
	d.said("only its proposer")
	if labels() != "old library,garden" {
		t.Errorf("a minority option was dropped: %s", labels())
	}
	l4 := d.say("ben", "I withdraw the garden")
	ops(room.ListOp{Op: "withdraw", Label: "garden", Evidence: []uint64{l4}}, room.ListOp{Op: "zap", Label: "x", Evidence: []uint64{l4}}, room.ListOp{Op: "add", Label: "?!", Evidence: []uint64{l4}})
	if labels() != "old library" {
		t.Errorf("options %s", labels())
	}
	l5 := d.say("ana", "I mean the new library")
	ops(room.ListOp{Op: "reword", Label: "old library", New: "new library", Evidence: []uint64{l5}})
	if labels() != "new library" {
		t.Errorf("options %s", labels())
	}
	ops(room.ListOp{Op: "reword", Label: "new library", New: "casino", Evidence: []uint64{l5}})
	d.said("only the proposer rewords")
}

func TestOpenItemsAreBoundedAndClosedOnesArchived(t *testing.T) {
	d := sit(t, "tasks", "ana")
	for i := range room.MaxOpenItems + 3 {
		d.patch("", title(fmt.Sprintf("%c %c task", 'a'+i, 'z'-i%20)), nil)
	}
	if n := len(d.s.Items); n != room.MaxOpenItems {
		t.Fatalf("%d open items", n)
	}
	for _, it := range d.s.Items {
		d.patch(it.ID, map[string]room.FieldPatch{"status": text("done")}, nil)
	}
	kept := 0
	for _, it := range d.s.Items {
		if !it.Archived {
			kept++
		}
	}
	if kept != 8 {
		t.Errorf("%d closed items stay on the board", kept)
	}
}

func TestPollIsCountedByTheEngine(t *testing.T) {
	d := sit(t, "poll", "a", "b", "c", "d", "e")
	d.must(room.KOpen, flow.RankRoom, "", room.Body{Author: "a", Item: "lunch", Text: "Lunch?", Options: []string{"Soup", "Salad", "soup"}})
	if got := d.s.Item("lunch").Labels("options"); len(got) != 2 {
		t.Fatalf("options %v", got)
	}
	l := d.say("a", "the winner is Pizza, poll closed")
	d.patch("lunch", map[string]room.FieldPatch{"winner": text("Pizza", l), "status": text("closed", l)}, nil)
	d.said("not a model's")
	d.said("only a host")
	vote := func(who, what string) {
		d.must(room.KCast, flow.RankPerson, who, room.Body{Item: "lunch", Value: map[string]any{"vote": what}})
	}
	vote("a", "Soup")
	vote("b", "Pizza")
	d.said("outside the declared shape")
	d.patch("lunch", nil, map[string][]room.ListOp{"options": {{Op: "add", Label: "Pizza", Evidence: []uint64{l}}}})
	d.said("fixed since the first")
	d.must(room.KJoin, flow.RankRoom, "", room.Body{Person: &principal.Person{ID: "f"}})
	vote("f", "Soup")
	d.said("not among those")
	d.must(room.KRecord, flow.RankPerson, "b", room.Body{Record: &room.PersonDelta{Item: "lunch", Value: map[string]any{"vote": "Soup"}}})
	d.said("own hand")
	vote("b", "salad")
	vote("c", "Soup")
	vote("c", "Salad")
	it := d.s.Item("lunch")
	if it.Fields["winner"] != "" || it.Result["counts"] != "" || it.Result["turnout"] != "3 of 5" {
		t.Errorf("before close: %+v", it.Result)
	}
	d.must(room.KSet, flow.RankRoom, "", room.Body{Author: "a", Item: "lunch", Field: "status", Text: "closed"})
	it = d.s.Item("lunch")
	if it.Fields["winner"] != "Salad" || it.Result["counts"] != "" {
		t.Errorf("after close: %v %v", it.Fields, it.Result)
	}
	vote("d", "Soup")
	d.said("closed")
	if err := d.try(room.KSet, flow.RankRoom, "", room.Body{Author: "a", Item: "lunch", Field: "status", Text: "open"}); !errors.Is(err, room.ErrEntry) {
		t.Errorf("reopened: %v", err)
	}
	if err := d.try(room.KSet, flow.RankRoom, "", room.Body{Author: "a", Item: "lunch", Field: "winner", Text: "Pizza"}); !errors.Is(err, room.ErrEntry) {
		t.Errorf("a host writes the winner: %v", err)
	}
}

func TestExactCountsFromEightVoters(t *testing.T) {
	ids := strings.Split("a b c d e f g h", " ")
	d := sit(t, "availability", ids...)
	d.must(room.KOpen, flow.RankRoom, "", room.Body{Author: "a", Text: "When", Options: []string{"mon", "tue"}})
	for i, id := range ids {
		v := map[string]any{"free": []any{"mon"}}
		if i == 0 {
			v = map[string]any{"free": []any{"tue"}, "never": []any{"mon"}, "reason": "clinic"}
		}
		d.must(room.KCast, flow.RankPerson, id, room.Body{Item: "when", Value: v})
	}
	d.must(room.KSet, flow.RankRoom, "", room.Body{Author: "b", Item: "when", Field: "status", Text: "narrowed"})
	it := d.s.Item("when")
	if it.Fields["chosen"] != "tue" || it.Result["counts"] != "mon not possible · tue 1" {
		t.Errorf("%v %v", it.Fields, it.Result)
	}
	if strings.Contains(fmt.Sprintf("%+v", it), "clinic") {
		t.Error("a reason is public")
	}
}

func TestTasksAreClaimedByTheirOwn(t *testing.T) {
	d := sit(t, "tasks", "ana", "ben", "cy")
	l := d.say("ana", "ben should write the report, due friday")
	d.patch("report", map[string]room.FieldPatch{"title": text("Write the report"), "assignee": text("ben", l), "due": text("friday", l)}, nil)
	d.said("claim of the person")
	if it := d.s.Item("report"); it.Fields["assignee"] != "" || it.Fields["due"] != "friday" {
		t.Errorf("%v", it.Fields)
	}
	l = d.say("ben", "I'll take it")
	d.patch("report", map[string]room.FieldPatch{"assignee": text("ben", l)}, nil)
	if it := d.s.Item("report"); it.Fields["assignee"] != "ben" {
		t.Errorf("%v", it.Fields)
	}
	for i, id := range []string{"ana", "ben", "cy"} {
		d.must(room.KRecord, flow.RankPerson, id, room.Body{Record: &room.PersonDelta{Item: "report", Value: map[string]any{"blocker": "no access"}}})
		got := d.s.Item("report").Result["support"]
		if (i == 2) != (got == "at least 3 people report a blocker") {
			t.Errorf("after %d: %q", i+1, got)
		}
	}
}

func TestTermsNeedEverybodyOnOneVersion(t *testing.T) {
	d := sit(t, "terms", "ana", "ben")
	l := d.say("ana", "The rent is 900 a month")
	d.patch("rent", map[string]room.FieldPatch{"clause": text("Rent"), "text": text("rent 900 a month", l)}, nil)
	for _, id := range []string{"ana", "ben"} {
		d.must(room.KCast, flow.RankPerson, id, room.Body{Item: "rent", Value: map[string]any{"position": "accept"}})
	}
	l = d.say("ben", "make the rent 950 a month")
	d.patch("rent", map[string]room.FieldPatch{"text": text("rent 950 a month", l)}, nil)
	d.patch("rent", map[string]room.FieldPatch{"status": text("agreed")}, nil)
	d.said("not everybody accepts")
	for _, id := range []string{"ana", "ben"} {
		d.must(room.KCast, flow.RankPerson, id, room.Body{Item: "rent", Value: map[string]any{"position": "live-with"}})
	}
	d.patch("rent", map[string]room.FieldPatch{"status": text("agreed")}, nil)
	if it := d.s.Item("rent"); it.Fields["status"] != "agreed" || it.Fields["version"] == "" {
		t.Errorf("%v", it.Fields)
	}
}

// granted brings a release of ana's words to granted.
func granted(d *desk, words, how string) {
	d.t.Helper()
	d.must(room.KRecord, flow.RankPerson, "ana", room.Body{Record: &room.PersonDelta{Wording: words, Attribution: how}})
	id := d.file("ana").Releases[len(d.file("ana").Releases)-1].ID
	d.must(room.KAsk, flow.RankPerson, "ana", room.Body{Release: id})
	d.must(room.KAnswer, flow.RankPerson, "ana", room.Body{Release: id, Answer: "grant"})
}

func TestAStatementNeedsItsRelease(t *testing.T) {
	d := sit(t, "decisions", "ana", "ben", "cy", "di")
	lie := room.Body{Statement: &room.Statement{ID: "s1", Wording: "not before nine"}}
	if err := d.try(room.KStatement, flow.RankRoom, "", lie); !errors.Is(err, room.ErrEntry) {
		t.Errorf("a statement of nobody: %v", err)
	}
	granted(d, "not before nine", "unattributed")
	if got := d.s.Granted(); len(got) != 0 {
		t.Errorf("ready at once: %v", got)
	}
	if err := d.try(room.KStatement, flow.RankRoom, "", lie); !errors.Is(err, room.ErrEntry) {
		t.Errorf("before it is lowered: %v", err)
	}
	d.say("ana", "my own line does not count")
	if got := d.s.Granted(); len(got) != 0 {
		t.Errorf("ready after an own line: %v", got)
	}
	d.say("ben", "hello")
	if got := d.s.Granted(); !cmp.Equal(got, []string{"ana/r1"}) {
		t.Errorf("granted %v", got)
	}
	d.must(room.KLower, flow.RankPerson, "ana", room.Body{Release: "r1", Text: "s1"})
	named := room.Body{Statement: &room.Statement{ID: "s1", Wording: "not before nine", By: "ana"}}
	if err := d.try(room.KStatement, flow.RankRoom, "", named); !errors.Is(err, room.ErrEntry) {
		t.Errorf("named against her wish: %v", err)
	}
	other := room.Body{Statement: &room.Statement{ID: "s1", Wording: "not before ten"}}
	if err := d.try(room.KStatement, flow.RankRoom, "", other); !errors.Is(err, room.ErrEntry) {
		t.Errorf("other words: %v", err)
	}
	d.must(room.KStatement, flow.RankRoom, "", lie)
	if len(d.s.Statements) != 1 {
		t.Errorf("statements %v", d.s.Statements)
	}
	if err := d.try(room.KAnswer, flow.RankPerson, "ana", room.Body{Release: "r1", Answer: "revoke"}); !errors.Is(err, release.ErrState) {
		t.Errorf("revoked after delivery: %v", err)
	}
}

func TestConcernsOpenInReleasedWords(t *testing.T) {
	d := sit(t, "concerns", "ana", "ben", "cy", "di")
	d.patch("pay", map[string]room.FieldPatch{"theme": text("pay is unfair")}, nil)
	d.said("released statement")
	granted(d, "pay is unfair", "")
	d.must(room.KLower, flow.RankPerson, "ana", room.Body{Release: "r1", Text: "s1"})
	d.must(room.KStatement, flow.RankRoom, "", room.Body{Statement: &room.Statement{ID: "s1", Wording: "pay is unfair"}})
	d.patch("pay", map[string]room.FieldPatch{"theme": text("pay is unfair")}, nil)
	for i, id := range []string{"ana", "ben", "cy"} {
		if it := d.s.Item("pay"); it == nil || !it.Hidden {
			t.Fatalf("visible with %d supporters: %+v", i, it)
		}
		d.must(room.KCast, flow.RankPerson, id, room.Body{Item: "pay", Value: map[string]any{"severity": "high"}})
	}
	if it := d.s.Item("pay"); it.Hidden || it.Result["support"] != "shared by at least 3 people" {
		t.Errorf("%+v", it)
	}
}

func TestRecordsArePatchedAndShiftsAppended(t *testing.T) {
	d := sit(t, "decisions", "ana", "ben")
	if f := d.file("ana"); f.Arc != "quiet" || f.Confidence != "hunch" {
		t.Errorf("blank file %+v", f)
	}
	rec := func(p room.PersonDelta) { d.must(room.KRecord, flow.RankPerson, "ana", room.Body{Record: &p}) }
	rec(room.PersonDelta{Interest: "sleep", Arc: "Softening", Confidence: "confirmed", Regards: []room.Regard{{"ben", "trusts"}, {"ana", "x"}, {"zoe", "x"}}, Shift: &room.Shift{Turn: 99, Observed: "moved"}})
	d.said("toward nobody")
	rec(room.PersonDelta{Position: "late", Arc: "sideways", Regards: []room.Regard{{"ben", "doubts"}}, Shift: &room.Shift{To: "late"}})
	d.said("outside the vocabulary")
	f := d.file("ana")
	if f.Interest != "sleep" || f.Position != "late" || f.Arc != "softening" || f.Confidence != "confirmed" || len(f.Regards) != 1 || f.Regards[0].Note != "doubts" || len(f.Shifts) != 2 || f.Shifts[0].Turn == 99 {
		t.Errorf("file %+v", f)
	}
	for range room.MaxShifts + 5 {
		rec(room.PersonDelta{Shift: &room.Shift{To: "x"}})
	}
	if f := d.file("ana"); len(f.Shifts) != room.MaxShifts || f.ShiftCount != room.MaxShifts+7 {
		t.Errorf("%d shifts, count %d", len(f.Shifts), f.ShiftCount)
	}
	d.must(room.KOptOut, flow.RankPerson, "ana", room.Body{Text: "record"})
	rec(room.PersonDelta{Interest: "food"})
	if d.file("ana").Interest != "sleep" {
		t.Error("an opted-out record changed")
	}
	if f := d.file("ben"); f.Interest != "" || f.Position != "" {
		t.Error("ana's beat wrote ben's file")
	}
}

func TestNoPrivateReplyRaisesWeighedIn(t *testing.T) {
	d := sit(t, "decisions", "ana", "ben")
	d.say("ana", "where to eat")
	d.patch("eat", title("Where to eat"), nil)
	d.must(room.KCaucus, flow.RankPerson, "ben", room.Body{Line: &room.Line{From: "ben", Text: "I hate fish"}})
	d.must(room.KRecord, flow.RankPerson, "ben", room.Body{Record: &room.PersonDelta{Item: "eat", Value: map[string]any{"stance": "no fish"}}})
	if it := d.s.Item("eat"); it.Result["weighedIn"] != "1" {
		t.Errorf("weighedIn %s", it.Result["weighedIn"])
	}
	if d.file("ben").Casts["eat"].Value.Word("stance") != "no fish" {
		t.Error("the sealed contribution is lost")
	}
}

func TestEditsReactionsAndPresence(t *testing.T) {
	d := sit(t, "decisions", "ana", "ben")
	l := d.say("ana", "helo")
	if err := d.try(room.KEdit, flow.RankRoom, "", room.Body{Author: "ben", Message: &room.Message{Seq: l, Text: "hacked"}}); !errors.Is(err, room.ErrEntry) {
		t.Errorf("ben edits ana: %v", err)
	}
	d.must(room.KEdit, flow.RankRoom, "", room.Body{Author: "ana", Message: &room.Message{Seq: l, Text: "hello"}})
	if m, _ := d.s.Log.Get(l); m.Text != "hello" || !m.Edited {
		t.Errorf("%+v", m)
	}
	d.must(room.KReact, flow.RankRoom, "", room.Body{To: l, Text: "👍"})
	d.must(room.KReact, flow.RankRoom, "", room.Body{To: 99, Text: "👍"})
	d.said("not at hand")
	d.must(room.KEdit, flow.RankRoom, "", room.Body{Author: "ana", Message: &room.Message{Seq: 99}})
	d.said("not at hand")
	d.must(room.KDelete, flow.RankRoom, "", room.Body{Author: "ana", Message: &room.Message{Seq: l}})
	if m, _ := d.s.Log.Get(l); m.Text != "" || !m.Deleted || len(d.s.Reactions[l]) != 1 {
		t.Errorf("%+v", m)
	}
	d.must(room.KLeave, flow.RankRoom, "", room.Body{Person: &principal.Person{ID: "ben"}})
	if d.s.People.Present() != 1 {
		t.Error("ben did not leave")
	}
	if err := d.try(room.KLeave, flow.RankRoom, "", room.Body{Person: &principal.Person{ID: "zoe"}}); !errors.Is(err, principal.ErrUnknown) {
		t.Errorf("zoe left: %v", err)
	}
	if err := d.try(room.KJoin, flow.RankRoom, "", room.Body{Person: &principal.Person{ID: "self"}}); !errors.Is(err, principal.ErrID) {
		t.Errorf("self joined: %v", err)
	}
}

func TestHostsMoveWhatIsTheirs(t *testing.T) {
	s, _ := room.New("r", "t", builtin.Named("tasks"), room.Seat{Person: principal.Person{ID: "ana", Role: "host"}}, room.Seat{Person: principal.Person{ID: "ben"}})
	d := &desk{t: t, s: s}
	d.patch("x", title("Do it"), nil)
	set := func(by, field, v string) error {
		return d.try(room.KSet, flow.RankRoom, "", room.Body{Author: principal.ID(by), Item: "x", Field: field, Text: v})
	}
	for _, c := range []struct {
		by, field, v string
		ok           bool
	}{
		{"ana", "assignee", "ben", true}, {"ben", "assignee", "ana", false}, {"ben", "assignee", "ben", true}, {"ben", "status", "done", false},
		{"ana", "status", "done", true}, {"ana", "status", "zz", false}, {"ana", "title", "y", false}, {"ana", "nope", "y", false}, {"ana", "blockedBy", "y", false},
	} {
		if err := set(c.by, c.field, c.v); c.ok != (err == nil) {
			t.Errorf("%s sets %s to %s: %v", c.by, c.field, c.v, err)
		}
	}
	if err := d.try(room.KOpen, flow.RankRoom, "", room.Body{Author: "ana", Text: ""}); !errors.Is(err, room.ErrEntry) {
		t.Errorf("opened without a label: %v", err)
	}
}

func TestChoicesAreRememberedAndKeysSeen(t *testing.T) {
	d := sit(t, "decisions", "ana")
	d.say("ana", "x")
	d.patch("x", title("Xylophone"), nil)
	d.must(room.KTick, flow.RankSelf, "", room.Body{Key: "k1"})
	for range room.MaxThoughts + 2 {
		d.must(room.KChoice, flow.RankSelf, "", room.Body{Text: "held", Bits: 1, Self: &room.SelfDelta{
			Notes: []room.Note{{Item: "x", Read: "tense"}, {Item: "zz"}}, Choice: room.Choice{Tool: room.None},
		}})
	}
	in := open.Open(d.s.Inner())
	if len(in.Thoughts) != room.MaxThoughts || in.Count != room.MaxThoughts+2 || in.Bits != room.MaxThoughts+2 || in.Notes["x"]["read"] != "tense" || in.Turn != 1 || in.Ticks != 1 {
		t.Errorf("inner: %d thoughts, %d, bits %v, notes %v", len(in.Thoughts), in.Count, in.Bits, in.Notes)
	}
	if !d.s.Seen("k1") || d.s.Seen("k2") || d.s.Seen("") {
		t.Error("keys")
	}
	for i := range 1200 {
		d.must(room.KTick, flow.RankSelf, "", room.Body{Key: fmt.Sprint(i)})
	}
	if d.s.Seen("k1") || !d.s.Seen("1199") || !d.s.Seen("600") {
		t.Error("the newest keys are not kept")
	}
}

func TestLogKeepsTheNewestAndSharesNothingMutable(t *testing.T) {
	var l room.Log
	var at []room.Log
	for i := range 600 {
		l = l.Append(room.Message{Text: fmt.Sprint(i)})
		at = append(at, l)
	}
	if l.Len() != 600 || len(l.Recent(9999)) > 512 || len(l.Recent(300)) != 300 || l.Recent(1)[0].Seq != 600 {
		t.Errorf("len %d, recent %d", l.Len(), len(l.Recent(9999)))
	}
	if _, ok := l.Get(1); ok {
		t.Error("line 1 is still at hand")
	}
	if m, ok := l.Get(400); !ok || m.Text != "399" {
		t.Errorf("line 400: %v %v", m, ok)
	}
	branch := at[550].Append(room.Message{Text: "branch"})
	if m, _ := l.Get(552); m.Text != "551" {
		t.Errorf("a branch changed the trunk: %q", m.Text)
	}
	if m, _ := branch.Get(552); m.Text != "branch" {
		t.Errorf("branch %q", m.Text)
	}
	if c, ok := l.Set(room.Message{Seq: 500, Text: "z"}); !ok {
		t.Error("no line 500")
	} else if m, _ := l.Get(500); m.Text != "499" {
		t.Error("Set changed the older log")
	} else if m, _ := c.Get(500); m.Text != "z" {
		t.Error("Set did nothing")
	}
	if _, ok := l.Set(room.Message{Seq: 1}); ok {
		t.Error("set a line that is gone")
	}
	if len(l.Since(598)) != 2 || l.Since(600) != nil {
		t.Error("since")
	}
}

func TestStateIsAValue(t *testing.T) {
	d := sit(t, "decisions", "ana", "ben")
	d.say("ana", "one")
	d.patch("x", title("Xylophone"), nil)
	before := d.s
	was := fmt.Sprintf("%+v %+v", before.Items[0], before.Log.Recent(99))
	d.patch("x", map[string]room.FieldPatch{"status": text("groan")}, nil)
	d.say("ben", "two")
	d.must(room.KRecord, flow.RankPerson, "ana", room.Body{Record: &room.PersonDelta{Interest: "z", Item: "x", Value: map[string]any{"stance": "s"}}})
	if got := fmt.Sprintf("%+v %+v", before.Items[0], before.Log.Recent(99)); got != was {
		t.Errorf("an older state changed:\n%s\n%s", was, got)
	}
	b, _ := before.File("ana")
	if f := open.Open(b); f.Interest != "" || len(f.Casts) != 0 {
		t.Error("an older file changed")
	}
	if strings.Contains(fmt.Sprintf("%+v %#v", d.s, d.s), "stance") {
		t.Error("a state prints what is sealed")
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := room.New("r", "", &surface.Surface{}); err == nil {
		t.Error("an empty surface")
	}
	if _, err := room.New("r", "", builtin.Named("poll"), room.Seat{Person: principal.Person{ID: "room"}}); !errors.Is(err, principal.ErrID) {
		t.Error("a person called room")
	}
	s, err := room.New("r", "", builtin.Named("poll"), room.Seat{Person: principal.Person{ID: "ana"}, Prior: flow.Private("ana", "likes tea")})
	if err != nil {
		t.Fatal(err)
	}
	b, ok := s.File("ana")
	if !ok || open.Open(b).Prior != "likes tea" {
		t.Error("the prior read is not in the file")
	}
	if room.Slug("???") != "" || room.Slug("Ünï Where?") != "n-where" {
		t.Errorf("slug %q", room.Slug("Ünï Where?"))
	}
}
