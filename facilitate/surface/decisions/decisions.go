// Package decisions is the surface of open questions, their options and how
// they were settled. What each person wants of an item stays sealed; the room
// sees how many spoke on it.
package decisions

import "github.com/iris-operator/iris/facilitate/surface"

// New declares the surface.
func New() *surface.Surface {
	return &surface.Surface{
		Name:  "decisions",
		About: "questions the group has to decide, the options people proposed, and what was decided",
		Shared: []surface.Field{
			{Name: "title"},
			{Name: "options", List: true, Writer: surface.Proposer, Evidence: true},
			{Name: "status"},
			{Name: "resolution", Evidence: true, OnlyIn: "decided"},
		},
		Status:       "status",
		Notes:        []string{"heartbeat", "read"},
		Contribution: []surface.Slot{{Name: "stance", Kind: surface.Text}},
		Statuses:     []string{"gathering", "groan", "converging", "decided"},
		Next: map[string][]string{
			"gathering":  {"groan", "converging", "decided"},
			"groan":      {"gathering", "converging", "decided"},
			"converging": {"gathering", "groan", "decided"},
			"decided":    {"gathering"},
		},
		Closing: []string{"decided"},
		Reopens: true,
		Voices:  "weighedIn",
	}
}
