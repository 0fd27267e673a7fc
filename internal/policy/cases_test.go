package policy

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// A testCase is a line of testdata/*.jsonl.
type testCase struct {
	Command  string   `json:"command"`
	Want     Decision `json:"want"`
	Why      string   `json:"why"`
	Rule     string   `json:"rule"`
	Arguable bool     `json:"arguable"`
	// Cwd and Env are the workspace and nothing where they are not given.
	Cwd string   `json:"cwd"`
	Env []string `json:"env"`
}

func readCases(t testing.TB, file string) []testCase {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var cases []testCase
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var c testCase
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("%s: %v: %s", file, err, lines.Text())
		}
		cases = append(cases, c)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return cases
}

const testWorkspace = "/iris/data"

func testJudge(t testing.TB) *Judge {
	t.Helper()
	j, err := New(Options{Workspace: testWorkspace, Home: "/home/iris"})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func (c testCase) judge(j *Judge) Verdict {
	cwd := c.Cwd
	if cwd == "" {
		cwd = testWorkspace
	}
	return j.Command(c.Command, c.Env, cwd)
}

// TestSharedCases holds the judge to the whole case file.
func TestSharedCases(t *testing.T) {
	j := testJudge(t)
	wrong, arguable := 0, 0
	for _, c := range readCases(t, "policy.jsonl") {
		v := c.judge(j)
		switch {
		case v.Decision == c.Want && (v.Decision == Allow || v.Rule == c.Rule):
		case c.Arguable:
			arguable++
			t.Logf("arguable: %q = %v (%s: %s), the file says %s: %s", c.Command, v.Decision, v.Rule, v.Reason, c.Want, c.Why)
		default:
			wrong++
			t.Errorf("%q = %v (%s: %s), want %s (%s): %s", c.Command, v.Decision, v.Rule, v.Reason, c.Want, c.Rule, c.Why)
		}
	}
	if arguable > 1 {
		t.Errorf("%d arguable cases judged otherwise, want at most 1", arguable)
	}
}

// TestOwnCases covers every gap that the specification lists.
func TestOwnCases(t *testing.T) {
	j := testJudge(t)
	cases := readCases(t, "own.jsonl")
	if len(cases) < 250 {
		t.Errorf("%d cases, want at least 250", len(cases))
	}
	for _, c := range cases {
		if v := c.judge(j); v.Decision != c.Want || v.Decision != Allow && v.Rule != c.Rule {
			t.Errorf("%q = %v (%s: %s), want %s (%s): %s", c.Command, v.Decision, v.Rule, v.Reason, c.Want, c.Rule, c.Why)
		}
	}
}
