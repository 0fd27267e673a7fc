// Package acp speaks the Agent Client Protocol, version 1, with one agent
// process: JSON-RPC in lines on its standard streams. It owns the framing, the
// order in which things are told, the handshake, and what the protocol asks of a
// client: questions, files and terminals. Which agent it is makes little
// difference; a [Preset] says what does.
//
// What an agent asks us to do for it (write a file, run a command) goes out as a
// question first, like what it asks leave for; docs/decisions/acp.md says why the
// framing is not that of the SDK. The package starts no agent and ends none, and
// decides nothing.
package acp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// Options are what a driver needs. Only Preset matters to what is said.
type Options struct {
	Preset Preset
	// Env is the whole environment of commands that the agent lets us run; Owner and
	// Prepare are as in process.Spec.
	Env     []string
	Owner   string
	Prepare func(pid int)
	// Home is where the agents' own settings lie, for presets that copy them.
	Home string
	// Version is told to the agent.
	Version string
	// Handshake bounds each step of Open; 0: 90 seconds, for agents that update
	// themselves first.
	Handshake time.Duration
}

// A Driver starts agents and speaks with them.
type Driver struct{ opts Options }

var _ agentcli.Driver = (*Driver)(nil)

// New checks the options.
func New(opts Options) (*Driver, error) {
	if opts.Handshake == 0 {
		opts.Handshake = 90 * time.Second
	}
	if opts.Version == "" {
		opts.Version = "0"
	}
	if opts.Preset.carrier == carryHome && opts.Home == "" {
		return nil, errors.New("acp: Home is missing")
	}
	return &Driver{opts}, nil
}

// checkTime bounds a preset's own look at whether the agent can work.
const checkTime = 15 * time.Second

// Launch implements [agentcli.Driver].
func (d *Driver) Launch(s agentcli.Setup) (agentcli.Launch, error) {
	p := d.opts.Preset
	path, err := exec.LookPath(s.Bin)
	if err != nil {
		return agentcli.Launch{}, fmt.Errorf("find %s: %w", s.Bin, err)
	}
	l := agentcli.Launch{Path: path, Args: slices.Clone(p.args), Env: slices.Clone(p.env)}
	if p.modelFlag != "" && s.Model != "" {
		l.Args = append(l.Args, p.modelFlag, s.Model)
	}
	l.Args = append(l.Args, s.Args...)
	switch p.carrier {
	case carryInstructions:
		dir, err := instructions(s)
		if err != nil {
			return agentcli.Launch{}, err
		}
		l.Env = append(l.Env, "COPILOT_CUSTOM_INSTRUCTIONS_DIRS="+dir)
	case carryHome:
		dir, err := hermesHome(s, d.opts.Home)
		if err != nil {
			return agentcli.Launch{}, err
		}
		l.Env = append(l.Env, "HERMES_HOME="+dir)
	}
	if len(p.check) > 0 {
		if err := d.check(path, append(slices.Clone(d.opts.Env), l.Env...), p.check); err != nil {
			return agentcli.Launch{}, err
		}
	}
	return l, nil
}

// check asks the program itself whether it can work, and repeats what it says.
func (d *Driver) check(path string, env, args []string) error {
	ctx, stop := context.WithTimeout(context.Background(), checkTime)
	defer stop()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env, cmd.WaitDelay = env, time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: no answer within %s", filepath.Base(path), strings.Join(args, " "), checkTime)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(path), strings.Join(args, " "), err, clip(oneLine(string(out)), 300))
	}
	return nil
}

// Attach implements [agentcli.Driver].
func (d *Driver) Attach(s agentcli.Setup, pipes agentcli.Pipes) (agentcli.Agent, error) {
	if !filepath.IsAbs(s.WorkDir) {
		return nil, fmt.Errorf("work directory %q is not absolute", s.WorkDir)
	}
	a := &Agent{
		opts: d.opts, setup: s, pipes: pipes, out: newOutbox(), events: newEvents(),
		gone: make(chan struct{}), work: newTasks(), calls: map[int64]func(message){}, mode: s.Mode,
		asks: map[string]*ask{}, tools: map[string]*tool{}, terminals: map[string]*terminal{},
		once: map[string]int{}, always: map[string]bool{},
	}
	return a, nil
}

// instructions writes the file that Copilot reads, and returns its directory.
func instructions(s agentcli.Setup) (string, error) {
	dir := filepath.Join(s.Scratch, "instructions")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("instructions for the agent: %w", err)
	}
	text := "---\napplyTo: \"**\"\n---\n\n" + s.System + "\n"
	if s.System == "" {
		text = ""
	}
	if err := os.WriteFile(filepath.Join(dir, "iris-outbox.instructions.md"), []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("instructions for the agent: %w", err)
	}
	return dir, nil
}

// hermesHome makes a home for the agent with what it needs of the person's own,
// and its soul.
func hermesHome(s agentcli.Setup, home string) (string, error) {
	dir := filepath.Join(s.Scratch, "hermes")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("home of the agent: %w", err)
	}
	for _, name := range []string{"config.yaml", ".env", "auth.json"} {
		target := filepath.Join(dir, name)
		if _, err := os.Lstat(target); err == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(home, ".hermes", name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("home of the agent: %w", err)
		}
		if err := os.WriteFile(target, text, 0o600); err != nil {
			return "", fmt.Errorf("home of the agent: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "SOUL.md"), []byte(s.System), 0o600); err != nil {
		return "", fmt.Errorf("home of the agent: %w", err)
	}
	return dir, nil
}
