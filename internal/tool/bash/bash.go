// Package bash is the tool that runs commands. It owns the way of a command
// through the gates: judged by the policy, held for a person if need be,
// recorded, run in a sandbox, and its output cut to what a model should read.
// Judging, asking, recording and running are done by others.
package bash

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/approval/audit"
	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

//go:embed bash.md
var description string

//go:embed schema.json
var schema []byte

// A Judge decides about a command before it runs, with the environment and the
// directory it will run in. It must be safe for concurrent use.
type Judge interface {
	Command(command string, env []string, cwd string) policy.Verdict
}

// A Recorder keeps what became of a command. *audit.Log is one.
type Recorder interface {
	Append(audit.Entry)
}

// An Answer is what came of a held command.
type Answer struct {
	// Allowed says that a person has agreed to exactly this command and that
	// it may run once.
	Allowed bool
	// By names the person and the message, for the record.
	By string
	// Text is what the model is told if the command is not allowed.
	Text string
}

// Options are the parts of a Bash.
type Options struct {
	Sandbox sandbox.Sandbox // required
	Judge   Judge           // required: without a policy nothing runs, see PolicyOff
	Audit   Recorder        // required
	Outputs *tool.Outputs   // required
	// Hold decides about a command that needs a person. nil means that nobody
	// can be asked: the command is refused and the model told so.
	Hold func(ctx context.Context, call tool.Call, command string, v policy.Verdict) Answer
	// Env returns the whole environment of a turn's commands. nil means
	// Environ(nil).
	Env func(turn.Request) []string
	// Dir is where commands run, as the sandbox calls it. Empty means the
	// default of the sandbox, and is judged as an unknown directory.
	Dir string
	// PolicyOff lets every command run unjudged. The record is kept all the
	// same.
	PolicyOff bool
	// Timeout is for calls that name none. 0 means 300 s.
	Timeout time.Duration
	// Logger hears of commands that could not be run. nil discards.
	Logger *slog.Logger
}

// maxTimeout is the longest a call may ask for. Longer work belongs to a
// service, where a restart of Iris does not end it.
const maxTimeout = 24 * time.Hour

// A Bash runs commands. It is safe for concurrent use.
type Bash struct{ opts Options }

var _ tool.Tool = (*Bash)(nil)

// New checks the options.
func New(opts Options) (*Bash, error) {
	switch {
	case opts.Sandbox == nil:
		return nil, errors.New("bash needs a sandbox")
	case opts.Judge == nil:
		return nil, errors.New("bash needs a policy")
	case opts.Audit == nil:
		return nil, errors.New("bash needs an audit record")
	case opts.Outputs == nil:
		return nil, errors.New("bash needs a place for outputs")
	}
	if opts.Env == nil {
		env := Environ(nil)
		opts.Env = func(turn.Request) []string { return env }
	}
	if opts.Timeout <= 0 {
		opts.Timeout = 300 * time.Second
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Bash{opts}, nil
}

// Spec describes the tool.
func (b *Bash) Spec() tool.Spec {
	return tool.Spec{Name: "bash", Description: strings.TrimSpace(description), Schema: json.RawMessage(schema)}
}

// Call takes the command through the gates and runs it.
func (b *Bash) Call(ctx context.Context, call tool.Call) tool.Result {
	args := tool.ParseArguments(call.Args)
	args.String("label")
	command := args.String("command")
	timeout := b.opts.Timeout
	if s, ok := args.Number("timeout"); ok {
		if s <= 0 || s > maxTimeout.Seconds() {
			return tool.Fail(fmt.Sprintf("argument \"timeout\" must be more than 0 and at most %.0f seconds", maxTimeout.Seconds()))
		}
		timeout = time.Duration(s * float64(time.Second))
	}
	if err := args.Err(); err != nil {
		return tool.Fail(err.Error())
	}
	if ctx.Err() != nil {
		return tool.Fail("Command aborted")
	}
	env := b.opts.Env(call.Request)
	by, refusal := b.gate(ctx, call, command, env)
	if refusal != nil {
		return *refusal
	}
	return b.run(ctx, call, by, sandbox.Command{
		Conversation: call.Request.Conversation,
		Script:       command,
		Dir:          b.opts.Dir,
		Env:          env,
		Timeout:      timeout,
	})
}

// gate returns why the command may not run, or nil if it may; by is then who
// confirmed it, "" if nobody had to.
func (b *Bash) gate(ctx context.Context, call tool.Call, command string, env []string) (by string, refusal *tool.Result) {
	if b.opts.PolicyOff {
		return "", nil
	}
	v := b.opts.Judge.Command(command, env, b.opts.Dir)
	entry := b.entry(call, command)
	entry.Rule = v.Rule
	switch v.Decision {
	case policy.Allow:
		return "", nil
	case policy.Confirm:
		answer := b.hold(ctx, call, command, v)
		if answer.Allowed {
			entry.Decision, entry.By = audit.Confirmed, answer.By
			b.opts.Audit.Append(entry)
			return answer.By, nil
		}
		entry.Decision = audit.ConfirmationRequired
		b.opts.Audit.Append(entry)
		return "", refuse(answer.Text, "Not run: it needs a person's yes ("+v.Reason+").")
	}
	// Deny, and whatever a judge says that this tool does not know.
	entry.Decision = audit.Denied
	b.opts.Audit.Append(entry)
	return "", refuse(fmt.Sprintf("Command refused by bash policy: %s. This command cannot be run. "+
		"Do it without that part, or tell the user what you need and why; do not look for another spelling.", v.Reason),
		"Not run: the policy refuses it ("+v.Reason+").")
}

// refuse tells the model what to do now, and people what happened.
func refuse(model, people string) *tool.Result {
	res := tool.Fail(tool.Valid(model))
	res.Display = tool.Valid(people)
	return &res
}

func (b *Bash) hold(ctx context.Context, call tool.Call, command string, v policy.Verdict) Answer {
	if b.opts.Hold == nil {
		return Answer{Text: fmt.Sprintf("Command held by bash policy: %s. It needs the consent of a person, and nobody can approve it here. "+
			"It was not run: say so, and go on without it.", v.Reason)}
	}
	answer := b.opts.Hold(ctx, call, command, v)
	if !answer.Allowed && answer.Text == "" {
		answer.Text = fmt.Sprintf("Command held by bash policy: %s. It was not run.", v.Reason)
	}
	return answer
}

// run runs a command that passed the gates, records it and words the result.
func (b *Bash) run(ctx context.Context, call tool.Call, by string, cmd sandbox.Command) tool.Result {
	output := b.opts.Outputs.Capture(cmd.Conversation)
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output.Stdout(), output.Stderr()
	exit, err := b.opts.Sandbox.Run(ctx, cmd)

	entry := b.entry(call, cmd.Script)
	entry.By = by
	entry.Decision, entry.DurationMS = audit.Executed, exit.Duration.Milliseconds()
	if err == nil && !exit.TimedOut && !exit.Aborted {
		entry.ExitCode = &exit.Code
	}
	b.opts.Audit.Append(entry)

	text := output.Text()
	if err != nil {
		b.opts.Logger.Warn("command could not be run or ended", "turn", call.Request.ID, "sandbox", b.opts.Sandbox.Name(), "error", err)
		return tool.Fail(join(text, tool.Valid(fmt.Sprintf("The command could not be run or ended properly: %v", err))))
	}
	if text == "" {
		text = "(no output)"
	}
	ended := outcome(exit, cmd.Timeout)
	if exit.Background > 0 {
		text = join(text, fmt.Sprintf("[%s still running when the command had ended, and ended with it. Run what should stay as a service.]", processes(exit.Background)))
	}
	if ended != "" {
		return tool.Fail(join(text, ended))
	}
	return tool.Result{Text: text}
}

// outcome words the end of a command, "" if it ended well.
func outcome(exit sandbox.Exit, timeout time.Duration) string {
	switch {
	case exit.TimedOut:
		return fmt.Sprintf("Command timed out after %g seconds", timeout.Seconds())
	case exit.Aborted:
		return "Command aborted"
	case exit.Signal != "":
		return fmt.Sprintf("Command ended by signal %s\nCommand exited with code %d", exit.Signal, exit.Code)
	case exit.Code != 0:
		return fmt.Sprintf("Command exited with code %d", exit.Code)
	}
	return ""
}

func processes(n int) string {
	if n == 1 {
		return "1 background process was"
	}
	return fmt.Sprintf("%d background processes were", n)
}

// join puts an empty line between two texts, unless one of them is empty.
func join(text, more string) string {
	if text == "" {
		return more
	}
	return strings.TrimSuffix(text, "\n") + "\n\n" + more
}

// entry begins a line of the record.
func (b *Bash) entry(call tool.Call, command string) audit.Entry {
	r := call.Request
	return audit.Entry{
		Channel: r.Conversation.Channel(),
		Command: command,
		Turn:    string(r.ID),
		Origin:  string(r.Origin),
		User:    r.Message.From.ID,
		Sandbox: b.opts.Sandbox.Name(),
	}
}
