package rehearsal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
)

var (
	runWord  = lazy(`(?is)^(?:run|execute|exec|bash|shell|sh|\$|!)(?:\s*:\s*|\s+)(?:the )?(?:command |commands )?:?\s*(.+)$`)
	tryWord  = lazy(`(?is)^(?:do|try|start|what does|what is the output of)\s+(.*\x60.*)$`)
	span     = lazy("`([^`\n]+)`")
	blocks   = lazy("(?s)```[a-zA-Z0-9_+-]*\n(.*?)\n?```")
	between  = lazy(`(?i)^(?:[\s,;.?!]|and|then|also|print|say|return|the|command|commands|both)*$`)
	sentence = lazy(`(?i)^(?:the|a|an|my|your|our|all|some|it|this|that|these|those|tests?|everything|something|anything)\b`)
	andNext  = lazy(`(?i),? and (?:then |also |run )*`)
	shellish = lazy(`(?:^|\s)-{1,2}\w|[|<>$*;=~]|&&|\S/|/\S|\.\w`)
	scriptAt = lazy(`^(?:\./|~/|/)[\w./+-]+(?:\s|$)`)
	plainArg = lazy(`^[A-Za-z0-9_./@%+=:,-]+$`)
)

// commands are first words that make a line a command by themselves.
var commands = strings.Fields("ls df du pwd whoami uptime ps uname id git docker systemctl journalctl curl wget ping cat grep wc " +
	"hostname rm mkdir cp mv sudo kubectl apt apt-get sed awk tree stat ss ip lsblk lscpu free env printenv go npm node python3 " +
	"python pip make cargo chmod chown dd mkfs tar unzip jq nproc date echo printf iris terraform")

// english are commands that are also words; with more words behind them they
// need something that only a command line has.
var english = strings.Fields("find sort date free make cat echo head tail file touch test kill which who top time env id go stat")

// bash plans one or more commands, which run side by side.
func (b box) bash(say string, lines ...string) plan {
	p := plan{say: say}
	for _, line := range lines {
		p.calls = append(p.calls, call("bash", map[string]string{"label": "run " + short(line, 60), "command": line}))
	}
	return b.offered(p)
}

// run recognises commands: after "run", between backticks, in a code block, or
// a line that is one.
func run(text string, b box) (plan, bool) {
	lines, explicit := commandLines(text)
	if len(lines) == 0 {
		return plan{}, false
	}
	if !explicit && sentence.MatchString(lines[0]) {
		return plan{say: fmt.Sprintf("I cannot guess what “%s” means here. Give me the exact command, for example: run `make test`", short(text, 60))}, true
	}
	if len(lines) > 8 {
		return plan{say: "That are more than eight commands at once. Give me fewer, or one script."}, true
	}
	return b.bash("Running "+ticked(lines)+".", lines...), true
}

// commandLines returns the commands in a request, and whether they were marked
// as such.
func commandLines(text string) (lines []string, explicit bool) {
	body, asked := text, false
	if m := runWord.FindStringSubmatch(text); m != nil {
		body, asked = strings.TrimSpace(m[1]), true
	} else if m := tryWord.FindStringSubmatch(text); m != nil {
		body, asked = strings.TrimSpace(m[1]), true
	}
	if all := blocks.FindAllStringSubmatch(text, -1); all != nil && (asked || blocks.ReplaceAllString(text, "") == "") {
		return matched(all), true
	}
	if all := span.FindAllStringSubmatch(body, -1); all != nil && between.MatchString(span.ReplaceAllString(body, "")) {
		return matched(all), true
	}
	if q := unquote(body); asked && q != body {
		return []string{q}, true
	}
	if !asked {
		if isCommand(body) && !strings.Contains(body, "\n") {
			return split(endless(body)), true
		}
		return nil, false
	}
	return split(endless(body)), false
}

func matched(all [][]string) (lines []string) {
	for _, m := range all {
		if line := strings.TrimSpace(m[1]); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// endless takes the full stop of a sentence off, but not the dot of "du ." or
// "ls ..".
func endless(line string) string {
	line = strings.TrimSpace(line)
	cut := strings.TrimRight(line, ".!?")
	if cut == "" || strings.HasSuffix(cut, " ") || strings.HasSuffix(cut, "/") || len(line)-len(cut) > 1 {
		return line
	}
	return cut
}

// split cuts at "and" where a command follows: "df -h and uptime".
func split(line string) []string {
	rest := line
	var lines []string
	for from := 0; ; {
		at := andNext.FindStringIndex(rest[from:])
		if at == nil {
			return append(lines, rest)
		}
		head, tail := rest[:from+at[0]], rest[from+at[1]:]
		if head == "" || !isCommand(tail) || strings.ContainsAny(head, "'\"") {
			from += at[1]
			continue
		}
		lines, rest, from = append(lines, head), tail, 0
	}
}

// isCommand reports whether a line is a command and not a sentence.
func isCommand(line string) bool {
	if scriptAt.MatchString(line) {
		return true
	}
	first, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	first = strings.TrimRight(first, "?.!,")
	isEnglish := slices.Contains(english, first)
	if !isEnglish && !slices.Contains(commands, first) {
		return false
	}
	return rest == "" && first != "make" && first != "go" || !isEnglish && rest != "" || shellish.MatchString(rest)
}

// shellQuote makes a word safe on a command line.
func shellQuote(s string) string {
	if plainArg.MatchString(s) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func ticked(lines []string) string {
	var all []string
	for _, l := range lines {
		all = append(all, "`"+short(strings.ReplaceAll(l, "`", "'"), 60)+"`")
	}
	if n := len(all); n > 1 {
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
	return all[0]
}

var (
	bringUp  = lazy(`(?i)^(?:what(?:'s|s| is| are| do(?:es)?)?|which|list|show|show me|see|look|give me|tell me|ls)\b`)
	places   = lazy(`(?i)\b(?:files?|folders?|director(?:y|ies)|dir|workspace|repo|repository|here|contents?)\b`)
	bigness  = lazy(`(?i)\bhow (?:big|large|heavy)\b|\bhow much (?:space|room) (?:does|do|is|are)\b|\b(?:total )?size of\b|\bdisk usage of\b`)
	counting = lazy(`(?i)\bhow many files\b`)
	whatIn   = lazy(`(?i)^what(?:'s| is) (?:in|inside) ([\w./~@+-]+)[?!.]*$`)
	inPlace  = lazy(`(?i)\b(?:in|of|inside|under|below|at|ls|does|(?:big|large|heavy) (?:is|are)) (?:the |my |your )?(?:folder |directory |file )?[\x60"']?([\w./~@+-]+)[\x60"']?`)
	noPlace  = lazy(`(?i)^(?:this|the|my|your|our|it|here|there|current|folder|director(?:y|ies)|dir|file|files|workspace|repo|repository|in|inside|of|everything|all|take|content|contents|they|and|is|are)$`)
)

func isFolderWord(s string) bool { return noPlace.MatchString(s) }

// folder answers what is in a directory, how big it is and how many files.
func folder(text string, b box) (plan, bool) {
	looks := bringUp.MatchString(text) && places.MatchString(text) || whatIn.MatchString(text)
	weighs, counts := bigness.MatchString(text), counting.MatchString(text)
	if !looks && !weighs && !counts || len(text) > 200 {
		return plan{}, false
	}
	at := "."
	for _, m := range inPlace.FindAllStringSubmatch(text, -1) {
		if p := bare(m[1]); !noPlace.MatchString(p) && p != "." {
			at = p
			break
		}
	}
	if strings.HasPrefix(at, "-") {
		at = "./" + at
	}
	var lines []string
	if counts {
		lines = append(lines, "find "+at+" -type f | wc -l")
	} else if looks {
		lines = append(lines, strings.TrimSuffix("ls -la "+at, " ."))
	}
	if weighs {
		lines = append(lines, "du -sh "+at)
	}
	return b.bash("Let me look: "+ticked(lines)+".", lines...), true
}

// questions are plain questions about the machine with the commands that
// answer them.
var questions = []struct {
	ask   *pattern
	lines []string
}{
	{lazy(`(?i)\b(?:disk|storage|drive)\b|\bhow much space\b|\bfree space\b`), []string{"df -h"}},
	{lazy(`(?i)\b(?:memory|ram)\b.*\b(?:free|left|use|used|have|available|much)\b|\bhow much (?:memory|ram)\b|^(?:show me |show )?(?:the )?(?:free )?(?:memory|ram)\b`), []string{"free -h"}},
	{lazy(`(?i)\buptime\b|\bhow long\b.*\b(?:up|running)\b|\bload\b`), []string{"uptime"}},
	{lazy(`(?i)\bwhat(?:'s| is)? (?:the )?(?:time|date|day)\b|\btime is it\b|\bwhich day\b`), []string{"date"}},
	{lazy(`(?i)\bwho am i\b|\bwh(?:ich|at) user\b`), []string{"id"}},
	{lazy(`(?i)\bwhere (?:am i|are you|are we)\b|\bwh(?:ich|at) (?:folder|directory)\b|\bworking directory\b`), []string{"pwd"}},
	{lazy(`(?i)\bwh(?:ich|at)\b.*\b(?:os|system|kernel|machine|computer|linux|distribution|host)\b|\b(?:system|machine) info\w*\b`), []string{"uname -a", "head -n 4 /etc/os-release"}},
	{lazy(`(?i)\bprocess(?:es)?\b|\bwhat(?:'s| is) running\b`), []string{"ps aux --sort=-%mem | head -n 12"}},
	{lazy(`(?i)\bip address\b|\bnetwork\b.*\b(?:interfaces?|address(?:es)?)\b|\bmy ip\b`), []string{"ip -brief address"}},
	{lazy(`(?i)\bgit status\b|\bwhat (?:has )?changed\b|\buncommitted\b`), []string{"git status --short --branch"}},
	{lazy(`(?i)\b(?:cpus?|cores|processors?)\b`), []string{"nproc"}},
}

// system answers questions about the machine. Long texts are not questions.
func system(text string, b box) (plan, bool) {
	if len(text) > 120 || strings.Contains(text, "\n") {
		return plan{}, false
	}
	var lines []string
	for _, q := range questions {
		if q.ask.MatchString(text) {
			lines = append(lines, q.lines...)
		}
	}
	if len(lines) == 0 || len(lines) > 4 {
		return plan{}, false
	}
	return b.bash("Let me look: "+ticked(lines)+".", lines...), true
}

// short cuts to a number of characters, on one line.
func short(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// sorted lists the names of the tools.
func sorted(tools map[string]llm.ToolSpec) []string {
	var names []string
	for n := range tools {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
