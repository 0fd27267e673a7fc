// Package claude speaks with Claude Code: lines of JSON on its stdin and stdout
// (stream-json both ways). It owns the command line, the meaning of every line and
// the lines that answer; the process itself, the questions to people and the modes
// are the supervisor's, package agentcli.
//
// The parts: protocol.go turns a line into values and does no I/O, state.go makes
// events of them, agent.go writes. testdata holds recorded conversations with the
// real program, which the tests replay; docs/agent-cli.md is the user's view.
//
// Claude is told to ask about every tool call in every mode, so that the policy
// judges all of them and a mode can change while the process runs. In manual mode it
// also reads no settings of the machine or the project: no allow rules, and no hooks
// that would run beside the questions. Its own "always allow" does not work beside
// rules to ask, so the Agent remembers what was allowed for the session
// (agentcli.Tool.Granted).
package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// Options are fixed by New. The zero value is fine.
type Options struct {
	// Retries is how often Claude asks its API again after an error, 0 for its own
	// default: ten times, for minutes.
	Retries int
}

// Claude is the driver. It has no state of its own.
type Claude struct{ opts Options }

var (
	_ agentcli.Driver     = (*Claude)(nil)
	_ agentcli.Explainer  = (*Claude)(nil)
	_ agentcli.Compacting = (*Claude)(nil)
	_ agentcli.Agent      = (*Agent)(nil)
)

// New returns a driver.
func New(opts Options) (*Claude, error) {
	if opts.Retries < 0 {
		return nil, fmt.Errorf("retries: %d is below zero", opts.Retries)
	}
	return &Claude{opts: opts}, nil
}

// longestArg is the room for one argument, below the kernel's 128 KiB.
const longestArg = 120 << 10

// reserved are flags that an operator's arguments may not hold: Iris sets them, and
// the modes would not mean what they say.
var reserved = []string{
	"-p", "--print", "-c", "--continue", "-r", "--resume", "--session-id", "--fork-session", "--from-pr",
	"--input-format", "--output-format", "--verbose", "--replay-user-messages", "--include-partial-messages",
	"--permission-prompt-tool", "--permission-mode", "--dangerously-skip-permissions", "--allow-dangerously-skip-permissions",
	"--settings", "--setting-sources", "--append-system-prompt", "--bg", "--background", "--bare",
	"--no-session-persistence", "--remote-control", "-w", "--worktree",
}

// Launch implements agentcli.Driver. It writes nothing. A Session that is no UUID is
// none of Claude's: the error wraps agentcli.ErrNoSession.
func (c *Claude) Launch(s agentcli.Setup) (agentcli.Launch, error) {
	args := []string{
		"--output-format", "stream-json", "--input-format", "stream-json", "--permission-prompt-tool", "stdio",
		"--replay-user-messages", "--verbose", "--include-partial-messages", "--permission-mode", "default",
	}
	switch {
	case s.Session != "":
		if uuid.Validate(s.Session) != nil {
			return agentcli.Launch{}, fmt.Errorf("session %q: %w", s.Session, agentcli.ErrNoSession)
		}
		args = append(args, "--resume", s.Session)
	case s.Fresh != "":
		if uuid.Validate(s.Fresh) != nil {
			return agentcli.Launch{}, fmt.Errorf("new session %q: not a UUID", s.Fresh)
		}
		args = append(args, "--session-id", s.Fresh)
	}
	if s.Model != "" {
		if strings.HasPrefix(s.Model, "-") {
			return agentcli.Launch{}, fmt.Errorf("model %q: not a name", s.Model)
		}
		args = append(args, "--model", s.Model)
	}
	settings, err := json.Marshal(map[string]any{"permissions": map[string]any{"ask": asked}})
	if err != nil {
		return agentcli.Launch{}, err
	}
	args = append(args, "--settings", string(settings))
	system := s.System
	if s.Mode == agentcli.Manual {
		args = append(args, "--setting-sources", "")
		system = withNotes(system, s.WorkDir)
	}
	if system != "" {
		if len(system) > longestArg {
			return agentcli.Launch{}, fmt.Errorf("system prompt: %d bytes, more than %d", len(system), longestArg)
		}
		args = append(args, "--append-system-prompt", system)
	}
	for _, dir := range s.Readable {
		args = append(args, "--add-dir", dir)
	}
	for _, a := range s.Args {
		name, _, _ := strings.Cut(a, "=")
		if slices.Contains(reserved, name) {
			return agentcli.Launch{}, fmt.Errorf("argument %s: Iris sets it herself", name)
		}
	}
	bin := s.Bin
	if bin == "" {
		bin = "claude"
	}
	l := agentcli.Launch{Path: bin, Args: append(args, s.Args...), Env: []string{"DISABLE_AUTOUPDATER=1"}}
	if c.opts.Retries > 0 {
		l.Env = append(l.Env, "CLAUDE_CODE_MAX_RETRIES="+strconv.Itoa(c.opts.Retries))
	}
	return l, nil
}

// notesLimit is how much of a CLAUDE.md is read.
const notesLimit = 32 << 10

// withNotes adds the project's CLAUDE.md, which Claude does not read without its
// settings.
func withNotes(system, work string) string {
	f, err := os.Open(filepath.Join(work, "CLAUDE.md"))
	if err != nil {
		return system
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return system
	}
	text, err := io.ReadAll(io.LimitReader(f, notesLimit))
	if err != nil || len(text) == 0 {
		return system
	}
	return strings.TrimSpace(system + "\n\nThe notes of this project, from its CLAUDE.md:\n\n" + strings.ToValidUTF8(string(text), "�"))
}

// Attach implements agentcli.Driver.
func (c *Claude) Attach(s agentcli.Setup, p agentcli.Pipes) (agentcli.Agent, error) {
	if p.In == nil || p.Out == nil {
		return nil, errors.New("attach: a process has two pipes")
	}
	return newAgent(s, p), nil
}

// CompactPrompt implements agentcli.Compacting.
func (*Claude) CompactPrompt() string { return "/compact" }
