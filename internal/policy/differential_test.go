package policy

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// long makes the differential test run the number of commands that the bars ask
// for.
var long = flag.Bool("policy.long", false, "run the long differential test")

// TestAgreesWithBash runs generated commands in real bash and checks that the
// evaluator's idea of every argument vector is what bash saw.
func TestAgreesWithBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	n := 2_000
	if *long {
		n = 24_000
	}
	const batch = 500
	empty := t.TempDir() // where no glob matches
	agreed, vague := 0, 0
	for seed := 0; seed*batch < n; seed++ {
		commands := make([]string, batch)
		for i := range commands {
			g := generator{rand.New(rand.NewPCG(uint64(seed), uint64(i))), *long}
			commands[i] = g.script()
		}
		saw := runInBash(t, bash, empty, commands)
		for i, c := range commands {
			mine, judged := evaluated(t, c, empty)
			switch {
			case !judged:
				vague++ // what the parser does not take is held
			case strings.Contains(fmt.Sprint(mine), someText):
				vague++
			case slices.EqualFunc(mine, saw[i], slices.Equal[[]string]):
				agreed++
			default:
				t.Errorf("command %d/%d:\n%s\nbash saw  %q\nthe judge %q", seed, i, c, saw[i], mine)
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d agreed, %d were not wholly known", agreed, vague)
	if vague > n/50 {
		t.Errorf("%d of %d commands were not wholly known", vague, n)
	}
}

// diffEnv is the environment of both sides.
var diffEnv = []string{"HOME=/home/iris", "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8", "SET=in env", "GLOB=*.nothing"}

// evaluated lists the argument vectors that the evaluator sees "argv" called with.
func evaluated(t *testing.T, command, dir string) (calls [][]string, judged bool) {
	t.Helper()
	v := testJudge(t).judge(command, diffEnv, dir, func(args []string) {
		call := make([]string, len(args))
		for i, a := range args {
			call[i] = plain(a)
		}
		calls = append(calls, call)
	})
	if v.Decision != Allow && v.Rule != ruleUnjudged {
		t.Errorf("%s\n= %+v, want allow", command, v)
	}
	return calls, v.Decision == Allow
}

// runInBash runs the commands, each in a subshell, in one bash.
func runInBash(t *testing.T, bash, dir string, commands []string) [][][]string {
	t.Helper()
	var script strings.Builder
	// Words end in NUL, calls in \x1e NUL, commands in \x1d NUL.
	script.WriteString("argv() { (($#)) && printf '%s\\0' \"$@\" >&9; printf '\\036\\0' >&9; }\nexec 9>&1\n")
	for _, c := range commands {
		// No subshell: a fork for each command would take most of the time.
		script.WriteString("unset x y z a m n p q l r i UNSET IFS; unset -f f; set --\n{ eval " + quote(c) + "\n} </dev/null >/dev/null 2>&1\nprintf '\\035\\0' >&9\n")
	}
	file := filepath.Join(t.TempDir(), "commands.sh")
	if err := os.WriteFile(file, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bash, "--noprofile", "--norc", file)
	cmd.Env = diffEnv
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("bash: %v: %s", err, errs.String())
	}
	all := make([][][]string, 0, len(commands))
	var calls [][]string
	var call []string
	for word := range strings.SplitSeq(strings.TrimSuffix(out.String(), "\x00"), "\x00") {
		switch word {
		case "\x1e":
			calls = append(calls, call)
			call = nil
		case "\x1d":
			all = append(all, calls)
			calls = nil
		default:
			call = append(call, word)
		}
	}
	if len(all) != len(commands) {
		t.Fatalf("bash answered %d of %d commands: %s", len(all), len(commands), errs.String())
	}
	return all
}

// A generator makes benign commands whose every word is decided.
type generator struct {
	*rand.Rand
	// long makes more substitutions, some of them with programs.
	long bool
}

func (g generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g generator) atom() string {
	return g.pick("a", "b", "foo", "x.y", "k=v", "-n", "--opt", "-", "1", "10", "007", "A_B", "ü", "a-b", "%", "@", "+", ",", "..", "/no/such", "a/b/c.txt", "path/to.d/file.tar.gz")
}

// script makes some statements.
func (g generator) script() string {
	var b strings.Builder
	b.WriteString(g.pick("x='one two'; y=abc; z=; a=(p 'q r' s); ", "x=a/b/c.tar.gz; y='  lead  trail '; a=(1 2 3); ", "y=AbC; x=1:2::3; a=(); "))
	for range 1 + g.IntN(3) {
		b.WriteString(g.statement(0))
		b.WriteString(g.pick("; ", "\n", " && ", "; "))
	}
	b.WriteString("argv end")
	return b.String()
}

func (g generator) statement(depth int) string {
	if depth > 2 {
		return g.call()
	}
	inner := func() string { return g.statement(depth + 1) }
	switch g.IntN(34) {
	case 0:
		return "for i in " + g.words() + "; do " + inner() + "; argv \"$i\" $i; done"
	case 1:
		return "if [ " + g.test() + " ]; then " + inner() + "; else " + inner() + "; fi"
	case 2:
		return "if [[ " + g.longTest() + " ]]; then " + inner() + "; else " + inner() + "; fi"
	case 3:
		return "f() { argv \"$#\" \"$@\"; argv $1 \"$2\" $*; }; f " + g.words()
	case 4:
		return "f() { local x=" + g.quotedWord() + "; argv \"$x\"; }; f; argv \"$x\""
	case 5:
		return "case " + g.word() + " in " + g.pick("a*", "*.y", "f?o", "[ab]", "foo|b", "'*'", "$y") + ") " + inner() + ";; *) " + inner() + ";; esac"
	case 6:
		return "x=" + g.quotedWord() + "; argv $x \"$x\""
	case 7:
		return "y=" + g.word() + "; argv \"$y\""
	case 8:
		return "while read -r l r; do argv \"$l\" \"$r\"; done <<< " + g.quotedWord()
	case 9:
		return "read -r p q <<< \"" + g.pick("a b c", " a  b ", "a", "$x", "$y z") + "\"; argv \"$p\" \"$q\""
	case 10:
		return "(x=sub; " + inner() + "); argv \"$x\""
	case 11:
		return "{ " + inner() + "; " + inner() + "; }"
	case 12:
		return "true && " + inner()
	case 13:
		return "false || " + inner()
	case 14:
		return "! false && " + inner()
	case 15:
		return "set -- " + g.words() + "; argv $# \"$@\"; shift; argv \"$1\" $*"
	case 16:
		return "for ((i=0; i<" + g.pick("2", "3", "5-2") + "; i++)); do argv $i $((i*2)); done"
	case 17:
		return "a=(" + g.words() + "); argv \"${a[@]}\" ${#a[@]} \"${a[0]}\" \"${a[-1]}\"; a+=(more); argv \"${a[*]}\""
	case 18:
		return "eval " + g.pick("'argv $x'", "argv '\"$y\"'", "\"argv ${y}\"", "\"argv a b\"")
	case 19:
		return "printf -v z " + g.pick("'%s-%s' a b", "'%03d' 7", "%s \"$x\"", "'%x' 255", "'a\\tb'") + "; argv \"$z\""
	case 20:
		return "IFS=" + g.pick(":", ",", "' '", ":,") + "; argv $x; unset IFS"
	case 21:
		return "((n=" + g.arith(0) + ")); argv $n"
	case 22:
		return "declare -A m=([k]=v1 [j]='v 2'); argv \"${m[k]}\" \"${m[j]}\""
	case 24:
		return "a=(u v); a[1]=" + g.quotedWord() + "; a[" + g.pick("0", "1", "1-1") + "]=" + g.word() + "; argv \"${a[@]}\" \"${!a[@]}\""
	case 25:
		return "w=" + g.pick("x", "y", "SET") + "; argv \"${!w}\" ${!w}"
	case 26:
		return "for i in 1 2 3; do " + g.pick("[ $i = 2 ] && continue", "[[ $i == 2 ]] && break", "((i==2)) && continue", "if ((i>1)); then break; fi") + "; " + inner() + "; argv $i; done"
	case 27:
		return "declare -A m=(); m[k]=" + g.quotedWord() + "; m[j]=2; m[k]+=x; argv \"${m[k]}\" \"${m[j]}\" ${#m[@]}"
	case 28:
		return "f() { [ \"$1\" = a ] && return 1; argv got \"$1\"; return; }; f " + g.word() + " || argv failed; f a || argv failed"
	case 29:
		return "mapfile -t a <<< " + g.quotedWord() + "; argv ${#a[@]} \"${a[@]}\""
	case 31:
		return "case " + g.pick("ab1", "A", "_", "' '", "9z") + " in [[:alpha:]]*) argv alpha;; [[:digit:]]*) argv digit;; [![:space:]]) argv other;; *) argv none;; esac"
	case 32:
		return "argv \"$(g_() { echo in; }; g_)\"; x=1 y=2 eval 'argv $x $y'; argv $x"
	case 33:
		return "IFS=: read -r p q <<< " + g.pick("a:b:c", "a", ":b", "'a b:c'") + "; argv \"$p\" \"$q\"; local_=$((n+=2)); argv $local_ $n"
	case 23:
		return "until true; do argv no; done; " + inner()
	}
	return g.call()
}

func (g generator) call() string { return "argv " + g.words() }

func (g generator) words() string {
	w := make([]string, 1+g.IntN(4))
	for i := range w {
		w[i] = g.word()
	}
	return strings.Join(w, " ")
}

func (g generator) word() string {
	if g.IntN(50) == 0 {
		return g.pick("x=~/d", "x=~", "~", "~+/x")
	}
	var b strings.Builder
	for range 1 + g.IntN(2) {
		b.WriteString(g.part())
	}
	return b.String()
}

func (g generator) quotedWord() string {
	return g.pick("'a b'", "\"$x\"", "\"a $y b\"", "'$x'", "\"\"", "$'t\\tn'", "\"\\$x \\\"q\\\"\"", "a\\ b", "'*'", g.atom())
}

func (g generator) part() string {
	switch g.IntN(16) {
	case 0, 1, 2:
		return g.atom()
	case 3, 4:
		return g.quotedWord()
	case 5:
		return g.pick("$x", "${x}", "\"${x}\"", "$z", "\"$z\"", "$UNSET", "\"$UNSET\"", "$SET", "\"$SET\"", "$GLOB", "\"$GLOB\"")
	case 6:
		return g.pick("{a,b}", "{1..3}", "x{a,b}y", "{a,b}{c,d}", "{a,{b,c}}", "{3..1}", "{a..e..2}", "{01..03}", "{a}", "{,q}", "a{b", "{-1..1}", "\\{a,b}", "'{a,b}'", "{x,\"y z\"}", "{$y,1}")
	case 7:
		return "$((" + g.arith(0) + "))"
	case 8:
		if g.long && g.IntN(4) == 0 {
			return g.pick("$(echo abc | tr a-c A-C)", "$(echo abc | rev)", "$(basename a/b.c .c)", "$(dirname a/b/c)", "$(seq 3)", "$(echo aGk= | base64 -d)", "$(cat <<< 'here str')", "$(printf 'a:b\n' | cut -d: -f2)")
		}
		if !g.long && g.IntN(6) > 0 {
			return g.expansion() // a substitution is a fork, which is slow
		}
		return g.pick("$(echo hi)", "$(echo a b)", "\"$(echo 'a  b')\"", "`echo back`", "$(printf '%s\\n' l1 l2)", "\"$(printf 'n\\n\\n')\"", "$(echo $(echo deep))", "$(argv inner >&2; echo out)", "\"$(echo \"q $x\")\"", "$(echo -n n)", "$(echo -e 'a\\x41')", "$(:)", "$(for i in 1 2; do echo $i; done)")
	case 9, 10:
		return g.expansion()
	case 11:
		return "\"" + g.expansion() + "\""
	case 12:
		return g.pick("\"${a[@]}\"", "${a[@]}", "\"${a[*]}\"", "${#a[@]}", "\"${a[1]}\"", "${a[0]}", "\"p${a[@]}s\"", "\"${a[@]:1}\"", "${a[@]:0:2}")
	case 13:
		return g.pick("\\a", "\\ ", "\\\\", "\\'", "\\\"", "\\$x", "\\*", "\\~", "a\\\nb")
	case 14:
		return g.pick("$'a\\nb'", "$'\\x41\\102\\u0043'", "$'\\''", "$'\\e\\a'", "$\"loc\"", "'a'\"b\"c")
	}
	return g.pick("no*match", "no?x", "no[zq]", "*.nothing", "\"*\"", "~/d", "~/", "a~", "~nosuchuser.x", "!", "a#b", "^")
}

func (g generator) expansion() string {
	return g.pick("${x:-d}", "${UNSET:-d e}", "${UNSET-d}", "${z:-e}", "${z-e}", "${x:+alt}", "${z:+alt}", "${z+alt}", "${UNSET+alt}",
		"${x#*/}", "${x##*/}", "${x%/*}", "${x%%/*}", "${x%.gz}", "${x#a}", "${x%%.*}", "${y^}", "${y^^}", "${y,}", "${y,,}", "${#x}", "${#y}",
		"${x/a/Z}", "${x//a/Z}", "${x/#a/Z}", "${x/%z/Z}", "${x/o}", "${y:1}", "${y:1:1}", "${y: -1}", "${y:0:-1}", "${x/[a-c]/_}", "${x//[a-c]/_}", "${x//\\//-}",
		"${UNSET:=new}", "${x:-\"q r\"}", "${UNSET:-'s t'}", "${y@U}", "${y@L}", "${x:-${y}}", "${UNSET:-$x}")
}

func (g generator) arith(depth int) string {
	if depth > 2 || g.IntN(3) == 0 {
		return g.pick("1", "2", "7", "0x1f", "010", "n", "3", "-4", "16#ff")
	}
	a, b := g.arith(depth+1), g.arith(depth+1)
	return g.pick(a+"+"+b, a+" - "+b, a+"*"+b, "("+a+")", a+"/7", a+"%5", a+"<"+b, a+"=="+b, a+"?"+b+":9", a+"&&"+b, a+"||"+b, a+"<<2", a+"&"+b, a+"|"+b, a+"^"+b, "!"+"("+a+")", "~"+"("+a+")", "2**3")
}

func (g generator) test() string {
	return g.pick("-n \"$x\"", "-z \"$x\"", "-z \"$z\"", "\"$y\" = abc", "\"$y\" != abc", "1 -lt 2", "3 -ge 4", "\"$UNSET\"", "x", "! -z \"$z\"", "a = b", "\"$x\" = \"$x\"")
}

func (g generator) longTest() string {
	return g.pick("-n $x", "-z $z", "$y == a*", "$y == 'a*'", "$y != [A-Z]*", "a < b", "b < a", "1 -eq 1", "$UNSET", "! $UNSET", "-z $z && -n $x", "-n $z || -n $x", "( -z $z )", "$x == *'.'*", "$x = \"$x\"")
}
