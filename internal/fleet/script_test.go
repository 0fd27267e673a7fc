package fleet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// script runs agents/lib/register-bridge.sh without a binary to do its work.
func script(t *testing.T, registry string, env []string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"../../agents/lib/register-bridge.sh"}, args...)...)
	cmd.Env = append(os.Environ(), "IRIS_AGENTS_REGISTRY="+registry, "IRIS_BIN=", "GITHUB_TOKEN=")
	cmd.Env = append(cmd.Env, env...)
	b, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Error(err)
	}
	return strings.TrimSpace(string(b)), cmd.ProcessState.ExitCode()
}

func needScript(t *testing.T) {
	t.Helper()
	for _, program := range []string{"jq", "flock"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("there is no ", program, " here")
		}
	}
}

func TestRegisterBridgeScript(t *testing.T) {
	needScript(t)
	_, path, _ := registry(t, `{"$schema":"x","ops":{"bridge_url":"http://127.0.0.1:4200","mine":2.50,"secrets":["OLD"],"token":"old"}}`)
	if out, code := script(t, path, nil, "next-port"); out != "4201" || code != 0 {
		t.Errorf("next-port = %q, %d", out, code)
	}
	if out, code := script(t, path, nil, "next-port", "4100"); out != "4101" || code != 0 { // 4100 has its API at 4200
		t.Errorf("next-port 4100 = %q, %d", out, code)
	}
	if out, code := script(t, path, nil, "register", "ops", "http://127.0.0.1:4300", `say "hi" & $HOME`); code != 0 {
		t.Errorf("register = %q, %d", out, code)
	}
	if out, code := script(t, path, nil, "register", "new", "http://127.0.0.1:4301", "d", "tok-new", "A-B,C"); code != 0 {
		t.Errorf("register = %q, %d", out, code)
	}
	r, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	ops, _ := r.Get("ops")
	if ops.Port() != 4300 || ops.Description != `say "hi" & $HOME` || ops.Token.Reveal() != "old" || !ops.Allows("OLD") {
		t.Errorf("ops: %+v", ops)
	}
	if a, ok := r.ByToken("tok-new"); !ok || !a.Allows("A_B") || !a.Allows("C") {
		t.Errorf("new: %+v, %v", a, ok)
	}
	if text := read(t, path); !strings.Contains(text, `"$schema"`) || !strings.Contains(text, `"mine"`) {
		t.Errorf("what is not ours is lost:\n%s", text)
	}
	for _, p := range []string{path, path + ".lock"} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", p, info.Mode(), err)
		}
	}
	for name, args := range map[string][]string{"name": {"register", "../x", "http://h:1", "d"}, "few": {"register", "x"}, "port": {"next-port", "x"}, "none": {}, "verb": {"rm"}} {
		if out, code := script(t, path, nil, args...); code == 0 {
			t.Errorf("%s: %q", name, out)
		}
	}
	put(t, path, "[1]")
	if out, code := script(t, path, nil, "register", "x", "http://h:1", "d"); code == 0 || read(t, path) != "[1]" {
		t.Errorf("a corrupt registry: %q, %d, now %s", out, code, read(t, path))
	}
}

// TestScriptAndBinaryShareTheLock: both write at once and nothing is lost.
func TestScriptAndBinaryShareTheLock(t *testing.T) {
	needScript(t)
	r, path, _ := registry(t, "{}")
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			if out, code := script(t, path, nil, "register", fmt.Sprintf("script-%d", i), "http://127.0.0.1:5000", "d"); code != 0 {
				t.Errorf("script: %s", out)
			}
		})
		wg.Go(func() {
			if err := r.Register(Agent{Name: fmt.Sprintf("go-%d", i), BridgeURL: "http://127.0.0.1:5000"}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(r.List()); n != 24 {
		t.Errorf("%d agents, want 24", n)
	}
}

func TestHasPat(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		env  []string
		tool string
		code int
	}{
		"variable":      {[]string{"GITHUB_TOKEN=x"}, "exit 1", 0},
		"secret":        {nil, `[ "$1" = GITHUB-TOKEN ] && echo canary`, 0},
		"neither":       {nil, "exit 1", 1},
		"not to be had": {nil, "", 1},
	} {
		bin := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
		if err := os.Mkdir(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		if c.tool != "" {
			if err := os.WriteFile(filepath.Join(bin, "get-secret"), []byte("#!/bin/sh\n"+c.tool+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		out, code := script(t, filepath.Join(dir, "agents.json"), append(c.env, "PATH="+bin+":/usr/bin:/bin"), "has-pat")
		if code != c.code || out != "" {
			t.Errorf("%s: has-pat = %q, %d, want %d", name, out, code, c.code)
		}
	}
}

func TestCollectSecrets(t *testing.T) {
	dir := t.TempDir()
	for name, front := range map[string]string{"a": "name: a\nsecrets: [X-1, \"Y_2\"]\n", "b": "secrets:\n  - Z\n  - X-1\nname: b\n", "c": "name: c\n"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name, "SKILL.md"), "---\n"+front+"---\nsecrets: [NOT-THIS]\n")
	}
	if out, code := script(t, "", nil, "collect-secrets", filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")); out != "X-1,Y_2,Z" || code != 0 {
		t.Errorf("collect-secrets = %q, %d", out, code)
	}
	if out, code := script(t, "", nil, "collect-secrets", filepath.Join(dir, "c")); out != "" || code != 0 {
		t.Errorf("collect-secrets of none = %q, %d", out, code)
	}
	if out, code := script(t, "", nil, "check-secrets", "A,B"); code != 0 || strings.Count(out, "warning") != 2 {
		t.Errorf("check-secrets = %q, %d", out, code)
	}
}
