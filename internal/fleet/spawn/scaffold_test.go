package spawn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

func skillDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "github")
	for path, mode := range map[string]os.FileMode{"SKILL.md": 0o644, "bin/push": 0o755, ".git/config": 0o644, "node_modules/x/y": 0o644} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("text of "+filepath.Base(path)), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestScaffold(t *testing.T) {
	home := filepath.Join(t.TempDir(), "agents", "billing")
	skill := skillDir(t)
	seed := Seed{Name: "billing", Purpose: "Invoices.", Skills: []string{skill}, Models: []byte("{}")}
	if err := Scaffold(home, seed); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"README.md": "@billing", "data/MEMORY.md": "# billing\n\nInvoices.\n", "MEMORY.md": "Invoices.", "data/CONSTITUTION.md": "iris self-heal",
		"data/models.json": "{}", "skills/github/SKILL.md": "text of SKILL.md", "data/skills/github/bin/push": "text of push",
	} {
		if got := text(t, filepath.Join(home, path)); !strings.Contains(got, want) {
			t.Errorf("%s = %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"data/skills/github/link", "data/skills/github/.git", "data/skills/github/node_modules"} {
		if _, err := os.Lstat(filepath.Join(home, path)); err == nil {
			t.Errorf("%s was copied", path)
		}
	}
	for path, want := range map[string]os.FileMode{"": 0o700, "data": 0o700, "data/events": 0o700, "data/MEMORY.md": 0o600, "data/skills/github/bin/push": 0o700} {
		if info, err := os.Stat(filepath.Join(home, path)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	// A second time: the memory stays, the skill is brought up to date.
	if err := os.WriteFile(filepath.Join(home, "data", "MEMORY.md"), []byte("learned"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(skill, "SKILL.md"), []byte("newer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Scaffold(home, seed); err != nil {
		t.Fatal(err)
	}
	if got := text(t, filepath.Join(home, "data/MEMORY.md")) + text(t, filepath.Join(home, "skills/github/SKILL.md")); got != "learnednewer" {
		t.Errorf("after the second time: %q", got)
	}
}

// TestScaffoldFollowsNoLinkOut: the agent may have put links into its workspace
// before its parent, who may be root, writes there again.
func TestScaffoldFollowsNoLinkOut(t *testing.T) {
	outside := t.TempDir()
	for name, plant := range map[string]string{"skills": "data/skills/github", "events": "data/events", "models": "data/models.json"} {
		home := filepath.Join(t.TempDir(), "billing")
		seed := Seed{Name: "billing", Purpose: "x", Skills: []string{skillDir(t)}, Models: []byte("{}")}
		if err := Scaffold(home, Seed{Name: "billing", Purpose: "x"}); err != nil {
			t.Fatal(err)
		}
		planted := filepath.Join(home, plant)
		if err := os.RemoveAll(planted); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(outside, name), planted); err != nil {
			t.Fatal(err)
		}
		if err := Scaffold(home, seed); err == nil {
			t.Errorf("%s: the link was taken", name)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("written outside: %v, %v", left, err)
	}
}

func TestScaffoldSaysWhatIsMissing(t *testing.T) {
	home := filepath.Join(t.TempDir(), "billing")
	if err := Scaffold(home, Seed{Name: "billing", Skills: []string{filepath.Join(home, "no-such-skill")}}); err == nil || !strings.Contains(err.Error(), "no-such-skill") {
		t.Errorf("a missing skill: %v", err)
	}
	if err := Scaffold(home, Seed{Name: "billing", Constitution: filepath.Join(home, "none.md")}); err == nil {
		t.Error("a missing constitution: no error")
	}
}

func TestGiveLeavesTheHomeToItsMaker(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	home := filepath.Join(t.TempDir(), "billing")
	if err := Scaffold(home, Seed{Name: "billing", Purpose: "x"}); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(home, "data", "planted")); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	if err := Give(home, 4242, 4243, 4244); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][2]int{"": {0, 4243}, "README.md": {0, 0}, "events": {4244, 4243}, "data": {4242, 4243}, "data/MEMORY.md": {4242, 4243}, "data/planted": {4242, 4243}} {
		info, err := os.Lstat(filepath.Join(home, path))
		if err != nil {
			t.Fatal(err)
		}
		if uid, gid := owner(info); uid != want[0] || gid != want[1] {
			t.Errorf("%q belongs to %d:%d, want %v", path, uid, gid, want)
		}
	}
	if info, err := os.Stat(home); err != nil || info.Mode().Perm() != 0o711 {
		t.Errorf("home: %v, %v", info.Mode(), err)
	}
	after, err := os.Stat("/etc/passwd")
	if err != nil || !os.SameFile(before, after) {
		t.Fatal(err)
	}
	if uid, _ := owner(after); uid != 0 {
		t.Errorf("a link was followed: /etc/passwd belongs to %d", uid)
	}
}
