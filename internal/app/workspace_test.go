package app_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// refuses starts a server that must not come up, and whose last words hold all
// of what is wanted.
func (p *place) refuses(want ...string) {
	p.t.Helper()
	s := p.start()
	code := s.wait()
	said := lines(s.stderr.String())
	last := ""
	if len(said) > 0 {
		last = said[len(said)-1]
	}
	if code != 1 || !strings.HasPrefix(last, "iris: ") {
		p.t.Errorf("exit code %d, the last words are %q", code, last)
	}
	for _, w := range want {
		if !strings.Contains(last, w) {
			p.t.Errorf("the error %q does not say %q", last, w)
		}
	}
}

// tree lists the files below a directory with their contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// same checks that every file is still there as it was.
func same(t *testing.T, before, after map[string]string) {
	t.Helper()
	for name, content := range before {
		if after[name] != content {
			t.Errorf("%s held %.200q and holds %.200q", name, content, after[name])
		}
	}
}

// small mounts a file system of so many KiB at the workspace, or skips.
func (p *place) small(t *testing.T, kib int) {
	t.Helper()
	if err := os.MkdirAll(p.workspace, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", p.workspace, "tmpfs", 0, fmt.Sprintf("size=%dk,mode=0700", kib)); err != nil {
		t.Skipf("no file system of our own can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(p.workspace, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// fill takes all the room there is.
func (p *place) fill(t *testing.T) (name string) {
	t.Helper()
	name = filepath.Join(p.workspace, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 4096); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return name
}

func TestBadInputConfiguration(t *testing.T) {
	p := newPlace(t)
	path := filepath.Join(p.home, "iris.config.toml")
	if err := os.WriteFile(path, []byte("[api]\nprot = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.refuses(path, `there is no setting "api.prot"`, `the nearest is "api.port"`)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	p.environ = []string{"IRIS_SANDBOX=moon"}
	p.refuses(`IRIS_SANDBOX="moon"`, "host")
	p.environ = []string{"IRIS_LLM_MAX_RETRIES=many"}
	p.refuses(`IRIS_LLM_MAX_RETRIES="many"`, "whole number")
}

func TestBadInputWorkspaceInUse(t *testing.T) {
	p := newPlace(t)
	first := p.serve()
	id := p.session()
	second := &place{t: t, workspace: p.workspace, home: p.home, port: freePort(t), client: p.client}
	second.refuses(p.workspace, fmt.Sprint("in use by another iris serve (pid ", first.cmd.Process.Pid), "a workspace of its own")
	other := newPlace(t)
	other.port = p.port
	other.refuses(fmt.Sprint(p.port), "address already in use", "IRIS_API_PORT")
	p.alive(id)
	first.stop()
}

func TestBadInputWorkspaceFromANewerVersion(t *testing.T) {
	p := newPlace(t)
	p.serve().stop()
	format := filepath.Join(p.workspace, "state", "format.json")
	if err := os.WriteFile(format, []byte(`{"format":99}`), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, p.workspace)
	p.refuses(format, "says 99", "use a newer Iris, or restore a backup")
	same(t, before, tree(t, p.workspace))
}

func TestBadInputWorkspaceHalfMigrated(t *testing.T) {
	p := newPlace(t)
	backup := "state/backup/20260101T000000.000Z"
	for name, content := range map[string]string{
		"state/format.json":             `{"format":0,"migrating":1,"backup":"` + backup + `"}`,
		"C012345/log.jsonl":             `{"ts":"1.1","user":"U1","text":"old words"}` + "\n",
		backup + "/C012345/log.jsonl":   "half of a copy",
		"slack/D054321/log.jsonl":       `{"ts":"2.2","user":"U2","text":"moved already"}` + "\n",
		backup + "/D054321/log.jsonl":   `{"ts":"2.2","user":"U2","text":"moved already"}` + "\n",
		"meta/channels.json":            `{}`,
		backup + "/data/channels.json":  `{}`,
		"C098765/SYSTEM.md":             "not yet\n",
		"somebody's own notes/notes.md": "mine\n",
	} {
		path := filepath.Join(p.workspace, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	before := tree(t, p.workspace)
	s := p.serve()
	if !strings.Contains(s.stderr.String(), "completing a migration that was cut off") {
		t.Errorf("the log does not say what was done:\n%s", s.stderr)
	}
	s.stop()
	after := tree(t, p.workspace)
	for from, to := range map[string]string{
		"C012345/log.jsonl": "slack/C012345/log.jsonl", "C098765/SYSTEM.md": "slack/C098765/SYSTEM.md",
		"slack/D054321/log.jsonl": "slack/D054321/log.jsonl", "meta/channels.json": "meta/channels.json",
		"somebody's own notes/notes.md": "somebody's own notes/notes.md",
	} {
		if after[to] != before[from] {
			t.Errorf("%s held %q, and now %s holds %q", from, before[from], to, after[to])
		}
	}
	if got := after[backup+"/C012345/log.jsonl"]; got != before["C012345/log.jsonl"] {
		t.Errorf("the backup holds %q", got)
	}
	p.serve().stop() // and that was that
}

func TestBadInputWorkspaceWithACorruptFile(t *testing.T) {
	p := newPlace(t)
	p.serve().stop()
	format := filepath.Join(p.workspace, "state", "format.json")
	if err := os.WriteFile(format, []byte("{broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, p.workspace)
	p.refuses(format, "it should hold")
	same(t, before, tree(t, p.workspace))
}

func TestBadInputWorkspaceReadOnly(t *testing.T) {
	p := newPlace(t)
	p.small(t, 4096)
	p.serve().stop()
	before := tree(t, p.workspace)
	if err := syscall.Mount("", p.workspace, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Skipf("the file system cannot be made read-only: %v", err)
	}
	p.refuses("workspace "+p.workspace+" cannot be written", "read-only file system")
	same(t, before, tree(t, p.workspace))
}

func TestBadInputWorkspaceIsAFile(t *testing.T) {
	p := newPlace(t)
	if err := os.WriteFile(p.workspace, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.refuses("workspace "+p.workspace, "not a directory")
	if data, err := os.ReadFile(p.workspace); err != nil || string(data) != "precious" {
		t.Errorf("the file holds %q, %v", data, err)
	}
}

// A disk that is full refuses a start, and messages to a running server, with
// words; what was accepted stays, and with room again all goes on.
func TestBadInputWorkspaceFull(t *testing.T) {
	p := newPlace(t)
	p.small(t, 8192)
	s := p.serve()
	id := p.session()
	p.alive(id)
	ballast := p.fill(t)
	message := func() answer {
		return p.do("POST", "/sessions/"+id+"/message", `{"text":"is there room?`+strings.Repeat(" no", 20_000)+`"}`, "Idempotency-Key: room")
	}
	if a := message(); a.status != http.StatusInsufficientStorage || !strings.Contains(a.body, "no space left") {
		t.Errorf("a message to a full disk: %v, want an error that names it", a)
	}
	if a := p.do("GET", "/health", ""); a.status != http.StatusOK {
		t.Errorf("GET /health = %v", a)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if a := message(); a.status != http.StatusOK {
		t.Errorf("the same message with room again: %v\n%s", a, s.stderr)
	}
	s.stop()
	if all := ends(t, p, id); len(all) != 2 {
		t.Errorf("%d turns, want 2", len(all))
	}
	ballast = p.fill(t)
	before := tree(t, p.workspace)
	p.refuses("workspace "+p.workspace+" cannot be written", "no space left")
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	delete(before, "ballast")
	same(t, before, tree(t, p.workspace))
	p.serve().stop()
}
