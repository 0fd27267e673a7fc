package acp

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/process"
	"github.com/iris-operator/iris/internal/runner/agentcli"
)

const (
	// outputRoom is what is kept of a command's output unless the agent asks for
	// less.
	outputRoom = 1 << 20
	// terminalsRoom bounds the commands of an agent that never releases one.
	terminalsRoom = 64
	// endGrace is what a command has between TERM and KILL.
	endGrace = 2 * time.Second
	// drainTime is how long a command that has ended may still have output on its
	// way; what it left running in the background may hold the pipe for ever.
	drainTime = 200 * time.Millisecond
)

// A terminal is a command that runs, or ran, for the agent.
type terminal struct {
	tree  *process.Tree
	over  chan struct{} // closed when the command has ended and its output is in
	stops sync.Once
	ends  func() // ends the tree, in the background

	// mu guards the fields below.
	mu   sync.Mutex
	text []byte
	cut  bool
	room int
}

// createTerminal runs a command, after it has been asked about.
func (a *Agent) createTerminal(m message) {
	var p createTerminal
	if decode(m.Params, &p) != nil || p.Command == "" {
		a.refuse(m.ID, codeParams, "a command is missing")
		return
	}
	command := p.Command // for a shell, unless there are words
	if len(p.Args) > 0 {
		command = quote(append([]string{p.Command}, p.Args...))
	}
	dir := a.setup.WorkDir
	if p.Cwd != "" {
		dir = filepath.Clean(p.Cwd)
	}
	work := func() {
		a.work.Go(func() {
			id, err := a.start(p, dir)
			if err != nil {
				a.refuse(m.ID, codeInternal, err.Error())
				return
			}
			a.respond(m.ID, terminalID{id})
		})
	}
	_, _, inside := a.place(agentcli.Edit, dir)
	key := "run:" + command
	if dir != a.setup.WorkDir {
		key += "\x00" + dir
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case p.Session != a.id:
		a.refuse(m.ID, codeParams, "no such session")
	case !filepath.IsAbs(dir):
		a.refuse(m.ID, codeParams, "the directory must be absolute")
	case len(a.terminals) >= terminalsRoom:
		a.refuse(m.ID, codeRefused, "too many commands: release some")
	case harmless(p) && a.granted(key):
		work()
	default:
		t := agentcli.Tool{Name: "Bash", What: agentcli.Execute, Command: command, Outside: !inside, Always: true, Granted: a.always[key]}
		if dir != a.setup.WorkDir {
			t.Dir = dir
		}
		in := map[string]any{"command": command}
		if env := variables(p); !harmless(p) {
			in["env"] = env
			t.Command = quoteEnv(p) + command
			t.Always, t.Granted = false, false
		}
		t.Input, _ = json.Marshal(in) // cannot fail
		a.put(&ask{key: key, settle: a.consent(m.ID, work)}, agentcli.Event{Kind: agentcli.Permission, Tool: t})
	}
}

// harmless reports that the variables of a command are such as only say who
// started it.
func harmless(p createTerminal) bool {
	for _, v := range p.Env {
		if v.Name != "CLAUDECODE" && v.Name != "GEMINI_CLI" && v.Name != "COPILOT_CLI" {
			return false
		}
	}
	return true
}

func variables(p createTerminal) (env []string) {
	for _, v := range p.Env {
		if v.Name != "" && !strings.ContainsAny(v.Name, "=\x00") {
			env = append(env, v.Name+"="+v.Value)
		}
	}
	return env
}

// quoteEnv writes the variables before a command, where a person and the policy
// see them.
func quoteEnv(p createTerminal) string {
	var b strings.Builder
	for _, v := range variables(p) {
		name, value, _ := strings.Cut(v, "=")
		b.WriteString(name + "=" + quote([]string{value}) + " ")
	}
	return b.String()
}

// start runs the command of p in dir.
func (a *Agent) start(p createTerminal, dir string) (id string, err error) {
	var path string
	var args []string
	if len(p.Args) == 0 {
		if path, err = exec.LookPath("bash"); err != nil {
			return "", err
		}
		args = []string{"bash", "--noprofile", "--norc", "-c", p.Command}
	} else {
		if path, err = exec.LookPath(p.Command); err != nil {
			return "", err
		}
		args = append([]string{p.Command}, p.Args...)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return "", err
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer w.Close()
	t := &terminal{over: make(chan struct{}), room: outputRoom}
	if p.Limit != nil {
		t.room = min(max(*p.Limit, 0), outputRoom)
	}
	if t.tree, err = process.Start(process.Spec{
		Path: path, Args: args, Dir: dir, Owner: a.opts.Owner, Prepare: a.opts.Prepare, Env: append(slices.Clone(a.opts.Env), variables(p)...), Files: []*os.File{null, w, w},
	}); err != nil {
		r.Close()
		return "", err
	}
	t.ends = func() {
		a.work.Go(func() { _, _ = t.tree.End(endGrace) }) // what is left is the supervisor's, which ends the agent with all below it
	}
	a.mu.Lock()
	a.nextTerminal++
	id = "term-" + strconv.Itoa(a.nextTerminal)
	a.terminals[id] = t
	a.mu.Unlock()
	a.work.Go(func() { t.collect(r) })
	select {
	case <-a.gone: // endTerminals may have been too early for this one
		t.stop()
	default:
	}
	return id, nil
}

// collect reads the output and closes over when the command has ended.
func (t *terminal) collect(r *os.File) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer r.Close()
		_, _ = io.Copy(t, r) // ends with the last process that writes
	}()
	<-t.tree.Done()
	timer := time.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-read:
		close(t.over)
	case <-timer.C:
		close(t.over)
		<-read
	}
}

// Write keeps the end of the output.
func (t *terminal) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if over := len(t.text) - t.room; over > 0 {
		t.cut = true
		for over < len(t.text) && !utf8.RuneStart(t.text[over]) {
			over++
		}
		t.text = append(t.text[:0], t.text[over:]...)
	}
	return len(b), nil
}

// stop ends the command and all that it started. It does not wait.
func (t *terminal) stop() { t.stops.Do(t.ends) }

// status is how the command ended, nil while it runs.
func (t *terminal) status() *exitStatus {
	select {
	case <-t.over:
	default:
		return nil
	}
	state, err := t.tree.Wait()
	if err != nil || state == nil {
		return &exitStatus{}
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		name := ws.Signal().String()
		return &exitStatus{Signal: &name}
	}
	code := state.ExitCode()
	return &exitStatus{Code: &code}
}

// terminal answers what an agent wants of one that it has.
func (a *Agent) terminal(m message) {
	var p terminalRef
	if decode(m.Params, &p) != nil {
		a.refuse(m.ID, codeParams, "invalid params")
		return
	}
	a.mu.Lock()
	t := a.terminals[p.Terminal]
	if t != nil && m.Method == "terminal/release" {
		delete(a.terminals, p.Terminal)
	}
	a.mu.Unlock()
	if t == nil {
		a.refuse(m.ID, codeNotFound, "no such terminal: "+clip(p.Terminal, 50))
		return
	}
	switch m.Method {
	case "terminal/output":
		status := t.status()
		t.mu.Lock()
		out := terminalOutput{strings.ToValidUTF8(string(t.text), "\uFFFD"), t.cut, status}
		t.mu.Unlock()
		a.respond(m.ID, out)
	case "terminal/wait_for_exit":
		a.work.Go(func() {
			<-t.over
			a.respond(m.ID, t.status())
		})
	default: // kill and release
		t.stop()
		a.respond(m.ID, empty{})
	}
}

// endTerminals ends all commands when the agent is gone.
func (a *Agent) endTerminals() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range a.terminals {
		t.stop()
	}
	a.withdraw()
}
