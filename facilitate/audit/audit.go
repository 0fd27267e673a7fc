// Package audit looks at a room from outside: where what the room saw came
// from, how much choices could have told, what moved after Iris spoke, and who
// was heard. Its functions are pure; the agent hands them entries and state
// with the operator's key.
package audit

import (
	"fmt"
	"slices"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/internal/open"
	"github.com/iris-operator/iris/facilitate/principal"
	"github.com/iris-operator/iris/facilitate/room"
)

// A Provenance is where room-level entries of Iris came from.
type Provenance struct {
	Checked int
	Orphans []uint64 // entries without a source
	Sealed  []uint64 // entries whose sources reach something sealed other than through a release
}

// Provenances follows the parents of all that Iris wrote for the room. What is
// sealed may be reached through an entry that lowered a granted release, and
// through nothing else. The choice is no parent: what it can carry is counted
// by [Bits].
func Provenances(entries []room.Entry) (out Provenance) {
	by := map[uint64]room.Entry{}
	for _, e := range entries {
		by[e.Seq] = e
	}
	clean := map[uint64]bool{}
	var reaches func(seq uint64) bool
	reaches = func(seq uint64) bool {
		e, ok := by[seq]
		switch {
		case !ok || clean[seq] || e.Kind == room.KLower:
			return false
		case e.Level != flow.RankRoom:
			return true
		}
		clean[seq] = true // parents lie before their children, so no cycle
		if slices.ContainsFunc(e.Parents, reaches) {
			clean[seq] = false
			return true
		}
		return false
	}
	for _, e := range entries {
		b := open.Open(e.Body)
		made := e.Kind == room.KItems || e.Kind == room.KStatement || e.Kind == room.KReact || e.Kind == room.KPin || e.Kind == room.KMessage && b.Message.Author == principal.Iris
		if !made {
			continue
		}
		out.Checked++
		if len(e.Parents) == 0 {
			out.Orphans = append(out.Orphans, e.Seq)
		}
		if reaches(e.Seq) {
			out.Sealed = append(out.Sealed, e.Seq)
		}
	}
	return out
}

// Bits returns the bound each choice was logged with.
func Bits(entries []room.Entry) (out []float64) {
	for _, e := range entries {
		if e.Kind == room.KChoice {
			out = append(out, open.Open(e.Body).Bits)
		}
	}
	return out
}

// An Influence is a change on the board or in a contribution, and the posts of
// Iris in the room before it since the last such change.
type Influence struct {
	Entry uint64
	What  string
	Posts []uint64
}

// Influences lists every change of options and every contribution with the
// posts that came before, so that steering can be looked for.
func Influences(entries []room.Entry) (out []Influence) {
	var posts []uint64
	note := func(e room.Entry, what string) {
		out = append(out, Influence{e.Seq, what, slices.Clone(posts)})
		posts = nil
	}
	for _, e := range entries {
		b := open.Open(e.Body)
		switch e.Kind {
		case room.KMessage:
			if b.Message.Author == principal.Iris {
				posts = append(posts, e.Seq)
			}
		case room.KItems:
			for _, p := range b.Items.Items {
				for list, ops := range p.Ops {
					for _, o := range ops {
						note(e, fmt.Sprintf("%s %s of %s", o.Op, list, p.ID))
					}
				}
			}
		case room.KCast:
			note(e, "contribution to "+b.Item)
		case room.KRecord:
			if b.Record.Position != "" || b.Record.Value != nil {
				note(e, "stance")
			}
		}
	}
	return out
}

// An Equity is how turns are shared, by what is public only.
type Equity struct {
	Share   map[principal.ID]float64 // of public lines by people
	Gini    float64                  // 0 all alike, toward 1 one speaks
	Unheard []principal.ID           // present and without a line
}

// Equities computes who was heard.
func Equities(p *room.Public) Equity {
	e := Equity{Share: map[principal.ID]float64{}}
	var counts []int
	total := 0
	for _, m := range p.People.All() {
		n := p.Spoken[m.ID]
		counts = append(counts, n)
		total += n
		if n == 0 && !m.Away {
			e.Unheard = append(e.Unheard, m.ID)
		}
	}
	for _, m := range p.People.All() {
		if total > 0 {
			e.Share[m.ID] = float64(p.Spoken[m.ID]) / float64(total)
		}
	}
	slices.Sort(counts)
	weighted := 0
	for i, n := range counts {
		weighted += (2*(i+1) - len(counts) - 1) * n
	}
	if total > 0 {
		e.Gini = float64(weighted) / float64(len(counts)*total)
	}
	return e
}
