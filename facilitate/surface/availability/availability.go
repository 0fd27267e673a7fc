// Package availability is the surface of finding a time. Who is free when, and
// why not, stays sealed; a hard no takes a slot out without saying whose it is.
package availability

import "github.com/iris-operator/iris/facilitate/surface"

// New declares the surface.
func New() *surface.Surface {
	return &surface.Surface{
		Name:  "availability",
		About: "meetings that need a time, and the slots people offered",
		Shared: []surface.Field{
			{Name: "title"},
			{Name: "slots", List: true, Writer: surface.Proposer, Evidence: true, Freeze: true},
			{Name: "status", Writer: surface.Host},
			{Name: "chosen", Writer: surface.Derived},
		},
		Status: "status",
		Notes:  []string{"read"},
		Contribution: []surface.Slot{
			{Name: "free", Kind: surface.Set, Ref: "slots"},
			{Name: "prefer", Kind: surface.Set, Ref: "slots", Optional: true},
			{Name: "never", Kind: surface.Set, Ref: "slots", Optional: true},
			{Name: "reason", Kind: surface.Text, Optional: true},
		},
		Statuses: []string{"collecting", "narrowed", "fixed"},
		Next:     map[string][]string{"collecting": {"narrowed", "fixed"}, "narrowed": {"fixed"}},
		Closing:  []string{"narrowed", "fixed"},
		OwnHand:  true,
		Count:    func(v surface.Value) []string { return v.Set("free") },
		Veto:     func(v surface.Value) []string { return v.Set("never") },
		List:     "slots",
		Outcome:  "chosen",
	}
}
