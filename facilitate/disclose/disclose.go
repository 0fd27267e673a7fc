// Package disclose decides what of a set of sealed contributions the room may
// learn, and when. A [Policy] is fixed per item before the first contribution
// and never looks at the data. The package also holds the exhaustive
// enumerator that shows why: see [Exposure].
//
// It publishes nothing itself; package room asks it and keeps the answer.
package disclose

import "fmt"

// A When says at which moment results may show.
type When uint8

// The moments. AtClose is the default; the others are for labelled modes.
const (
	AtClose When = iota
	Live
	Never
)

// A Policy is what is announced to voters before the first ballot. The zero
// Policy is the default for secret ballots.
type Policy struct {
	// Open ballots are no secret: who voted what may show, and the item says so.
	Open bool
	// When results show.
	When When
	// MinVoters is the number of eligible voters below which secrecy cannot be
	// promised; 0 is 5.
	MinVoters int
	// NExact is the number of eligible voters from which the exact counts show
	// at close; below it only the winner. 0 is 8.
	NExact int
	// K is the support from which a threshold statement ("at least K people")
	// shows; 0 is 3.
	K int
	// HideTurnout keeps the number of those who answered from the room.
	HideTurnout bool
}

// Defaults returns p with its zero fields filled.
func (p Policy) Defaults() Policy {
	if p.MinVoters == 0 {
		p.MinVoters = 5
	}
	if p.NExact == 0 {
		p.NExact = 8
	}
	if p.K == 0 {
		p.K = 3
	}
	return p
}

// A Grain is how much of a result shows.
type Grain uint8

// The grains, from nothing to everything.
const (
	Hidden Grain = iota
	Winner
	Exact
)

// Grain says how much of the result of n eligible voters shows now. It does
// not see the ballots.
func (p Policy) Grain(n int, closed bool) Grain {
	p = p.Defaults()
	switch {
	case p.When == Never:
		return Hidden
	case p.When == Live || p.Open:
		return Exact
	case !closed:
		return Hidden
	case n >= p.NExact:
		return Exact
	}
	return Winner
}

// Notice is the sentence that tells voters, before they vote, what the room of
// n eligible voters will learn.
func (p Policy) Notice(n int) string {
	p = p.Defaults()
	switch {
	case p.Open:
		return "open ballot: everybody sees who answered what"
	case p.When == Never:
		return "answers stay sealed"
	case p.When == Live:
		return "live counts: answers can be worked out from the changes"
	case n < p.MinVoters:
		return fmt.Sprintf("with %d voters secrecy cannot be promised: the result is shown at close, and may give answers away", n)
	case n >= p.NExact:
		return "secret until close, then the counts are shown; if all agree, everybody's answer is known"
	}
	return "secret until close, then only the outcome is shown"
}

// Threshold reports whether a statement "at least K" may show for count.
func (p Policy) Threshold(count int) (k int, ok bool) {
	p = p.Defaults()
	return p.K, count >= p.K
}

// Lead returns the option with the most votes, or "tie" when it is shared and
// "" when nobody voted.
func Lead(options []string, tally map[string]int) string {
	best, lead := 0, ""
	for _, o := range options {
		switch n := tally[o]; {
		case n > best:
			best, lead = n, o
		case n == best && n > 0:
			lead = "tie"
		}
	}
	return lead
}

// Guessable reports whether an unattributed statement in a room of n people
// hides its author too badly: a reader excludes themselves, so fewer than
// three others are left to guess among.
func Guessable(n int) bool { return n < 4 }
