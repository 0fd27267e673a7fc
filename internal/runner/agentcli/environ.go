package agentcli

import (
	"path"
	"slices"
	"strings"
)

// inherited are the variables that every program gets. A name that ends in "*" is
// the beginning of names: the providers' variables are how people give a program
// its account.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_*", "TERM", "TMPDIR", "TZ", "SHELL", "XDG_*",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	"ANTHROPIC_*", "CLAUDE_*", "OPENAI_*", "GEMINI_*", "GOOGLE_*", "COPILOT_*", "PI_*", "HERMES_*",
	"DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING",
}

// never are variables that no configuration passes on: Iris's own, and the tokens
// of the platforms she speaks on.
var never = []string{"IRIS_*", "SLACK_*", "TELEGRAM_*"}

// defaultPath is the PATH where there is none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environ picks from environ ("K=V") what an agent program may see: what a
// terminal has, proxies, the variables of model providers and of the programs
// themselves, and those named by extra. Tokens of Iris and of chat platforms are
// never among them. Of a name that comes twice the last counts.
func Environ(environ []string, extra ...string) []string {
	var env []string
	for _, v := range environ {
		name, _, ok := strings.Cut(v, "=")
		if !ok || name == "" || strings.ContainsRune(v, 0) || forbidden(name) || !names(inherited, name) && !names(extra, name) {
			continue
		}
		env = set(env, v)
	}
	if value(env, "PATH") == "" {
		env = set(env, "PATH="+defaultPath)
	}
	return env
}

func forbidden(name string) bool { return names(never, strings.ToUpper(name)) }

func names(list []string, name string) bool {
	return slices.ContainsFunc(list, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return err == nil && ok
	})
}

// set adds a variable, or changes it.
func set(env []string, v string) []string {
	name, _, _ := strings.Cut(v, "=")
	for i, old := range env {
		if strings.HasPrefix(old, name+"=") {
			env[i] = v
			return env
		}
	}
	return append(env, v)
}

func value(env []string, name string) string {
	for _, v := range env {
		if rest, ok := strings.CutPrefix(v, name+"="); ok {
			return rest
		}
	}
	return ""
}
