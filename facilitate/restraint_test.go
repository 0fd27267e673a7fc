package facilitate_test

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/iris-operator/iris/facilitate"
	"github.com/iris-operator/iris/facilitate/policy"
	"github.com/iris-operator/iris/facilitate/surface/builtin"
)

// TestRestraint: G16. Reads testdata/restraint.txt, whose head explains it.
func TestRestraint(t *testing.T) {
	f, err := os.Open("testdata/restraint.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var a *facilitate.Agent
	cfg, name := facilitate.Config{}, ""
	dialogues, holds, held, acts, right := 0, 0, 0, 0, 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		text := sc.Text()
		switch {
		case strings.HasPrefix(text, "## "):
			a, cfg, name = nil, facilitate.Config{}, text
			dialogues++
			continue
		case text == "" || strings.HasPrefix(text, "#"):
			continue
		case strings.HasPrefix(text, "policy "):
			w := strings.Fields(text)
			if cfg.Policy, err = policy.Preset(w[1]); err != nil {
				t.Fatal(err)
			}
			if len(w) == 4 {
				cfg.Surface = builtin.Named(w[3])
			}
			continue
		}
		if a == nil {
			a = sit(t, cfg)
		}
		line, want, ok := strings.Cut(text, " = ")
		if !ok {
			t.Fatalf("no label: %q", text)
		}
		i := strings.IndexAny(line, ":>")
		ev := facilitate.Message(facilitate.ID(line[:i]), strings.TrimSpace(line[i+1:]))
		if line[i] == '>' {
			ev.Type = facilitate.TCaucus
		}
		got := kinds(run(t, a, ev))
		if got == "" {
			got = "hold"
		}
		labels := strings.Fields(want)
		good := slices.Contains(labels, got)
		if slices.Contains(labels, "hold") {
			holds++
			if good {
				held++
			}
		} else {
			acts++
			if good {
				right++
			}
		}
		if !good {
			t.Logf("%s: %q: %s, label %s", name, line, got, want)
		}
	}
	t.Logf("%d dialogues: %d of %d holds, %d of %d acts", dialogues, held, holds, right, acts)
	if dialogues < 30 || held*100 < holds*90 || right*100 < acts*80 {
		t.Errorf("%d dialogues: %d of %d holds, %d of %d acts", dialogues, held, holds, right, acts)
	}
}
