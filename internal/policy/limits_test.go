package policy

import (
	"strings"
	"testing"
	"time"
)

// TestBounded: scripts that would take for ever, or all memory, are held soon.
func TestBounded(t *testing.T) {
	j := testJudge(t)
	for name, c := range map[string]struct {
		command string
		want    Decision
	}{
		"doubling":         {"x=aaaaaaaaaaaaaaaa; for i in {1..64}; do x=$x$x; done", Confirm},
		"appending":        {"x=a; while :; do x+=$x$x; y=${x//a/bb}; done; while :; do x+=$x$x; done", Confirm},
		"fork bomb":        {":(){ :|:& };:", Confirm},
		"deep parentheses": {strings.Repeat("(", 100) + "ls" + strings.Repeat(")", 100), Confirm},
		"deep quotes":      {strings.Repeat(`$(echo "`, 100) + strings.Repeat(`")`, 100), Confirm},
		"deep ifs":         {strings.Repeat("if x; then ", 3000) + "y" + strings.Repeat("; fi", 3000), Confirm},
		"deep minus":       {"echo $((" + strings.Repeat("- ", 60000) + "1))", Confirm},
		"deep minuses":     {"echo $((" + strings.Repeat("-+", 60000) + "1))", Confirm},
		"deep conditions":  {strings.Repeat("if ", 40000), Confirm},
		"deep functions":   {strings.Repeat("f() ", 30000) + "{ :; }", Confirm},
		"deep tests":       {"[[ " + strings.Repeat("! ", 60000) + "x ]]", Confirm},
		"braces":           {"echo " + strings.Repeat("{a,b}", 40), Allow},
		"deep braces":      {"echo " + strings.Repeat("{a,", 5000) + strings.Repeat("}", 5000), Confirm},
		"many words":       {"echo " + strings.Repeat("a ", 20000), Confirm},
		"many variables":   {manyVariables(), Confirm},
		"loops in loops":   {"for a in {1..64}; do for b in {1..64}; do for c in {1..64}; do ls $a$b$c; done; done; done", Confirm},
		"long":             {strings.Repeat("a", maxCommand+1), Confirm},
		"stars":            {"x=" + strings.Repeat("a", 4000) + "; y=${x//" + strings.Repeat("*a", 200) + "b/c}; y=${x##" + strings.Repeat("*a", 200) + "b}", Allow},
		"branches":         {strings.Repeat("if a; then x=$x$RANDOM; fi; [ $x ] && y=$x;", 300) + "echo $x$y", Allow},
		"a big pipe":       {"cat <<< '" + strings.Repeat("a b ", 20000) + "' | xargs -n1 echo", Allow},
		"unicode":          {"echo \xff\xfe", Confirm},
		"nul":              {"cat .e\x00nv", Deny},
		"marks":            {"cat \x01\x02\x03\x04.env", Allow},
	} {
		start := time.Now()
		v := j.Command(c.command, nil, testWorkspace)
		d := time.Since(start)
		t.Logf("%s: %v %s %s", name, d, v.Decision, v.Reason)
		if d > 5*time.Second {
			t.Errorf("%s: %v", name, d)
		}
		if name == "braces" || name == "branches" || v.Decision == c.want {
			continue
		}
		t.Errorf("%s = %+v, want %s", name, v, c.want)
	}
}

func manyVariables() string {
	var b strings.Builder
	for i := range 12000 {
		b.WriteString("v" + pad(int64(i), 5) + "=;(:);")
		if b.Len() > maxCommand-20 {
			break
		}
	}
	return b.String()
}
