package facilitatetest_test

import (
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate/facilitatetest"
	"github.com/iris-operator/iris/facilitate/surface/builtin"
)

// TestEchoAdversaryWithEncoders: G3.
func TestEchoAdversaryWithEncoders(t *testing.T) {
	t.Parallel()
	encoders := facilitatetest.Encoders()
	if len(encoders) < 21 {
		t.Fatalf("%d encoders", len(encoders))
	}
	if small || testing.Short() {
		encoders = encoders[:3]
	}
	runs, sinks := 0, 0
	for _, s := range builtin.All() {
		for _, e := range encoders {
			leaks, seen, err := facilitatetest.Canaries(t.Context(), facilitatetest.CanaryOptions{Surface: s, Encoder: e})
			if err != nil {
				t.Fatal(err)
			}
			if seen < 50 {
				t.Errorf("%s, %s: the adversary saw %d secrets, so nothing is proved", s.Name, e.Name, seen)
			}
			for _, l := range leaks {
				t.Errorf("%s: %+v", s.Name, l)
			}
			runs++
			sinks += len(facilitatetest.Sinks)
		}
	}
	t.Logf("%d runs, %d sinks", runs, sinks)
}

// TestCompatModeLeaks: the same harness finds every forbidden sink that
// compatibility mode has reached.
func TestCompatModeLeaks(t *testing.T) {
	t.Parallel()
	for _, s := range builtin.All()[:1] {
		found := map[string]int{}
		encoders := facilitatetest.Encoders()
		if small || testing.Short() {
			encoders = encoders[:5]
		}
		for _, e := range encoders {
			leaks, _, err := facilitatetest.Canaries(t.Context(), facilitatetest.CanaryOptions{Surface: s, Encoder: e, Compat: true})
			if err != nil {
				t.Fatal(err)
			}
			for _, l := range leaks {
				found[l.Sink]++
			}
		}
		for _, sink := range facilitatetest.Sinks {
			if strings.HasSuffix(sink, " deliveries") {
				continue // compatibility mode has no port
			}
			if found[sink] == 0 {
				t.Errorf("%s: no leak into %q is found", s.Name, sink)
			}
		}
		t.Logf("%s: %v", s.Name, found)
	}
}

// TestInjectionBattery: G4.
func TestInjectionBattery(t *testing.T) {
	t.Parallel()
	inj := facilitatetest.Injections()
	if len(inj) < 60 {
		t.Fatalf("%d injections", len(inj))
	}
	step := 1
	if small || testing.Short() {
		step = 8
	}
	s, plain := builtin.Named("decisions"), facilitatetest.Encoders()[0]
	for i := 0; i < len(inj); i += step {
		for _, where := range facilitatetest.Positions {
			leaks, seen, err := facilitatetest.Canaries(t.Context(), facilitatetest.CanaryOptions{Surface: s, Encoder: plain, Inject: inj[i], Where: where, Events: 6})
			if err != nil {
				t.Fatal(err)
			}
			if seen < 20 {
				t.Errorf("%q in %s: the mind saw %d secrets", inj[i], where, seen)
			}
			for _, l := range leaks {
				t.Errorf("%q in %s: %+v", inj[i], where, l)
			}
		}
	}
}
