package bash

import (
	"slices"
	"strings"
)

// DefaultPath is the PATH of commands when there is no other.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// inherited are the variables a command gets from the environment of Iris, and
// every LC_ variable with them. Everything else stays behind, for that is where
// tokens and keys are.
var inherited = []string{"PATH", "HOME", "LANG", "TZ", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR"}

// never are variables that no configuration can pass on: the operator's token,
// and what makes bash run or read something the policy has not seen.
var never = []string{"IRIS_API_TOKEN", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "IFS"}

// Environ picks from environ ("K=V") what commands may see: the variables
// above and those named by extra. Of a name that comes twice the last counts,
// as in a shell. Without a PATH there is DefaultPath.
func Environ(environ []string, extra ...string) []string {
	allowed := map[string]bool{}
	for _, list := range [][]string{inherited, extra} {
		for _, name := range list {
			allowed[name] = true
		}
	}
	for _, name := range never {
		delete(allowed, name)
	}
	at := map[string]int{}
	var env []string
	for _, v := range environ {
		name, _, ok := strings.Cut(v, "=")
		if !ok || strings.ContainsRune(v, 0) || !allowed[name] && !locale(name) {
			continue
		}
		if i, again := at[name]; again {
			env[i] = v
			continue
		}
		at[name] = len(env)
		env = append(env, v)
	}
	if _, ok := at["PATH"]; !ok {
		env = append(env, "PATH="+DefaultPath)
	}
	return env
}

// locales are the categories of a locale, as locale(7) has them.
var locales = []string{"ALL", "ADDRESS", "COLLATE", "CTYPE", "IDENTIFICATION", "MEASUREMENT", "MESSAGES", "MONETARY", "NAME", "NUMERIC", "PAPER", "TELEPHONE", "TIME"}

// locale reports whether a name is one of the LC_ variables; LC_TOKEN is none.
func locale(name string) bool {
	category, ok := strings.CutPrefix(name, "LC_")
	return ok && slices.Contains(locales, category)
}
