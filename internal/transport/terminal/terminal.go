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
	"os/signal"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/iris-operator/iris/internal/turn"
)

// Options describes one conversation.
type Options struct {
	Client *Client
	// Session continues a conversation; empty opens a new one.
	Session string
	// Runner answers a new conversation; empty is the default one.
	Runner string
	// Text is the only message to send; empty asks for messages at a prompt,
	// "-" reads one from In until its end.
	Text string
	// User is the name messages are sent under.
	User string
	In   *os.File
	Out  *os.File
	Err  *os.File
}

// Errors that callers turn into exit codes.
var (
	// ErrTurnFailed: the only, or the last, turn failed; why has been shown.
	ErrTurnFailed = errors.New("the turn failed")
	// ErrInterrupted: the person pressed Ctrl-C while nothing was running, or
	// twice.
	ErrInterrupted = errors.New("interrupted")
)

// maxInput bounds a message read from a pipe; the API refuses more.
const maxInput = 8 << 20

// talk is a conversation under way.
type talk struct {
	opts    Options
	session string
	screen  *screen
	since   int64
	// running is the turn that Ctrl-C stops.
	running atomic.Pointer[turn.ID]
}

// Run holds the conversation until its text is answered, the input ends, or ctx
// does.
func Run(ctx context.Context, opts Options) error {
	t := &talk{opts: opts, since: -1}
	tty := term.IsTerminal(int(opts.Out.Fd()))
	t.screen = &screen{out: opts.Out, notes: opts.Err, live: tty, color: tty && os.Getenv("NO_COLOR") == ""}
	if tty {
		t.screen.notes = opts.Out
	}
	text := opts.Text
	if text == "-" {
		data, err := io.ReadAll(io.LimitReader(opts.In, maxInput+1))
		if err != nil {
			return fmt.Errorf("read the message: %w", err)
		}
		if len(data) > maxInput {
			return fmt.Errorf("the message is longer than %d MiB", maxInput>>20)
		}
		if text = strings.TrimSpace(string(data)); text == "" {
			return errors.New("the message is empty")
		}
	}
	if err := t.open(ctx); err != nil {
		return err
	}
	ctx, stop := t.catchInterrupts(ctx)
	defer stop()
	if text != "" {
		return t.say(ctx, text)
	}
	return t.prompt(ctx)
}

// open finds or makes the session.
func (t *talk) open(ctx context.Context) error {
	if t.opts.Session != "" {
		t.session = strings.TrimPrefix(t.opts.Session, "SESSION-")
		lines, err := t.opts.Client.History(ctx, t.session)
		if err != nil {
			return fmt.Errorf("session %s: %w", t.session, err)
		}
		if t.opts.Text == "" {
			t.show(lines)
		}
		return nil
	}
	id, err := t.opts.Client.Open(ctx, t.opts.Runner)
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	t.session = id
	return nil
}

// shown is how many lines of an old conversation are repeated.
const shown = 10

func (t *talk) show(lines []Line) {
	if n := len(lines); n > shown {
		t.screen.note(fmt.Sprintf("(%d earlier lines: /history shows them)", n-shown))
		lines = lines[n-shown:]
	}
	for _, l := range lines {
		who := l.User
		if l.IsBot {
			who = "iris"
		}
		fmt.Fprintf(t.opts.Out, "%s %s\n", t.screen.paint(dim, who+":"), clean(l.Text))
	}
}

// say sends one message and draws its turn to the end.
func (t *talk) say(ctx context.Context, text string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events := make(chan turn.Event, 64)
	opened := make(chan struct{})
	broken := make(chan error, 1)
	go func() {
		broken <- t.opts.Client.Follow(ctx, t.session, t.since, func() { close(opened) }, func(e turn.Event) bool {
			select {
			case events <- e:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	select {
	case <-opened:
	case err := <-broken:
		return fmt.Errorf("watch the session: %w", err)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	id, err := t.opts.Client.Send(ctx, t.session, t.opts.User, text)
	if err != nil {
		return err
	}
	t.running.Store(&id)
	defer t.running.Store(nil)
	return t.drawTurn(ctx, id, events, broken)
}

func (t *talk) drawTurn(ctx context.Context, id turn.ID, events <-chan turn.Event, broken <-chan error) error {
	for {
		select {
		case e := <-events:
			if e.Turn != id {
				continue
			}
			if t.screen.draw(e) {
				continue
			}
			if e.Kind == turn.Failed {
				return ErrTurnFailed
			}
			return nil
		case err := <-broken:
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("the event stream broke: %w", err)
		}
	}
}

// catchInterrupts makes Ctrl-C stop the running turn. One while nothing runs, or
// a second within two seconds because the server does not answer, ends the
// returned context with ErrInterrupted.
func (t *talk) catchInterrupts(ctx context.Context) (inner context.Context, stop func()) {
	inner, cancel := context.WithCancelCause(ctx)
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt)
	go func() {
		var last time.Time
		for {
			select {
			case <-inner.Done():
				return
			case <-c:
			}
			if t.running.Load() == nil || time.Since(last) < 2*time.Second {
				cancel(ErrInterrupted)
				return
			}
			last = time.Now()
			if _, err := t.opts.Client.Act(inner, t.session, "stop"); err != nil {
				t.screen.note("stop: " + err.Error())
			}
		}
	}()
	return inner, func() {
		signal.Stop(c)
		cancel(nil)
	}
}
