package agentcli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/turn"
)

// A Project is an agent program and where it works. Its name is that of its
// runner.
type Project struct {
	// Name is made of letters, digits, "_" and "-". Required, as are Driver, Bin
	// and WorkDir, which is absolute.
	Name string
	// Agent is the program's name for people ("Claude Code"); empty: Name.
	Agent   string
	Driver  Driver
	Bin     string
	WorkDir string
	// Mode is where conversations begin; empty: Manual. Model is in the program's
	// words; empty: its default.
	Mode  Mode
	Model string
	// System is added to the program's system prompt; nil: nothing.
	System func(conv chat.Address) string
	// Args are further arguments of the program, PassEnv further variables that it
	// may see.
	Args, PassEnv []string
	// Readable lists directories outside of WorkDir that the program may read for
	// a conversation. nil: none.
	Readable func(conv chat.Address) []string
}

func (p Project) agent() string {
	if p.Agent != "" {
		return p.Agent
	}
	return p.Name
}

// A Judge says what the policy thinks of a command or a path; *policy.Judge is
// one.
type Judge interface {
	Command(command string, env []string, cwd string) policy.Verdict
	Path(access policy.Access, name, cwd string) policy.Verdict
}

// Options of a Pool.
type Options struct {
	// Dir keeps which session belongs to which conversation, and the files of
	// drivers; it is made when needed, 0700. Required.
	Dir      string
	Projects []Project
	// Environ is where the programs' environment is picked from, see Environ.
	Environ []string
	// Owner marks the processes, see process.Sweep.
	Owner string

	// Judge judges what the programs ask for. nil: nothing is refused or held.
	Judge Judge
	// Ask puts a question to the people of a conversation and waits for what
	// becomes of it; it returns as soon as ctx ends. nil: every question is
	// declined.
	Ask func(ctx context.Context, q Query) Reply
	// Audit records that something was asked for and what was decided. nil: it is
	// not recorded.
	Audit func(Asked)
	// Notice tells a conversation something outside of a turn. nil: only the log
	// is told.
	Notice func(ctx context.Context, conv chat.Address, text string) error
	// Attach brings the files of a message to where the program can have them. nil:
	// messages have no files.
	Attach func(ctx context.Context, req turn.Request) (images []Image, files []string, err error)

	// Hidden says that a conversation may not see, or go on with, the sessions of
	// the one with another channel id: what was said there is nobody else's. nil:
	// a project's sessions are seen in all its conversations.
	Hidden func(conv chat.Address, other string) bool

	// Outbox is where the programs put files for people. nil: nowhere.
	Outbox Outbox

	// Idle is how long a process without work is kept: 24 h; less than 0: for ever.
	Idle time.Duration
	// CommandLabel bounds the label of a command in characters: 800.
	CommandLabel int
	// Limits of a process.
	Limits Limits

	// OpenLimit is what a program gets to be ready: 2 min. InterruptWait is what it
	// gets to end its work when interrupted, EOFWait to end itself when its input
	// does, KillDelay between TERM and KILL: 2 s, 1 s and 1 s, so that nothing is
	// left after 5 s.
	OpenLimit, InterruptWait, EOFWait, KillDelay time.Duration

	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: slog.DiscardHandler
}

// The defaults of Options.
const (
	DefaultIdle         = 24 * time.Hour
	DefaultCommandLabel = 800
)

func (o *Options) check() error {
	if !filepath.IsAbs(o.Dir) {
		return fmt.Errorf("agentcli: the directory %q is not absolute", o.Dir)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Ask == nil {
		o.Ask = func(context.Context, Query) Reply { return Reply{Outcome: Declined} }
	}
	if o.Audit == nil {
		o.Audit = func(Asked) {}
	}
	if o.CommandLabel == 0 {
		o.CommandLabel = DefaultCommandLabel
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{
		{&o.Idle, DefaultIdle}, {&o.OpenLimit, 2 * time.Minute}, {&o.InterruptWait, 2 * time.Second},
		{&o.EOFWait, time.Second}, {&o.KillDelay, time.Second},
	} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	return nil
}

func (p *Project) check() error {
	if err := chat.CheckID(p.Name); err != nil {
		return fmt.Errorf("agentcli: project %w", err)
	}
	if p.Mode == "" {
		p.Mode = Manual
	}
	switch {
	case p.Driver == nil:
		return fmt.Errorf("agentcli: project %s has no driver", p.Name)
	case p.Bin == "":
		return fmt.Errorf("agentcli: project %s has no program", p.Name)
	case !filepath.IsAbs(p.WorkDir):
		return fmt.Errorf("agentcli: project %s: the work directory %q is not absolute", p.Name, p.WorkDir)
	}
	_, err := ParseMode(string(p.Mode))
	return err
}

// errMode names what there is.
var errMode = errors.New("the modes are manual, acceptEdits and auto")

// ParseMode reads a mode, whatever its case.
func ParseMode(s string) (Mode, error) {
	for _, m := range []Mode{Manual, AcceptEdits, Auto} {
		if equalFold(s, string(m)) {
			return m, nil
		}
	}
	return "", fmt.Errorf("%.40q: %w", s, errMode)
}
