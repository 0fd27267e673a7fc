package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// prompt asks for messages until the input ends. At a prompt the result is
// good; from a pipe it is that of the first message that failed.
func (t *talk) prompt(ctx context.Context) error {
	var from lines = &plainLines{}
	if t.interactive {
		from = t.editor()
	}
	in, err := newInput(ctx, t.opts.In)
	if err != nil {
		return err
	}
	defer in.Close()
	var failed error
	for {
		text, err := t.nextLine(from, in)
		switch {
		case errors.Is(err, io.EOF) || err == nil && leaving(text):
			return t.bye(failed)
		case errors.Is(err, errLongInput):
			t.screen.note(err.Error())
			continue
		case err != nil:
			return err
		case text == "":
			continue
		}
		err = t.enter(ctx, text)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, ErrTurnFailed) && !errors.Is(err, errStopped) {
			t.screen.trouble(err)
			err = ErrTurnFailed // it has been shown
		}
		if failed == nil {
			failed = err
		}
	}
}

// nextLine returns what was typed while a turn ran, else the next line.
func (t *talk) nextLine(from lines, in io.Reader) (string, error) {
	if len(t.typed) > 0 {
		line := t.typed[0]
		t.typed = t.typed[1:]
		if !leaving(line) {
			t.screen.note("› " + line)
		}
		return line, nil
	}
	line, err := from.read(in)
	return strings.TrimSpace(line), err
}

// editor returns the prompt of a terminal, with the person's lines of the
// conversation so far within reach.
func (t *talk) editor() *editedLines {
	e := newEditedLines(t.opts.In, t.opts.Out, t.screen.paint(cyan, "›")+" ")
	for _, l := range t.past {
		if !l.IsBot {
			e.remember(l.Text)
		}
	}
	return e
}

// bye ends a conversation.
func (t *talk) bye(failed error) error {
	if t.interactive {
		t.screen.note("continue with: iris chat --session " + t.session)
		return nil
	}
	return failed
}

// reply answers the question that waits inside of the running turn, if the text is
// an answer to it.
func (t *talk) reply(ctx context.Context, text string) bool {
	a := t.screen.asked()
	if a == nil {
		return false
	}
	yes, choice, ok := replyTo(a, text)
	if !ok {
		return false
	}
	if _, err := t.opts.Client.Choose(ctx, a.ID, yes, choice); err != nil && ctx.Err() == nil {
		t.screen.trouble(fmt.Errorf("answer: %w", err))
	}
	return true
}

// listen takes in what the person enters while a turn runs, until ctx ends: stop
// acts at once, so does the answer to a question that waits, the rest is for later. The terminal is not raw meanwhile, so
// that one read is one line.
func (t *talk) listen(ctx context.Context) error {
	in, err := newInput(ctx, t.opts.In)
	if err != nil {
		return err
	}
	defer in.Close()
	buf := make([]byte, 4096)
	for {
		n, _ := in.Read(buf)
		if n > 0 {
			t.screen.entered()
		} else if ctx.Err() != nil {
			return nil
		}
		switch text := strings.TrimSpace(string(buf[:n])); {
		case n == 0 || leaving(text): // Ctrl-D, or the terminal is gone
			t.typed = append(t.typed, "/quit")
			t.screen.note("(leaves when this turn has ended)")
			return nil
		case text == "":
		case text == "/stop" || text == "stop":
			if err := t.stopRunning(ctx); err != nil && ctx.Err() == nil {
				t.screen.trouble(fmt.Errorf("stop: %w", err))
			}
		case t.reply(ctx, text):
		default:
			t.typed = append(t.typed, text)
			t.screen.note("(waits until this turn has ended)")
		}
	}
}
