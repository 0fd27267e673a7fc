package docker

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/sandbox/escape"
)

var conv = chat.Address{Space: chat.Session, ID: "x"}

// TestEscapes tries what a container of the engine's defaults is a wall against.
func TestEscapes(t *testing.T) {
	b := start(t, true, nil)
	d := b.open(t)
	limits := map[string]bool{escape.ForkBomb: true, escape.DiskFill: true, escape.OwnMemory: true, escape.Privileges: true}
	results, err := escape.Run(t.Context(), escape.Options{Sandbox: d, Workspace: b.workspace, Home: t.TempDir(), Processes: 20, FileMiB: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.Open && !limits[r.Name] {
			t.Errorf("%s: %s: %s", r.Name, r.What, r.Seen)
		}
	}
}

// TestNewRefusesContainers shows that a container that is no wall, or not ours, is
// refused with the reason.
func TestNewRefusesContainers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*boxConfig)
		after  func(*testing.T, testBox)
		want   string
	}{
		"privileged":       {change: func(c *boxConfig) { c.HostConfig.Privileged = true }, want: "privileged"},
		"no workspace":     {change: func(c *boxConfig) { c.HostConfig.Binds = nil }, want: "docker run -d"},
		"the engine's own": {change: withSocket(t), want: "socket of the engine"},
		"stopped":          {after: stop, want: "does not run: docker start"},
		"paused":           {after: pause, want: "is paused: docker unpause"},
		"no such":          {after: func(_ *testing.T, b testBox) {}, want: "docker run -d"},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, true, c.change)
			if c.after != nil {
				c.after(t, b)
			}
			if name == "no such" {
				b.name = "no-such-container"
			}
			d, err := New(t.Context(), Options{Container: b.name, Host: b.host, Workspace: b.workspace})
			if err == nil {
				d.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("New = %v, want an error with %q", err, c.want)
			}
		})
	}
}

// withSocket gives the container a socket where the engine's would be.
func withSocket(t *testing.T) func(*boxConfig) {
	return func(c *boxConfig) {
		c.HostConfig.Binds = append(c.HostConfig.Binds, strings.TrimPrefix(engineHost(t), "unix://")+":/var/run/docker.sock")
	}
}

func stop(t *testing.T, b testBox) {
	if err := b.engine.Do(t.Context(), "POST", "/containers/"+b.name+"/stop", nil, nil); err != nil {
		t.Fatal(err)
	}
}

func pause(t *testing.T, b testBox) {
	if err := b.engine.Do(t.Context(), "POST", "/containers/"+b.name+"/pause", nil, nil); err != nil {
		t.Fatal(err)
	}
}

// TestWithoutBash shows the level in an image that has only sh.
func TestWithoutBash(t *testing.T) {
	d := start(t, false, nil).open(t)
	if d.Bash() {
		t.Fatal("it takes sh for bash")
	}
	var out bytes.Buffer
	exit, err := d.Run(t.Context(), sandbox.Command{Script: `echo "$0"; exit 3`, Env: []string{"PATH=/bin"}, Stdout: &out})
	if err != nil || exit.Code != 3 || out.String() != "sh\n" {
		t.Errorf("%q, %+v, %v", out.String(), exit, err)
	}
	if err := d.WriteFile(t.Context(), conv, "made/by/tools", []byte{0, 1, 255}); err != nil {
		t.Fatal(err)
	}
	if data, size, err := d.ReadFile(t.Context(), conv, "/workspace/made/by/tools", 1, 9); err != nil || size != 3 || !bytes.Equal(data, []byte{1, 255}) {
		t.Errorf("ReadFile = %v, %d, %v", data, size, err)
	}
	if _, _, err := d.ReadFile(t.Context(), conv, "none", 0, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadFile of nothing: %v", err)
	}
}

// TestContainerGoesAway: a container that is stopped under a command ends the call
// in bounded time, and never as if the command had been done.
func TestContainerGoesAway(t *testing.T) {
	b := start(t, true, nil)
	d := b.open(t)
	out := &notify{text: "ready", seen: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		exit, err := d.Run(t.Context(), sandbox.Command{Script: "echo ready; sleep 300", Env: []string{"PATH=/bin"}, Stdout: out})
		if err == nil && exit.Code != 0 {
			err = exitError(exit)
		}
		done <- err
	}()
	<-out.seen
	began := time.Now()
	stop(t, b)
	if err := <-done; err == nil {
		t.Error("it ended well")
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %v", took)
	}
}

// A notify tells when a text has been written.
type notify struct {
	text string
	all  bytes.Buffer
	seen chan struct{}
	told bool
}

func (n *notify) Write(p []byte) (int, error) {
	n.all.Write(p)
	if !n.told && strings.Contains(n.all.String(), n.text) {
		n.told = true
		close(n.seen)
	}
	return len(p), nil
}

// TestEngineThatHangs: one that accepts and never answers is given up.
func TestEngineThatHangs(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	ln, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var conns []net.Conn
		for {
			c, err := ln.Accept()
			if err != nil {
				break
			}
			conns = append(conns, c)
		}
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	defer func() { _ = ln.Close(); <-done }()
	began := time.Now()
	_, err = New(t.Context(), Options{Container: "x", Host: "unix://" + sock, Workspace: t.TempDir(), CallTime: 100 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "no engine answers at unix://") || time.Since(began) > 30*time.Second {
		t.Errorf("New = %v after %v", err, time.Since(began))
	}
}

func TestNewRefuses(t *testing.T) {
	for name, opts := range map[string]Options{
		"no container":       {Workspace: "/w"},
		"relative workspace": {Container: "x", Workspace: "w"},
		"no address":         {Container: "x", Workspace: "/w", Host: "nowhere"},
		"TCP":                {Container: "x", Workspace: "/w", Host: "tcp://127.0.0.1:1"},
		"no engine":          {Container: "x", Workspace: t.TempDir(), Host: "unix:///does/not/exist"},
	} {
		if _, err := New(t.Context(), opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestPaths(t *testing.T) {
	d := &Docker{opts: Options{Workspace: "/srv/w"}}
	for host, want := range map[string]string{"/srv/w": "/workspace", "/srv/w/a b": "/workspace/a b", "/srv/wide": "/srv/wide", "/etc": "/etc"} {
		if got := d.Path(host); got != want {
			t.Errorf("Path(%q) = %q, want %q", host, got, want)
		}
	}
	for path, want := range map[string]string{"/workspace": "/srv/w", "/workspace/x/../y": "/srv/w/y", "/workspaces": "", "/workspace/../etc": "", "x": ""} {
		if got, ok := d.Host(path); ok != (want != "") || ok && got != want {
			t.Errorf("Host(%q) = %q, %v", path, got, ok)
		}
	}
}

// TestSignature: the last words are found however the stream is cut, and nothing
// else is taken for them.
func TestSignature(t *testing.T) {
	const nonce = "0123456789abcdef0123456789abcdef"
	for text, want := range map[string]string{
		"": "", "plain\n": "plain\n", strings.Repeat("x", 1000): strings.Repeat("x", 1000),
		"err\n\n" + nonce + " 3 1\n": "err\n", "\n" + nonce + " 0 0\n": "",
		"a\n" + nonce[:31] + " 1 1\n": "a\n" + nonce[:31] + " 1 1\n",
	} {
		for size := 1; size <= 70; size += 3 {
			var out bytes.Buffer
			s := newSignature(&out, nonce)
			for r := strings.NewReader(text); ; {
				if _, err := io.CopyN(s, r, int64(size)); err != nil {
					break
				}
			}
			s.flush()
			words, ok := s.last()
			if out.String() != want || ok != strings.Contains(text, nonce+" ") {
				t.Fatalf("%q in pieces of %d: %q, %q, %v", text, size, out.String(), words, ok)
			}
		}
	}
}

// TestSecretFilesCovered: a secret file of the workspace that the container can
// read is a refusal, at the start and when it appears or loses its cover later;
// behind a cover it stays unread.
func TestSecretFilesCovered(t *testing.T) {
	b := start(t, true, func(c *boxConfig) {
		c.HostConfig.Binds = append(c.HostConfig.Binds, "/dev/null:"+Workspace+"/.env:ro")
	})
	hide := []string{filepath.Join(b.workspace, ".env"), filepath.Join(b.workspace, "agents.json"), "/not/shared"}
	write := func(path string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("token"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(hide[0])
	d, err := New(t.Context(), Options{Container: b.name, Host: b.host, Workspace: b.workspace, Hide: hide})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	run := func() (string, error) {
		var out bytes.Buffer
		_, err := d.Run(t.Context(), sandbox.Command{Conversation: conv, Script: "cat .env agents.json 2>/dev/null; echo ran", Env: []string{"PATH=/bin:/usr/bin"}, Stdout: &out})
		return out.String(), err
	}
	if out, err := run(); err != nil || out != "ran\n" {
		t.Errorf("with a cover: %q, %v", out, err)
	}
	write(hide[1])
	if out, err := run(); err == nil || out != "" || !strings.Contains(err.Error(), "agents.json of the workspace can be read") {
		t.Errorf("a new file: %q, %v", out, err)
	}
	if _, err := New(t.Context(), Options{Container: b.name, Host: b.host, Workspace: b.workspace, Hide: hide}); err == nil || !strings.Contains(err.Error(), "target=/workspace/agents.json") {
		t.Errorf("New: %v", err)
	}
	if err := os.Remove(hide[1]); err != nil {
		t.Fatal(err)
	}
	// Put in its place, the kernel lets go of the cover.
	write(hide[0] + "~")
	if err := os.Rename(hide[0]+"~", hide[0]); err != nil {
		t.Fatal(err)
	}
	if out, err := run(); err == nil || strings.Contains(out, "token") || !strings.Contains(err.Error(), ".env of the workspace can be read") {
		t.Errorf("a replaced file: %q, %v", out, err)
	}
}
