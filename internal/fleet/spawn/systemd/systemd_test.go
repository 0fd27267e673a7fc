package systemd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/fleet/spawn"
	"github.com/iris-operator/iris/internal/fleet/spawn/spawntest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// systemctl is a service manager that starts nothing: it knows which units are
// enabled and which run. It fails where the real one does.
const systemctl = `#!/bin/sh
state=$(dirname "$0")/state; units=$(dirname "$0")/units
[ "$1" = --user ] && shift
echo "$@" >>"$(dirname "$0")/calls"
verb=$1; for unit; do :; done
if [ "$verb" != daemon-reload ] && [ ! -f "$units/$unit" ]; then echo "Unit $unit not found." >&2; exit 5; fi
case $verb in
daemon-reload) ;;
enable) touch "$state/$unit.enabled" ;;
disable) rm -f "$state/$unit.enabled" "$state/$unit.running" ;;
restart) [ -f "$state/$unit.enabled" ] || exit 1; touch "$state/$unit.running" ;;
show) active=inactive sub=dead; [ -f "$state/$unit.running" ] && active=active sub=running
	printf 'ActiveState=%s\nSubState=%s\nNRestarts=2\nMemoryCurrent=1048576\nStateChangeTimestamp=@1700000000\n' $active $sub ;;
*) exit 1 ;;
esac
`

type place struct {
	spawntest.Place
	dir string
}

func newPlace(t *testing.T) place {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(systemctl), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"state", "units"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	d := driver(t, Options{Units: filepath.Join(dir, "units"), Credentials: filepath.Join(dir, "credentials"), Systemctl: filepath.Join(dir, "systemctl")})
	p := place{dir: dir}
	p.Place = spawntest.Place{Driver: d, Environ: p.environ, Public: p.unit, Print: p.print}
	return p
}

// unit is the unit file, which is what others may read; it also checks that
// the credentials are not.
func (p place) unit(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(p.dir, "units", Unit(name)))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(filepath.Join(p.dir, "credentials", name), func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// environ is what the service would have, by the unit's own lines.
func (p place) environ(t *testing.T, name string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range options(t, []byte(p.unit(t, name))) {
		switch o.Name {
		case "Environment":
			k, v, _ := strings.Cut(unquote(t, o.Value), "=")
			out[k] = v
		case "LoadCredential":
			k, path, _ := strings.Cut(o.Value, ":")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
			}
			out[k] = string(text)
		}
	}
	return out
}

func (p place) print(t *testing.T, name, line string) {
	t.Helper()
	path := ""
	for _, o := range options(t, []byte(p.unit(t, name))) {
		if o.Name == "StandardOutput" {
			path = strings.TrimPrefix(o.Value, "append:")
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
}

func TestSuite(t *testing.T) {
	spawntest.Run(t, func(t *testing.T) spawntest.Place { return newPlace(t).Place })
}

func TestStatusInNumbers(t *testing.T) {
	p := newPlace(t)
	s := spawntest.Spec(t, "billing", 4200)
	if err := p.Driver.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	st, err := p.Driver.Status(t.Context(), s.Name)
	if err != nil || st.Restarts != 2 || st.Memory != 1<<20 || !st.Since.Equal(time.Unix(1700000000, 0)) || st.Detail != "active (running)" {
		t.Errorf("Status = %+v, %v", st, err)
	}
	for text, want := range map[string]spawn.Status{
		"ActiveState=activating\nSubState=auto-restart\nMemoryCurrent=[not set]\n":        {State: spawn.Waiting, Detail: "activating (auto-restart)"},
		"ActiveState=failed\nSubState=failed\nMemoryCurrent=18446744073709551615\n":       {State: spawn.Failed, Detail: "failed (failed)"},
		"ActiveState=new word\nSubState=x\nStateChangeTimestamp=\nNRestarts=not a number": {State: spawn.Failed, Detail: "new word (x)"},
	} {
		if got := parseShow([]byte(text)); got != want {
			t.Errorf("parseShow(%q) = %+v, want %+v", text, got, want)
		}
	}
}

func TestTheUsersOwnManager(t *testing.T) {
	p := newPlace(t)
	d := driver(t, Options{User: true, Units: filepath.Join(p.dir, "units"), Credentials: filepath.Join(p.dir, "credentials"), Systemctl: filepath.Join(p.dir, "systemctl")})
	s := spawntest.Spec(t, "billing", 4200)
	if err := d.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	calls, err := os.ReadFile(filepath.Join(p.dir, "calls"))
	if err != nil || !strings.Contains(string(calls), "restart "+Unit("billing")) {
		t.Errorf("calls: %s, %v", calls, err)
	}
	text := p.unit(t, "billing")
	if strings.Contains(text, "User=") || strings.Contains(text, "ProtectSystem") || !strings.Contains(text, "WantedBy=default.target") {
		t.Errorf("the unit of a user:\n%s", text)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	p := newPlace(t)
	s := spawntest.Spec(t, "billing", 4200)
	if err := p.Driver.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	p.print(t, s.Name, "ready")
	ctx, cancel := context.WithCancel(t.Context())
	out := &signal{want: "ready", seen: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- p.Driver.Logs(ctx, s.Name, out, spawn.LogOptions{Follow: true}) }()
	<-out.seen
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Logs = %v", err)
	}
}

// signal closes seen when want was written.
type signal struct {
	want string
	seen chan struct{}
	text strings.Builder
	told bool
}

func (s *signal) Write(p []byte) (int, error) {
	s.text.Write(p)
	if !s.told && strings.Contains(s.text.String(), s.want) {
		s.told = true
		close(s.seen)
	}
	return len(p), nil
}

func TestAFailingManagerIsQuoted(t *testing.T) {
	p := newPlace(t)
	script := "#!/bin/sh\necho 'no bus for canary' >&2\nexit 3\n"
	if err := os.WriteFile(filepath.Join(p.dir, "systemctl"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	err := p.Driver.Create(t.Context(), spawntest.Spec(t, "billing", 4200))
	if err == nil || !strings.Contains(err.Error(), "no bus for canary") {
		t.Errorf("Create = %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, opts := range map[string]Options{
		"relative": {Binary: "iris"}, "none": {}, "user": {Binary: "/iris", User: true},
		"dedicated": {Binary: "/iris", User: true, Units: "/u", Credentials: "/c", Dedicated: true},
	} {
		if _, err := New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
