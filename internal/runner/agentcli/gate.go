package agentcli

import (
	"path/filepath"
	"strings"

	"github.com/iris-operator/iris/internal/policy"
)

// A ruling is what is done about a tool call that a program asks for.
type ruling struct {
	verdict ruled
	// reason is the policy's, completing "refused because …"; empty where the mode
	// alone decides.
	reason, rule, span string
}

type ruled string

const (
	allow  ruled = "allow"  // without a question
	ask    ruled = "ask"    // a person decides
	refuse ruled = "refuse" // without a question
)

// A scene is where a tool call would happen.
type scene struct {
	mode     Mode
	dir      string   // the work directory
	readable []string // what may be read outside of it
	env      []string
}

// rule judges a tool call: the policy first, in every mode, then the mode.
func rule(j Judge, s scene, t Tool) ruling {
	r := judge(j, s, t)
	if r.verdict != allow {
		return r
	}
	if t.Granted {
		return r
	}
	switch s.mode {
	case Auto:
		return r
	case AcceptEdits:
		if t.What == Edit && !t.Outside && inside([]string{s.dir}, s.dir, t.Paths) && !ownSettings(s.dir, t.Paths) ||
			t.What == Read && !t.Outside && (len(t.Paths) == 0 || inside(append([]string{s.dir}, s.readable...), s.dir, t.Paths)) {
			return r
		}
	}
	r.verdict = ask
	return r
}

// judge asks the policy about all that a call names; the strictest word counts.
func judge(j Judge, s scene, t Tool) ruling {
	r := ruling{verdict: allow}
	if j == nil {
		return r
	}
	dir := s.dir
	if t.Dir != "" {
		dir = absolute(s.dir, t.Dir)
	}
	take := func(v policy.Verdict) {
		switch {
		case v.Decision == policy.Deny && r.verdict != refuse:
			r = ruling{refuse, v.Reason, v.Rule, v.Span}
		case v.Decision == policy.Confirm && r.verdict == allow:
			r = ruling{ask, v.Reason, v.Rule, v.Span}
		}
	}
	if t.Command != "" {
		take(j.Command(t.Command, s.env, dir))
	}
	access := policy.Write
	if t.What == Read {
		access = policy.Read
	}
	for _, p := range t.Paths {
		if t.What == Execute || t.What == Fetch {
			break // a command's paths are in the command
		}
		take(j.Path(access, p, dir))
		// A link may lead to what its own name does not say.
		if real := resolve(absolute(dir, p)); real != "" {
			take(j.Path(access, real, dir))
		}
	}
	return r
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// resolve follows the links of a path; what of it does not exist yet is taken as
// it is written. It is empty if the path leads nowhere.
func resolve(path string) string {
	rest := ""
	for p := filepath.Clean(path); ; p = filepath.Dir(p) {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.Join(real, rest)
		}
		if isLink(p) || p == filepath.Dir(p) {
			return "" // a link to what is not there may be made to lead anywhere
		}
		rest = filepath.Join(filepath.Base(p), rest)
	}
}

// Outside reports whether a call touches what lies outside of the directories that
// are open to it, or writes what makes programs of the work directory run something.
// It is for drivers whose program does not tell; links are followed.
func Outside(t Tool, work string, readable []string) bool {
	if len(t.Paths) == 0 {
		return false
	}
	if t.What == Edit {
		return !inside([]string{work}, work, t.Paths) || ownSettings(work, t.Paths)
	}
	return !inside(append([]string{work}, readable...), work, t.Paths)
}

// inside reports whether all paths, and there are some, lie in one of the
// directories once links are followed. A path that begins with "~" does not: the
// programs take that for a home directory.
func inside(dirs []string, cwd string, paths []string) bool {
	for _, p := range paths {
		if strings.HasPrefix(p, "~") || !within(dirs, resolve(absolute(cwd, p))) {
			return false
		}
	}
	return len(paths) > 0
}

func within(dirs []string, path string) bool {
	if path == "" {
		return false
	}
	for _, d := range dirs {
		if d = resolve(d); d == "" {
			continue
		}
		if rel, err := filepath.Rel(d, path); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// settings are the directories and files of a work directory by which a program
// can be made to run something later without being asked: they are no mere edits.
var settings = []string{".git", ".claude", ".mcp.json", ".pi", ".gemini", ".copilot", ".github/workflows", ".vscode", ".idea", ".husky", ".envrc"}

func ownSettings(dir string, paths []string) bool {
	root := resolve(dir)
	for _, p := range paths {
		rel, err := filepath.Rel(root, resolve(absolute(dir, p)))
		if err != nil {
			return true
		}
		for _, s := range settings {
			for sub := strings.ToLower(rel); sub != "." && sub != "/"; sub = filepath.Dir(sub) {
				if sub == s || strings.HasSuffix(sub, "/"+s) {
					return true
				}
			}
		}
	}
	return false
}
