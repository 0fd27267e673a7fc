package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// lines yields what the person enters; io.EOF ends the conversation.
type lines interface {
	// read shows the prompt and returns one message.
	read(in io.Reader) (string, error)
}

// plainLines reads from a pipe, without a prompt.
type plainLines struct{ buf *bufio.Reader }

func (p *plainLines) read(in io.Reader) (string, error) {
	if p.buf == nil {
		p.buf = bufio.NewReader(in)
	}
	line, err := p.buf.ReadString('\n')
	if err != nil && line == "" {
		return "", err
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// editedLines reads from a terminal with line editing and history. The terminal
// is raw only while a line is read, so that Ctrl-C is a signal at other times.
type editedLines struct {
	file *os.File
	out  io.Writer
	keys *keys
	term *term.Terminal
	// prompt is the first line's, more that of the lines after it.
	prompt, more string
}

func newEditedLines(file *os.File, out io.Writer, prompt string) *editedLines {
	e := &editedLines{file: file, out: out, keys: &keys{}, prompt: prompt, more: "  "}
	e.term = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{e.keys, out}, prompt)
	e.term.History = &recall{}
	e.term.AutoCompleteCallback = e.key
	return e
}

// remember puts lines of an earlier conversation within reach of ↑.
func (e *editedLines) remember(line string) { e.term.History.Add(line) }

// Ctrl-C is read as another key that means nothing: term ends the input on it.
const ctrlC, clearKey = 0x03, 0x1c

// keys is where the terminal reads from: another reader for every line.
type keys struct{ r io.Reader }

// Read reads keys.
func (k *keys) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	for i := range p[:n] {
		if p[i] == ctrlC {
			p[i] = clearKey
		}
	}
	return n, err
}

// key handles the keys that term does not: Ctrl-C empties the line, Tab
// completes a command.
func (e *editedLines) key(line string, pos int, key rune) (string, int, bool) {
	switch key {
	case clearKey:
		return "", 0, true
	case '\t':
		if match := completeCommand(line[:pos]); match != "" {
			return match + line[pos:], len(match), true
		}
		return line, pos, true
	}
	return "", 0, false
}

// maxTyped is where term stops to take characters in, without a word.
const maxTyped = 4096

// errLongInput: a line reached maxTyped, so its end may be missing.
var errLongInput = fmt.Errorf("a line at the prompt has room for %d characters; send longer ones with: iris chat --session ID - < FILE", maxTyped)

// read returns what was typed up to Enter. Lines that were pasted together are
// one message, which Enter sends.
func (e *editedLines) read(in io.Reader) (string, error) {
	old, err := term.MakeRaw(int(e.file.Fd()))
	if err != nil {
		return "", err
	}
	defer term.Restore(int(e.file.Fd()), old)
	if w, h, err := term.GetSize(int(e.file.Fd())); err == nil && w > 0 && h > 0 {
		if err := e.term.SetSize(w, h); err != nil {
			return "", err
		}
	}
	e.keys.r = in
	e.term.SetBracketedPasteMode(true)
	defer e.term.SetBracketedPasteMode(false)
	var all []string
	e.term.SetPrompt(e.prompt)
	for {
		line, err := e.term.ReadLine()
		pasted := errors.Is(err, term.ErrPasteIndicator)
		if err != nil && !pasted {
			_, werr := io.WriteString(e.out, "\r\n") // off the line of the prompt
			return "", errors.Join(err, werr)
		}
		if utf8.RuneCountInString(line) >= maxTyped {
			return "", errLongInput
		}
		all = append(all, line)
		if !pasted {
			return strings.Join(all, "\n"), nil
		}
		e.term.SetPrompt(e.more)
	}
}

// maxRecall is how many lines ↑ reaches back.
const maxRecall = 200

// recall is what ↑ shows: lines that say something, each once in a row.
type recall struct{ lines []string }

// Add keeps a line.
func (r *recall) Add(line string) {
	if line = strings.TrimSpace(line); line == "" || len(r.lines) > 0 && r.lines[len(r.lines)-1] == line {
		return
	}
	if r.lines = append(r.lines, line); len(r.lines) > maxRecall {
		r.lines = r.lines[1:]
	}
}

// Len is the number of lines.
func (r *recall) Len() int { return len(r.lines) }

// At returns a line, 0 is the newest.
func (r *recall) At(i int) string { return r.lines[len(r.lines)-1-i] }
