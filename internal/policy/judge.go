package policy

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// A Dialect is the language that a command is read as.
type Dialect string

// The dialects.
const (
	Bash  Dialect = "bash" // the default
	Posix Dialect = "posix"
)

// Options of a Judge.
type Options struct {
	// Workspace is the directory whose state/ belongs to Iris alone. Required.
	Workspace string
	// Home is what "~" means where the command's environment has no HOME.
	Home string
	// InstallRoot may not be deleted; "/iris" if empty.
	InstallRoot string
	// Dialect is the shell that will run the commands; Bash if empty. Run it as
	// "bash --noprofile --norc -c": judge and shell must agree.
	Dialect Dialect

	// Secrets are further base names of files that nobody may open.
	Secrets []string
	// SecretNames are the same, for configuration that uses this word.
	SecretNames []string
	// Keys are the absolute paths, files or directories, of Iris's own keys: no
	// command opens them, and who removes them is asked. "~/.config/iris" is one
	// without being named.
	Keys []string
	// ProtectedPaths are further absolute paths, files or directories, that are
	// written only with consent.
	ProtectedPaths []string
	// ProtectedBranches are further branches that are pushed over only with
	// consent; "*" stands for any text.
	ProtectedBranches []string
	// Deny and Confirm are further rules.
	Deny, Confirm []Match
}

// A Match is an operator's own rule: the words that a simple command must begin
// with once its wrappers are taken off, and what to tell people. The program is
// compared without its directory, and options between the words do not matter:
// {"kubectl", "delete", "namespace"} covers "sudo kubectl -n x delete namespace y".
type Match struct {
	Words  []string
	Reason string
}

// A Judge gives verdicts. Make it with New. It is safe for concurrent use.
type Judge struct {
	opts     Options
	secrets  []string
	branches []string
	keyPaths []string
	state    string
	parsers  sync.Pool
}

// secretFiles are the base names that no command and no file tool may open.
var secretFiles = []string{".env", "secret.key", "secrets.json.enc", "agents.json"}

// New checks the options.
func New(opts Options) (*Judge, error) {
	if !filepath.IsAbs(opts.Workspace) {
		return nil, fmt.Errorf("policy: the workspace %q is not absolute", opts.Workspace)
	}
	if opts.InstallRoot == "" {
		opts.InstallRoot = "/iris"
	}
	var keys []string
	if filepath.IsAbs(opts.Home) {
		keys = append(keys, path.Clean(opts.Home)+keyDir)
	}
	keys = append(keys, opts.Keys...)
	for _, p := range slices.Concat([]string{opts.InstallRoot}, opts.ProtectedPaths, opts.Keys) {
		if !filepath.IsAbs(p) {
			return nil, fmt.Errorf("policy: the path %q is not absolute", p)
		}
	}
	lang := syntax.LangBash
	switch opts.Dialect {
	case Bash, "":
	case Posix:
		lang = syntax.LangPOSIX
	default:
		return nil, fmt.Errorf("policy: unknown dialect %q", opts.Dialect)
	}
	for _, m := range append(slices.Clone(opts.Deny), opts.Confirm...) {
		if len(m.Words) == 0 {
			return nil, fmt.Errorf("policy: the rule %q has no words", m.Reason)
		}
	}
	opts.Workspace = path.Clean(opts.Workspace)
	opts.InstallRoot = path.Clean(opts.InstallRoot)
	return &Judge{
		opts:     opts,
		secrets:  slices.Concat(secretFiles, opts.Secrets, opts.SecretNames),
		branches: append([]string{"main", "master", "release/*"}, opts.ProtectedBranches...),
		keyPaths: keys,
		state:    path.Join(opts.Workspace, "state"),
		parsers:  sync.Pool{New: func() any { return syntax.NewParser(syntax.Variant(lang)) }},
	}, nil
}

// Command judges a command that the shell is about to run in cwd with env, the
// child's whole environment as "NAME=value". What it cannot judge it holds for
// consent; it never panics and its time is bounded.
func (j *Judge) Command(command string, env []string, cwd string) Verdict {
	return j.judge(command, env, cwd, nil)
}

func (j *Judge) judge(command string, env []string, cwd string, trace func([]string)) (v Verdict) {
	defer func() {
		if recover() != nil {
			v = unjudged("the judge failed on it")
		}
	}()
	if len(command) > maxCommand {
		return unjudged("it is longer than 128 KiB")
	}
	return j.open(command, env, cwd, trace)
}

// open judges without a net.
func (j *Judge) open(command string, env []string, cwd string, trace func([]string)) Verdict {
	r := &run{j: j, env: env, verdict: Verdict{Decision: Allow}, trace: trace}
	s := r.start(cwd)
	s.top(bare(command))
	return r.verdict
}

// Path judges a path that a tool is about to open. A relative one is relative to
// cwd.
func (j *Judge) Path(access Access, name, cwd string) Verdict {
	if rest, ok := strings.CutPrefix(name, "~"); ok && j.opts.Home != "" && (rest == "" || rest[0] == '/') {
		name = j.opts.Home + rest
	}
	p := resolve(path.Clean("/"+cwd), bare(name))
	switch secret := j.secretPath(p); {
	case secret != "":
		return Verdict{Deny, ruleSecret, name, "path is the secret file " + secret}
	case j.isState(p):
		return Verdict{Deny, ruleState, name, "path lies in Iris's own state"}
	case access == Write && j.protected(p):
		return Verdict{Confirm, ruleProtected, name, "would change " + p + ", " + j.guarded(p)}
	case access == Write && device(p):
		return Verdict{Confirm, ruleDisk, name, "would write to the raw device " + p}
	}
	return Verdict{Decision: Allow}
}
