package audit_test

import (
	"math"
	"testing"

	"github.com/iris-operator/iris/facilitate/audit"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
)

func entry(seq uint64, k room.Kind, l flow.Rank, b room.Body, parents ...uint64) room.Entry {
	return room.Entry{Seq: seq, Kind: k, Level: l, Parents: parents, Body: open.Seal(b)}
}

func TestProvenance(t *testing.T) {
	line := room.Body{Message: &room.Message{Author: "ana"}}
	iris := room.Body{Message: &room.Message{Author: principal.Iris}}
	items := room.Body{Items: &room.RoomDelta{Items: []room.ItemPatch{{ID: "x", Ops: map[string][]room.ListOp{"options": {{Op: "add"}}}}}}}
	for name, c := range map[string]struct {
		entries         []room.Entry
		orphans, sealed int
	}{
		"clean":           {[]room.Entry{entry(1, room.KMessage, 0, line), entry(2, room.KItems, 0, items, 1), entry(3, room.KMessage, 0, iris, 1, 2)}, 0, 0},
		"no source":       {[]room.Entry{entry(1, room.KMessage, 0, iris)}, 1, 0},
		"from a caucus":   {[]room.Entry{entry(1, room.KCaucus, 1, room.Body{}), entry(2, room.KItems, 0, items, 1)}, 0, 1},
		"two steps away":  {[]room.Entry{entry(1, room.KChoice, 2, room.Body{}), entry(2, room.KItems, 0, items, 1), entry(3, room.KMessage, 0, iris, 2)}, 0, 2},
		"through release": {[]room.Entry{entry(1, room.KAnswer, 1, room.Body{}), entry(2, room.KLower, 1, room.Body{}, 1), entry(3, room.KStatement, 0, room.Body{}, 2), entry(4, room.KMessage, 0, iris, 3)}, 0, 0},
	} {
		p := audit.Provenances(c.entries)
		if len(p.Orphans) != c.orphans || len(p.Sealed) != c.sealed {
			t.Errorf("%s: %+v", name, p)
		}
	}
	inf := audit.Influences([]room.Entry{entry(1, room.KMessage, 0, iris), entry(2, room.KItems, 0, items, 1), entry(3, room.KCast, 1, room.Body{Item: "x"}), entry(4, room.KRecord, 1, room.Body{Record: &room.PersonDelta{Position: "p"}})})
	if len(inf) != 3 || len(inf[0].Posts) != 1 || len(inf[1].Posts) != 0 {
		t.Errorf("%+v", inf)
	}
	if b := audit.Bits([]room.Entry{entry(1, room.KChoice, 2, room.Body{Bits: 3})}); len(b) != 1 || b[0] != 3 {
		t.Errorf("%v", b)
	}
}

func TestEquity(t *testing.T) {
	r, _ := principal.NewRoster(principal.Person{ID: "a"}, principal.Person{ID: "b"}, principal.Person{ID: "c"}, principal.Person{ID: "d"})
	for _, c := range []struct {
		spoken  map[principal.ID]int
		gini    float64
		unheard int
	}{
		{map[principal.ID]int{"a": 2, "b": 2, "c": 2, "d": 2}, 0, 0}, {map[principal.ID]int{"a": 8}, .75, 3}, {map[principal.ID]int{"a": 1, "b": 2, "c": 3, "d": 4}, .25, 0}, {nil, 0, 4},
	} {
		e := audit.Equities(&room.Public{People: r, Spoken: c.spoken})
		if math.Abs(e.Gini-c.gini) > 1e-9 || len(e.Unheard) != c.unheard {
			t.Errorf("%v: %+v", c.spoken, e)
		}
	}
}
