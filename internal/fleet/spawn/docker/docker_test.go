package docker

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/fleet/spawn"
	"github.com/iris-operator/iris/internal/fleet/spawn/spawntest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newDriver(t *testing.T) (*Driver, *engine) {
	t.Helper()
	e, c := newEngine(t)
	d, err := New(Options{Engine: c, Credentials: filepath.Join(t.TempDir(), "credentials"), UID: 65532, GID: 65532})
	if err != nil {
		t.Fatal(err)
	}
	return d, e
}

func TestSuite(t *testing.T) {
	spawntest.Run(t, func(t *testing.T) spawntest.Place {
		d, e := newDriver(t)
		return spawntest.Place{
			Driver: d,
			Environ: func(t *testing.T, name string) map[string]string {
				c := e.container(t, name)
				vars := c.vars()
				for _, m := range c.HostConfig.Mounts {
					if m.Target != vars["CREDENTIALS_DIRECTORY"] {
						continue
					}
					entries, err := os.ReadDir(m.Source)
					if err != nil || !m.ReadOnly {
						t.Errorf("the secrets: %v, read-only %v", err, m.ReadOnly)
					}
					for _, f := range entries {
						b, err := os.ReadFile(filepath.Join(m.Source, f.Name()))
						if err != nil {
							t.Error(err)
						}
						vars[f.Name()] = string(b)
					}
				}
				return vars
			},
			Public: func(t *testing.T, name string) string {
				info, err := os.Stat(d.secrets(name))
				if err != nil || info.Mode().Perm() != 0o700 {
					t.Errorf("the directory of secrets: %v, %v", info.Mode(), err)
				}
				return e.container(t, name).raw
			},
			Print: func(t *testing.T, name, line string) {
				c := e.container(t, name)
				e.mu.Lock()
				defer e.mu.Unlock()
				c.log = append(c.log, line)
			},
		}
	})
}

// TestTheContainerOfAnAgent: the specification's settings, as the engine got
// them.
func TestTheContainerOfAnAgent(t *testing.T) {
	d, e := newDriver(t)
	s := spawntest.Spec(t, "billing", 4200)
	s.SelfHeal = true
	s.Env["IRIS_API_URL"] = "http://127.0.0.1:3000"
	s.Env["IRIS_SECRET_BROKER_URL"] = "http://10.0.0.5:3000"
	if err := d.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	c := e.container(t, "billing")
	if c.Image != "iris-runtime:local" || c.User != "65532:65532" || !slices.Equal(c.Cmd, []string{"serve", "--sandbox=host", "/workspace"}) {
		t.Errorf("image %s, user %s, command %q", c.Image, c.User, c.Cmd)
	}
	h := c.HostConfig
	if h.RestartPolicy.Name != "unless-stopped" || h.NetworkMode != "iris-internal" || !slices.Equal(h.ExtraHosts, []string{"iris-host:host-gateway"}) ||
		!slices.Equal(h.CapDrop, []string{"ALL"}) || !slices.Equal(h.SecurityOpt, []string{"no-new-privileges"}) || !h.ReadonlyRootfs {
		t.Errorf("host settings: %+v", h)
	}
	for _, port := range []string{"4200", "4300"} {
		if b := h.PortBindings[port+"/tcp"]; len(b) != 1 || b[0].HostIp != "127.0.0.1" || b[0].HostPort != port {
			t.Errorf("port %s: %v", port, b)
		}
	}
	vars := c.vars()
	for name, want := range map[string]string{
		"IRIS_BRIDGE_HOST": "0.0.0.0", "IRIS_API_HOST": "0.0.0.0", "IRIS_API_URL": "http://iris-host:3000",
		"IRIS_SECRET_BROKER_URL": "http://10.0.0.5:3000", "IRIS_EVENTS_DIR": s.Events(),
	} {
		if vars[name] != want {
			t.Errorf("%s = %q, want %q", name, vars[name], want)
		}
	}
	if !e.networks["iris-internal"] {
		t.Error("the network was not made")
	}
}

// TestChatTokensAreAlwaysSetAndEmpty: what is not set could come from an image,
// an env file or a .env in the workspace.
func TestChatTokensAreAlwaysSetAndEmpty(t *testing.T) {
	d, e := newDriver(t)
	if err := d.Create(t.Context(), spawntest.Spec(t, "billing", 4200)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"IRIS_SLACK_APP_TOKEN", "IRIS_SLACK_BOT_TOKEN", "TELEGRAM_BOT_TOKEN"} {
		n := 0
		for _, kv := range e.container(t, "billing").Env {
			if strings.HasPrefix(kv, name+"=") {
				n++
			}
		}
		if v, set := e.container(t, "billing").vars()[name]; v != "" || !set || n != 1 {
			t.Errorf("%s = %q, set %v, %d times", name, v, set, n)
		}
	}
}

func TestStatusInNumbers(t *testing.T) {
	d, e := newDriver(t)
	if err := d.Create(t.Context(), spawntest.Spec(t, "billing", 4200)); err != nil {
		t.Fatal(err)
	}
	if st, err := d.Status(t.Context(), "billing"); err != nil || st.Memory != 4096 || st.Restarts != 3 || st.Since.Year() != 2026 {
		t.Errorf("Status = %+v, %v", st, err)
	}
	for word, want := range map[string]spawn.State{"restarting": spawn.Waiting, "created": spawn.Stopped, "dead": spawn.Failed, "paused": spawn.Running} {
		e.container(t, "billing").status = word
		if st, err := d.Status(t.Context(), "billing"); err != nil || st.State != want {
			t.Errorf("%s: Status = %+v, %v", word, st, err)
		}
	}
}

// TestContainersOfOthersAreLeftAlone: one that is called like an agent's.
func TestContainersOfOthersAreLeftAlone(t *testing.T) {
	d, e := newDriver(t)
	e.containers["iris-broker"] = &made{status: "running"}
	if err := d.Stop(t.Context(), "broker"); err == nil {
		t.Error("Stop: no error")
	}
	if err := d.Remove(t.Context(), "broker"); err != nil {
		t.Errorf("Remove = %v", err)
	}
	if err := d.Create(t.Context(), spawntest.Spec(t, "broker", 4200)); err == nil || !strings.Contains(err.Error(), "is no agent") {
		t.Errorf("Create = %v", err)
	}
	if e.container(t, "broker").status != "running" {
		t.Error("somebody else's container was touched")
	}
}

func TestAMissingImageSaysHowToMakeIt(t *testing.T) {
	d, e := newDriver(t)
	delete(e.images, DefaultImage)
	if err := d.Create(t.Context(), spawntest.Spec(t, "billing", 4200)); err == nil || !strings.Contains(err.Error(), "iris image build") {
		t.Errorf("Create = %v", err)
	}
}

func TestBuildImage(t *testing.T) {
	e, c := newEngine(t)
	delete(e.images, DefaultImage)
	var out bytes.Buffer
	img := Image{Binary: []byte("ELF"), Certificates: []byte("PEM")}
	if err := BuildImage(t.Context(), c, img, &out); err != nil {
		t.Fatal(err)
	}
	if !e.images[DefaultImage] || out.String() != "Step 1\nSuccessfully built\n" {
		t.Errorf("images %v, told %q", e.images, &out)
	}
	if e.built["iris"] != "755 ELF" || e.built["ca-certificates.crt"] != "644 PEM" || !strings.Contains(e.built["Dockerfile"], "FROM scratch\n") {
		t.Errorf("built from %q", e.built)
	}
	img.From, img.Tag = "debian:stable-slim", "mine:1"
	if err := BuildImage(t.Context(), c, img, &out); err != nil || !e.images["mine:1"] || !strings.Contains(e.built["Dockerfile"], "FROM debian:stable-slim\n") {
		t.Errorf("BuildImage = %v, %q", err, e.built)
	}
	e.buildFails = "no space left"
	if err := BuildImage(t.Context(), c, img, &out); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("BuildImage = %v", err)
	}
	for name, bad := range map[string]Image{"no binary": {Certificates: []byte("x")}, "no certificates": {Binary: []byte("x")}, "recipe": {Binary: []byte("x"), Certificates: []byte("x"), From: "a\nRUN evil"}} {
		if err := BuildImage(t.Context(), c, bad, &out); err == nil {
			t.Errorf("%s: built", name)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, c := newEngine(t)
	for name, o := range map[string]Options{"no engine": {Credentials: "/c", UID: 1, GID: 1}, "relative": {Engine: c, Credentials: "c", UID: 1, GID: 1}, "root": {Engine: c, Credentials: "/c"}} {
		if _, err := New(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
