package policy

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// baseline is the matcher that this package replaces: one expression for each
// class. It is here to be compared with.
type baseline struct{ deny, confirm []*regexp.Regexp }

func newBaseline() *baseline {
	const branch = `(?:refs/heads/)?(?:main|master|release/\S*)`
	const topLevel = `(?:/\*?|/(?:bin|boot|dev|etc|home|lib|opt|root|run|sbin|srv|sys|usr|var)/?\*?)`
	compile := func(list ...string) (out []*regexp.Regexp) {
		for _, e := range list {
			out = append(out, regexp.MustCompile(e))
		}
		return out
	}
	return &baseline{
		deny: compile(
			`(?:^|[^A-Za-z0-9_.\-])(?:\.env|secret\.key|secrets\.json\.enc|agents\.json)(?:$|[^A-Za-z0-9_.\-])`,
			`(?i)169\.254\.169\.254|metadata\.google\.internal|100\.100\.100\.100`),
		confirm: compile(
			`\brm\s+(?:\S+\s+)*-(?:-recursive|-force|\w*[rf]\w*)\s+(?:-\S+\s+)*`+topLevel+`(?:\s|$)`,
			`\bmkfs(?:\.\w+)?\b`,
			`\bdd\b.*\bof=/dev/`,
			`\bterraform\s+destroy\b`,
			`\bgit push\b.*(?:--force(?:-with-lease)?|\s-f)\b.*\s`+branch+`(?:\s|$)`,
			`\bgit push\b.*\s\+`+branch+`(?:\s|$)`,
			`(?:>|\btee\b|\bsed -i|\bcp\b|\bmv\b|\btouch\b|\bchmod\b|\bchown\b|\bchgrp\b|\busermod\b|\buseradd\b|\buserdel\b|\bvisudo\b|\btruncate\b|\binstall\b).*(?:/etc/passwd|sudoers|authorized_keys|sshd_config)`,
			`\bsystemctl\s+(?:disable|mask)\s+iris\.service\b`),
	}
}

func (b *baseline) judge(command string) Decision {
	for _, e := range b.deny {
		if e.MatchString(command) {
			return Deny
		}
	}
	for _, e := range b.confirm {
		if e.MatchString(command) {
			return Confirm
		}
	}
	return Allow
}

// TestBetterThanExpressions: the judge is right where one expression for each
// class is not.
func TestBetterThanExpressions(t *testing.T) {
	j, b := testJudge(t), newBaseline()
	for _, file := range []string{"policy.jsonl", "own.jsonl"} {
		right, byExpression, n := 0, 0, 0
		for _, c := range readCases(t, file) {
			if c.Arguable {
				continue
			}
			n++
			if c.judge(j).Decision == c.Want {
				right++
			}
			if b.judge(c.Command) == c.Want {
				byExpression++
			}
		}
		t.Logf("%s: %d of %d right, by expressions %d", file, right, n, byExpression)
		if right != n || byExpression >= n*9/10 {
			t.Errorf("%s: %d of %d right, by expressions %d", file, right, n, byExpression)
		}
	}
}

// BenchmarkCases is a look at every case of the file, one after the other, by the
// judge and by expressions; ns/op is the mean of one.
func BenchmarkCases(b *testing.B) {
	j, e := testJudge(b), newBaseline()
	cases := readCases(b, "policy.jsonl")
	for name, judge := range map[string]func(testCase){
		"judge":       func(c testCase) { c.judge(j) },
		"expressions": func(c testCase) { e.judge(c.Command) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			took := make([]time.Duration, 0, 1<<20)
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				judge(cases[i%len(cases)])
				if len(took) < cap(took) {
					took = append(took, time.Since(began))
				}
			}
			slices.Sort(took)
			for name, share := range map[string]int{"p50-ns": 500, "p99-ns": 990, "p999-ns": 999} {
				b.ReportMetric(float64(took[len(took)*share/1000].Nanoseconds()), name)
			}
		})
	}
}

func BenchmarkOrdinary(b *testing.B) {
	j := testJudge(b)
	commands := readOrdinary(b)
	for i := 0; b.Loop(); i++ {
		j.Command(commands[i%len(commands)], nil, testWorkspace)
	}
}

// BenchmarkHereDocument is one of 1 MB, which is over the cap and held, one just
// below the cap, which is judged, and what expressions take for the first.
func BenchmarkHereDocument(b *testing.B) {
	j, e := testJudge(b), newBaseline()
	text := func(n int) string {
		return "cat > x <<'EOF'\n" + strings.Repeat("some text with $things in it\n", n/29) + "EOF\n"
	}
	long, judged := text(1<<20), text(maxCommand-64)
	for name, judge := range map[string]func(){
		"1MB":             func() { j.Command(long, nil, testWorkspace) },
		"127KiB":          func() { j.Command(judged, nil, testWorkspace) },
		"1MB-expressions": func() { e.judge(long) },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				judge()
			}
		})
	}
}

// TestFast holds the bars with a factor for loaded machines: mean 30 µs and p99
// 1 ms for a command, 50 ms for a here-document of 1 MB.
func TestFast(t *testing.T) {
	const factor = 10
	j := testJudge(t)
	cases := readCases(t, "policy.jsonl")
	const rounds = 20
	best := make([]time.Duration, len(cases))
	var sum time.Duration
	for i, c := range cases {
		c.judge(j)
		for k := range rounds {
			start := time.Now()
			c.judge(j)
			if d := time.Since(start); k == 0 || d < best[i] {
				best[i] = d
			}
		}
		sum += best[i]
	}
	slices.Sort(best)
	mean, p99 := sum/time.Duration(len(best)), best[len(best)*99/100]
	t.Logf("mean %v, p99 %v, slowest %v", mean, p99, best[len(best)-1])
	if mean > factor*30*time.Microsecond || p99 > factor*time.Millisecond {
		t.Errorf("mean %v, p99 %v", mean, p99)
	}
	command := "cat > x <<'EOF'\n" + strings.Repeat("x\n", 1<<19) + "EOF\n"
	start := time.Now()
	v := j.Command(command, nil, testWorkspace)
	if d := time.Since(start); d > factor*50*time.Millisecond || v.Rule != "unjudged" || v.Decision != Confirm {
		t.Errorf("1 MB here-document: %v after %v", v, d)
	}
	command = command[:maxCommand-8] + "\nEOF\n"
	start = time.Now()
	if v := j.Command(command, nil, testWorkspace); v.Decision != Allow || time.Since(start) > factor*50*time.Millisecond {
		t.Errorf("here-document just below the cap: %+v after %v", v, time.Since(start))
	}
}
