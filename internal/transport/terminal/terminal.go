// Package terminal is a conversation in a terminal. It is a client of the
// internal HTTP API, whether the server runs elsewhere or in the same process,
// and owns the prompt, the drawing of a turn and the meaning of Ctrl-C. It keeps
// nothing: history is the server's.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/iris-operator/iris/internal/turn"
)

// Options describes one conversation.
type Options struct {
	Client *Client // required
	// Session continues a conversation; empty opens a new one.
	Session string
	// Runner answers a new conversation; empty is the default one.
	Runner string
	// Text is the only message to send; empty asks for messages at a prompt,
	// "-" reads one from In until its end.
	Text string
	// User is the name messages are sent under.
	User string
	// In is what the person types, or a pipe.
	In *os.File
	// Out takes the replies and, if it is a terminal, everything else. Err
	// takes progress and errors otherwise.
	Out, Err io.Writer
	// NoColor writes without colors. Dumb is a terminal that cannot move its
	// cursor.
	NoColor, Dumb bool

	// same is changed by tests; 0 is samePress.
	same time.Duration
}

// Errors that callers turn into exit codes.
var (
	// ErrTurnFailed: a turn failed; why has been shown.
	ErrTurnFailed = errors.New("the turn failed")
	// ErrInterrupted: the person pressed Ctrl-C while nothing was running, a
	// second time, or in a call for one message only.
	ErrInterrupted = errors.New("interrupted")

	// errStopped: somebody stopped the turn.
	errStopped = errors.New("the turn was stopped")
)

// maxInput bounds a message read from a pipe; the API refuses more.
const maxInput = 8 << 20

// talk is a conversation under way.
type talk struct {
	opts    Options
	session string
	screen  *screen
	// interactive: a person types, and sees what is written.
	interactive bool
	// listening: what is typed while a turn runs is for this conversation.
	listening bool
	// past is the log when the conversation was continued.
	past []Line
	// typed is what was entered while a turn ran. It belongs to listen while
	// that runs, else to the prompt.
	typed []string
	// ended is the last turn that was drawn to its end. Its events may be seen
	// again: the server takes a moment to be done with it.
	ended turn.ID

	interrupts
}

// terminal returns the file descriptor of a terminal.
func terminal(w any) (fd int, ok bool) {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	return int(f.Fd()), true
}

// Run holds the conversation until its text is answered, the input ends, or ctx
// does. It leaves no goroutine and the terminal as it was.
func Run(ctx context.Context, opts Options) error {
	t := newTalk(opts)
	ctx, stop := t.catch(ctx, t.interrupted)
	defer stop()
	text, err := t.message(ctx)
	if err != nil {
		return err
	}
	if err := t.open(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	if text == "" {
		t.listening = t.interactive
		return t.converse(ctx)
	}
	err = t.say(ctx, text)
	if errors.Is(err, errStopped) {
		if err = ErrTurnFailed; t.pressed() {
			err = ErrInterrupted
		}
	}
	return err
}

func newTalk(opts Options) *talk {
	t := &talk{opts: opts, interrupts: interrupts{same: orElse(opts.same, samePress)}}
	fd, tty := terminal(opts.Out)
	_, typing := terminal(opts.In)
	t.interactive = tty && typing
	t.screen = &screen{out: opts.Out, notes: opts.Err, live: tty, ansi: tty && !opts.Dumb, color: tty && !opts.Dumb && !opts.NoColor}
	if tty {
		t.screen.notes = opts.Out
		t.screen.width = func() int {
			w, _, err := term.GetSize(fd)
			if err != nil {
				return 0
			}
			return w
		}
	}
	return t
}

// message returns the one message to send, "" if there will be more.
func (t *talk) message(ctx context.Context) (string, error) {
	if t.opts.Text != "-" {
		return t.opts.Text, nil
	}
	in, err := newInput(ctx, t.opts.In)
	if err != nil {
		return "", err
	}
	defer in.Close()
	data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case err != nil:
		return "", fmt.Errorf("read the message: %w", err)
	case len(data) > maxInput:
		return "", fmt.Errorf("the message is longer than %d MiB", maxInput>>20)
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", errors.New("the message is empty")
	}
	return text, nil
}

// open finds or makes the session.
func (t *talk) open(ctx context.Context) (err error) {
	if t.opts.Session == "" {
		if t.session, err = t.opts.Client.Open(ctx, t.opts.Runner); err != nil {
			return fmt.Errorf("open a session: %w", err)
		}
		return nil
	}
	t.session = strings.TrimPrefix(t.opts.Session, "SESSION-")
	if t.past, err = t.opts.Client.History(ctx, t.session); err != nil {
		return fmt.Errorf("session %s: %w", t.session, err)
	}
	return nil
}

// shown is how many lines of an old conversation are repeated.
const shown = 10

// converse greets, shows what is under way and asks for messages.
func (t *talk) converse(ctx context.Context) error {
	if !t.interactive {
		return t.prompt(ctx)
	}
	about, err := t.opts.Client.about(ctx)
	if err != nil {
		return err
	}
	lines := t.past
	if n := len(lines) - shown; n > 0 {
		t.screen.note(fmt.Sprintf("(%d earlier lines: /history shows them)", n))
		lines = lines[n:]
	}
	t.show(lines)
	greeting := "/help lists the commands, Ctrl-D leaves"
	if about.Model != "" {
		greeting = "Iris with " + about.Model + " · " + greeting
	}
	t.screen.note(greeting)
	if t.opts.Session != "" {
		err := t.join(ctx)
		if err != nil && !errors.Is(err, ErrTurnFailed) && !errors.Is(err, errStopped) {
			return err
		}
	}
	return t.prompt(ctx)
}

func (t *talk) show(lines []Line) {
	for _, l := range lines {
		who := l.User
		if l.IsBot {
			who = "iris"
		}
		fmt.Fprintf(t.opts.Out, "%s %s\n", t.screen.paint(dim, clean(who)+":"), clean(l.Text))
	}
}

// failing is what a terminal event means for whoever waits for it.
func failing(e turn.Event) error {
	switch {
	case e.Stopped || e.Code == turn.CodeStopped:
		return errStopped
	case e.Kind == turn.Failed:
		return ErrTurnFailed
	}
	return nil
}
