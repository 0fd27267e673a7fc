package clitest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// program is what a process of the test binary is. A prompt is a list of orders,
// one a line:
//
//	SAY text      a whole text, after its pieces
//	DELTA text    a piece with no whole text
//	SUB text      a text of a sub-agent
//	THINK text
//	NOTE text
//	RUN command   asks, then runs it and says what came of it
//	EDIT path     asks, then writes the file
//	READ path     asks, then says the file
//	USE name      asks about a tool that nobody knows
//	OUTSIDE path  as EDIT, and says that it lies outside
//	ALWAYS cmd    as RUN, may be allowed for good
//	PICK a|b;c|d  asks questions with options
//	PLAN text
//	TAKEBACK cmd  asks and takes it back at once
//	NOW           a piece of text: the time in nanoseconds
//	PID           says its process id
//	ENV           says its environment
//	MODE, MODEL, SESSION, DIR  say what they are
//	SPAWN         starts a process in a session of its own, and says its id
//	WAIT          works until it is interrupted
//	DEAF          as WAIT, and does not hear the interrupt
//	STUBBORN      ignores TERM and the end of its input from then on
//	BIG n         says n bytes in one line
//	ERR text      standard error
//	FAIL text     the result is a failure
//	ALONE text    says it after the turn, by itself
//	ASKALONE cmd  asks after the turn
//	DIE           ends at once; EXIT before the next message, LATER n milliseconds on
//	NONSENSE      says what is no event
//	COST n        the result's cost
//
// Anything else is echoed.
type program struct {
	dir     string
	session string
	model   string
	mode    string
	known   map[string]bool // commands allowed for good

	// out guards standard output.
	out sync.Mutex
	// mu guards the fields below.
	mu      sync.Mutex
	answers map[string]chan agentcli.Answer
	stop    chan struct{} // closed when the work is interrupted
	deaf    bool
}

func newProgram(dir string) *program {
	return &program{dir: dir, answers: map[string]chan agentcli.Answer{}, known: map[string]bool{}}
}

func flag(name string) string {
	for i, a := range os.Args[:len(os.Args)-1] {
		if a == name {
			return os.Args[i+1]
		}
	}
	return ""
}

func (p *program) main() int {
	p.session, p.model, p.mode = flag("--session"), flag("--model"), flag("--mode")
	unknown := false
	if p.session == "" {
		if p.session = flag("--fresh"); p.session == "" {
			p.session = uuid.NewString()
		}
	} else if _, err := os.Stat(sessions(p.dir, p.session)); err != nil {
		unknown = true
	}
	eager := unknown && os.Args[len(os.Args)-1] == "--eager"
	p.write(hello{Ready: true, NoSession: eager})
	if eager {
		return 1
	}
	prompts := make(chan agentcli.Prompt, 64)
	done := make(chan int, 1)
	go func() {
		for prompt := range prompts {
			if code := p.work(prompt, unknown); code >= 0 {
				done <- code
				return
			}
		}
		done <- 0
	}()
	in := bufio.NewReader(os.Stdin)
	go func() {
		for {
			line, err := in.ReadBytes('\n')
			if err != nil {
				close(prompts)
				return
			}
			var o order
			if json.Unmarshal(line, &o) != nil {
				os.Exit(3)
			}
			p.hear(o, prompts)
		}
	}()
	return <-done
}

func (p *program) hear(o order, prompts chan<- agentcli.Prompt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch o.Do {
	case "prompt":
		prompts <- o.Prompt
	case "answer":
		if c := p.answers[o.Answer.ID]; c != nil {
			c <- o.Answer
			delete(p.answers, o.Answer.ID)
		}
	case "interrupt":
		if p.stop != nil && !p.deaf {
			close(p.stop)
			p.stop = nil
		}
	case "model":
		p.model = o.Word
	case "mode":
		p.mode = o.Word
	}
}

func (p *program) write(v any) {
	data, _ := json.Marshal(v)
	p.out.Lock()
	defer p.out.Unlock()
	os.Stdout.Write(append(data, '\n'))
}

func (p *program) say(text string) {
	p.write(agentcli.Event{Kind: agentcli.Delta, Text: text})
	p.write(agentcli.Event{Kind: agentcli.Text, Text: text})
}

// work answers one prompt; a code of 0 or more ends the process.
func (p *program) work(prompt agentcli.Prompt, unknown bool) int {
	stop := make(chan struct{})
	p.mu.Lock()
	p.stop = stop
	p.mu.Unlock()
	result := agentcli.Event{Kind: agentcli.Result, Prompts: []string{prompt.ID}, Usage: &agentcli.Usage{Model: "fake-1", Input: 10, Output: 5, Cost: 0.01, Window: 1000}}
	if unknown {
		result.NoSession, result.Failure = true, "no such session"
		p.write(result)
		return 1
	}
	file := sessions(p.dir, p.session)
	_ = os.MkdirAll(filepath.Dir(file), 0o755)
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintf(f, "%s %q\n", prompt.ID, prompt.Text)
		f.Close()
	}
	p.write(agentcli.Event{Kind: agentcli.Session, ID: p.session})
	p.write(agentcli.Event{Kind: agentcli.TakenUp, ID: prompt.ID})
	var after []string
	for line := range strings.Lines(prompt.Text) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "ALONE", "ASKALONE", "EXIT":
			after = append(after, strings.TrimSpace(line))
			continue
		case "FAIL":
			result.Failure = rest
			continue
		case "COST":
			result.Usage.Cost, _ = strconv.ParseFloat(rest, 64)
			continue
		}
		if code := p.order(word, rest, strings.TrimSpace(line), stop); code >= 0 {
			return code
		}
		select {
		case <-stop:
			result.Interrupted, result.Reason = true, "interrupted"
		default:
		}
	}
	for _, f := range append(prompt.Files, "") {
		if f != "" {
			p.say("file " + f)
		}
	}
	for _, i := range prompt.Images {
		p.say(fmt.Sprintf("image %s of %d bytes", i.Mime, len(i.Data)))
	}
	p.write(result)
	for _, line := range after {
		word, rest, _ := strings.Cut(line, " ")
		switch word {
		case "EXIT":
			return 0
		case "ALONE":
			p.write(agentcli.Event{Kind: agentcli.Text, Text: rest})
			p.write(agentcli.Event{Kind: agentcli.Result})
		case "ASKALONE":
			a := p.ask(agentcli.Event{Kind: agentcli.Permission, Tool: agentcli.Tool{Name: "Bash", What: agentcli.Execute, Command: rest}}, stop)
			p.write(agentcli.Event{Kind: agentcli.Text, Text: fmt.Sprintf("alone: %v %s", a.Allow, a.Reason)})
			p.write(agentcli.Event{Kind: agentcli.Result})
		}
	}
	return -1
}

// ask puts a question and waits for its answer, or for an interrupt.
func (p *program) ask(ev agentcli.Event, stop <-chan struct{}) agentcli.Answer {
	ev.ID = uuid.NewString()
	c := make(chan agentcli.Answer, 1)
	p.mu.Lock()
	p.answers[ev.ID] = c
	p.mu.Unlock()
	p.write(ev)
	select {
	case a := <-c:
		return a
	case <-stop:
		p.write(agentcli.Event{Kind: agentcli.Withdrawn, ID: ev.ID})
		return agentcli.Answer{Reason: "interrupted"}
	}
}

func (p *program) order(word, rest, line string, stop <-chan struct{}) int {
	switch word {
	case "SAY":
		p.say(rest)
	case "DELTA":
		p.write(agentcli.Event{Kind: agentcli.Delta, Text: rest})
	case "SUB":
		p.write(agentcli.Event{Kind: agentcli.Delta, Text: rest, Parent: "task-1"})
		p.write(agentcli.Event{Kind: agentcli.Text, Text: rest, Parent: "task-1"})
	case "THINK":
		p.write(agentcli.Event{Kind: agentcli.Thought, Text: rest})
	case "NOTE":
		p.write(agentcli.Event{Kind: agentcli.Notice, Text: rest})
	case "NOW":
		p.write(agentcli.Event{Kind: agentcli.Delta, Text: strconv.FormatInt(time.Now().UnixNano(), 10)})
	case "PID":
		p.say(strconv.Itoa(os.Getpid()))
	case "ENV":
		p.say(strings.Join(os.Environ(), "\n"))
	case "MODE":
		p.mu.Lock()
		mode := p.mode
		p.mu.Unlock()
		p.say("mode " + mode)
	case "MODEL":
		p.mu.Lock()
		model := p.model
		p.mu.Unlock()
		p.say("model " + model)
	case "SESSION":
		p.say(p.session)
	case "DIR":
		dir, _ := os.Getwd()
		p.say(dir)
	case "BIG":
		n, _ := strconv.Atoi(rest)
		p.say(strings.Repeat("x", n))
	case "ERR":
		fmt.Fprintln(os.Stderr, rest)
	case "SPAWN":
		p.spawn()
	case "WAIT":
		p.say("waiting")
		<-stop
	case "DEAF":
		p.mu.Lock()
		p.deaf = true
		p.mu.Unlock()
		p.say("deaf")
		select {}
	case "STUBBORN":
		ignoreTerm()
	case "DIE":
		return 7
	case "LATER":
		n, _ := strconv.Atoi(rest)
		time.AfterFunc(time.Duration(n)*time.Millisecond, func() { os.Exit(0) })
	case "NONSENSE":
		os.Stdout.WriteString("{nonsense\n")
	case "/compact":
		p.say("compacted")
	case "PICK":
		p.pick(rest, stop)
	case "PLAN":
		a := p.ask(agentcli.Event{Kind: agentcli.Plan, Text: rest}, stop)
		p.say(fmt.Sprintf("plan: %v %s", a.Allow, a.Reason))
	case "RUN", "EDIT", "READ", "USE", "OUTSIDE", "ALWAYS", "TAKEBACK":
		p.tool(word, rest, stop)
	default:
		p.say("echo: " + line)
	}
	return -1
}

func (p *program) spawn() {
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		p.say(err.Error())
		return
	}
	p.say(strconv.Itoa(cmd.Process.Pid))
}

func (p *program) pick(rest string, stop <-chan struct{}) {
	ev := agentcli.Event{Kind: agentcli.Question}
	for i, group := range strings.Split(rest, ";") {
		c := agentcli.Choices{Question: fmt.Sprintf("question %d?", i+1), Header: "Choice"}
		for _, label := range strings.Split(group, "|") {
			c.Options = append(c.Options, agentcli.Option{Label: label, About: "about " + label})
		}
		ev.Choices = append(ev.Choices, c)
	}
	a := p.ask(ev, stop)
	data, _ := json.Marshal(a.Picked)
	p.say(fmt.Sprintf("picked: %v %s %s", a.Allow, data, a.Reason))
}

func (p *program) tool(word, rest string, stop <-chan struct{}) {
	t := agentcli.Tool{ID: uuid.NewString(), Name: "Bash", What: agentcli.Execute, Command: rest, Always: word == "ALWAYS"}
	field := "command"
	switch word {
	case "EDIT", "OUTSIDE":
		t.Name, t.What, t.Command, t.Paths, t.Outside, field = "Write", agentcli.Edit, "", []string{rest}, word == "OUTSIDE", "file_path"
	case "READ":
		t.Name, t.What, t.Command, t.Paths, field = "Read", agentcli.Read, "", []string{rest}, "file_path"
	case "USE":
		t.Name, t.What, t.Command, field = rest, agentcli.Other, "", "secret_field"
	}
	t.Input, _ = json.Marshal(map[string]string{field: rest})
	p.write(agentcli.Event{Kind: agentcli.ToolStart, Tool: t})
	a := agentcli.Answer{Allow: p.known[rest]}
	if word == "TAKEBACK" {
		id := uuid.NewString()
		p.write(agentcli.Event{Kind: agentcli.Permission, ID: id, Tool: t})
		p.write(agentcli.Event{Kind: agentcli.Withdrawn, ID: id})
		a.Reason = "taken back"
	} else if !a.Allow {
		a = p.ask(agentcli.Event{Kind: agentcli.Permission, Tool: t}, stop)
		p.known[rest] = a.Always
	}
	end := t
	end.Failed = !a.Allow
	if a.Allow {
		end.Result = p.perform(word, rest, stop)
	} else {
		end.Result = a.Reason
	}
	p.write(agentcli.Event{Kind: agentcli.ToolEnd, Tool: end})
	p.say(fmt.Sprintf("%s: %v %s", word, a.Allow, end.Result))
}

// perform does what was allowed. A command gets a session of its own, as agents
// give theirs.
func (p *program) perform(word, rest string, stop <-chan struct{}) string {
	switch word {
	case "EDIT", "OUTSIDE":
		if err := os.WriteFile(rest, []byte("edited\n"), 0o600); err != nil {
			return err.Error()
		}
		return "written"
	case "READ":
		data, err := os.ReadFile(rest)
		if err != nil {
			return err.Error()
		}
		return string(data)
	case "USE":
		return "used"
	}
	cmd := exec.Command("sh", "-c", rest)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-stop:
		_ = cmd.Process.Kill()
		<-done
	}
	return strings.TrimSpace(out.String())
}
