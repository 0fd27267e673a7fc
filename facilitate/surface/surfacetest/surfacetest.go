// Package surfacetest is the conformance kit for surfaces: one call gives a new
// surface the confidentiality, ballot and drift tests that the built-in ones
// pass.
package surfacetest

import (
	"math/rand/v2"
	"testing"

	"github.com/iris-operator/iris/facilitate/beat"
	"github.com/iris-operator/iris/facilitate/disclose"
	"github.com/iris-operator/iris/facilitate/facilitatetest"
	"github.com/iris-operator/iris/facilitate/surface"
)

// Run puts a surface to the test. fresh returns a new declaration each time.
func Run(t *testing.T, fresh func() *surface.Surface) {
	t.Helper()
	if err := fresh().Validate(); err != nil {
		t.Fatal(err)
	}
	t.Run("two runs with other secrets look alike", func(t *testing.T) {
		_, diffs, _, err := facilitatetest.TwoRun(t.Context(), fresh, 100, 6, 20, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range diffs {
			t.Errorf("history %d, event %d: %s differs", d.Seed, d.Step, d.Where)
		}
	})
	t.Run("the adversary reaches no forbidden sink", func(t *testing.T) {
		for _, e := range facilitatetest.Encoders()[:4] {
			leaks, seen, err := facilitatetest.Canaries(t.Context(), facilitatetest.CanaryOptions{Surface: fresh(), Encoder: e})
			if err != nil || seen == 0 {
				t.Fatalf("saw %d: %v", seen, err)
			}
			for _, l := range leaks {
				t.Errorf("%+v", l)
			}
		}
	})
	t.Run("ballots give away what the policy must and no more", func(t *testing.T) { ballots(t, fresh) })
	t.Run("malformed answers and contributions are survived", func(t *testing.T) { drift(t, fresh()) })
	t.Run("tallies ignore order", func(t *testing.T) { order(t, fresh()) })
}

// ballots runs where votes on the options of a list close by hand.
func ballots(t *testing.T, fresh func() *surface.Surface) {
	s := fresh()
	slot := ""
	for _, c := range s.Contribution {
		if c.Kind == surface.Option {
			slot = c.Name
		}
	}
	if slot == "" || s.Count == nil || s.Policy.When != disclose.AtClose || len(s.Closing) == 0 {
		t.Skip("no secret vote on options")
	}
	theory := disclose.Exposure(5, 2, disclose.WinnerAtClose)
	if 5 >= s.Policy.Defaults().NExact {
		theory = disclose.Exposure(5, 2, disclose.ExactAtClose)
	}
	got, err := facilitatetest.Ballots(t.Context(), 5, 2, fresh, func(label string) map[string]any { return map[string]any{slot: label} })
	if err != nil || got != theory {
		t.Errorf("%+v, theory %+v, %v", got, theory, err)
	}
}

func drift(t *testing.T, s *surface.Surface) {
	r := rand.New(rand.NewPCG(1, 2))
	junk := []any{nil, true, 3.5, "x", []any{}, []any{1.0, nil, map[string]any{}}, map[string]any{"a": nil}, "__proto__", string(make([]byte, 5000))}
	for range 500 {
		raw := map[string]any{}
		for _, c := range s.Contribution {
			raw[c.Name] = junk[r.IntN(len(junk))]
		}
		if v, err := s.Check(raw, map[string][]string{}); err == nil {
			s.Tally([]surface.Value{v, nil})
		}
	}
	base := beat.Encode(facilitatetest.Delta(s), s)
	if d, _, err := beat.Room(base, s); err != nil || len(d.Items) != 1 {
		t.Errorf("a plain answer: %+v %v", d, err)
	}
	lost := 0
	for range 500 {
		b := []byte(base)
		for range 1 + r.IntN(3) {
			b[r.IntN(len(b))] = "{}[]\",: x"[r.IntN(9)]
		}
		if d, _, err := beat.Room(string(b), s); err != nil || len(d.Items) == 0 {
			lost++
		}
	}
	if lost > 250 {
		t.Errorf("%d of 500 answers with a few broken bytes give nothing", lost)
	}
}

func order(t *testing.T, s *surface.Surface) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		vs := facilitatetest.Values(r, s, 6)
		a, av, as := s.Tally(vs)
		r.Shuffle(len(vs), func(i, j int) { vs[i], vs[j] = vs[j], vs[i] })
		b, bv, bs := s.Tally(vs)
		if as != bs || len(a) != len(b) || len(av) != len(bv) {
			t.Fatalf("%v %v", a, b)
		}
		for k := range a {
			if a[k] != b[k] {
				t.Fatalf("%v %v", a, b)
			}
		}
	}
}
