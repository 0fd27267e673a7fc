package policy

import (
	"os"
	"strings"
	"testing"
)

// readOrdinary reads one command per line; \n in a line with a here-document is
// a newline.
func readOrdinary(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile("testdata/ordinary.txt")
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		if strings.Contains(line, "<<'") {
			line = strings.ReplaceAll(line, `\n`, "\n")
		}
		commands = append(commands, line)
	}
	return commands
}

// TestOrdinaryCommandsPass: what people run every day is never in the way.
func TestOrdinaryCommandsPass(t *testing.T) {
	j := testJudge(t)
	commands := readOrdinary(t)
	if len(commands) < 300 {
		t.Errorf("%d ordinary commands, want at least 300", len(commands))
	}
	env := []string{"HOME=/home/iris", "PATH=/usr/bin:/bin", "USER=iris", "LANG=C.UTF-8"}
	for _, c := range commands {
		for _, e := range [][]string{nil, env} {
			if v := j.Command(c, e, testWorkspace); v.Decision != Allow {
				t.Errorf("Command(%q) = %+v, want allow", c, v)
			}
		}
	}
}
