package surfacetest_test

import (
	"testing"

	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/surface/builtin"
	"github.com/iris-operator/iris/facilitate/surface/surfacetest"
)

func TestBuiltinSurfaces(t *testing.T) {
	for _, s := range builtin.All() {
		t.Run(s.Name, func(t *testing.T) {
			surfacetest.Run(t, func() *surface.Surface { return builtin.Named(s.Name) })
		})
	}
}

// TestASurfaceOfOnesOwn: a stranger's surface gets the tests from one call.
func TestASurfaceOfOnesOwn(t *testing.T) {
	surfacetest.Run(t, func() *surface.Surface {
		return &surface.Surface{
			Name: "names", About: "what to call it",
			Shared: []surface.Field{{Name: "thing"}, {Name: "names", List: true, Writer: surface.Proposer, Evidence: true, Freeze: true},
				{Name: "status", Writer: surface.Host}, {Name: "best", Writer: surface.Derived}},
			Status: "status", Statuses: []string{"open", "closed"}, Next: map[string][]string{"open": {"closed"}}, Closing: []string{"closed"},
			Contribution: []surface.Slot{{Name: "pick", Kind: surface.Option, Ref: "names"}}, OwnHand: true,
			Count: func(v surface.Value) []string { return []string{v.Word("pick")} }, List: "names", Outcome: "best",
		}
	})
}
