package fleet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/secret"
)

const childEnv = "IRIS_FLEET_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(child(path, os.Args[1], os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

// child is one process that registers or reserves.
func child(path, verb, name string) int {
	r, err := Open(Options{Path: path})
	if err == nil && verb == "register" {
		err = r.Register(Agent{Name: name, BridgeURL: "http://127.0.0.1:5000", Secrets: []string{"S-" + name}, Token: secret.New("tok-" + name)})
	}
	if err == nil && verb == "reserve" {
		var a Agent
		a, err = r.Reserve(Agent{Name: name}, 0, nil)
		fmt.Print(a.Port())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// children starts n processes and returns what they printed.
func children(t *testing.T, path, verb string, n int) []string {
	t.Helper()
	var cmds []*exec.Cmd
	var outs []*strings.Builder
	for i := range n {
		c := exec.Command(os.Args[0], verb, fmt.Sprintf("agent-%03d", i))
		c.Env = append(os.Environ(), childEnv+"="+path)
		out := &strings.Builder{}
		c.Stdout, c.Stderr = out, os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		cmds, outs = append(cmds, c), append(outs, out)
	}
	var all []string
	for i, c := range cmds {
		if err := c.Wait(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
		all = append(all, outs[i].String())
	}
	return all
}

// TestTwoHundredProcessesLoseNothing: each entry of each process is there.
func TestTwoHundredProcessesLoseNothing(t *testing.T) {
	r, path, _ := registry(t, `{"kept": {"bridge_url": "http://127.0.0.1:4999", "mine": [1, 2.50, {"x": null}]}}`)
	children(t, path, "register", 200)
	if n := len(r.List()); n != 201 {
		t.Errorf("%d agents, want 201", n)
	}
	for i := range 200 {
		name := fmt.Sprintf("agent-%03d", i)
		if a, ok := r.ByToken("tok-" + name); !ok || a.Name != name || !a.Allows("S-"+name) {
			t.Errorf("%s: %v, %v", name, a, ok)
		}
	}
	if !strings.Contains(read(t, path), "2.50") {
		t.Error("what is not ours was rewritten")
	}
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".agents-*"))
	if len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestFiftyProcessesGetFiftyPorts: neither bridges nor APIs meet.
func TestFiftyProcessesGetFiftyPorts(t *testing.T) {
	r, path, _ := registry(t, "")
	used := map[string]string{}
	for i, port := range children(t, path, "reserve", 50) {
		if other := used[port]; other != "" || port == "" || port == "0" {
			t.Errorf("process %d got port %q, as %s did", i, port, other)
		}
		used[port] = fmt.Sprint(i)
	}
	if n := len(r.List()); n != 50 {
		t.Errorf("%d agents, want 50", n)
	}
}

func TestRegisterMergesIntoOneEntry(t *testing.T) {
	r, path, _ := registry(t, `{"$schema":"x","ops":{"bridge_url":"http://127.0.0.1:4201","owner":{"team":"a","n":1e3},"token":"old","secrets":["A"]},"z":7}`)
	if err := r.Register(Agent{Name: "ops", BridgeURL: "http://127.0.0.1:4300", Description: "a <b> & \"c\"\nsecond  line"}); err != nil {
		t.Fatal(err)
	}
	const want = `{
  "$schema": "x",
  "ops": {
    "bridge_url": "http://127.0.0.1:4300",
    "owner": {
      "team": "a",
      "n": 1e3
    },
    "token": "old",
    "secrets": [
      "A"
    ],
    "description": "a <b> & \"c\" second line"
  },
  "z": 7
}
`
	if diff := cmp.Diff(want, read(t, path)); diff != "" {
		t.Error(diff)
	}
	if err := r.Register(Agent{Name: "ops", Secrets: []string{"B", "C"}, Token: secret.New("new"), Mode: "docker"}); err != nil {
		t.Fatal(err)
	}
	a, _ := r.Get("ops")
	if diff := cmp.Diff(Agent{"ops", "http://127.0.0.1:4300", `a <b> & "c" second line`, []string{"B", "C"}, secret.New("new"), "docker"}, a, equal); diff != "" {
		t.Error(diff)
	}
	was, err := r.Remove("ops")
	if err != nil || was.Token.Reveal() != "new" {
		t.Errorf("Remove = %v, %v", was, err)
	}
	if diff := cmp.Diff("{\n  \"$schema\": \"x\",\n  \"z\": 7\n}\n", read(t, path)); diff != "" {
		t.Error(diff)
	}
	if _, err := r.Remove("ops"); !errors.Is(err, ErrUnknown) {
		t.Errorf("Remove again = %v", err)
	}
}

func TestRegisterRefuses(t *testing.T) {
	const text = `{"ops": {"token": "tok-ops"}, "note": "text"}`
	r, path, _ := registry(t, text)
	long := strings.Repeat("x", maxDescription+1)
	for name, c := range map[string]struct {
		agent Agent
		want  error
	}{
		"no name":           {Agent{}, nil},
		"path":              {Agent{Name: "../x"}, nil},
		"dash first":        {Agent{Name: "-x"}, nil},
		"long":              {Agent{Name: strings.Repeat("x", 41)}, nil},
		"newline":           {Agent{Name: "x\n"}, nil},
		"the operator":      {Agent{Name: "Iris"}, ErrTaken},
		"a runner":          {Agent{Name: "native"}, ErrTaken},
		"case":              {Agent{Name: "OPS"}, ErrTaken},
		"token":             {Agent{Name: "new", Token: secret.New("tok-ops")}, ErrTaken},
		"token with space":  {Agent{Name: "new", Token: secret.New("a b")}, nil},
		"token with line":   {Agent{Name: "new", Token: secret.New("a\r\nb")}, nil},
		"secret":            {Agent{Name: "new", Secrets: []string{"A B"}}, nil},
		"wildcard":          {Agent{Name: "new", Secrets: []string{"*"}}, nil},
		"scheme":            {Agent{Name: "new", BridgeURL: "file:///etc/passwd"}, nil},
		"no host":           {Agent{Name: "new", BridgeURL: "http://:4200"}, nil},
		"port":              {Agent{Name: "new", BridgeURL: "http://h:70000"}, nil},
		"description":       {Agent{Name: "new", Description: long}, nil},
		"entry is a string": {Agent{Name: "note"}, ErrCorrupt},
	} {
		err := r.Register(c.agent)
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: Register = %v, want %v", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "tok-ops") {
			t.Errorf("%s: the error quotes a token: %v", name, err)
		}
		if c.agent.BridgeURL != "" {
			continue // Reserve chooses it
		}
		if _, err := r.Reserve(c.agent, 0, nil); err == nil {
			t.Errorf("%s: Reserve takes it", name)
		}
	}
	if diff := cmp.Diff(text, read(t, path)); diff != "" {
		t.Error(diff)
	}
}

func TestModeOwnerAndLinkStay(t *testing.T) {
	r, path, _ := registry(t, "")
	if err := r.Register(Agent{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, path + ".lock"} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v, want 0600", p, info.Mode(), err)
		}
	}
	real := filepath.Join(t.TempDir(), "real.json")
	if err := os.Rename(path, real); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(real, 0o400); err != nil {
		t.Fatal(err)
	}
	root := os.Geteuid() == 0
	if root {
		if err := os.Chown(real, 4242, 4243); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Register(Agent{Name: "b"}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v, %v", info.Mode(), err)
	}
	info, err := os.Stat(real)
	if err != nil || info.Mode().Perm() != 0o400 {
		t.Errorf("mode %v, %v, want 0400", info.Mode(), err)
	}
	if st := info.Sys().(*syscall.Stat_t); root && (st.Uid != 4242 || st.Gid != 4243) {
		t.Errorf("owner %d:%d, want 4242:4243", st.Uid, st.Gid)
	}
	if len(r.List()) != 2 {
		t.Errorf("agents: %v", r.List())
	}
}

func TestNothingIsWrittenWhereNothingCanBe(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "file"), "")
	for path, works := range map[string]bool{"missing/": true, "file/": false} {
		r, err := Open(Options{Path: filepath.Join(dir, path, FileName)})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Register(Agent{Name: "a"}); (err == nil) != works {
			t.Errorf("Register in %s = %v", path, err)
		}
	}
}

func TestNextPort(t *testing.T) {
	for name, c := range map[string]struct {
		urls []string
		base int
		want int
	}{
		"first":               {nil, 0, 4200},
		"taken":               {[]string{"http://127.0.0.1:4200", "http://10.0.0.1:4201/"}, 0, 4202},
		"gap":                 {[]string{"http://127.0.0.1:4200", "http://127.0.0.1:4202"}, 0, 4201},
		"base":                {[]string{"http://127.0.0.1:4200"}, 4500, 4500},
		"API of another":      {[]string{"http://127.0.0.1:4100"}, 0, 4201},
		"own API is a bridge": {[]string{"http://127.0.0.1:4300"}, 0, 4201},
		"port of the scheme":  {[]string{"https://h", "http://h"}, 80, 81},
		"not a URL":           {[]string{"nonsense", ""}, 0, 4200},
	} {
		var all []Agent
		for _, u := range c.urls {
			all = append(all, Agent{BridgeURL: u})
		}
		if got, err := nextPort(all, c.base, nil); err != nil || got != c.want {
			t.Errorf("%s: nextPort = %d, %v, want %d", name, got, err, c.want)
		}
	}
	for _, base := range []int{-1, 65536, 65500} {
		if got, err := nextPort(nil, base, nil); err == nil {
			t.Errorf("nextPort(base %d) = %d", base, got)
		}
	}
}

// TestTheHundredAndFirstPort: a bridge's API never meets another's bridge.
func TestTheHundredAndFirstPort(t *testing.T) {
	r, _, _ := registry(t, "")
	used := map[int]string{}
	for i := range 150 {
		name := fmt.Sprintf("a%d", i)
		a, err := r.Reserve(Agent{Name: name}, 0, func(port int) bool { return port != 4203 })
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range []int{a.Port(), a.Port() + APIOffset} {
			if used[port] != "" || port == 4203 {
				t.Fatalf("%s gets port %d of %s", name, port, used[port])
			}
			used[port] = name
		}
	}
	first, _ := r.Get("a0")
	again, err := r.Reserve(Agent{Name: "a0", Description: "again"}, 0, nil)
	if err != nil || again.BridgeURL != first.BridgeURL || again.Description != "again" {
		t.Errorf("Reserve again = %v, %v", again, err)
	}
	if next, err := r.NextPort(0); err != nil || used[next] != "" {
		t.Errorf("NextPort = %d, %v", next, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(two)
	f.Add(`{"a":{"token":"t","x":[1.50,{"b":null}]},"_n":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		doc, err := parse([]byte(text))
		if err != nil {
			return
		}
		if _, _, err := doc.agents(); err != nil {
			return
		}
		if err := doc.put(Agent{Name: "fuzz", Description: "d", Token: secret.New("t")}); err != nil {
			return // its own entry is no object
		}
		out, err := doc.text()
		if err != nil {
			t.Fatalf("text of %q: %v", text, err)
		}
		again, err := parse(out)
		if err != nil {
			t.Fatalf("%q became %q: %v", text, out, err)
		}
		all, _, err := again.agents()
		if err != nil || len(again) != len(doc) {
			t.Fatalf("%q became %q: %v", text, out, err)
		}
		found := false
		for _, a := range all {
			found = found || a.Name == "fuzz" && a.Token.Equal("t")
		}
		if !found {
			t.Fatalf("the entry is not in %q", out)
		}
	})
}

// Names of things that come and go are asked for each time; where they cannot be
// had, no name is free.
func TestOtherNamesAreReserved(t *testing.T) {
	others, broken := []string{"pricing"}, error(nil)
	r, err := Open(Options{Path: filepath.Join(t.TempDir(), "agents.json"), Others: func() ([]string, error) { return others, broken }})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Register(Agent{Name: "Pricing"}); !errors.Is(err, ErrTaken) {
		t.Errorf("Register = %v, want %v", err, ErrTaken)
	}
	others = nil
	if err := r.Register(Agent{Name: "Pricing"}); err != nil {
		t.Errorf("Register of a free name = %v", err)
	}
	broken = errors.New("not readable")
	if err := r.Register(Agent{Name: "other"}); !errors.Is(err, broken) {
		t.Errorf("Register = %v, want %v", err, broken)
	}
}
