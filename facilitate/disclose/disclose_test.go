package disclose_test

import (
	"math"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate/disclose"
)

func TestExposureReproducesTheTheory(t *testing.T) {
	schemes := []disclose.Scheme{disclose.LiveTally, disclose.After3, disclose.Batches, disclose.ExactAtClose, disclose.WinnerAtClose}
	for _, c := range []struct {
		n, m int
		want [5][2]float64
	}{
		{3, 2, [5][2]float64{{1, 1}, {.25, 1}, {.25, 1}, {.25, 1}, {0, .75}}},
		{5, 2, [5][2]float64{{1, 1}, {1, 1}, {.062, .375}, {.062, .375}, {0, 0}}},
		{5, 3, [5][2]float64{{1, 1}, {1, 1}, {.012, .136}, {.012, .136}, {0, 0}}},
		{6, 3, [5][2]float64{{1, 1}, {1, 1}, {.210, .951}, {.004, .053}, {0, 0}}},
		{8, 2, [5][2]float64{{1, 1}, {1, 1}, {.297, 1}, {.008, .070}, {0, 0}}},
	} {
		for i, s := range schemes {
			got := disclose.Exposure(c.n, c.m, s)
			if math.Abs(got.Outsider-c.want[i][0]) > .001 || math.Abs(got.Voter-c.want[i][1]) > .001 {
				t.Errorf("%d voters, %d options, scheme %d: %.3f / %.3f, want %v", c.n, c.m, i, got.Outsider, got.Voter, c.want[i])
			}
		}
	}
}

func TestGrainDoesNotDependOnData(t *testing.T) {
	var def disclose.Policy
	for _, c := range []struct {
		p      disclose.Policy
		n      int
		closed bool
		want   disclose.Grain
	}{
		{def, 3, false, disclose.Hidden}, {def, 20, false, disclose.Hidden},
		{def, 5, true, disclose.Winner}, {def, 7, true, disclose.Winner}, {def, 8, true, disclose.Exact},
		{disclose.Policy{NExact: 6}, 6, true, disclose.Exact},
		{disclose.Policy{Open: true}, 3, false, disclose.Exact},
		{disclose.Policy{When: disclose.Live}, 3, false, disclose.Exact},
		{disclose.Policy{When: disclose.Never}, 30, true, disclose.Hidden},
	} {
		if got := c.p.Grain(c.n, c.closed); got != c.want {
			t.Errorf("%+v.Grain(%d, %v) = %v, want %v", c.p, c.n, c.closed, got, c.want)
		}
	}
}

func TestNoticeSaysWhenSecrecyCannotBePromised(t *testing.T) {
	for _, c := range []struct {
		p    disclose.Policy
		n    int
		want string
	}{
		{disclose.Policy{}, 3, "cannot be promised"}, {disclose.Policy{}, 4, "cannot be promised"}, {disclose.Policy{}, 5, "only the outcome"},
		{disclose.Policy{}, 9, "if all agree"}, {disclose.Policy{Open: true}, 9, "open ballot"},
		{disclose.Policy{When: disclose.Never}, 9, "sealed"}, {disclose.Policy{When: disclose.Live}, 9, "worked out"},
	} {
		if got := c.p.Notice(c.n); !strings.Contains(got, c.want) {
			t.Errorf("%+v.Notice(%d) = %q, want %q in it", c.p, c.n, got, c.want)
		}
	}
}

func TestLeadAndThresholds(t *testing.T) {
	if got := disclose.Lead([]string{"a", "b", "c"}, map[string]int{"a": 1, "b": 2}); got != "b" {
		t.Errorf("lead %q", got)
	}
	if got := disclose.Lead([]string{"a", "b", "c"}, map[string]int{"a": 2, "b": 2, "c": 1}); got != "tie" {
		t.Errorf("lead %q", got)
	}
	if got := disclose.Lead([]string{"a"}, nil); got != "" {
		t.Errorf("lead of nothing %q", got)
	}
	if _, ok := (disclose.Policy{}).Threshold(2); ok {
		t.Error("two of three show")
	}
	if k, ok := (disclose.Policy{}).Threshold(3); !ok || k != 3 {
		t.Error("three of three do not show")
	}
	if !disclose.Guessable(3) || disclose.Guessable(4) {
		t.Error("three others are the crowd")
	}
}
