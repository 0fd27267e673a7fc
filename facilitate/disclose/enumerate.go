package disclose

import (
	"fmt"
	"strings"
)

// A Scheme publishes the state of a ballot after each vote and at close. seen
// is how many have voted, tally counts their votes, closed is true once at the
// end. It returns what the room sees, or "" for nothing new.
type Scheme func(n, seen int, closed bool, tally []int) string

// LiveTally shows the counts after every vote.
func LiveTally(n, seen int, closed bool, tally []int) string { return counts(tally) }

// After3 shows the counts after every vote once there are three.
func After3(n, seen int, closed bool, tally []int) string {
	if seen < 3 {
		return ""
	}
	return counts(tally)
}

// Batches shows the counts whenever three more have voted and the rest can
// still make a batch, and at close.
func Batches(n, seen int, closed bool, tally []int) string {
	if closed || seen%3 == 0 && n-seen >= 3 {
		return counts(tally)
	}
	return ""
}

// ExactAtClose shows the counts at close.
func ExactAtClose(n, seen int, closed bool, tally []int) string {
	if closed {
		return counts(tally)
	}
	return ""
}

// WinnerAtClose shows only who won.
func WinnerAtClose(n, seen int, closed bool, tally []int) string {
	if !closed {
		return ""
	}
	best, who := -1, ""
	for i, c := range tally {
		switch {
		case c > best:
			best, who = c, fmt.Sprint(i)
		case c == best:
			who = "tie"
		}
	}
	return who
}

func counts(tally []int) string { return fmt.Sprint(tally) }

// Exposed is the share of all vote vectors in which at least one vote becomes
// certain to somebody.
type Exposed struct{ Outsider, Voter float64 }

// Exposure enumerates every vote vector of n voters over m options. The
// adversary knows the scheme, every published state and who voted when. It is
// exhaustive: m to the power of n vectors.
func Exposure(n, m int, s Scheme) Exposed {
	return Measure(n, m, func(v []int) string {
		tally := make([]int, m)
		var out strings.Builder
		for i, choice := range v {
			tally[choice]++
			fmt.Fprintf(&out, "%d:%s;", i, s(n, i+1, false, tally))
		}
		return out.String() + s(n, n, true, tally)
	})
}

// Measure is [Exposure] for anything that turns a vote vector into what
// everybody can see, so that a real room can be put to the same test.
func Measure(n, m int, observe func(v []int) string) Exposed {
	vectors := enumerate(n, m)
	seen := make([]string, len(vectors))
	classes := map[string][]int{}
	for i, v := range vectors {
		seen[i] = observe(v)
		classes[seen[i]] = append(classes[seen[i]], i)
	}
	outsider, voter := 0, 0
	for _, class := range classes {
		if len(certain(vectors, class, -1)) > 0 {
			outsider += len(class)
		}
		exposed := map[int]bool{}
		for j := range n {
			byOwn := map[int][]int{}
			for _, i := range class {
				byOwn[vectors[i][j]] = append(byOwn[vectors[i][j]], i)
			}
			for _, same := range byOwn {
				if len(certain(vectors, same, j)) > 0 {
					for _, i := range same {
						exposed[i] = true
					}
				}
			}
		}
		voter += len(exposed)
	}
	total := float64(len(vectors))
	return Exposed{float64(outsider) / total, float64(voter) / total}
}

// certain lists the voters, but self, whose vote is the same in all of class.
func certain(vectors [][]int, class []int, self int) (who []int) {
	for i := range vectors[class[0]] {
		if i == self {
			continue
		}
		same := true
		for _, c := range class[1:] {
			if vectors[c][i] != vectors[class[0]][i] {
				same = false
				break
			}
		}
		if same {
			who = append(who, i)
		}
	}
	return who
}

func enumerate(n, m int) [][]int {
	out := [][]int{{}}
	for range n {
		var next [][]int
		for _, v := range out {
			for o := range m {
				next = append(next, append(append(make([]int, 0, n), v...), o))
			}
		}
		out = next
	}
	return out
}
