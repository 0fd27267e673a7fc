// Package terms is the surface of a text people negotiate clause by clause. New
// words void the acceptances so far; a clause is agreed only when everybody
// accepts the same version. Redlines stay sealed until released.
package terms

import "github.com/iris-operator/iris/facilitate/surface"

// New declares the surface.
func New() *surface.Surface {
	return &surface.Surface{
		Name:  "terms",
		About: "clauses under negotiation and the version on the table",
		Shared: []surface.Field{
			{Name: "clause"},
			{Name: "text", Evidence: true},
			{Name: "version", Writer: surface.Derived},
			{Name: "status"},
		},
		Status: "status",
		Notes:  []string{"heartbeat", "read"},
		Contribution: []surface.Slot{
			{Name: "position", Kind: surface.Word, Of: []string{"accept", "live-with", "object"}},
			{Name: "redline", Kind: surface.Text, Optional: true},
		},
		Statuses: []string{"drafted", "negotiating", "agreed", "struck"},
		Next: map[string][]string{
			"drafted":     {"negotiating", "agreed", "struck"},
			"negotiating": {"drafted", "agreed", "struck"},
		},
		Closing:   []string{"agreed", "struck"},
		OwnHand:   true,
		Versioned: "text",
		VersionIn: "version",
		Count:     func(v surface.Value) []string { return []string{v.Word("position")} },
		Keys:      []string{"accept", "live-with", "object"},
		Outcome:   "outcome",
		Unanimous: "agreed",
		Agrees:    func(v surface.Value) bool { return v.Word("position") != "object" },
	}
}
