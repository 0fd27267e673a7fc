package policy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/facilitate/policy"
)

func TestPresets(t *testing.T) {
	if d := cmp.Diff([]string{"coach", "facilitator", "standup", "vote-teller"}, policy.Names()); d != "" {
		t.Error(d)
	}
	core := ""
	for _, name := range policy.Names() {
		p, err := policy.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		before, after, ok := strings.Cut(p.Text, "# Your stance")
		if !ok || strings.TrimSpace(after) == "" || p.Name != name || string(p.Stance) != name {
			t.Errorf("%s: %+v", name, p)
		}
		if core != "" && core != before {
			t.Errorf("%s has another core", name)
		}
		core = before
	}
	for _, name := range []string{"core", "nope", "../policy"} {
		if _, err := policy.Preset(name); err == nil {
			t.Errorf("preset %q", name)
		}
	}
}

func TestParse(t *testing.T) {
	p, err := policy.Parse("---\r\nname: x\n# note\nstance: coach\nintents: [a, b]\nquietness: 2\nk: 4\nnexact: 9\nmirror: own-record\n---\nBe kind.\n")
	want := policy.Policy{Name: "x", Stance: policy.Coach, Intents: []string{"a", "b"}, Quietness: 2, K: 4, NExact: 9, Mirror: policy.MirrorRecord, Text: "Be kind."}
	if err != nil || !cmp.Equal(p, want) {
		t.Errorf("%v\n%s", err, cmp.Diff(want, p))
	}
	if !p.Allows("a") || p.Allows("c") {
		t.Error("intents")
	}
	if p, err := policy.Parse("Be kind."); err != nil || p.Stance != policy.Facilitator || !p.Allows("c") {
		t.Errorf("plain text: %+v %v", p, err)
	}
	for _, bad := range []string{"", "---\nstance: coach\n", "---\nmood: x\n---\ny", "---\nk: x\n---\ny", "---\nstance: tyrant\n---\ny", "---\nmirror: all\n---\ny", "---\nk: -1\n---\ny", "---\nx\n---\ny", "---\nk: 1\n---\n"} {
		if _, err := policy.Parse(bad); err == nil {
			t.Errorf("Parse(%q) works", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("---\nname: x\n---\ny")
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := policy.Parse(s); err == nil && p.Text == "" {
			t.Error("a policy without a text")
		}
	})
}
