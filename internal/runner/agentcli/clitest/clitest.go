// Package clitest is an agent program for tests and the driver that speaks to it.
// The program is the test binary itself, which must call Main first thing; its
// protocol is lines of JSON, and what it does is said in the prompt, see script.go.
// It has real processes, sessions on disk and questions that wait, and no model.
package clitest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"os"
	"path/filepath"
	"sync"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// variable makes a process of the test binary the program.
const variable = "CLITEST_AGENT"

// Main becomes the program and does not return, where the process was started as
// one; else it returns at once.
func Main() {
	if dir := os.Getenv(variable); dir != "" {
		os.Exit(newProgram(dir).main())
	}
}

// An Order is a line to the program.
type order struct {
	Do     string          `json:"do"`
	Prompt agentcli.Prompt `json:"prompt,omitzero"`
	Answer agentcli.Answer `json:"answer,omitzero"`
	Word   string          `json:"word,omitempty"`
}

// A Driver starts the test binary as an agent. Its zero value is ready.
type Driver struct {
	// EagerErrors makes Open answer ErrNoSession; else the first Result does.
	EagerErrors bool
	Extra       []string // variables for the program
	// FailLaunch and FailAttach are answered instead.
	FailLaunch, FailAttach error
}

var _ agentcli.Driver = Driver{}

// Launch starts the test binary.
func (d Driver) Launch(s agentcli.Setup) (agentcli.Launch, error) {
	if d.FailLaunch != nil {
		return agentcli.Launch{}, d.FailLaunch
	}
	args := []string{"--session", s.Session, "--fresh", s.Fresh, "--model", s.Model, "--mode", string(s.Mode)}
	if d.EagerErrors {
		args = append(args, "--eager")
	}
	return agentcli.Launch{Path: s.Bin, Args: append(args, s.Args...), Env: append([]string{variable + "=" + s.WorkDir}, d.Extra...)}, nil
}

// Attach speaks to it.
func (d Driver) Attach(_ agentcli.Setup, p agentcli.Pipes) (agentcli.Agent, error) {
	if d.FailAttach != nil {
		return nil, d.FailAttach
	}
	return &agent{p: p, ready: make(chan error, 1)}, nil
}

// CompactPrompt makes Driver an agentcli.Compacting.
func (Driver) CompactPrompt() string { return "/compact" }

type agent struct {
	p     agentcli.Pipes
	ready chan error // one value: the program's first line was read, or none came

	// mu makes lines whole.
	mu sync.Mutex
}

// A hello is the program's first line.
type hello struct {
	Ready     bool `json:"ready"`
	NoSession bool `json:"noSession"`
}

func (a *agent) Read(each func(agentcli.Event)) error {
	b := bufio.NewReader(a.p.Out)
	first := true
	defer func() {
		if first {
			a.ready <- agentcli.ErrGone
		}
	}()
	for {
		line, err := b.ReadBytes('\n')
		if len(line) > 0 && err == nil {
			if first {
				var h hello
				if err := json.Unmarshal(line, &h); err != nil || !h.Ready {
					return fmt.Errorf("the first line is %.40q", line)
				}
				first = false
				if h.NoSession {
					a.ready <- agentcli.ErrNoSession
				} else {
					a.ready <- nil
				}
				continue
			}
			var ev agentcli.Event
			if err := json.Unmarshal(line, &ev); err != nil {
				return fmt.Errorf("a line that is no event: %w", err)
			}
			each(ev)
		}
		if err != nil {
			return nil
		}
	}
}

func (a *agent) Open(ctx context.Context) error {
	select {
	case err := <-a.ready:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *agent) write(o order) error {
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.p.In.Write(append(data, '\n')); err != nil {
		return errors.Join(agentcli.ErrGone, err)
	}
	return nil
}

func (a *agent) Send(_ context.Context, p agentcli.Prompt) error {
	return a.write(order{Do: "prompt", Prompt: p})
}

func (a *agent) Answer(_ context.Context, x agentcli.Answer) error {
	return a.write(order{Do: "answer", Answer: x})
}
func (a *agent) Interrupt(context.Context) error { return a.write(order{Do: "interrupt"}) }
func (a *agent) SetModel(_ context.Context, model string) error {
	if model == "stubborn" {
		return agentcli.ErrNotOffered
	}
	return a.write(order{Do: "model", Word: model})
}
func (a *agent) SetMode(_ context.Context, m agentcli.Mode) error {
	return a.write(order{Do: "mode", Word: string(m)})
}
func (a *agent) Models(context.Context) ([]agentcli.Model, string, error) {
	return []agentcli.Model{{ID: "small", Name: "Small"}, {ID: "big", Name: "Big"}}, "small", nil
}

// sessions is where the program keeps which sessions there are.
func sessions(dir, id string) string { return filepath.Join(dir, ".clitest", filepath.Base(id)) }

// Forget makes the program not know a session any more.
func Forget(workDir, id string) error { return os.Remove(sessions(workDir, id)) }
