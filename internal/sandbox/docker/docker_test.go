package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/dockerapi"
	"github.com/iris-operator/iris/internal/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engineHost is where the engine for tests listens; scripts/e2e.sh starts one.
func engineHost(t testing.TB) string {
	t.Helper()
	host := os.Getenv("IRIS_TEST_DOCKER")
	if host == "" {
		t.Skip("no engine: IRIS_TEST_DOCKER is not set; make e2e starts one")
	}
	return host
}

// image imports an image of what Debian's busybox-static and bash-static bring; no
// registry is asked.
func image(t testing.TB, c *dockerapi.Client, withBash bool) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, data []byte) {
		t.Helper()
		h.Size = int64(len(data))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin/", "tmp/", "etc/", "usr/", "workspace/"} {
		mode := int64(0o755)
		if dir == "tmp/" {
			mode = 0o1777
		}
		add(tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: mode}, nil)
	}
	program := func(path, as string) {
		t.Helper()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Skipf("no %s: apt install busybox-static bash-static", path)
		}
		add(tar.Header{Name: as, Typeflag: tar.TypeReg, Mode: 0o755}, data)
	}
	program("/usr/bin/busybox", "bin/busybox")
	if withBash {
		program("/usr/bin/bash-static", "bin/bash")
	}
	// Debian's busybox has none.
	add(tar.Header{Name: "bin/nohup", Typeflag: tar.TypeReg, Mode: 0o755}, []byte("#!/bin/sh\ntrap '' HUP\nexec \"$@\"\n"))
	list, err := exec.Command("/usr/bin/busybox", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(string(list)) {
		if name != "busybox" && name != "bash" {
			add(tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := "iris-test:sh"
	if withBash {
		name = "iris-test:bash"
	}
	// Its answer is its progress, one object after the other.
	got, err := c.Stream(t.Context(), "POST", "/images/create?fromSrc=-&repo="+name, "application/x-tar", &b)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	if said, err := io.ReadAll(got); err != nil || bytes.Contains(said, []byte("error")) {
		t.Fatalf("import the image: %s, %v", said, err)
	}
	return name
}

// A testBox is a container for a test.
type testBox struct {
	host, name, workspace string
	engine                *dockerapi.Client
}

// A boxConfig is what the engine is told to make.
type boxConfig struct {
	Image      string
	Cmd, Env   []string
	HostConfig struct {
		NetworkMode string
		Binds       []string
		Tmpfs       map[string]string
		Privileged  bool
	}
}

// reap is a first process that waits for orphans, as an init does.
const reap = `trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done`

func start(t testing.TB, withBash bool, change func(*boxConfig)) testBox {
	t.Helper()
	host := engineHost(t)
	ws, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(ws+"/state", 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := dockerapi.New(dockerapi.Options{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	shell := "/bin/sh"
	if withBash {
		shell = "/bin/bash"
	}
	cfg := &boxConfig{Image: image(t, c, withBash), Cmd: []string{shell, "-c", reap}, Env: []string{"CONTAINER_TOKEN=x"}}
	cfg.HostConfig.NetworkMode, cfg.HostConfig.Binds = "none", []string{ws + ":/workspace"}
	cfg.HostConfig.Tmpfs = map[string]string{"/workspace/state": ""}
	if change != nil {
		change(cfg)
	}
	var made struct {
		ID string `json:"Id"`
	}
	if err := c.Do(t.Context(), "POST", "/containers/create", cfg, &made); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Do(ctx, "DELETE", "/containers/"+made.ID+"?force=1", nil, nil); err != nil {
			t.Errorf("remove the container: %v", err)
		}
	})
	// An engine that lacks the rights to give does not start a privileged one.
	if err := c.Do(t.Context(), "POST", "/containers/"+made.ID+"/start", nil, nil); err != nil && !cfg.HostConfig.Privileged {
		t.Fatal(err)
	}
	return testBox{host, made.ID, ws, c}
}

func (b testBox) open(t testing.TB) *Docker {
	t.Helper()
	d, err := New(t.Context(), Options{Container: b.name, Host: b.host, Workspace: b.workspace, KillDelay: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestSuite(t *testing.T) {
	b := start(t, true, nil)
	d := b.open(t)
	sandboxtest.Run(t, func(t *testing.T) sandboxtest.Box {
		return sandboxtest.Box{Sandbox: d, Workspace: b.workspace, NoSignals: true}
	})
}
