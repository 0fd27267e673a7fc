package config

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite docs/configuration.md")

// source returns a Source on fresh directories, with a file if body is not empty.
func source(t *testing.T, body string, environ ...string) Source {
	t.Helper()
	src := Source{Dir: t.TempDir(), Home: t.TempDir(), Environ: environ}
	if body != "" {
		write(t, filepath.Join(src.Dir, FileName), body, 0o600)
	}
	return src
}

func write(t *testing.T, path, body string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(body), mode); err != nil {
		t.Fatal(err)
	}
}

func TestDefaults(t *testing.T) {
	src := source(t, "")
	c, warnings, err := Load(src)
	if err != nil || len(warnings) != 0 {
		t.Fatalf("Load() = %v, %v", warnings, err)
	}
	if c.Workspace != filepath.Join(src.Home, ".iris") || c.API.Host != "127.0.0.1" || c.API.Port != 3000 ||
		c.API.Timeout.Duration() != 10*time.Minute || c.Model.Timeout.Duration() != 90*time.Second ||
		c.Turns.MaxAge.Duration() != 4*time.Hour || c.Compact.Threshold != .7 || c.Bash.AuditFile != filepath.Join(c.Workspace, "meta", "bash-audit.log") {
		t.Errorf("defaults: %+v", c)
	}
}

func TestFlagsBeatEnvironmentBeatsFile(t *testing.T) {
	src := source(t, "[model]\nname = \"file\"\nprovider = \"file\"\n[api]\nport = 1\n[compact]\ntarget = 0.2\n",
		"IRIS_MODEL=env", "IRIS_API_PORT=2", "IRIS_PROVIDER=")
	src.Flags = map[string]string{"IRIS_API_PORT": "3"}
	c, _, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if c.Model.Name != "env" || c.Model.Provider != "file" || c.API.Port != 3 || c.Compact.Target != .2 {
		t.Errorf("Load() = %+v", c)
	}
}

func TestWorkspaceArgument(t *testing.T) {
	src := source(t, "")
	src.Workspace = "ws"
	write(t, filepath.Join(src.Dir, "ws", FileName), "[api]\nport = 4000\n", 0o600)
	c, _, err := Load(src)
	if err != nil || c.Workspace != filepath.Join(src.Dir, "ws") || c.API.Port != 4000 {
		t.Errorf("Load() = %+v, %v", c, err)
	}
}

func TestZeroMeansDefault(t *testing.T) {
	c, _, err := Load(source(t, "", "IRIS_LLM_TIMEOUT_SECS=0", "IRIS_LLM_MAX_RETRIES=0", "IRIS_API_PORT=0"))
	if err != nil || c.Model.Timeout != 90 || c.Model.Retries != 3 || c.API.Port != 3000 {
		t.Errorf("Load() = %+v, %v", c, err)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		environ []string
		want    string
	}{
		"unknown key":       {body: "[model]\nnmae = \"x\"\n", want: `there is no setting "model.nmae"; the nearest is "model.name"`},
		"unknown section":   {body: "[modle]\nname = \"x\"\n", want: `the nearest is "model`},
		"wrong type":        {body: "[api]\nport = \"x\"\n", want: "api.port"},
		"not toml":          {body: "[api\n", want: "line 2: expected"},
		"bad number":        {environ: []string{"IRIS_API_PORT=x"}, want: `IRIS_API_PORT="x" is not a whole number`},
		"port range":        {environ: []string{"IRIS_API_PORT=70000"}, want: "not a port"},
		"same port":         {environ: []string{"IRIS_WEBUI_PORT=3000"}, want: "serves the page already"},
		"time zone":         {environ: []string{"TZ=Mars/Olympus"}, want: "not a time zone"},
		"fraction":          {environ: []string{"IRIS_COMPACT_THRESHOLD=2"}, want: "not a fraction"},
		"target":            {environ: []string{"IRIS_COMPACT_TARGET=0.9"}, want: "must be below"},
		"negative":          {environ: []string{"IRIS_LLM_TIMEOUT_SECS=-1"}, want: "negative"},
		"log level":         {environ: []string{"IRIS_LOG_LEVEL=loud"}, want: "not one of debug"},
		"sandbox":           {environ: []string{"IRIS_SANDBOX=vm"}, want: "not a sandbox"},
		"sandbox name":      {environ: []string{"IRIS_SANDBOX=bwrap:x"}, want: "takes no name"},
		"no container":      {environ: []string{"IRIS_SANDBOX=docker:"}, want: "names no container"},
		"no microVM":        {environ: []string{"IRIS_SANDBOX=firecracker:box"}, want: "names no microVM"},
		"network":           {environ: []string{"IRIS_SANDBOX_NETWORK=some"}, want: "not one of none, host"},
		"relative read":     {environ: []string{"IRIS_SANDBOX_READ=opt"}, want: "not an absolute path"},
		"protected path":    {body: "[policy]\nprotected_paths = [\"x\"]\n", want: "not an absolute path"},
		"empty rule":        {body: "[policy]\ndeny = [\": why\"]\n", want: "names no command"},
		"fallback":          {environ: []string{"IRIS_MODEL_FALLBACK=gpt"}, want: "not provider/model"},
		"missing file":      {environ: []string{"IRIS_CONFIG=/does/not/exist"}, want: "IRIS_CONFIG"},
		"bool":              {environ: []string{"IRIS_VERBOSE_TOOLS=maybe"}, want: "not true or false"},
		"negative duration": {environ: []string{"IRIS_JOURNAL_MAX_AGE_HOURS=-2"}, want: "negative"},
	} {
		_, _, err := Load(source(t, c.body, c.environ...))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Load() = %v, want %q", name, err, c.want)
		}
	}
}

// TestLevels shows every way to say where commands run.
func TestLevels(t *testing.T) {
	for value, want := range map[string][2]string{
		"host": {"host"}, "bwrap": {"bwrap"}, "docker:box-1": {"docker", "box-1"},
		"firecracker:172.20.1.2": {"firecracker", "172.20.1.2"}, "firecracker-pool": {"firecracker-pool"},
	} {
		c, _, err := Load(source(t, "", "IRIS_SANDBOX="+value))
		if err != nil {
			t.Errorf("%s: %v", value, err)
			continue
		}
		if level, name := c.Level(); level != want[0] || name != want[1] {
			t.Errorf("%s: level %q, name %q", value, level, name)
		}
	}
}

func TestFileModeIsChecked(t *testing.T) {
	src := source(t, "")
	path := filepath.Join(src.Dir, FileName)
	write(t, path, "[api]\ntoken = \"abc\"\n", 0o600)
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(src); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("world-writable file: Load() = %v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	c, warnings, err := Load(src)
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "holds a secret") {
		t.Errorf("readable secret: Load() = %v, %v", warnings, err)
	}
	if got := fmt.Sprintf("%+v", c); strings.Contains(got, "abc") {
		t.Errorf("the token prints: %s", got)
	}
}

func TestDotEnvIsForUsAlone(t *testing.T) {
	src := source(t, "", "IRIS_MODEL=set", "IRIS_PROVIDER=")
	write(t, filepath.Join(src.Dir, ".env"), "IRIS_MODEL=dot\nANTHROPIC_API_KEY='k1'\nOTHER=x\nPATH=/evil\nexport IRIS_LOG_LEVEL=debug\n", 0o600)
	c, _, err := Load(src)
	if err != nil {
		t.Fatal(err)
	}
	if c.Model.Name != "set" || c.Log.Level != "debug" {
		t.Errorf("Load() = %+v", c)
	}
	if v, ok := c.Lookup("ANTHROPIC_API_KEY"); !ok || v.Reveal() != "k1" {
		t.Errorf("Lookup(ANTHROPIC_API_KEY) = %v, %v", v, ok)
	}
	for _, name := range []string{"OTHER", "PATH", "IRIS_PROVIDER", "NOPE"} {
		if _, ok := c.Lookup(name); ok {
			t.Errorf("Lookup(%s) found something", name)
		}
	}
	write(t, filepath.Join(src.Dir, ".env"), "S3CRET LINE 'x\n", 0o600)
	if _, _, err := Load(src); err == nil || strings.Contains(err.Error(), "S3CRET") {
		t.Errorf("broken .env: Load() = %v", err)
	}
}

// TestConfigurationTable keeps docs/configuration.md in step with the struct.
func TestConfigurationTable(t *testing.T) {
	var b strings.Builder
	b.WriteString("| in `iris.config.toml` | environment | default | what it does |\n|---|---|---|---|\n")
	for _, f := range Fields() {
		if f.Env == "" || f.Help == "" || f.Default == "" {
			t.Errorf("%s lacks an environment name, a default or a help text", f.Key)
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", f.Key, f.Env, f.Default, f.Help)
	}
	const path, open, shut = "../../docs/configuration.md", "<!-- table -->\n", "<!-- /table -->\n"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), open)
	_, tail, ok2 := strings.Cut(rest, shut)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the table marks", path)
	}
	want := head + open + b.String() + shut + tail
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(data) != want {
		t.Errorf("%s is not in step with config.Config: go test ./internal/config -update", path)
	}
}

func FuzzLoadFile(f *testing.F) {
	f.Add("[api]\nport = 1\n")
	f.Add("[model]\nfallback = [\"a/b\"]\n")
	f.Fuzz(func(t *testing.T, body string) {
		if body == "" {
			return
		}
		src := source(t, body)
		c, _, err := Load(src)
		if (c == nil) == (err == nil) {
			t.Fatalf("Load() = %v, %v", c, err)
		}
	})
}

// A variable that looks much like a setting is told about, one of a skill's own
// is not.
func TestMistypedVariable(t *testing.T) {
	dir := t.TempDir()
	_, warnings, err := Load(Source{Dir: dir, Home: dir, Environ: []string{"IRIS_API_PROT=1", "IRIS_TURN_TOKEN=x", "IRIS_COMMAND_ID=x", "IRIS_NONSENSE=1", "IRIS_API_PORT=3001"}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"the environment sets IRIS_API_PROT, which is no setting: the nearest is IRIS_API_PORT"}
	if !slices.Equal(warnings, want) {
		t.Errorf("warnings = %q, want %q", warnings, want)
	}
}

func TestNear(t *testing.T) {
	known := []string{"help", "api-port", "workspace", "session"}
	for word, want := range map[string]string{
		"hlep": "help", "api-prt": "api-port", "sesion": "session", "workspce": "workspace",
		"nope": "", "prot": "", "x": "", "": "", "completely-different": "",
	} {
		if got := Near(word, known); got != want {
			t.Errorf("Near(%q) = %q, want %q", word, got, want)
		}
	}
}
