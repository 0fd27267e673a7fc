// Package spawn is the contract for creating sub-agents: a [Spec] says what an
// agent is to be, a [Driver] makes it live somewhere and looks after it. The
// folders below it are the drivers; spawntest is the suite they pass.
//
// It owns the layout of an agent's home ([Scaffold]) and the rule which
// variables an agent gets. It does not choose ports or tokens and does not
// register anything: that is the fleet's registry and who wires both.
package spawn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/fleet"
	"github.com/iris-operator/iris/internal/secret"
)

// A Spec is what an agent is to be.
type Spec struct {
	// Name and Purpose are those of the registry.
	Name, Purpose string
	// Home is the absolute path of the agent's own directory, as Scaffold made
	// it. Data in it is its workspace.
	Home string
	// Bridge is its port on loopback; its API is fleet.APIOffset above it.
	Bridge int
	// SelfHeal lets the agent leave escalations in Events when its parent does
	// not answer.
	SelfHeal bool
	// Env holds further plain variables. Everybody on the machine may read them.
	Env map[string]string
	// Secrets holds the variables that only the agent may read: its token and
	// what keys it gets.
	Secrets map[string]secret.Value
}

// Data is the agent's workspace.
func (s Spec) Data() string { return filepath.Join(s.Home, "data") }

// Events is where the agent leaves escalations while its parent is down: a file
// there can only be from this agent, whatever it says. The directory of events
// of the parent is no place for that: who can write there can speak as anybody.
func (s Spec) Events() string { return filepath.Join(s.Home, "events") }

// LogFile is where a driver without a log of its own writes.
func (s Spec) LogFile() string { return filepath.Join(s.Home, s.Name+".log") }

// variable is the name of an environment variable.
var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
})

// ChatTokens are the variables that connect to a chat platform. An agent never
// gets those of its parent: two programs on one bot lose each other's messages.
// One that talks to chat itself has a bot of its own, in its own .env.
var ChatTokens = []string{"IRIS_SLACK_APP_TOKEN", "IRIS_SLACK_BOT_TOKEN", "TELEGRAM_BOT_TOKEN"}

// Check says what is wrong with a spec.
func (s Spec) Check() error {
	if err := fleet.CheckName(s.Name); err != nil {
		return err
	}
	if !filepath.IsAbs(s.Home) || filepath.Clean(s.Home) != s.Home || s.Home == "/" || strings.ContainsAny(s.Home, "\x00\n\r\\\"':") {
		return fmt.Errorf("the agent's home %q must be a clean absolute path without quotes, colons, backslashes and line ends", s.Home)
	}
	if s.Bridge < 1 || s.Bridge+fleet.APIOffset > 65535 {
		return fmt.Errorf("the bridge's port %d leaves no port for the API above it", s.Bridge)
	}
	for name, v := range s.Env {
		if !variable().MatchString(name) || strings.ContainsRune(v, 0) {
			return fmt.Errorf("%q cannot be a variable", name)
		}
		if slices.Contains(ChatTokens, name) && v != "" {
			return fmt.Errorf("%s: an agent never gets the chat credentials of its parent", name)
		}
	}
	for name := range s.Secrets {
		if !variable().MatchString(name) {
			return fmt.Errorf("%q cannot be a variable", name)
		}
		if slices.Contains(ChatTokens, name) {
			return fmt.Errorf("%s: an agent never gets the chat credentials of its parent", name)
		}
		if _, both := s.Env[name]; both {
			return fmt.Errorf("%s is a secret and a plain variable at once", name)
		}
	}
	return nil
}

// Environ returns the plain variables, in a fixed order: who the agent is and
// where it listens, then Env.
func (s Spec) Environ() []Variable {
	out := []Variable{
		{"AGENT_NAME", s.Name},
		{"IRIS_ENV", "prod"},
		{"IRIS_BRIDGE_PORT", fmt.Sprint(s.Bridge)},
		{"IRIS_API_PORT", fmt.Sprint(s.Bridge + fleet.APIOffset)},
	}
	if s.SelfHeal {
		out = append(out, Variable{"IRIS_EVENTS_DIR", s.Events()})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		i := slices.IndexFunc(out, func(v Variable) bool { return v.Name == name })
		if i >= 0 {
			out[i].Value = s.Env[name]
			continue
		}
		out = append(out, Variable{name, s.Env[name]})
	}
	return out
}

// A Variable is a name and its value.
type Variable struct{ Name, Value string }

// A State is how an agent is.
type State string

// The states.
const (
	Missing State = "missing" // the driver has no such agent
	Running State = "running"
	Waiting State = "waiting" // it ended and is about to be started again
	Stopped State = "stopped"
	Failed  State = "failed" // it ended and stays so
)

// A Status is what a driver knows.
type Status struct {
	State    State
	Since    time.Time // of the state; zero: unknown
	Restarts int
	Memory   int64  // bytes; 0: unknown
	Detail   string // in the driver's words
}

// LogOptions say how much of a log is wanted.
type LogOptions struct {
	Lines  int  // the last so many; 0: 100
	Follow bool // go on until ctx ends
}

// ErrUnknown: the driver has no agent of this name.
var ErrUnknown = errors.New("no such agent here")

// A Driver makes agents live somewhere.
//
// Implementations must
//   - check the spec before they touch anything;
//   - make Create repeatable: a second one brings an agent to what the spec says
//     now, and starts it;
//   - start an agent again when it ends by itself, and when the machine starts;
//   - give it the variables of the spec and no others of the parent's, the chat
//     tokens never, and let nobody but the agent and root read Secrets;
//   - keep a stopped agent stopped until Restart;
//   - leave the home directory alone in Remove, which is nil for an agent that is
//     not there; Stop, Restart and Logs are ErrUnknown then, Status is Missing;
//   - be safe for concurrent use with different names.
//
// spawntest checks these.
type Driver interface {
	// Create makes the agent, or changes it, and starts it.
	Create(ctx context.Context, s Spec) error
	// Stop ends it and keeps it from starting.
	Stop(ctx context.Context, name string) error
	// Restart ends it if it runs, and starts it.
	Restart(ctx context.Context, name string) error
	// Remove ends it and takes away what Create made outside of its home.
	Remove(ctx context.Context, name string) error
	// Status says how it is.
	Status(ctx context.Context, name string) (Status, error)
	// Logs copies what it printed to w.
	Logs(ctx context.Context, name string, w io.Writer, opts LogOptions) error
}
