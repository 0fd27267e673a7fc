// Package spawntest is the suite that every driver of agents passes.
package spawntest

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/fleet/spawn"
	"github.com/iris-operator/iris/internal/secret"
)

// A Place is a driver with a look behind it.
type Place struct {
	Driver spawn.Driver
	// Environ returns the variables that the agent of this name has, secrets
	// included, as it was last created.
	Environ func(t *testing.T, name string) map[string]string
	// Public returns everything about the agent that others on the machine may
	// read.
	Public func(t *testing.T, name string) string
	// Print makes the agent print a line into its log.
	Print func(t *testing.T, name, line string)
}

// Run puts a fresh place under each test.
func Run(t *testing.T, place func(t *testing.T) Place) {
	for name, test := range map[string]func(*testing.T, Place){
		"life": life, "variables": variables, "again": again, "unknown": unknown, "refused": refused, "logs": logs, "two": two,
	} {
		t.Run(name, func(t *testing.T) { test(t, place(t)) })
	}
}

// Spec is an agent with a scaffolded home.
func Spec(t *testing.T, name string, bridge int) spawn.Spec {
	t.Helper()
	home := filepath.Join(t.TempDir(), name)
	if err := spawn.Scaffold(home, spawn.Seed{Name: name, Purpose: "to be tested"}); err != nil {
		t.Fatal(err)
	}
	return spawn.Spec{
		Name: name, Purpose: "to be tested", Home: home, Bridge: bridge,
		Env:     map[string]string{"IRIS_PROVIDER": "rehearsal", "IRIS_MODEL": "50% of \"everything\" \\ $HOME"},
		Secrets: map[string]secret.Value{"IRIS_API_TOKEN": secret.New("canary-token-" + name), "ANTHROPIC_API_KEY": secret.New("canary-key % \"'\\ $X")},
	}
}

func create(t *testing.T, p Place, s spawn.Spec) {
	t.Helper()
	if err := p.Driver.Create(t.Context(), s); err != nil {
		t.Fatalf("Create = %v", err)
	}
}

func want(t *testing.T, p Place, name string, state spawn.State) {
	t.Helper()
	if st, err := p.Driver.Status(t.Context(), name); err != nil || st.State != state {
		t.Errorf("Status(%s) = %+v, %v, want %s", name, st, err, state)
	}
}

// life is create, stop, restart, remove, each twice where that must not matter.
func life(t *testing.T, p Place) {
	s := Spec(t, "billing", 4200)
	want(t, p, s.Name, spawn.Missing)
	create(t, p, s)
	want(t, p, s.Name, spawn.Running)
	for range 2 {
		if err := p.Driver.Stop(t.Context(), s.Name); err != nil {
			t.Errorf("Stop = %v", err)
		}
		want(t, p, s.Name, spawn.Stopped)
	}
	for range 2 {
		if err := p.Driver.Restart(t.Context(), s.Name); err != nil {
			t.Errorf("Restart = %v", err)
		}
		want(t, p, s.Name, spawn.Running)
	}
	for range 2 {
		if err := p.Driver.Remove(t.Context(), s.Name); err != nil {
			t.Errorf("Remove = %v", err)
		}
		want(t, p, s.Name, spawn.Missing)
	}
	if _, err := os.Stat(filepath.Join(s.Data(), "MEMORY.md")); err != nil {
		t.Errorf("the home went with the agent: %v", err)
	}
}

// variables: those of the spec, none of the parent's, no secret in the open.
func variables(t *testing.T, p Place) {
	for _, name := range append(slices.Clone(spawn.ChatTokens), "ANTHROPIC_AUTH_TOKEN") {
		t.Setenv(name, "canary-of-the-parent")
	}
	s := Spec(t, "billing", 4200)
	create(t, p, s)
	got := p.Environ(t, s.Name)
	for _, v := range s.Environ() {
		if got[v.Name] != v.Value {
			t.Errorf("%s = %q, want %q", v.Name, got[v.Name], v.Value)
		}
	}
	for name, v := range s.Secrets {
		if got[name] != v.Reveal() {
			t.Errorf("%s = %q, want %q", name, got[name], v.Reveal())
		}
	}
	for _, name := range spawn.ChatTokens {
		if got[name] != "" {
			t.Errorf("%s = %q: the agent has its parent's chat credentials", name, got[name])
		}
	}
	for name, v := range got {
		if strings.Contains(v, "canary-of-the-parent") {
			t.Errorf("%s comes from the parent", name)
		}
	}
	if public := p.Public(t, s.Name); strings.Contains(public, "canary") {
		t.Errorf("a secret is in the open:\n%s", public)
	}
}

// again: a second Create brings the agent to what the spec says now.
func again(t *testing.T, p Place) {
	s := Spec(t, "billing", 4200)
	create(t, p, s)
	s.Bridge = 4500
	s.Env = map[string]string{"IRIS_PROVIDER": "openai"}
	s.Secrets = map[string]secret.Value{"OPENAI_API_KEY": secret.New("another-canary")}
	create(t, p, s)
	want(t, p, s.Name, spawn.Running)
	got := p.Environ(t, s.Name)
	if got["IRIS_BRIDGE_PORT"] != "4500" || got["IRIS_API_PORT"] != "4600" || got["IRIS_PROVIDER"] != "openai" || got["OPENAI_API_KEY"] != "another-canary" {
		t.Errorf("after the second Create: %v", got)
	}
	for _, old := range []string{"ANTHROPIC_API_KEY", "IRIS_API_TOKEN", "IRIS_MODEL"} {
		if v, ok := got[old]; ok {
			t.Errorf("%s = %q is left from the first Create", old, v)
		}
	}
	if err := p.Driver.Stop(t.Context(), s.Name); err != nil {
		t.Fatal(err)
	}
	create(t, p, s)
	want(t, p, s.Name, spawn.Running)
}

func unknown(t *testing.T, p Place) {
	for _, name := range []string{"nobody", "../nobody", "-rf", "a b", ""} {
		bad := name != "nobody"
		if err := p.Driver.Stop(t.Context(), name); err == nil || !bad && !errors.Is(err, spawn.ErrUnknown) {
			t.Errorf("Stop(%q) = %v", name, err)
		}
		if err := p.Driver.Restart(t.Context(), name); err == nil || !bad && !errors.Is(err, spawn.ErrUnknown) {
			t.Errorf("Restart(%q) = %v", name, err)
		}
		if err := p.Driver.Logs(t.Context(), name, &bytes.Buffer{}, spawn.LogOptions{}); err == nil || !bad && !errors.Is(err, spawn.ErrUnknown) {
			t.Errorf("Logs(%q) = %v", name, err)
		}
		if err := p.Driver.Remove(t.Context(), name); (err != nil) != bad {
			t.Errorf("Remove(%q) = %v", name, err)
		}
	}
	want(t, p, "nobody", spawn.Missing)
}

// refused: what cannot be meant is refused before anything is made.
func refused(t *testing.T, p Place) {
	for name, change := range map[string]func(*spawn.Spec){
		"name":              func(s *spawn.Spec) { s.Name = "../x" },
		"relative home":     func(s *spawn.Spec) { s.Home = "x" },
		"home is the root":  func(s *spawn.Spec) { s.Home = "/" },
		"home with a line":  func(s *spawn.Spec) { s.Home += "\nUser=root" },
		"home with a quote": func(s *spawn.Spec) { s.Home += `"` },
		"home with a colon": func(s *spawn.Spec) { s.Home += ":/etc" },
		"no port":           func(s *spawn.Spec) { s.Bridge = 0 },
		"no port above":     func(s *spawn.Spec) { s.Bridge = 65500 },
		"variable":          func(s *spawn.Spec) { s.Env["A B"] = "x" },
		"variable with =":   func(s *spawn.Spec) { s.Env["A=B"] = "x" },
		"zero byte":         func(s *spawn.Spec) { s.Env["A"] = "x\x00y" },
		"chat token":        func(s *spawn.Spec) { s.Env["IRIS_SLACK_BOT_TOKEN"] = "xoxb" },
		"secret chat token": func(s *spawn.Spec) { s.Secrets["TELEGRAM_BOT_TOKEN"] = secret.New("1:a") },
		"secret path":       func(s *spawn.Spec) { s.Secrets["../X"] = secret.New("x") },
		"both":              func(s *spawn.Spec) { s.Env["IRIS_API_TOKEN"] = "x" },
	} {
		s := Spec(t, "billing", 4200)
		change(&s)
		if err := p.Driver.Create(t.Context(), s); err == nil {
			t.Errorf("%s: created", name)
		}
		want(t, p, "billing", spawn.Missing)
	}
}

func logs(t *testing.T, p Place) {
	s := Spec(t, "billing", 4200)
	create(t, p, s)
	for _, line := range []string{"first", "second", "third"} {
		p.Print(t, s.Name, line)
	}
	var out bytes.Buffer
	if err := p.Driver.Logs(t.Context(), s.Name, &out, spawn.LogOptions{Lines: 2}); err != nil {
		t.Fatalf("Logs = %v", err)
	}
	if got := strings.Fields(out.String()); !slices.Equal(got, []string{"second", "third"}) {
		t.Errorf("the last two lines are %q", got)
	}
}

// two agents do not meet.
func two(t *testing.T, p Place) {
	a, b := Spec(t, "a", 4200), Spec(t, "a-b", 4201)
	create(t, p, a)
	create(t, p, b)
	if err := p.Driver.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	want(t, p, "a", spawn.Missing)
	want(t, p, "a-b", spawn.Running)
	if got := p.Environ(t, "a-b")["IRIS_API_TOKEN"]; got != "canary-token-a-b" {
		t.Errorf("the token of a-b is %q", got)
	}
}
