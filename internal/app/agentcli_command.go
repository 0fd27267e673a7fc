package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/transport"
)

// cliOf is the runner of a conversation if that is an agent program.
func (s *server) cliOf(h *house, conv chat.Address) *agentcli.Runner {
	snap := s.snapshot(h, conv)
	return h.cli.Runner(cmp.Or(snap.Talks, snap.Runner, snap.Default))
}

// cliCommand acts on the commands of conversations with an agent program. Its log
// has the name of a command and never what came with it.
func (s *server) cliCommand(h *house) func(context.Context, transport.Command) (string, bool, error) {
	may := s.mayAnswer(h)
	return func(ctx context.Context, c transport.Command) (text string, ok bool, err error) {
		r := s.cliOf(h, c.Conversation)
		if r == nil {
			return "", false, nil
		}
		s.log.Info("a command for an agent program", "command", c.Verb, "conversation", c.Conversation, "by", c.From.ID)
		d := cliDesk{r: r, conv: c.Conversation, may: may(c.Conversation, c.From)}
		text, err = d.act(ctx, c.Verb, c.Argument)
		return text, true, err
	}
}

// A cliDesk acts on one conversation with an agent program.
type cliDesk struct {
	r    *agentcli.Runner
	conv chat.Address
	may  bool // whether who asks may answer the program's questions
}

func (d cliDesk) agent() string { return cmp.Or(d.r.Project().Agent, d.r.Project().Name) }

func (d cliDesk) act(ctx context.Context, verb transport.Verb, argument string) (string, error) {
	switch verb {
	case transport.Help:
		return route.ProgramHelp(d.agent()), nil
	case transport.Status:
		return d.status()
	case transport.Usage:
		return d.usage()
	case transport.Mode:
		return d.mode(ctx, argument)
	case transport.Model:
		return d.model(ctx, argument)
	case transport.Sessions:
		return d.sessions()
	case transport.Resume:
		return d.resume(argument)
	case transport.Switch:
		return d.switchTo(argument)
	case transport.Restart:
		d.r.Restart(d.conv)
		return "The process of " + d.agent() + " has ended. The next message goes on with the session in a new one.", nil
	}
	return fmt.Sprintf("There is no command `/%s`. `/help` lists them; `/cc:%s` would give it to %s itself.", argument, argument, d.agent()), nil
}

func (d cliDesk) status() (string, error) {
	st, err := d.r.Status(d.conv)
	if err != nil {
		return "", err
	}
	process := "none; the next message starts one"
	if st.Alive {
		process = fmt.Sprintf("running, pid %d", st.PID)
		if st.Busy {
			process += ", busy"
		}
		if st.Asks > 0 {
			process += fmt.Sprintf(", waits for %d answer(s)", st.Asks)
		}
	}
	session := "none yet"
	if st.Session != "" {
		session = "`" + st.Session + "`"
	}
	return fmt.Sprintf("**%s**, project `%s`\n- process: %s\n- session: %s\n- directory: `%s`\n- mode: %s\n- model: %s",
		st.Agent, st.Project, process, session, st.Dir, st.Mode, cmp.Or(st.Model, "its default")), nil
}

func (d cliDesk) usage() (string, error) {
	u, err := d.r.Usage(d.conv)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%d turns: %d tokens in, %d out, %d read from the cache, %d written to it", u.Turns, u.Input, u.Output, u.CacheRead, u.CacheWrite)
	if u.Cost > 0 {
		text += fmt.Sprintf(", $%.4f", u.Cost)
	}
	return text + ".", nil
}

// lax orders the modes by how little they ask.
var lax = map[agentcli.Mode]int{agentcli.Manual: 0, agentcli.AcceptEdits: 1, agentcli.Auto: 2}

// mode shows or changes the mode. Who may not answer a question may not make it
// go away either.
func (d cliDesk) mode(ctx context.Context, argument string) (string, error) {
	st, err := d.r.Status(d.conv)
	if err != nil {
		return "", err
	}
	if argument == "" {
		return fmt.Sprintf("The mode is **%s**. `/mode manual` asks about everything, `/mode acceptEdits` not about files in `%s`, `/mode auto` about nothing but what the policy holds.", st.Mode, st.Dir), nil
	}
	m, err := agentcli.ParseMode(argument)
	if err != nil {
		return "", err
	}
	if lax[m] > lax[st.Mode] && !d.may {
		return "", errors.New("you may not approve what is asked here, and so not switch the questions off")
	}
	if err := d.r.SetMode(ctx, d.conv, m); err != nil {
		return "", err
	}
	return fmt.Sprintf("The mode is **%s** now.", m), nil
}

func (d cliDesk) model(ctx context.Context, argument string) (string, error) {
	if argument != "" {
		if err := d.r.SetModel(ctx, d.conv, argument); err != nil {
			return "", err
		}
		return "The model is `" + argument + "` now.", nil
	}
	st, err := d.r.Status(d.conv)
	if err != nil {
		return "", err
	}
	all, current, err := d.r.Models(ctx, d.conv)
	switch {
	case errors.Is(err, agentcli.ErrGone), errors.Is(err, agentcli.ErrNotOffered), err == nil && len(all) == 0:
		return fmt.Sprintf("The model is %s. %s lists its models only while it runs, if at all; `/model NAME` sets one.", cmp.Or(st.Model, "the default of "+d.agent()), d.agent()), nil
	case err != nil:
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The model is `%s`. There are:\n", cmp.Or(current, st.Model))
	for _, m := range all[:min(len(all), 30)] {
		fmt.Fprintf(&b, "- `%s` %s\n", m.ID, m.Name)
	}
	return b.String(), nil
}

const (
	// shownSessions and shownWords bound a list of sessions.
	shownSessions = 10
	shownWords    = 80
)

func (d cliDesk) sessions() (string, error) {
	list, err := d.r.Sessions(d.conv)
	if len(list) == 0 {
		return "There are no sessions of this project yet.", err
	}
	var b strings.Builder
	for _, p := range list[:min(len(list), shownSessions)] {
		fmt.Fprintf(&b, "- %s\n", d.line(p))
	}
	if more := len(list) - shownSessions; more > 0 {
		fmt.Fprintf(&b, "- … and %d older ones\n", more)
	}
	return b.String(), nil // records that cannot be read are in the log
}

// line is a session in one line.
func (d cliDesk) line(p agentcli.Past) string {
	text := fmt.Sprintf("`%s` %s, %d turns", p.ID, p.At.Format("2006-01-02 15:04"), p.Turns)
	switch {
	case p.Open && p.Conversation == d.conv.Channel():
		text += ", **this conversation**"
	case p.Open:
		text += ", open elsewhere"
	}
	if p.First != "" {
		text += ": " + quoted(p.First)
	}
	return text
}

// quoted is a piece of what somebody said, as plain words in one line.
func quoted(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > shownWords {
		s = string(r[:shownWords]) + "…"
	}
	return "“" + strings.Map(func(c rune) rune {
		if strings.ContainsRune("`*_~<>[]|", c) {
			return ' '
		}
		return c
	}, s) + "”"
}

func (d cliDesk) resume(argument string) (string, error) {
	if argument == "" {
		list, err := d.r.Sessions(d.conv)
		if len(list) == 0 {
			return "There is no session to go back to.", err
		}
		var b strings.Builder
		for _, p := range list[:min(len(list), shownSessions)] {
			fmt.Fprintf(&b, "- %s\n", d.line(p))
			for _, last := range p.Last {
				fmt.Fprintf(&b, "    - %s\n", quoted(last))
			}
		}
		return b.String() + "\n`/resume ID` goes on with one; the beginning of its id is enough.", nil
	}
	past, err := d.r.Resume(d.conv, argument)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("The next message goes on with `%s` (%s, %d turns).", past.ID, past.At.Format("2006-01-02 15:04"), past.Turns), nil
}

func (d cliDesk) switchTo(argument string) (string, error) {
	root := d.r.Project().WorkDir
	switch argument {
	case "":
		st, err := d.r.Status(d.conv)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("The directory is `%s`. `/switch NAME` looks for another below `%s`, `/switch -` goes back to that.", st.Dir, root), nil
	case "-":
		if err := d.r.Switch(d.conv, ""); err != nil {
			return "", err
		}
		return switched(root), nil
	}
	if strings.Contains(argument, "/") { // one of the list below
		if err := d.r.Switch(d.conv, argument); err != nil {
			return "", err
		}
		return switched(argument), nil
	}
	found, more := d.r.Directories(argument)
	switch {
	case len(found) == 0:
		return "", fmt.Errorf("no directory below %s has %q in its name", root, argument)
	case len(found) == 1:
		if err := d.r.Switch(d.conv, found[0]); err != nil {
			return "", err
		}
		return switched(found[0]), nil
	}
	var b strings.Builder
	b.WriteString("Which one?\n")
	for _, dir := range found {
		rel, err := filepath.Rel(root, dir)
		if err != nil {
			rel = dir
		}
		fmt.Fprintf(&b, "- `%s`\n", rel)
	}
	if more {
		b.WriteString("- … and more\n")
	}
	return b.String(), nil
}

func switched(dir string) string {
	return fmt.Sprintf("The directory is `%s` now. A new session begins there with the next message.", dir)
}
