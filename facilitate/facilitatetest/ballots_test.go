package facilitatetest_test

import (
	"math"
	"testing"

	"github.com/iris-operator/iris/facilitate/disclose"
	"github.com/iris-operator/iris/facilitate/facilitatetest"
	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/surface/poll"
)

func vote(label string) map[string]any { return map[string]any{"vote": label} }

// TestBallotsEnumerated: G7. What a real room gives away is exactly what the
// announced policy must.
func TestBallotsEnumerated(t *testing.T) {
	t.Parallel()
	sizes := [][2]int{{3, 2}, {5, 2}, {5, 3}, {6, 3}, {7, 2}, {8, 2}, {8, 3}}
	if small || testing.Short() {
		sizes = sizes[:3]
	}
	for _, c := range sizes {
		n, m := c[0], c[1]
		theory := disclose.Exposure(n, m, disclose.WinnerAtClose)
		if n >= 8 {
			theory = disclose.Exposure(n, m, disclose.ExactAtClose)
		}
		got, err := facilitatetest.Ballots(t.Context(), n, m, poll.New, vote)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.Outsider-theory.Outsider) > 1e-9 || math.Abs(got.Voter-theory.Voter) > 1e-9 {
			t.Errorf("%d voters, %d options: %+v, theory %+v", n, m, got, theory)
		}
		t.Logf("%d voters, %d options: outsider %.3f, voter %.3f", n, m, got.Outsider, got.Voter)
	}
}

// TestBallotsFindTheLiveTally: the same measure on a live count finds that
// every vote can be worked out.
func TestBallotsFindTheLiveTally(t *testing.T) {
	t.Parallel()
	live := func() *surface.Surface {
		s := poll.New()
		s.Policy.When = disclose.Live
		return s
	}
	got, err := facilitatetest.Ballots(t.Context(), 4, 2, live, vote)
	if err != nil || got.Outsider != 1 || got.Voter != 1 {
		t.Errorf("%+v %v", got, err)
	}
}
