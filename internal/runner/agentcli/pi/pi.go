// Package pi is the protocol of Pi (`pi --mode rpc`): lines of JSON, commands in,
// answers and events out.
//
// Pi asks nobody before it calls a tool. The driver gives it an extension of ours
// (gate.ts) that has every call, reading included, wait for an answer from here,
// whatever the mode: who answers, a person or a rule, is not Pi's business. Open
// fails when the extension does not run. Extensions that Pi would find by itself
// are not loaded, since they run code and could stand before ours; an operator who
// wants one names it with -e in the project's args.
//
// Messages that come while Pi works wait here and are handed over when a tool ends,
// or when the work does: what Pi itself has queued could not be taken back.
//
// protocol.go reads lines, state.go knows what they mean; neither does I/O.
// agent.go moves the bytes.
package pi

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

//go:embed gate.ts
var gate []byte

// Options are a Driver's. The zero value is good.
type Options struct {
	// Sessions is the directory in which Pi keeps what was said, with a folder for
	// each work directory, both made when needed, 0700; empty: below Setup.Scratch,
	// so that a conversation can resume only its own.
	Sessions string
}

// A Driver starts Pi.
type Driver struct{ opts Options }

// New makes a driver.
func New(opts Options) *Driver { return &Driver{opts} }

var _ agentcli.Driver = (*Driver)(nil)

// CompactPrompt is the prompt that has Pi summarise what was said so far.
func (d *Driver) CompactPrompt() string { return compactPrompt }

// Launch writes the extension and what is added to the system prompt, and names
// both on the command line. A session is looked up here and handed over as a file:
// Pi would also take the beginning of an id, and offer sessions of other
// directories. One that is not there is left out; Open tells.
func (d *Driver) Launch(s agentcli.Setup) (agentcli.Launch, error) {
	sessions := d.sessions(s)
	if err := os.MkdirAll(sessions, 0o700); err != nil {
		return agentcli.Launch{}, fmt.Errorf("sessions of pi: %w", err)
	}
	gateFile := filepath.Join(s.Scratch, "iris-gate.ts")
	if err := os.WriteFile(gateFile, gate, 0o600); err != nil {
		return agentcli.Launch{}, fmt.Errorf("gate of pi: %w", err)
	}
	args := []string{"--mode", "rpc", "--session-dir", sessions, "--no-extensions", "-e", gateFile}
	if file := find(sessions, s.Session, s.WorkDir); file != "" {
		args = append(args, "--session", file)
	}
	if s.Model != "" {
		if provider, id, ok := strings.Cut(s.Model, "/"); ok {
			args = append(args, "--provider", provider, "--model", id)
		} else {
			args = append(args, "--model", s.Model)
		}
	}
	if s.System != "" {
		system := filepath.Join(s.Scratch, "iris-system.md")
		if err := os.WriteFile(system, []byte(s.System), 0o600); err != nil {
			return agentcli.Launch{}, fmt.Errorf("system prompt of pi: %w", err)
		}
		args = append(args, "--append-system-prompt", system)
	}
	return agentcli.Launch{Path: s.Bin, Args: append(args, s.Args...), Env: []string{"PI_SKIP_VERSION_CHECK=1"}}, nil
}

// Attach speaks with a process that was launched so.
func (d *Driver) Attach(s agentcli.Setup, p agentcli.Pipes) (agentcli.Agent, error) {
	if p.In == nil || p.Out == nil {
		return nil, fmt.Errorf("pi needs both pipes")
	}
	return newAgent(s, p), nil
}

func (d *Driver) sessions(s agentcli.Setup) string {
	if d.opts.Sessions == "" {
		return filepath.Join(s.Scratch, "sessions")
	}
	plain := func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '-'
	}
	return filepath.Join(d.opts.Sessions, strings.Map(plain, s.WorkDir))
}

// find returns the file of a session that was begun in workDir, "" if there is
// none. A file is called <time>_<id>.jsonl and begins with a line about itself.
func find(dir, id, workDir string) string {
	if id == "" || strings.ContainsAny(id, `/\*?[`) {
		return ""
	}
	files, err := filepath.Glob(filepath.Join(escape(dir), "*_"+id+".jsonl"))
	if err != nil {
		return ""
	}
	for _, file := range files {
		if begun(file, id, workDir) {
			return file
		}
	}
	return ""
}

func begun(file, id, workDir string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadSlice('\n')
	var head struct{ ID, Cwd string }
	return err == nil && json.Unmarshal(line, &head) == nil && head.ID == id && head.Cwd == workDir
}

// escape keeps the characters of a directory's name from being patterns.
func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}
