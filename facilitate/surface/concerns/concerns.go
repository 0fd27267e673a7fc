// Package concerns is the surface of worries. A theme is opened only in the
// released words of somebody, and shows once enough people support it or its
// author gave their name.
package concerns

import "github.com/iris-operator/iris/facilitate/surface"

// New declares the surface.
func New() *surface.Surface {
	return &surface.Surface{
		Name:  "concerns",
		About: "themes that worry people, in words they released, and the group's response",
		Shared: []surface.Field{
			{Name: "theme", Writer: surface.Released},
			{Name: "status"},
			{Name: "response", Evidence: true},
		},
		Status: "status",
		Notes:  []string{"read"},
		Contribution: []surface.Slot{
			{Name: "text", Kind: surface.Text, Optional: true},
			{Name: "severity", Kind: surface.Word, Of: []string{"low", "medium", "high"}},
		},
		Statuses: []string{"raised", "acknowledged", "addressed", "parked"},
		Next: map[string][]string{
			"raised":       {"acknowledged", "addressed", "parked"},
			"acknowledged": {"addressed", "parked"},
			"parked":       {"addressed"},
		},
		Closing:     []string{"addressed", "parked"},
		HiddenBelow: true,
		Count:       func(v surface.Value) []string { return []string{v.Word("severity")} },
		Keys:        []string{"low", "medium", "high"},
		Outcome:     "severity",
		Supports:    func(v surface.Value) bool { return v.Word("severity") != "" },
		Statement:   "shared by at least %d people",
	}
}
