package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestInit(t *testing.T) {
	for name, c := range map[string]struct{ env, workspace, want string }{
		"in the workspace":       {"", "", "home/.iris/" + FileName},
		"in a named workspace":   {"", "ws", "dir/ws/" + FileName},
		"where IRIS_CONFIG says": {"IRIS_CONFIG=~/a/b/c.toml", "ws", "home/a/b/c.toml"},
	} {
		root := t.TempDir()
		src := Source{Dir: filepath.Join(root, "dir"), Home: filepath.Join(root, "home"), Environ: []string{c.env}, Workspace: c.workspace}
		path, err := Init(src)
		if err != nil || path != filepath.Join(root, c.want) {
			t.Errorf("%s: %s, %v", name, path, err)
			continue
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		write(t, path, "mine", 0o600)
		if _, err := Init(src); err == nil || !strings.Contains(err.Error(), "is there already") {
			t.Errorf("%s: a second time says %v", name, err)
		}
		if data, _ := os.ReadFile(path); string(data) != "mine" {
			t.Errorf("%s: the file was overwritten: %s", name, data)
		}
	}
}

// TestTemplate: it loads as it is, and with all that it proposes.
func TestTemplate(t *testing.T) {
	if _, warnings, err := Load(source(t, string(template))); err != nil || len(warnings) != 0 {
		t.Errorf("as it is: %v, %v", warnings, err)
	}
	proposed := regexp.MustCompile(`(?m)^# (\[|[a-z_]+ = )`).ReplaceAllString(string(template), "$1")
	src := source(t, proposed)
	if err := os.MkdirAll(filepath.Join(src.Home, "src", "web"), 0o700); err != nil {
		t.Fatal(err)
	}
	c, warnings, err := Load(src)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("with all: %v, %v", warnings, err)
	}
	if len(c.Projects) != 1 || c.AgentPrograms.Model != "opus" || c.Slack.AppToken.IsZero() || len(c.Projects[0].AllowUsers) != 1 {
		t.Errorf("with all: %+v", c.Projects)
	}
}
