package house

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The house: every package, in floor-plan order, what it is for and what of
// ours it may import. A row that ends in /... covers what lies below; the most
// exact row wins; a package without a row may not exist. Adding a package means
// adding a row with its sentence, in the same commit.
var plan = []row{
	{"facilitate/...", "the public SDK for groups", []string{"facilitate/..."}},

	{"internal/chat", "the nouns of what comes in", nil},
	{"internal/turn", "the nouns of what goes out", list("chat")},

	{"internal/secret", "values that cannot be printed; contract: where secrets come from", nil},
	{"internal/secret/...", "the sources of secrets, and what stands around them", list("secret", "durable", "lockfile")},
	{"internal/durable", "files that a power cut leaves whole", nil},
	{"internal/lockfile", "one open file at a time has a file", nil},
	{"internal/lifetime", "start in order, stop in reverse", nil},
	{"internal/config", "plain configuration", list("secret")},
	{"internal/observe", "metrics and logs", list("secret")},

	{"internal/fleet", "agents.json: who the sub-agents are", list("secret", "durable", "lockfile")},
	{"internal/fleet/health", "whether agents answer", list("fleet")},
	{"internal/dockerapi", "a Docker engine behind its socket", nil},
	{"internal/fleet/spawn", "contract: how agents come to live", list("fleet", "secret")},
	{"internal/fleet/spawn/...", "the drivers that create agents", list("fleet", "fleet/spawn", "secret", "dockerapi", "microvm", "durable")},

	{"internal/journal", "contract: the append-only log", nil},
	{"internal/journal/...", "where the log lies", list("journal", "durable", "lockfile")},
	{"internal/lease", "contract: one owner at a time", nil},
	{"internal/lease/...", "who hands leases out", list("lease", "lockfile")},

	{"internal/runner", "contract: who answers a turn", list("chat", "turn")},
	{"internal/llm", "contract: a model", list("secret")},
	{"internal/llm/...", "the wires, and the models without a provider", list("llm", "secret")},
	{"internal/tool", "contract: what a model may call", list("chat", "turn")},
	{"internal/sandbox", "contract: where a command runs", list("chat")},
	{"internal/picture", "images small enough for a model", nil},
	{"internal/process", "a program and everything it started", nil},
	{"internal/background", "Iris as a service of one person", nil},
	{"internal/microvm", "Firecracker's API, slots, taps, jailer", list("process", "secret", "lockfile")},
	{"internal/sandbox/...", "the levels of isolation", list("chat", "sandbox", "process", "durable")},
	{"internal/sandbox/docker", "a container that runs already", list("chat", "sandbox", "process", "dockerapi")},
	{"internal/sandbox/firecracker", "a microVM, one or one per conversation", list("chat", "sandbox", "secret", "sandbox/firecracker/guest")},
	{"internal/sandbox/firecracker/guest", "the exec-server of a microVM and its client", list("chat", "sandbox", "secret")},
	{"internal/policy", "commands and paths judged", nil},
	{"internal/approval/audit", "the record of commands", nil},
	{"internal/tool/bash", "commands", list("chat", "turn", "tool", "sandbox", "policy", "approval/audit")},
	{"internal/tool/agent", "asking a sub-agent", list("chat", "turn", "tool")},
	{"internal/tool/file", "read, write, edit, attach", list("chat", "turn", "tool", "sandbox", "policy", "approval/audit", "picture")},
	{"internal/secret/veil", "redaction on every way out", list("chat", "turn", "runner", "llm", "tool", "approval/audit", "secret", "secret/redact")},
	{"internal/transport", "contract: ways in and out, and the Inbox", list("chat", "turn")},
	{"internal/schedule", "what wakes Iris, and when", list("chat", "turn", "transport", "lease", "durable")},
	{"internal/tool/schedule", "a model plans its own waking", list("chat", "turn", "tool", "schedule")},
	{"internal/bridge", "the words between Iris and her sub-agents", list("chat")},

	{"internal/session", "conversations at rest", list("chat", "turn", "journal", "durable", "lockfile")},
	{"internal/skill", "skills, constitution and memory", list("chat", "durable")},
	{"internal/route", "message and snapshot to decision", list("chat", "turn", "transport")},
	{"internal/approval", "commands that wait for a person", list("chat", "turn", "transport", "durable")},
	{"internal/delivery", "what people get to see, on disk before it is sent", list("chat", "turn", "journal", "lease", "transport")},
	{"internal/runner/native", "the model loop", list("chat", "turn", "runner", "llm", "tool", "session", "skill")},
	{"internal/runner/subagent", "another Iris behind the bridge", list("chat", "turn", "runner", "bridge", "secret")},
	{"internal/runner/facilitator", "a room of the SDK behind conversations", append(list("chat", "turn", "runner", "transport", "llm", "durable"), "facilitate/...")},
	{"internal/runner/agentcli", "contract: somebody else's agent program; its processes and turns", list("chat", "turn", "runner", "process", "policy", "durable")},
	{"internal/runner/agentcli/tray", "files in and out of agent programs", list("chat", "turn")},
	{"internal/runner/agentcli/...", "the protocols of agent programs", list("runner/agentcli", "process")},
	{"internal/runner/relay", "a web address that answers", list("chat", "turn", "runner", "secret")},
	{"internal/gfm", "tables, strikethrough and tasks in Markdown", nil},
	{"internal/transport/slack/mrkdwn", "Markdown as Slack shows it", list("gfm")},
	{"internal/transport/slack", "Slack: Socket Mode in, the Web API out", list("chat", "turn", "transport", "route", "secret", "transport/slack/mrkdwn", "durable")},
	{"internal/transport/terminal", "a conversation at a prompt, over the API", list("turn", "secret")},
	{"internal/transport/bridge", "the door for other Irises", list("chat", "turn", "transport", "journal", "bridge", "secret", "durable")},
	{"internal/transport/web", "login, static files, the socket", list("chat", "turn", "transport", "secret", "durable")},
	{"internal/transport/telegram", "the Bot API: a poll loop, a claim, HTML", list("gfm", "chat", "turn", "transport", "secret", "durable")},
	{"internal/engine", "lanes, lifecycle, fan-out, recovery", list("chat", "turn", "journal", "runner", "transport", "route", "session")},

	{"internal/api", "the HTTP API", list("chat", "turn", "journal", "transport", "session", "engine", "approval", "secret", "schedule")},
	{"internal/app", "the list of parts and their wiring", []string{"internal/...", "facilitate/..."}},
	{"cmd/iris", "the binary", list("app", "config", "secret")},
}

// testOnly are packages that tests share; non-test code never imports them and
// they may import what they need.
const testOnly = "test"

type row struct {
	pkg, about string
	may        []string
}

// list turns short names into paths below internal/.
func list(names ...string) []string {
	for i, n := range names {
		names[i] = "internal/" + n
	}
	return names
}

// banned are names that say nothing about what is inside.
var banned = []string{"util", "utils", "common", "helper", "helpers", "base", "types", "manager", "service", "misc", "shared", "lib", "core"}

const maxLines = 600

// longer holds files that may exceed maxLines, with the reason.
var longer = map[string]string{}

// A source is a Go file as the rules see it.
type source struct {
	path string // relative to the module
	text string
}

// check applies every rule to a set of files and returns what is wrong, each
// with the way out.
func check(module string, plan []row, files []source) []string {
	h := house{module: module, plan: plan, docs: map[string]int{}, seen: map[string]string{}}
	for _, f := range files {
		h.file(f)
	}
	for pkg, where := range h.seen {
		if h.docs[pkg] != 1 {
			h.complain("%s: package %s has %d package comments: write exactly one, that says what it is, what it owns and what it does not do", where, pkg, h.docs[pkg])
		}
	}
	slices.Sort(h.wrong)
	return h.wrong
}

type house struct {
	module string
	plan   []row
	docs   map[string]int    // package → package comments
	seen   map[string]string // package → one of its files
	wrong  []string
}

func (h *house) complain(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

func (h *house) file(f source) {
	pkg := path.Dir(f.path)
	if n := strings.Count(f.text, "\n"); n > maxLines && longer[f.path] == "" {
		h.complain("%s: %d lines, more than %d: look for the seam and split it", f.path, n, maxLines)
	}
	if strings.HasSuffix(f.path, "_test.go") {
		return
	}
	fset := token.NewFileSet()
	tree, err := parser.ParseFile(fset, f.path, f.text, parser.ParseComments)
	if err != nil {
		h.complain("%s: %v", f.path, err)
		return
	}
	h.seen[pkg] = f.path
	if tree.Doc != nil {
		h.docs[pkg]++
	}
	for _, part := range strings.Split(pkg, "/") {
		if slices.Contains(banned, part) {
			h.complain("%s: %q names nothing: call the package after the noun it talks about", f.path, part)
		}
	}
	for _, d := range tree.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			h.complain("%s: init(): build it in New and list it in app", f.path)
		}
	}
	h.imports(f.path, pkg, tree)
}

func (h *house) imports(file, pkg string, tree *ast.File) {
	r, ok := h.row(pkg)
	if !ok {
		h.complain("%s: package %s is not in the house: add a row to the plan in house_test.go, or put the code where its noun lives", file, pkg)
		return
	}
	for _, imp := range tree.Imports {
		target := strings.Trim(imp.Path.Value, `"`)
		if imp.Name != nil && imp.Name.Name == "_" && target != "embed" {
			h.complain("%s: blank import of %s: name what you use, and list it in app", file, target)
		}
		ours, isOurs := strings.CutPrefix(target, h.module+"/")
		if strings.HasPrefix(pkg, "facilitate") && !isOurs && strings.Contains(strings.Split(target, "/")[0], ".") {
			h.complain("%s: imports %s: facilitate uses the standard library only", file, target)
		}
		if !isOurs {
			continue
		}
		if isTest(ours) && !isTest(pkg) {
			h.complain("%s: imports %s: packages that end in %q are for tests", file, ours, testOnly)
			continue
		}
		if !isTest(pkg) && ours != pkg && !covers(r.may, ours) {
			h.complain("%s: %s may not import %s (it may import: %s): siblings never meet and nothing imports upwards; put what both need into their contract, or wire it in app", file, pkg, ours, strings.Join(r.may, ", "))
		}
	}
}

func isTest(pkg string) bool { return strings.HasSuffix(path.Base(pkg), testOnly) }

// row finds the most exact row for a package. A test-only package belongs to
// the row of what it tests.
func (h *house) row(pkg string) (best row, ok bool) {
	for _, r := range h.plan {
		if covers([]string{r.pkg}, pkg) && len(r.pkg) > len(best.pkg) {
			best, ok = r, true
		}
	}
	if !ok && isTest(pkg) {
		return row{}, true
	}
	return best, ok
}

// covers reports whether one of the patterns names pkg. "a/..." covers what
// lies below a, and a itself only where that is the SDK's own row.
func covers(patterns []string, pkg string) bool {
	for _, p := range patterns {
		root, tree := strings.CutSuffix(p, "/...")
		if pkg == p || tree && (strings.HasPrefix(pkg, root+"/") || pkg == root && root == "facilitate") {
			return true
		}
	}
	return false
}

func TestHouse(t *testing.T) {
	module, files := read(t)
	for _, w := range check(module, plan, files) {
		t.Error(w)
	}
}

// read collects the module's Go files.
func read(t *testing.T) (module string, files []source) {
	t.Helper()
	mod, err := os.Open("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	defer mod.Close()
	sc := bufio.NewScanner(mod)
	for sc.Scan() {
		if m, ok := strings.CutPrefix(sc.Text(), "module "); ok {
			module = m
		}
	}
	err = filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(p, "go.mod"))
			if p != "." && (nested == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(p, ".go") && filepath.Dir(p) != "." {
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			files = append(files, source{filepath.ToSlash(p), string(text)})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return module, files
}

// TestHouseCatches proves that each rule can fail, and says what to do.
func TestHouseCatches(t *testing.T) {
	const m = "example.org/m"
	plan := []row{
		{"facilitate/...", "sdk", []string{"facilitate/..."}},
		{"internal/engine", "engine", nil},
		{"internal/runner/native", "native", nil},
		{"internal/transport/slack", "slack", nil},
		{"internal/utils", "bad name", nil},
		{"internal/big", "big", nil},
	}
	ok := func(pkg, imports string) string {
		return "// Package x is here.\npackage " + pkg + "\n\nimport (\n" + imports + "\n)\n"
	}
	for name, c := range map[string]struct {
		file source
		want string
	}{
		"upward":       {source{"internal/transport/slack/a.go", ok("slack", `"`+m+`/internal/engine"`)}, "may not import internal/engine"},
		"sibling":      {source{"internal/runner/native/a.go", ok("native", `"`+m+`/internal/transport/slack"`)}, "siblings never meet"},
		"sdk":          {source{"facilitate/a.go", ok("facilitate", `"github.com/x/y"`)}, "standard library only"},
		"sdk inward":   {source{"facilitate/flow/a.go", ok("flow", `"`+m+`/internal/engine"`)}, "may not import internal/engine"},
		"blank":        {source{"internal/engine/a.go", ok("engine", `_ "net/http/pprof"`)}, "blank import"},
		"init":         {source{"internal/engine/a.go", "// Package engine is here.\npackage engine\n\nfunc init() {}\n"}, "init()"},
		"name":         {source{"internal/utils/a.go", "// Package utils is here.\npackage utils\n"}, "names nothing"},
		"long":         {source{"internal/big/a.go", "// Package big is here.\npackage big\n" + strings.Repeat("\n", 700)}, "look for the seam"},
		"no comment":   {source{"internal/big/a.go", "package big\n"}, "0 package comments"},
		"unlisted":     {source{"internal/new/a.go", "// Package new is here.\npackage new\n"}, "not in the house"},
		"test package": {source{"internal/engine/a.go", ok("engine", `"`+m+`/internal/llm/llmtest"`)}, "are for tests"},
	} {
		wrong := check(m, plan, []source{c.file})
		if len(wrong) != 1 || !strings.Contains(wrong[0], c.want) {
			t.Errorf("%s: check = %q, want one complaint with %q", name, wrong, c.want)
		}
	}
	clean := source{"internal/engine/a.go", ok("engine", `"fmt"`)}
	if wrong := check(m, plan, []source{clean}); len(wrong) != 0 {
		t.Errorf("clean file: check = %q", wrong)
	}
}
