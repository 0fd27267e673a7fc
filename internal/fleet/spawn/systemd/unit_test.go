package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-systemd/v22/unit"
	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/fleet/spawn"
	"github.com/iris-operator/iris/internal/secret"
)

func spec(home string) spawn.Spec {
	return spawn.Spec{
		SelfHeal: true,
		Name:     "billing", Purpose: "Invoices: 100% of them\nand $HOME reminders \\", Home: home, Bridge: 4200,
		Env: map[string]string{"IRIS_PROVIDER": "anthropic", "IRIS_MODEL": `a "b" %h $USER \ c` + "\n[Service]\nEnvironmentFile=/iris/.env"},
		Secrets: map[string]secret.Value{
			"ANTHROPIC_API_KEY": secret.New("sk-canary-1"), "IRIS_API_TOKEN": secret.New("tok-canary-2"),
		},
	}
}

func driver(t *testing.T, opts Options) *Driver {
	t.Helper()
	if opts.Binary == "" {
		opts.Binary = "/usr/local/bin/iris"
	}
	d, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// options reads a unit with another program's parser.
func options(t *testing.T, text []byte) []*unit.UnitOption {
	t.Helper()
	all, err := unit.DeserializeOptions(strings.NewReader(string(text)))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return all
}

// TestTheUnitOfAnAgent: the directives of the specification, by their values.
func TestTheUnitOfAnAgent(t *testing.T) {
	d := driver(t, Options{})
	text, err := d.text(spec("/iris/agents/billing"), "irisa-billing")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, o := range options(t, text) {
		got[o.Name] = append(got[o.Name], o.Value)
	}
	for name, want := range map[string][]string{
		"After": {"network-online.target iris.service"}, "Type": {"simple"}, "User": {"irisa-billing"},
		"WorkingDirectory": {"/iris/agents/billing/data"},
		"Environment": {`"HOME=/iris/agents/billing/data"`, `"AGENT_NAME=billing"`, `"IRIS_ENV=prod"`, `"IRIS_BRIDGE_PORT=4200"`, `"IRIS_API_PORT=4300"`, `"IRIS_EVENTS_DIR=/iris/agents/billing/events"`,
			`"IRIS_MODEL=a \"b\" %%h $USER \\ c\x0a[Service]\x0aEnvironmentFile=/iris/.env"`, `"IRIS_PROVIDER=anthropic"`},
		"ExecStart": {`"/usr/local/bin/iris" "serve" "--sandbox=host" "/iris/agents/billing/data"`},
		"Restart":   {"always"}, "RestartSec": {"10"}, "WantedBy": {"multi-user.target"},
		"StandardOutput": {"append:/iris/agents/billing/billing.log"}, "StandardError": {"append:/iris/agents/billing/billing.log"},
		"LoadCredential": {"ANTHROPIC_API_KEY:/etc/iris/agents/billing/ANTHROPIC_API_KEY", "IRIS_API_TOKEN:/etc/iris/agents/billing/IRIS_API_TOKEN"},
		"Description":    {"Iris agent billing: Invoices: 100%% of them and $HOME reminders"},
		"ReadWritePaths": {`"/iris/agents/billing/data" "/iris/agents/billing/events"`},
	} {
		if diff := cmp.Diff(want, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got["EnvironmentFile"] != nil || got["PassEnvironment"] != nil {
		t.Errorf("the unit brings in an environment:\n%s", text)
	}
	if strings.Contains(string(text), "canary") {
		t.Errorf("a secret is in the unit, which everybody can read:\n%s", text)
	}
}

// TestNoUnitNamesAnEnvironmentFile: the writer refuses, whatever it is asked.
func TestNoUnitNamesAnEnvironmentFile(t *testing.T) {
	for name, add := range map[string]func(u *unitText){
		"directly":         func(u *unitText) { u.line("EnvironmentFile", "/iris/.env") },
		"pass":             func(u *unitText) { u.line("PassEnvironment", "IRIS_SLACK_BOT_TOKEN") },
		"in a key":         func(u *unitText) { u.line("Type=simple\nEnvironmentFile", "/iris/.env") },
		"in a value":       func(u *unitText) { u.line("Type", "simple\nEnvironmentFile=/iris/.env") },
		"carriage return":  func(u *unitText) { u.line("Type", "simple\rEnvironmentFile=/iris/.env") },
		"in a path":        func(u *unitText) { u.path("WorkingDirectory", "", "/x\nEnvironmentFile=/iris/.env") },
		"continued":        func(u *unitText) { u.line("Type", `simple\`) },
		"path with quotes": func(u *unitText) { u.path("WorkingDirectory", "", `/x" y`) },
		"relative path":    func(u *unitText) { u.path("WorkingDirectory", "", "x") },
		"no command":       func(u *unitText) { u.command("ExecStart") },
		"relative command": func(u *unitText) { u.command("ExecStart", "-/bin/false") },
	} {
		u := &unitText{}
		u.section("Service")
		add(u)
		if text, err := u.finish(); err == nil {
			t.Errorf("%s: written:\n%s", name, text)
		}
	}
	u := &unitText{}
	u.section("Unit")
	u.text("Description", "x\nEnvironmentFile=/iris/.env \\")
	text, err := u.finish()
	if want := "[Unit]\nDescription=x EnvironmentFile=/iris/.env \n"; err != nil || string(text) != want {
		t.Errorf("a description became %q, %v, want %q", text, err, want)
	}
}

// TestValuesComeBackAsTheyAre: systemd's own rules, read backwards.
func TestValuesComeBackAsTheyAre(t *testing.T) {
	for _, v := range []string{"", "plain", "%h", "100%", `a\`, `"`, `\"`, "$HOME", "${X}", "tab\there", "line\nend", "ünïcödé", " spaces ", "'", "#", ";x"} {
		u := &unitText{}
		u.section("Service")
		u.environ("X", v)
		text, err := u.finish()
		if err != nil {
			t.Errorf("%q: %v", v, err)
			continue
		}
		if got := unquote(t, options(t, text)[0].Value); got != "X="+v {
			t.Errorf("%q comes back as %q from %s", v, got, text)
		}
	}
}

// unquote does what systemd.syntax(7) says of a quoted word and of specifiers.
func unquote(t *testing.T, word string) string {
	t.Helper()
	word, ok := strings.CutPrefix(word, `"`)
	if !ok || !strings.HasSuffix(word, `"`) {
		t.Fatalf("%s is not quoted", word)
	}
	word = strings.TrimSuffix(word, `"`)
	var b strings.Builder
	for i := 0; i < len(word); i++ {
		switch {
		case strings.HasPrefix(word[i:], `\x`):
			b.WriteByte(unhex(word[i+2])<<4 | unhex(word[i+3]))
			i += 3
		case word[i] == '\\':
			i++
			b.WriteByte(word[i])
		case word[i] == '"':
			t.Fatalf("a bare quote in %s", word)
		case word[i] == '%':
			i++
			if i == len(word) || word[i] != '%' {
				t.Fatalf("a specifier in %s", word)
			}
			b.WriteByte('%')
		default:
			b.WriteByte(word[i])
		}
	}
	return b.String()
}

func unhex(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

func FuzzEnvironment(f *testing.F) {
	f.Add("a", "b")
	f.Add("%n\n", "\\\"\x00")
	f.Fuzz(func(t *testing.T, purpose, value string) {
		s := spec("/iris/agents/billing")
		s.Purpose, s.Env = purpose, map[string]string{"IRIS_MODEL": value}
		if s.Check() != nil {
			return
		}
		text, err := driver(t, Options{}).text(s, "")
		if err != nil {
			return
		}
		var names []string
		for line := range strings.Lines(string(text)) {
			if key, _, ok := strings.Cut(line, "="); ok {
				names = append(names, key)
			}
		}
		if slices.Contains(names, "EnvironmentFile") || strings.Count(string(text), "\nExecStart=") != 1 || strings.Count(string(text), "\nEnvironment=") != 7 {
			t.Fatalf("a value became a directive:\n%s", text)
		}
	})
}

func TestAccountNames(t *testing.T) {
	long := strings.Repeat("a", 40)
	for name, want := range map[string]string{"billing": "irisa-billing", long: "irisa-aaaaaaaaaaaaaaaa-"} {
		got := accountOf(name)
		if !strings.HasPrefix(got, want) || len(got) > maxAccount {
			t.Errorf("accountOf(%s) = %s", name, got)
		}
	}
	if accountOf(long) == accountOf(long[:39]+"b") {
		t.Error("two long names share a user")
	}
}

// TestWalls: where an agent's home lies decides how it is put behind the wall.
func TestWalls(t *testing.T) {
	base := t.TempDir()
	shut := filepath.Join(base, "shut")
	if err := os.MkdirAll(filepath.Join(shut, "agents", "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	for dir := base; dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&1 == 0 {
			if err := os.Chmod(dir, info.Mode().Perm()|0o011); err != nil {
				t.Skip("the test's own directory cannot be opened: ", err)
			}
		}
	}
	if err := os.Chmod(shut, 0o700); err != nil {
		t.Fatal(err)
	}
	inside := filepath.Join(shut, "agents", "a")
	for name, c := range map[string]struct {
		home, binary string
		want, not    []string
	}{
		"plain":        {"/iris/agents/a", "/usr/bin/iris", []string{`ReadWritePaths="/iris/agents/a/data" "/iris/agents/a/events"`, "ProtectHome=yes", `InaccessiblePaths="-/iris/.env"`}, []string{"BindPaths", "Temporary"}},
		"in a home":    {"/home/ann/agents/a", "/usr/bin/iris", []string{`BindPaths="/home/ann/agents/a/data" "/home/ann/agents/a/events"`, "ProtectHome=tmpfs"}, []string{"ReadWritePaths"}},
		"binary there": {"/iris/agents/a", "/home/ann/bin/iris", []string{`BindReadOnlyPaths="/home/ann/bin/iris"`, "ProtectHome=tmpfs"}, nil},
		"closed above": {inside, "/usr/bin/iris", []string{`TemporaryFileSystem="` + shut + `:ro"`, `BindPaths="` + inside + `/data" "` + inside + `/events"`}, []string{"ReadWritePaths"}},
	} {
		s := spec(c.home)
		text, err := driver(t, Options{Binary: c.binary, Hidden: []string{"/iris/.env"}}).text(s, "irisa-a")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, w := range c.want {
			if !strings.Contains(string(text), w+"\n") {
				t.Errorf("%s: no %s in\n%s", name, w, text)
			}
		}
		for _, n := range c.not {
			if strings.Contains(string(text), n) {
				t.Errorf("%s: %s in\n%s", name, n, text)
			}
		}
	}
}

// TestSystemdAcceptsTheUnit asks systemd itself.
func TestSystemdAcceptsTheUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	dir := t.TempDir()
	home := filepath.Join(dir, "billing")
	if err := spawn.Scaffold(home, spawn.Seed{Name: "billing", Purpose: "x"}); err != nil {
		t.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	d := driver(t, Options{Binary: binary, Hidden: []string{"/iris/.env"}})
	text, err := d.text(spec(home), "daemon")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, Unit("billing"))
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--recursive-errors=no", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s\n%s", err, out, text)
	}
	// 0 is no exposure, 10 all there is; a service without hardening has 9.6.
	out, err := exec.Command(analyze, "security", "--offline=yes", "--threshold=30", file).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
}
