package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCredentialsOfTheServiceManager(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"ANTHROPIC_API_KEY": "from a credential\n", "OPENAI_API_KEY": "from a credential", "IRIS_API_TOKEN": "own token\n",
		"IRIS_MODEL": "credential", "PATH": "/evil", "notes.txt": "x", "lower_api_key": "x", "MISTRAL_API_KEY": "two\n\n",
	} {
		write(t, filepath.Join(dir, name), text, 0o400)
	}
	if err := os.Mkdir(filepath.Join(dir, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	src := source(t, "", "CREDENTIALS_DIRECTORY="+dir, "OPENAI_API_KEY=from the environment", "IRIS_MODEL=")
	write(t, filepath.Join(src.Dir, ".env"), "ANTHROPIC_API_KEY=from .env\nDEEPSEEK_API_KEY=from .env\n", 0o600)
	c, _, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"ANTHROPIC_API_KEY": "from a credential", "OPENAI_API_KEY": "from the environment", "DEEPSEEK_API_KEY": "from .env",
		"PATH": "", "lower_api_key": "", "MISTRAL_API_KEY": "two\n",
	} {
		if v, _ := c.Lookup(name); v.Reveal() != want {
			t.Errorf("Lookup(%s) = %q, want %q", name, v.Reveal(), want)
		}
	}
	if c.API.Token.Reveal() != "own token" || c.Model.Name != "" {
		t.Errorf("token %q, model %q", c.API.Token.Reveal(), c.Model.Name)
	}
	write(t, filepath.Join(dir, "XAI_API_KEY"), strings.Repeat("x", maxCredential+1), 0o400)
	if _, _, err := Load(src); err == nil || !strings.Contains(err.Error(), "XAI_API_KEY") || strings.Contains(err.Error(), "xxx") {
		t.Errorf("a huge credential: %v", err)
	}
	if _, _, err := Load(source(t, "", "CREDENTIALS_DIRECTORY="+filepath.Join(dir, "missing"))); err == nil {
		t.Error("a missing directory is no error")
	}
}

func TestWhereAgentsLive(t *testing.T) {
	for _, c := range []struct{ workspace, dir, registry string }{
		{"/iris/data", "/iris/agents", "/iris/data/agents.json"},
		{"/srv/iris", "/srv/iris/agents", "/srv/iris/agents.json"},
	} {
		src := source(t, "")
		src.Workspace = c.workspace
		got, _, err := Load(src)
		if err != nil {
			t.Fatal(err)
		}
		if got.Agents.Dir != c.dir || got.Agents.Registry != c.registry || got.Agents.Repo != "" {
			t.Errorf("%s: %+v", c.workspace, got.Agents)
		}
	}
	src := source(t, "", "IRIS_AGENTS_DIR=a", "IRIS_AGENTS_REGISTRY=~/r.json", "IRIS_REPO_DIR=/repo/")
	got, _, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if got.Agents.Dir != filepath.Join(src.Dir, "a") || got.Agents.Registry != filepath.Join(src.Home, "r.json") || got.Agents.Repo != "/repo" {
		t.Errorf("%+v", got.Agents)
	}
}
