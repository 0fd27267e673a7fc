// Package tasks is the surface of work and who took it. A person is assigned
// only by their own claim; what blocks them shows as a number from three on,
// and in words only through a release.
package tasks

import "github.com/iris-operator/iris/facilitate/surface"

// New declares the surface.
func New() *surface.Surface {
	return &surface.Surface{
		Name:  "tasks",
		About: "pieces of work, who claimed them, and where they stand",
		Shared: []surface.Field{
			{Name: "title"},
			{Name: "assignee", Writer: surface.Proposer, Evidence: true},
			{Name: "due", Evidence: true},
			{Name: "status"},
			{Name: "blockedBy", List: true},
		},
		Status: "status",
		Notes:  []string{"heartbeat", "read"},
		Contribution: []surface.Slot{
			{Name: "load", Kind: surface.Number, Max: 5, Optional: true},
			{Name: "blocker", Kind: surface.Text, Optional: true},
			{Name: "can", Kind: surface.Flag, Optional: true},
		},
		Statuses: []string{"open", "claimed", "doing", "blocked", "done", "dropped"},
		Next: map[string][]string{
			"open":    {"claimed", "doing", "blocked", "done", "dropped"},
			"claimed": {"open", "doing", "blocked", "done", "dropped"},
			"doing":   {"open", "blocked", "done", "dropped"},
			"blocked": {"open", "claimed", "doing", "done", "dropped"},
			"done":    {"open"},
			"dropped": {"open"},
		},
		Closing:   []string{"done", "dropped"},
		Reopens:   true,
		Supports:  func(v surface.Value) bool { return v.Word("blocker") != "" },
		Statement: "at least %d people report a blocker",
	}
}
