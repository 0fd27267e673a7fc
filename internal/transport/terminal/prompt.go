package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/term"
)

// lines yields what the person enters; io.EOF ends the conversation.
type lines interface {
	// read shows the prompt and returns one line.
	read() (string, error)
}

// plainLines reads from a pipe, without a prompt.
type plainLines struct{ r *bufio.Reader }

func (p plainLines) read() (string, error) {
	line, err := p.r.ReadString('\n')
	if err != nil && line == "" {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// editedLines reads from a terminal with line editing and history. The terminal
// is raw only while a line is read, so that Ctrl-C is a signal at other times.
type editedLines struct {
	fd   int
	term *term.Terminal
}

func newEditedLines(opts Options) *editedLines {
	rw := struct {
		io.Reader
		io.Writer
	}{keepOpen{opts.In}, opts.Out}
	return &editedLines{int(opts.In.Fd()), term.NewTerminal(rw, "› ")}
}

// keepOpen turns Ctrl-C into "delete the line": term ends the input on it.
type keepOpen struct{ r io.Reader }

const ctrlC, ctrlU = 0x03, 0x15

func (k keepOpen) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	for i := range p[:n] {
		if p[i] == ctrlC {
			p[i] = ctrlU
		}
	}
	return n, err
}

func (e *editedLines) read() (string, error) {
	old, err := term.MakeRaw(e.fd)
	if err != nil {
		return "", err
	}
	defer term.Restore(e.fd, old)
	if w, h, err := term.GetSize(e.fd); err == nil && w > 0 && h > 0 {
		if err := e.term.SetSize(w, h); err != nil {
			return "", err
		}
	}
	line, err := e.term.ReadLine()
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	return line, err
}

const help = `/stop      stop the running turn (or press Ctrl-C while it runs)
/reset     forget the conversation so far; its log stays
/compact   summarise the conversation so far
/history   show the log
/session   show the session's id
/quit      leave (or press Ctrl-D); the conversation can be continued`

// prompt asks for messages until the input ends.
func (t *talk) prompt(ctx context.Context) error {
	var in lines = plainLines{bufio.NewReader(t.opts.In)}
	interactive := term.IsTerminal(int(t.opts.In.Fd()))
	if interactive {
		in = newEditedLines(t.opts)
		t.screen.note("session " + t.session + " · /help lists the commands")
	}
	var last error
	for {
		line, err := readOrEnd(ctx, in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		text := strings.TrimSpace(line)
		if text == "/quit" || text == "/exit" {
			break
		}
		if text == "" {
			continue
		}
		if last = t.enter(ctx, text); last != nil && !errors.Is(last, ErrTurnFailed) {
			t.screen.note("error: " + last.Error())
		}
	}
	if interactive {
		t.screen.note("continue with: iris chat --session " + t.session)
		return nil
	}
	return last
}

// readOrEnd gives up when ctx ends; the read itself ends with the process.
func readOrEnd(ctx context.Context, in lines) (string, error) {
	type result struct {
		line string
		err  error
	}
	c := make(chan result, 1)
	go func() {
		line, err := in.read()
		c <- result{line, err}
	}()
	select {
	case r := <-c:
		return r.line, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// enter carries out one line.
func (t *talk) enter(ctx context.Context, text string) error {
	switch text {
	case "/help":
		fmt.Fprintln(t.opts.Out, help)
	case "/session":
		fmt.Fprintln(t.opts.Out, t.session)
	case "/history":
		all, err := t.opts.Client.History(ctx, t.session)
		if err != nil {
			return err
		}
		for len(all) > 0 {
			n := min(shown, len(all))
			t.show(all[:n])
			all = all[n:]
		}
	case "/stop", "/reset", "/compact":
		message, err := t.opts.Client.Act(ctx, t.session, text[1:])
		if err != nil {
			return err
		}
		if message != "" {
			t.screen.note(strings.Trim(message, "_"))
		}
	default:
		return t.say(ctx, text)
	}
	return nil
}
