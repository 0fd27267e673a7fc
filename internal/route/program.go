package route

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
)

// A Word is what people type to command an agent program, after a slash.
type Word struct {
	Name string
	// Takes names its argument: "" for none, "[x]" for one that may be left out.
	Takes string
	Help  string
	Verb  transport.Verb
	// Also is another word for the same.
	Also string
	// prompt, for words that go to the program: what it is told instead.
	prompt func(argument string) string
}

//go:embed summary.md
var summaryText string

// Words is the table of the commands of conversations with an agent program: they
// are parsed by it and their help is written from it. "/cc:NAME" is beside it.
func Words() []Word {
	return []Word{
		{Name: "stop", Verb: transport.Stop, Help: "end the running turn"},
		{Name: "mode", Takes: "[manual|acceptEdits|auto]", Verb: transport.Mode, Help: "what may be done without asking"},
		{Name: "model", Takes: "[name]", Verb: transport.Model, Help: "which model thinks"},
		{Name: "status", Verb: transport.Status, Help: "process, session, directory, mode"},
		{Name: "usage", Verb: transport.Usage, Help: "what this conversation has cost"},
		{Name: "sessions", Verb: transport.Sessions, Help: "the sessions of this project"},
		{Name: "resume", Takes: "[id]", Verb: transport.Resume, Help: "go on with an earlier session"},
		{Name: "switch", Takes: "[directory|-]", Verb: transport.Switch, Help: "work in another directory; `-` goes back"},
		{Name: "restart", Verb: transport.Restart, Help: "end the process; the session is kept"},
		{Name: "clear", Also: "new", Verb: transport.Reset, Help: "forget the session and start afresh"},
		{Name: "compact", Verb: transport.Compact, Help: "shorten the context"},
		{Name: "summary", Takes: "[what matters]", Help: "have a hand-over written", prompt: func(arg string) string {
			if arg != "" {
				arg = "\n\n" + arg
			}
			return strings.TrimSpace(summaryText) + arg
		}},
		{Name: "verbose", Takes: "[on|off]", Verb: transport.Verbose, Help: "show tool calls"},
		{Name: "help", Verb: transport.Help, Help: "this list"},
	}
}

// ProgramHelp lists the words for people. agent is the program's name.
func ProgramHelp(agent string) string {
	var b strings.Builder
	for _, w := range Words() {
		name := "/" + w.Name
		if w.Also != "" {
			name += " or /" + w.Also
		}
		if w.Takes != "" {
			name += " " + w.Takes
		}
		fmt.Fprintf(&b, "- `%s` %s\n", name, w.Help)
	}
	fmt.Fprintf(&b, "- `/cc:NAME [text]` gives `/NAME` to %s itself\n\nAnything else is for %s.", agent, agent)
	return b.String()
}

// Said is what a message to an agent program means: a command (Verb), or a prompt
// other than its text (Prompt).
type Said struct {
	Verb             transport.Verb
	Argument, Prompt string
	// slash says that it was typed with one, and so is meant for nobody else.
	slash bool
}

// ParseProgram reads a message in a conversation with an agent program. The first
// word counts, in any case, and space before it does not. A word that takes no
// argument is one only if nothing follows, but for stop. An unknown word alone is
// transport.Unknown; with more text it is an ordinary message, as is a path.
// Messages with files are never commands.
func ParseProgram(m chat.Message) (said Said, ok bool) {
	if len(m.Files) > 0 {
		return Said{}, false
	}
	text := strings.TrimSpace(m.Text)
	rest, slash := strings.CutPrefix(text, "/")
	if !slash {
		verb, argument, ok := ParseCommand(text)
		return Said{Verb: verb, Argument: argument}, ok
	}
	name, argument := rest, ""
	if i := strings.IndexFunc(rest, unicode.IsSpace); i >= 0 {
		name, argument = rest[:i], strings.TrimSpace(rest[i:])
	}
	if len(name) > 3 && strings.EqualFold(name[:3], "cc:") && plainWord(name[3:]) {
		return Said{Prompt: strings.TrimSpace("/" + name[3:] + " " + argument), slash: true}, true
	}
	for _, w := range Words() {
		if !strings.EqualFold(name, w.Name) && (w.Also == "" || !strings.EqualFold(name, w.Also)) {
			continue
		}
		switch {
		case w.prompt != nil:
			return Said{Prompt: w.prompt(argument), slash: true}, true
		case w.Verb == transport.Verbose:
			verb, arg, ok := ParseCommand(text)
			return Said{Verb: verb, Argument: arg, slash: true}, ok
		case w.Verb == transport.Stop:
			argument = ""
		case w.Takes == "" && argument != "":
			return Said{}, false
		}
		return Said{Verb: w.Verb, Argument: argument, slash: true}, true
	}
	if verb, arg, ok := ParseCommand(text); ok { // "/reset" is that of every conversation
		return Said{Verb: verb, Argument: arg, slash: true}, true
	}
	if argument == "" && plainWord(name) {
		return Said{Verb: transport.Unknown, Argument: name, slash: true}, true
	}
	return Said{}, false
}

// ProgramLine reads a line for whoever answers at an address, if that is an agent
// program; ok is false unless it is a command.
func ProgramLine(snap Snapshot, text string) (said Said, ok bool) {
	if !snap.program(firstOf(snap.Runner, snap.Default)) {
		return Said{}, false
	}
	said, ok = ParseProgram(chat.Message{Text: text})
	return said, ok && said.Verb != ""
}

// plainWord reports that s could be the name of a command: no path, no sentence.
func plainWord(s string) bool {
	for _, c := range s {
		if c != ':' && (c > unicode.MaxASCII || !word(byte(c))) {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// said reads a message by the rules of whoever answers it.
func (d *Decision) said(s transport.Submission, snap Snapshot) (Said, bool) {
	if snap.program(d.Runner) {
		said, ok := ParseProgram(s.Message)
		return said, ok && said.Verb != ""
	}
	verb, argument, ok := ParseCommand(s.Message.Text)
	return Said{Verb: verb, Argument: argument}, ok
}

// forward gives a program what its word stands for.
func (d *Decision) forward(s transport.Submission, snap Snapshot) {
	if d.Kind != Run || d.Prompt != "" || s.Message.Prompt != "" || !person(s) || !snap.program(d.Runner) {
		return
	}
	if said, ok := ParseProgram(s.Message); ok {
		d.Prompt = said.Prompt
	}
}

// program reports that a runner is an agent program.
func (snap Snapshot) program(runner string) bool { return slices.Contains(snap.Programs, runner) }
