package facilitatetest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/facilitatetest"
	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/mind/script"
)

// TestModelHonestyKit: G25. The scenarios are data that survive being written down;
// a script that behaves, the rules, and one that tells everything it can are
// scored, in both modes, without a model.
func TestModelHonestyKit(t *testing.T) {
	data, err := json.Marshal(facilitatetest.Scenarios())
	if err != nil {
		t.Fatal(err)
	}
	var scenarios []facilitatetest.Scenario
	if err := json.Unmarshal(data, &scenarios); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(facilitatetest.Scenarios(), scenarios); d != "" {
		t.Fatalf("written down and read again:\n%s", d)
	}
	// What a gossip says in each beat: all secrets there are.
	gossip := func(sc facilitatetest.Scenario, cfg *facilitate.Config) {
		var words []string
		for _, w := range sc.Secrets {
			words = append(words, w...)
		}
		slices.Sort(words)
		all := strings.Join(words, " and ")
		many := func(s string) []string { return slices.Repeat([]string{s}, 40) }
		items := fmt.Sprintf(`{"items":[{"id":"gossip","title":%q,"question":%q}],"privateNotes":[{"id":"ana","interest":%q},{"id":"di","interest":%q}]}`, all, all, all, all)
		cfg.Mind = script.New(script.Answers{Reflect: many(items)})
	}
	rules := func(facilitatetest.Scenario, *facilitate.Config) {}
	quiet := func(_ facilitatetest.Scenario, cfg *facilitate.Config) { cfg.Mind = script.New(script.Answers{}) }
	for _, c := range []struct {
		name     string
		compat   bool
		sit      func(facilitatetest.Scenario, *facilitate.Config)
		leaks    bool
		complete float64 // at least
	}{
		{"rules", false, rules, false, 1},
		{"silence", false, quiet, false, 0},
		{"silence", true, quiet, false, 0},
		{"gossip", false, gossip, false, 0},
		{"gossip", true, gossip, true, 0},
	} {
		all, sum, err := facilitatetest.Honesty(t.Context(), scenarios, c.compat, c.sit)
		if err != nil {
			t.Fatal(err)
		}
		if (sum.Leaked > 0) != c.leaks || sum.Checked < 40 || sum.Scenarios != len(scenarios) || sum.Completion() < c.complete {
			t.Errorf("%s, compat %v: %+v\n%+v", c.name, c.compat, sum, all)
		}
		t.Logf("%s, compat %v: leak rate %.2f, completion %.2f", c.name, c.compat, sum.LeakRate(), sum.Completion())
	}
	// Nothing done is seen: silence does not pass for a good facilitator.
	_, sum, _ := facilitatetest.Honesty(t.Context(), scenarios, false, quiet)
	if sum.Done > 1 { // the vote closes by itself
		t.Errorf("a mind that does nothing completes %d tasks", sum.Done)
	}
	scenarios[0].Surface = "nothing"
	if _, _, err := facilitatetest.Honesty(t.Context(), scenarios, false, quiet); err == nil {
		t.Error("a scenario on no surface")
	}
}

// A model is scored on the scenarios, in the mode that is safe and in the one that
// is not. Any function is a model; package model has adapters for live ones.
func ExampleHonesty() {
	quiet := func(context.Context, flow.Request) (flow.Response, error) {
		return flow.Response{Text: `{"items":[],"record":{},"notes":[],"choice":{"tool":"none","rationale":"I listen"}}`}, nil
	}
	for _, compat := range []bool{false, true} {
		_, sum, err := facilitatetest.Honesty(context.Background(), facilitatetest.Scenarios(), compat, func(_ facilitatetest.Scenario, cfg *facilitate.Config) { cfg.Model = quiet })
		fmt.Printf("compat %v: leak rate %.2f over %d scenarios %v\n", compat, sum.LeakRate(), sum.Scenarios, err)
	}
	// Output:
	// compat false: leak rate 0.00 over 6 scenarios <nil>
	// compat true: leak rate 0.00 over 6 scenarios <nil>
}

// The worst mind there is, on a surface: nothing that was told in private may be
// found where it must not be, and it must have seen secrets for that to count.
func ExampleCanaries() {
	leaks, seen, err := facilitatetest.Canaries(context.Background(), facilitatetest.CanaryOptions{
		Surface: facilitatetest.Surface("decisions"), Encoder: facilitatetest.Encoders()[1],
	})
	fmt.Println(len(leaks), seen > 50, err)
	// Output: 0 true <nil>
}

// Random histories, each played twice with other secrets: whoever's own inputs are
// the same reads the same bytes.
func ExampleTwoRun() {
	pairs, diffs, _, err := facilitatetest.TwoRun(context.Background(), facilitatetest.Fresh("poll"), 1, 5, 20, nil)
	fmt.Println(pairs > 50, len(diffs), err)
	// Output: true 0 <nil>
}

// Every vote vector of four voters over two options through a real room: what can
// be worked out is what the policy of the surface must give away.
func ExampleBallots() {
	got, err := facilitatetest.Ballots(context.Background(), 4, 2, facilitatetest.Fresh("poll"), func(label string) map[string]any { return map[string]any{"vote": label} })
	fmt.Println(got.Outsider, err)
	// Output: 0 <nil>
}
