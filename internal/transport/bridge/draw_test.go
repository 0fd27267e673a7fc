package bridge

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// Spec 16 #1: one line per tool call, also when the runner tells of the call in a
// status of its own, before or after, and also when two calls have one label.
func TestOneLinePerToolCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		p := start(t, setup{})
		x := p.stream(ask("k", "status → list", "tool list", "tool list", "status _→ list_", "status → read", "status → list", "tool read", "tool list", "tool alone", "tool alone", "status → x", "status → x", "final ok"))
		synctest.Wait()
		<-x.ended
		want := []string{"accepted", "1 → list", "2 → list", "3 → read", "4 → list", "5 → alone", "6 → alone", "7 → x", "8 → x", "9 final ok"}
		if diff := cmp.Diff(want, words(x.lines(t))); diff != "" {
			t.Errorf("lines (-want +got):\n%s", diff)
		}
	})
}
