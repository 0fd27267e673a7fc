package surfacetest_test

import (
	"testing"

	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/surface/surfacetest"
)

// One call puts a surface of one's own to the tests of confidentiality, ballots and
// drift that the built-in ones pass. fresh declares it anew each time.
func ExampleRun() {
	fresh := func() *surface.Surface {
		return &surface.Surface{
			Name: "names", About: "what to call it",
			Shared: []surface.Field{
				{Name: "thing"},
				{Name: "names", List: true, Writer: surface.Proposer, Evidence: true, Freeze: true},
				{Name: "status", Writer: surface.Host},
				{Name: "best", Writer: surface.Derived},
			},
			Status: "status", Statuses: []string{"open", "closed"}, Next: map[string][]string{"open": {"closed"}}, Closing: []string{"closed"},
			Contribution: []surface.Slot{{Name: "pick", Kind: surface.Option, Ref: "names"}}, OwnHand: true,
			Count: func(v surface.Value) []string { return []string{v.Word("pick")} }, List: "names", Outcome: "best",
		}
	}
	_ = func(t *testing.T) { surfacetest.Run(t, fresh) } // in a test of the surface's package
}
