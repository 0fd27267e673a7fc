package policy

import (
	"testing"
	"time"
)

// FuzzCommand: no input makes the judge panic or hang, and the same input gets
// the same verdict twice.
func FuzzCommand(f *testing.F) {
	j := testJudge(f)
	for _, file := range []string{"policy.jsonl", "own.jsonl"} {
		for i, c := range readCases(f, file) {
			if i%4 == 0 {
				f.Add(c.Command)
			}
		}
	}
	f.Fuzz(func(t *testing.T, command string) {
		start := time.Now()
		v := j.judgeOpen(command)
		if d := time.Since(start); d > 5*time.Second {
			t.Errorf("%v for %q", d, command)
		}
		if again := j.judgeOpen(command); again != v {
			t.Errorf("%+v, then %+v", v, again)
		}
		if (v.Decision == Allow) != (v.Reason == "") || v.Decision == Allow && v.Rule != "" {
			t.Errorf("verdict %+v is not whole", v)
		}
	})
}

// judgeOpen judges without the recover that Command has.
func (j *Judge) judgeOpen(command string) Verdict {
	if len(command) > maxCommand {
		return unjudged("it is long")
	}
	return j.open(command, nil, testWorkspace, nil)
}
