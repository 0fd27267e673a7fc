package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/policy"
)

// PolicyCheckOptions says which commands to judge, and as what.
type PolicyCheckOptions struct {
	// Workspace, Home and Cwd are what the policy takes for them; an empty Cwd is
	// the workspace. Environ is the whole environment of the commands.
	Workspace, Home, Cwd string
	Environ              []string
	// Config holds the operator's additions; nil means none.
	Config *config.Config

	// Commands are judged and explained for people. Without any, JSON objects
	// with a "command" are read from In, one a line, and written back with
	// "verdict", "rule", "span" and "reason"; what else they hold stays.
	Commands []string
	In       io.Reader
	Out      io.Writer
	// JSON writes JSON for Commands too.
	JSON bool
}

// maxPolicyLine bounds a line of the input: a command a little longer than the
// policy judges, escaped.
const maxPolicyLine = 8 << 20

// PolicyCheck prints what the shell policy says of commands. Nothing is run and
// nothing is recorded.
func PolicyCheck(opts PolicyCheckOptions) error {
	with := policy.Options{Workspace: opts.Workspace, Home: opts.Home}
	if opts.Config != nil {
		with = policyOptions(opts.Config, opts.Home, "")
		with.Workspace = opts.Workspace
	}
	judge, err := policy.New(with)
	if err != nil {
		return err
	}
	if opts.Cwd == "" {
		opts.Cwd = opts.Workspace
	}
	out := bufio.NewWriter(opts.Out)
	if len(opts.Commands) == 0 {
		if err := opts.checkLines(judge, out); err != nil {
			return err
		}
		return out.Flush()
	}
	for _, command := range opts.Commands {
		v := judge.Command(command, opts.Environ, opts.Cwd)
		if opts.JSON {
			err = writeVerdict(out, map[string]any{"command": command}, v)
		} else {
			err = explainVerdict(out, v)
		}
		if err != nil {
			return err
		}
	}
	return out.Flush()
}

// explainVerdict is a verdict for people.
func explainVerdict(out io.Writer, v policy.Verdict) error {
	if v.Decision == policy.Allow {
		_, err := fmt.Fprintln(out, "allow: no rule is about it")
		return err
	}
	_, err := fmt.Fprintf(out, "%s (%s): %s\n", v.Decision, v.Rule, v.Reason)
	if err == nil && v.Span != "" {
		_, err = fmt.Fprintf(out, "  at: %s\n", v.Span)
	}
	return err
}

func (opts PolicyCheckOptions) checkLines(judge *policy.Judge, out io.Writer) error {
	lines := bufio.NewScanner(opts.In)
	lines.Buffer(nil, maxPolicyLine)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		var object map[string]any
		if err := json.Unmarshal(lines.Bytes(), &object); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		command, ok := object["command"].(string)
		if !ok {
			return fmt.Errorf(`line %d: no "command"`, n)
		}
		if err := writeVerdict(out, object, judge.Command(command, opts.Environ, opts.Cwd)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// writeVerdict writes an object with the verdict on it as one line.
func writeVerdict(out io.Writer, object map[string]any, v policy.Verdict) error {
	object["verdict"], object["rule"], object["span"], object["reason"] = v.Decision, v.Rule, v.Span, v.Reason
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	return e.Encode(object)
}
