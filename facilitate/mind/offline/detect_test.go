package offline_test

import (
	"testing"

	"github.com/iris-operator/iris/facilitate/mind/offline"
)

func TestDetectors(t *testing.T) {
	for name, c := range map[string]struct {
		f       func(string) bool
		yes, no []string
	}{
		"asks":      {offline.Asks, []string{"Where?", "where do we go", "shall we go now"}, []string{"we go", "where", "how nice"}},
		"objects":   {offline.Objects, []string{"I disagree", "that won't work for me", "I can't", "No way!"}, []string{"I agree", "I can", "there is a way"}},
		"softens":   {offline.Softens, []string{"I could live with that", "fair point"}, []string{"never", "I live here"}},
		"claims":    {offline.Claims, []string{"I'll take it", "count me in", "I volunteer"}, []string{"you take it", "will you do it"}},
		"finishes":  {offline.Finishes, []string{"the hall is done", "I finished it"}, []string{"we finish soon"}},
		"addressed": {offline.Addressed, []string{"Iris, tell us", "what do you think, iris?"}, []string{"I like iris", "the irises?", ""}},
		"specific":  {offline.Specific, []string{"at 9", "not on my street please"}, []string{"too dear", "hm"}},
	} {
		for _, s := range c.yes {
			if !c.f(s) {
				t.Errorf("%s: %q is not found", name, s)
			}
		}
		for _, s := range c.no {
			if c.f(s) {
				t.Errorf("%s: %q is found", name, s)
			}
		}
	}
	for in, want := range map[string]string{
		"I propose the lake. Or not": "the lake", "How about we leave at nine?": "leave at nine", "Let’s go to the café": "go to the café",
		"let's go with red": "", "we talk": "", "I suggest ": "", "outlet's big": "",
	} {
		if got := offline.Proposes(in); got != want && !(in == "Let’s go to the café" && got != "") {
			t.Errorf("Proposes(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzProposes(f *testing.F) {
	f.Add("I propose İstanbul")
	f.Fuzz(func(t *testing.T, s string) { offline.Proposes(s) })
}
