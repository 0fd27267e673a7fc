package redact

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Wherever a value lies, the table finds it as a plain search does.
func TestTheTableFindsWhatASearchFinds(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	letters := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abc"[rng.IntN(3)] // few, so that grams and windows repeat
		}
		return string(b)
	}
	for round := range 300 {
		tb, patterns := newTable(), []string{}
		for range 1 + round%4 {
			p := letters(window + rng.IntN(12))
			patterns = append(patterns, p)
			tb.add(p)
		}
		var text strings.Builder
		for range 6 {
			text.WriteString(letters(rng.IntN(30)))
			text.WriteString(patterns[rng.IntN(len(patterns))])
		}
		s := text.String()
		in := make([]bool, len(s))
		for _, p := range patterns {
			for i := range s {
				if strings.HasPrefix(s[i:], p) {
					for k := range p {
						in[i+k] = true
					}
				}
			}
		}
		got := make([]bool, len(s))
		for _, p := range tb.find(s) {
			for i := p.from; i < p.to; i++ {
				got[i] = true
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(in) {
			t.Fatalf("in %q with %q:\n got %v\nwant %v", s, patterns, got, in)
		}
		tb.remove(patterns[0])
		for _, p := range tb.find(patterns[0]) {
			if p.to-p.from == len(patterns[0]) && len(patterns) == 1 {
				t.Fatalf("%q is found after its removal", patterns[0])
			}
		}
	}
}
