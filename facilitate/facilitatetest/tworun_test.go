package facilitatetest_test

import (
	"testing"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/facilitatetest"
	"github.com/iris-operator/iris/facilitate/surface"
	"github.com/iris-operator/iris/facilitate/surface/builtin"
)

// TestTwoRunNonInterference: G1 and G2.
func TestTwoRunNonInterference(t *testing.T) {
	t.Parallel()
	histories := 84
	if small || testing.Short() {
		histories = 10
	}
	pairs, seen := 0, map[string]int{}
	for _, s := range builtin.All() {
		name := s.Name
		n, diffs, types, err := facilitatetest.TwoRun(t.Context(), func() *surface.Surface { return builtin.Named(name) }, 1, histories, 24, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		pairs += n
		for typ, k := range types {
			seen[typ] += k
		}
		for _, d := range diffs[:min(len(diffs), 3)] {
			t.Errorf("%s, history %d, event %d: %s differs\n%s\n---\n%s", name, d.Seed, d.Step, d.Where, d.A, d.B)
		}
	}
	t.Logf("%d pairs, notices %v", pairs, seen)
	for _, typ := range []string{"message", "message.edited", "board", "release", "presence", "caucus", "consent.ask", "receipt", "own.contribution"} {
		if seen[typ] == 0 {
			t.Errorf("the histories never bring about %q", typ)
		}
	}
	if !small && !testing.Short() && pairs < 10_000 {
		t.Errorf("%d pairs, want 10,000", pairs)
	}
}

// TestTwoRunFindsTheLeakOfCompatMode: a checker that cannot fail proves nothing.
func TestTwoRunFindsTheLeakOfCompatMode(t *testing.T) {
	t.Parallel()
	_, diffs, _, err := facilitatetest.TwoRun(t.Context(), func() *surface.Surface { return builtin.Named("decisions") }, 1, 3, 20, func(c *facilitate.Config) { c.Compat = true })
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, d := range diffs {
		found[d.Where] = true
	}
	for _, where := range []string{"room context", "board", "room notices", "room export", "room prompts", "person context"} {
		if !found[where] {
			t.Errorf("the leak into %q is not found: %v", where, found)
		}
	}
}
