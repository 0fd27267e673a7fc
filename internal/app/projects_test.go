package app

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/fleet"
	"github.com/iris-operator/iris/internal/route"
)

// TestConfiguredProjects: a project has its program, and a name that nobody else
// has.
func TestConfiguredProjects(t *testing.T) {
	bin := t.TempDir()
	program := filepath.Join(bin, "my-pi")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &server{opts: Options{Environ: []string{"PATH=" + bin}, Config: &config.Config{Workspace: t.TempDir(), Projects: []config.Project{
		{Name: "web", Agent: "pi", Bin: "my-pi", Mode: "auto", WorkDir: bin, Model: "a/b", Args: config.Words{"--offline"}, AllowChannels: config.Words{"C1"}},
		{Name: "other", Agent: "acp", Bin: "/opt/agent", Mode: "manual", WorkDir: bin},
	}}}}
	all, err := s.configuredProjects([]string{"native"})
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	if p := all[0]; p.Name != "web" || p.Bin != "my-pi" || programPath(s.opts.Environ, p.Bin) != program || p.Mode != "auto" || p.Model != "a/b" || p.Driver == nil || len(p.Args) != 1 {
		t.Errorf("the first is %+v", p)
	}
	if p := all[1]; p.Bin != "/opt/agent" || p.Driver == nil {
		t.Errorf("the second is %+v", p)
	}
	if _, err := s.configuredProjects([]string{"WEB"}); err == nil || !strings.Contains(err.Error(), "project web: an agent") {
		t.Errorf("a name that is taken: %v", err)
	}
	if s.projectOf("web") != "web" || s.projectOf("native") != "" {
		t.Error("projectOf is wrong")
	}
	if got := s.cliIdle(); got != -1 {
		t.Errorf("an idle time of 0 is %s", got)
	}
	s.opts.Config.IdleTTL = 5
	if got := s.cliIdle(); got != 5*time.Minute {
		t.Errorf("an idle time of 5 is %s", got)
	}
	want := []route.Project{{Name: "web", Channels: []string{"C1"}}, {Name: "other"}}
	if diff := cmp.Diff(want, s.chatProjects()); diff != "" {
		t.Error(diff)
	}
}

// TestChannelsOfProjects: channels.json first, then the lists of projects.
func TestChannelsOfProjects(t *testing.T) {
	file := filepath.Join(t.TempDir(), "channels.json")
	if err := os.WriteFile(file, []byte(`{"C1":{"mode":"dm"},"C2":{"mode":"agent","project":"web"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c := newChannels(file, slog.New(slog.DiscardHandler))
	c.projects = []route.Project{{Name: "web", Channels: []string{"C1", "C3"}}}
	for id, want := range map[string]route.Channel{
		"C1": {Mode: route.Chat, Listed: true},
		"C2": {Mode: route.Agent, Project: "web", Listed: true},
		"C3": {Mode: route.Agent},
		"C4": {Mode: route.Chat},
	} {
		if diff := cmp.Diff(want, c.For(id)); diff != "" {
			t.Errorf("%s: %s", id, diff)
		}
	}
}

// TestProjectsReserveTheirNames: an agent that comes later gets another.
func TestProjectsReserveTheirNames(t *testing.T) {
	opts := fleetOptions(&config.Config{Projects: []config.Project{{Name: "web"}}})
	if !slices.Contains(opts.Reserved, "web") || !slices.Contains(opts.Reserved, nativeRunner) {
		t.Errorf("reserved are %q", opts.Reserved)
	}
}

// TestRoomsReserveTheirNames: no agent takes over the name of a room, however it is
// written, also when the server does not run.
func TestRoomsReserveTheirNames(t *testing.T) {
	dir := t.TempDir()
	cfg := &config.Config{Workspace: dir, Agents: config.Agents{Registry: filepath.Join(dir, "agents.json")}}
	if err := os.MkdirAll(roomsDir(cfg), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(roomsDir(cfg), "rooms.json"), []byte(`[{"id":"pricing"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := fleet.Open(fleetOptions(cfg))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Register(fleet.Agent{Name: "Pricing"}); !errors.Is(err, fleet.ErrTaken) {
		t.Errorf("Register = %v, want %v", err, fleet.ErrTaken)
	}
	if err := r.Register(fleet.Agent{Name: "billing"}); err != nil {
		t.Errorf("Register of a free name = %v", err)
	}
}
