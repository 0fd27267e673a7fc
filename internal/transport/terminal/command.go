package terminal

import (
	"context"
	"fmt"
	"strings"
)

// A command is what a line that begins with a slash does.
type command struct {
	name, help string
	run        func(t *talk, ctx context.Context) error
}

// commands in the order of the help.
func commands() []command {
	return []command{
		{"/stop", "stop the running turn (or press Ctrl-C)", (*talk).stopRunning},
		{"/reset", "forget the conversation so far; its log stays", act("reset")},
		{"/compact", "summarise the conversation so far", act("compact")},
		{"/history", "show the log", (*talk).history},
		{"/session", "show the session's id", func(t *talk, _ context.Context) error {
			fmt.Fprintln(t.opts.Out, t.session)
			return nil
		}},
		{"/help", "show this", (*talk).help},
		{"/quit", "leave (or press Ctrl-D); the conversation can be continued", nil},
	}
}

// leaving reports the words that end the conversation.
func leaving(text string) bool { return text == "/quit" || text == "/exit" }

// completeCommand returns the only command that begins with prefix, "" if there
// is none or more than one.
func completeCommand(prefix string) (match string) {
	if !strings.HasPrefix(prefix, "/") {
		return ""
	}
	for _, c := range commands() {
		if !strings.HasPrefix(c.name, prefix) {
			continue
		}
		if match != "" {
			return ""
		}
		match = c.name
	}
	return match
}

// enter carries out one line: a command, or a message. A path at the beginning
// of a message is no command.
func (t *talk) enter(ctx context.Context, text string) error {
	for _, c := range commands() {
		if text == c.name && c.run != nil {
			return c.run(t, ctx)
		}
	}
	if strings.HasPrefix(text, "/") {
		message, ok, err := t.opts.Client.Line(ctx, t.session, text)
		if err != nil || ok {
			t.tell(message)
			return err
		}
	}
	if strings.HasPrefix(text, "/") && !strings.ContainsAny(text[1:], "/ \n.") {
		return fmt.Errorf("there is no command %s: /help lists them", text)
	}
	return t.say(ctx, text)
}

func (t *talk) help(ctx context.Context) error {
	for _, c := range commands() {
		fmt.Fprintf(t.opts.Out, "%-10s %s\n", c.name, c.help)
	}
	message, ok, err := t.opts.Client.Line(ctx, t.session, "/help")
	if err != nil || !ok {
		return err
	}
	fmt.Fprintln(t.opts.Out)
	t.tell(message)
	return nil
}

// tell prints what a command said, without its markup.
func (t *talk) tell(message string) {
	if message = strings.Trim(strings.TrimSpace(message), "_"); message != "" {
		fmt.Fprintln(t.opts.Out, clean(strings.NewReplacer("**", "", "`", "").Replace(message)))
	}
}

func (t *talk) history(ctx context.Context) error {
	all, err := t.opts.Client.History(ctx, t.session)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		t.screen.note("nothing was said yet")
	}
	t.show(all)
	return nil
}

// stopRunning stops what runs in the session. While a turn of this terminal
// runs, that is the one.
func (t *talk) stopRunning(ctx context.Context) error {
	stopped, err := t.opts.Client.Stop(ctx, t.session, t.current())
	if err == nil && !stopped && t.current() == "" {
		t.screen.note("nothing is running")
	}
	return err
}

// act posts to a route of the session and shows what it says.
func act(what string) func(*talk, context.Context) error {
	return func(t *talk, ctx context.Context) error {
		message, err := t.opts.Client.Act(ctx, t.session, what)
		if err == nil {
			t.screen.note(strings.Trim(message, "_"))
		}
		return err
	}
}
