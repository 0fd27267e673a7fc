// Package poll is the surface of secret votes. Turnout shows, the result only
// at close; the winner is counted by the engine and no model writes it.
package poll

import "github.com/iris-operator/iris/facilitate/surface"

// New declares the surface.
func New() *surface.Surface {
	return &surface.Surface{
		Name:  "poll",
		About: "questions people vote on in secret",
		Shared: []surface.Field{
			{Name: "question"},
			{Name: "options", List: true, Writer: surface.Proposer, Evidence: true, Freeze: true},
			{Name: "status", Writer: surface.Host},
			{Name: "winner", Writer: surface.Derived},
		},
		Status:       "status",
		Contribution: []surface.Slot{{Name: "vote", Kind: surface.Option, Ref: "options"}},
		Statuses:     []string{"open", "closed"},
		Next:         map[string][]string{"open": {"closed"}},
		Closing:      []string{"closed"},
		OwnHand:      true,
		Count:        func(v surface.Value) []string { return []string{v.Word("vote")} },
		List:         "options",
		Outcome:      "winner",
	}
}
