package claude

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

const id = "11111111-2222-4333-8444-555555555555"

func launched(t *testing.T, s agentcli.Setup) agentcli.Launch {
	t.Helper()
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Launch(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// after returns the argument behind a flag.
func after(t *testing.T, l agentcli.Launch, flag string) string {
	t.Helper()
	i := slices.Index(l.Args, flag)
	if i < 0 || i+1 == len(l.Args) {
		t.Fatalf("no %s in %q", flag, l.Args)
	}
	return l.Args[i+1]
}

func TestLaunch(t *testing.T) {
	l := launched(t, agentcli.Setup{Bin: "/bin/claude", WorkDir: t.TempDir(), Fresh: id, Mode: agentcli.Auto, Model: "opus", System: "be kind", Readable: []string{"/a", "/b"}, Args: []string{"--mcp-config", "x"}})
	fixed := []string{"--output-format", "stream-json", "--input-format", "stream-json", "--permission-prompt-tool", "stdio",
		"--replay-user-messages", "--verbose", "--include-partial-messages", "--permission-mode", "default",
		"--session-id", id, "--model", "opus", "--settings", after(t, l, "--settings"),
		"--append-system-prompt", "be kind", "--add-dir", "/a", "--add-dir", "/b", "--mcp-config", "x"}
	if diff := cmp.Diff(fixed, l.Args); diff != "" || l.Path != "/bin/claude" {
		t.Errorf("%s with arguments (-want +got):\n%s", l.Path, diff)
	}
	if l := launched(t, agentcli.Setup{WorkDir: t.TempDir(), Session: id, Fresh: "other"}); after(t, l, "--resume") != id || slices.Contains(l.Args, "--session-id") || l.Path != "claude" {
		t.Errorf("resumed with %q", l.Args)
	}
	c, _ := New(Options{Retries: 2})
	if l, err := c.Launch(agentcli.Setup{}); err != nil || !slices.Contains(l.Env, "CLAUDE_CODE_MAX_RETRIES=2") {
		t.Errorf("environment %q, %v", l.Env, err)
	}
	if _, err := New(Options{Retries: -1}); err == nil {
		t.Error("New with fewer than no retries: no error")
	}
}

// TestManualAsksForEverything: rules to ask in every mode, no settings of others in
// manual.
func TestManualAsksForEverything(t *testing.T) {
	work := t.TempDir()
	if err := os.WriteFile(filepath.Join(work, "CLAUDE.md"), []byte("use tabs\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []agentcli.Mode{agentcli.Manual, agentcli.AcceptEdits, agentcli.Auto} {
		l := launched(t, agentcli.Setup{WorkDir: work, Mode: mode, System: "be kind"})
		rules := after(t, l, "--settings")
		for _, tool := range []string{`"Bash"`, `"Read"`, `"Edit"`, `"Write"`, `"WebFetch"`, `"Agent"`, `"mcp__*"`} {
			if !strings.Contains(rules, tool) {
				t.Errorf("%s: rules %s, want %s among them", mode, rules, tool)
			}
		}
		if bare := slices.Contains(l.Args, "--setting-sources"); bare != (mode == agentcli.Manual) {
			t.Errorf("%s: without the settings of others: %v", mode, bare)
		}
		system := after(t, l, "--append-system-prompt")
		if mode != agentcli.Manual && system != "be kind" {
			t.Errorf("%s: system %q", mode, system)
		}
		if mode == agentcli.Manual && (after(t, l, "--setting-sources") != "" || !strings.Contains(system, "use tabs�")) {
			t.Errorf("manual: system %q, want the project's notes in it", system)
		}
	}
	// Notes that are no file, or not there, are none.
	odd := t.TempDir()
	if err := os.Mkdir(filepath.Join(odd, "CLAUDE.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{odd, t.TempDir()} {
		if l := launched(t, agentcli.Setup{WorkDir: dir, Mode: agentcli.Manual}); slices.Contains(l.Args, "--append-system-prompt") {
			t.Errorf("arguments %q, want no system prompt", l.Args)
		}
	}
}

func TestLaunchRefuses(t *testing.T) {
	c, _ := New(Options{})
	for name, s := range map[string]agentcli.Setup{
		"a new session that is no UUID": {Fresh: "x"},
		"a model that is a flag":        {Model: "--dangerously-skip-permissions"},
		"permissions switched off":      {Args: []string{"--dangerously-skip-permissions"}},
		"settings of the operator":      {Args: []string{"--settings={}"}},
		"another mode":                  {Args: []string{"--permission-mode", "bypassPermissions"}},
		"a prompt without end":          {System: strings.Repeat("x", longestArg+1)},
	} {
		if _, err := c.Launch(s); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := c.Launch(agentcli.Setup{Session: "--evil"}); !errors.Is(err, agentcli.ErrNoSession) {
		t.Errorf("a session that is no UUID: %v, want ErrNoSession", err)
	}
}

func TestCompactPrompt(t *testing.T) {
	if got := (&Claude{}).CompactPrompt(); got != "/compact" {
		t.Errorf("CompactPrompt = %q", got)
	}
}
