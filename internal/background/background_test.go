package background

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fake is a manager whose service manager writes down what it is asked.
func fake(t *testing.T, system string) (m *Manager, asked *[]string, fail *error) {
	t.Helper()
	asked, fail = new([]string), new(error)
	m, err := New(Options{OS: system, Home: t.TempDir(), UID: 501, Program: "/opt/iris bin/iris", Args: []string{"serve", "--config", `/a "b" 100% $HOME <x>`}, Path: "/usr/bin:relative:/home/me/bin",
		Run: func(_ context.Context, name string, args ...string) (string, error) {
			*asked = append(*asked, strings.Join(append([]string{name}, args...), " "))
			return "words", *fail
		}})
	if err != nil {
		t.Fatal(err)
	}
	return m, asked, fail
}

func TestSystemd(t *testing.T) {
	m, asked, fail := fake(t, "linux")
	if err := m.Start(t.Context()); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("Start before Install says %v", err)
	}
	if err := m.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(m.File())
	if err != nil || !strings.HasSuffix(m.File(), ".config/systemd/user/iris.service") {
		t.Fatal(m.File(), err)
	}
	for _, want := range []string{
		"Type=notify\n", "Restart=always\n", "WantedBy=default.target\n",
		`ExecStart="/opt/iris bin/iris" "serve" "--config" "/a \"b\" 100%% $$HOME <x>"` + "\n",
		`Environment="PATH=/usr/bin:/home/me/bin:/usr/local/bin:/bin:/usr/sbin:/sbin:/opt/iris bin"` + "\n",
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the unit has no %q:\n%s", want, data)
		}
	}
	if text, running, err := m.Status(t.Context()); text != "words" || !running || err != nil {
		t.Errorf("Status says %q, %v, %v", text, running, err)
	}
	// Again: the same file, and it runs anew.
	for _, f := range []func(context.Context) error{m.Install, m.Stop, m.Start, m.Uninstall} {
		if err := f(t.Context()); err != nil {
			t.Error(err)
		}
	}
	want := strings.Split(strings.NewReplacer("|", "\nsystemctl --user ").Replace(
		"systemctl --user daemon-reload|enable iris.service|restart iris.service|--no-pager --lines=0 status iris.service|daemon-reload|enable iris.service|restart iris.service|stop iris.service|start iris.service|disable --now iris.service|daemon-reload"), "\n")
	if diff := cmp.Diff(want, *asked); diff != "" {
		t.Error(diff)
	}
	if _, _, err := m.Status(t.Context()); !errors.Is(err, ErrNotInstalled) {
		t.Errorf("after Uninstall Status says %v", err)
	}
	*fail = errors.New("exit status 1")
	if err := m.Install(t.Context()); err == nil || err.Error() != "systemctl --user daemon-reload: exit status 1: words" {
		t.Errorf("a failure is %v", err)
	}
	if _, running, err := m.Status(t.Context()); running || err != nil {
		t.Errorf("Status of one that does not run says %v, %v", running, err)
	}
}

// TestUnitIsOneForSystemd asks the real one.
func TestUnitIsOneForSystemd(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not here")
	}
	m, err := New(Options{OS: "linux", Home: t.TempDir(), Program: "/bin/true", Args: []string{"serve", `100% $HOME "x"`}, Path: "/usr/bin", Run: func(context.Context, string, ...string) (string, error) { return "", nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(analyze, "--user", "verify", m.File())
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "Failed to initialize manager") {
		t.Skipf("systemd-analyze cannot work here: %s", out)
	}
	if err != nil || strings.Contains(string(out), filepath.Base(m.File())) {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}

func TestLaunchd(t *testing.T) {
	m, asked, _ := fake(t, "darwin")
	if err := m.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(m.File())
	if err != nil || !strings.HasSuffix(m.File(), "Library/LaunchAgents/io.github.iris-operator.iris.plist") {
		t.Fatal(m.File(), err)
	}
	var words []string
	dec := xml.NewDecoder(strings.NewReader(string(data)))
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("the plist is no XML: %v", err)
		}
		if chars, ok := tok.(xml.CharData); ok && strings.TrimSpace(string(chars)) != "" {
			words = append(words, string(chars))
		}
	}
	all := strings.Join(words, "|")
	for _, want := range []string{"Label|io.github.iris-operator.iris", `ProgramArguments|/opt/iris bin/iris|serve|--config|/a "b" 100% $HOME <x>`, "KeepAlive|ThrottleInterval|10|", "/Library/Logs/iris/err.log", "PATH|/opt/homebrew/bin:"} {
		if !strings.Contains(all, want) {
			t.Errorf("the plist has no %q: %s", want, all)
		}
	}
	for _, f := range []func(context.Context) error{m.Stop, m.Start, m.Uninstall} {
		if err := f(t.Context()); err != nil {
			t.Error(err)
		}
	}
	got := strings.ReplaceAll(strings.Join(*asked, "\n"), m.opts.Home, "~")
	const target = "gui/501/io.github.iris-operator.iris"
	want := "mkdir -p ~/Library/Logs/iris\nlaunchctl bootstrap gui/501 ~/Library/LaunchAgents/io.github.iris-operator.iris.plist\nlaunchctl bootout " + target + "\nlaunchctl bootstrap gui/501 ~/Library/LaunchAgents/io.github.iris-operator.iris.plist\nlaunchctl bootout " + target
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestInstallReplacesAnotherOne: what ran before is stopped first.
func TestInstallReplacesAnotherOne(t *testing.T) {
	m, asked, _ := fake(t, "darwin")
	if err := os.MkdirAll(filepath.Dir(m.File()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.File(), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := m.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix((*asked)[0], "launchctl bootout") {
		t.Errorf("asked was %q", *asked)
	}
}

func TestWhatCannotBeInstalled(t *testing.T) {
	run := func(context.Context, string, ...string) (string, error) { return "", nil }
	for name, o := range map[string]Options{
		"another system":    {OS: "plan9", Home: "/h", Program: "/p", Run: run},
		"relative program":  {OS: "linux", Home: "/h", Program: "p", Run: run},
		"a line break":      {OS: "linux", Home: "/h", Program: "/p", Args: []string{"a\nExecStartPre=/bin/evil"}, Run: run},
		"nothing to run it": {OS: "linux", Home: "/h", Program: "/p"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}
