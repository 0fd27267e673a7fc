//go:build e2e

package acp

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/process"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/agentcli/apitest"
)

// realPatience bounds what a real program does; a cold start takes most of it.
const realPatience = 90 * time.Second

// bash is how each agent calls a command.
var bash = map[string]string{
	"claude-code-acp": `TOOL:mcp__acp__Bash {"command":"%s","timeout":60000,"run_in_background":false}`,
	"copilot":         `TOOL:bash {"command":"%s","description":"scripted"}`,
}

func find(t *testing.T, name string) string {
	t.Helper()
	bin := os.Getenv("IRIS_TEST_CLIS")
	if bin != "" {
		bin = filepath.Join(bin, "node_modules", ".bin", name)
	} else if found, err := exec.LookPath(name); err == nil {
		bin = found
	}
	if _, err := os.Stat(bin); err != nil {
		t.Skipf("no real %s: it is not on PATH, and IRIS_TEST_CLIS names no npm prefix with it; the transcripts stand in", name)
	}
	return bin
}

// A lab is where real agents run: a home, a work directory, a model API.
type lab struct {
	t      *testing.T
	name   string
	bin    string
	preset Preset
	api    *apitest.Server
	home   string
	setup  agentcli.Setup
}

func newLab(t *testing.T, name string) *lab {
	t.Helper()
	l := &lab{t: t, name: name, bin: find(t, name), home: t.TempDir(), api: apitest.New(t, apitest.Options{Lenient: true})}
	l.preset = map[string]Preset{"claude-code-acp": ClaudeCode(), "copilot": Copilot(), "gemini": Gemini()}[name]
	l.setup = agentcli.Setup{Bin: l.bin, WorkDir: t.TempDir(), Scratch: t.TempDir(), Mode: agentcli.Manual, System: "CANARY-OF-OUR-PROMPT"}
	return l
}

func (l *lab) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + l.home, "NO_COLOR=1",
		"ANTHROPIC_BASE_URL=" + l.api.URL(), "ANTHROPIC_API_KEY=sk-ant-dummy", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"DISABLE_AUTOUPDATER=1", "DISABLE_TELEMETRY=1", "DISABLE_ERROR_REPORTING=1", "CLAUDE_CODE_MAX_RETRIES=1",
		"COPILOT_OFFLINE=true", "COPILOT_PROVIDER_TYPE=anthropic", "COPILOT_PROVIDER_BASE_URL=" + l.api.URL(),
		"COPILOT_PROVIDER_API_KEY=dummy", "COPILOT_MODEL=claude-sonnet-4-5", "COPILOT_AUTO_UPDATE=false",
		"GEMINI_API_KEY=dummy", "GOOGLE_GEMINI_BASE_URL=" + l.api.URL(), "GEMINI_CLI_TRUST_WORKSPACE=true",
	}
}

// A real is one running agent.
type real struct {
	*lab
	agent agentcli.Agent
	tree  *process.Tree
	ended chan struct{}
	err   error

	mu      sync.Mutex
	events  []agentcli.Event
	seen    int
	changed chan struct{}
	// answer settles the questions that come; nil leaves them open.
	answer func(agentcli.Event) *agentcli.Answer
	stderr *os.File
}

// start runs the agent and opens its session.
func (l *lab) start(session string) (*real, error) {
	l.t.Helper()
	d, err := New(Options{Preset: l.preset, Env: l.env()})
	if err != nil {
		l.t.Fatal(err)
	}
	s := l.setup
	s.Session = session
	launch, err := d.Launch(s)
	if err != nil {
		l.t.Fatal(err)
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		l.t.Fatal(err)
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		l.t.Fatal(err)
	}
	r := &real{lab: l, ended: make(chan struct{}), changed: make(chan struct{}, 1)}
	if r.stderr, err = os.CreateTemp(l.t.TempDir(), "stderr"); err != nil {
		l.t.Fatal(err)
	}
	r.tree, err = process.Start(process.Spec{
		Path: launch.Path, Args: append([]string{l.name}, launch.Args...), Env: append(l.env(), launch.Env...), Dir: s.WorkDir,
		Files: []*os.File{inR, outW, r.stderr},
	})
	inR.Close()
	outW.Close()
	if err != nil {
		l.t.Fatal(err)
	}
	if r.agent, err = d.Attach(s, agentcli.Pipes{In: inW, Out: outR}); err != nil {
		l.t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		r.err = r.agent.Read(r.take)
	}()
	l.t.Cleanup(func() {
		r.tree.End(5 * time.Second)
		inW.Close()
		<-r.ended
		outR.Close()
		if l.t.Failed() {
			text, _ := os.ReadFile(r.stderr.Name())
			l.t.Logf("%s said on stderr:\n%s\nevents:\n%s\nAPI:\n%s", l.name, clip(string(text), 4000), r.log(), clip(l.api.Log(), 6000))
		}
		r.stderr.Close()
	})
	return r, r.agent.Open(l.t.Context())
}

func (r *real) take(e agentcli.Event) {
	r.mu.Lock()
	r.events = append(r.events, e)
	answer := r.answer
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
	if e.Kind == agentcli.Permission && answer != nil {
		if a := answer(e); a != nil {
			a.ID = e.ID
			if err := r.agent.Answer(r.t.Context(), *a); err != nil {
				r.t.Errorf("Answer: %v", err)
			}
		}
	}
}

func (r *real) log() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, e := range r.events {
		if e.Kind != agentcli.Delta {
			b.WriteString(show(e) + "\n")
		}
	}
	return b.String()
}

// await is the next event that is wanted.
func (r *real) await(what string, wanted func(agentcli.Event) bool) agentcli.Event {
	r.t.Helper()
	deadline := time.After(realPatience)
	for {
		r.mu.Lock()
		for r.seen < len(r.events) {
			e := r.events[r.seen]
			r.seen++
			if wanted(e) {
				r.mu.Unlock()
				return e
			}
		}
		r.mu.Unlock()
		select {
		case <-r.changed:
		case <-r.ended:
			r.t.Fatalf("%s has ended (%v), want %s", r.name, r.err, what)
		case <-deadline:
			r.t.Fatalf("not within %s: %s", realPatience, what)
		}
	}
}

func of(k agentcli.Kind) func(agentcli.Event) bool {
	return func(e agentcli.Event) bool { return e.Kind == k }
}

var promptNumber = 0

// say sends a prompt.
func (r *real) say(p agentcli.Prompt) {
	r.t.Helper()
	promptNumber++
	p.ID = fmt.Sprint(promptNumber)
	if err := r.agent.Send(r.t.Context(), p); err != nil {
		r.t.Fatal(err)
	}
}

// turn sends a prompt and returns what was said and how it ended, with the number
// of questions that came.
func (r *real) turn(p agentcli.Prompt, answer func(agentcli.Event) *agentcli.Answer) (said string, end agentcli.Event, asked []agentcli.Event) {
	r.t.Helper()
	r.mu.Lock()
	r.answer = answer
	from := len(r.events)
	r.mu.Unlock()
	r.say(p)
	end = r.await("the end of "+p.Text, of(agentcli.Result))
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events[from:] {
		switch e.Kind {
		case agentcli.Text:
			said += e.Text + "\n"
		case agentcli.Permission:
			asked = append(asked, e)
		}
	}
	return said, end, asked
}

func allow(agentcli.Event) *agentcli.Answer { return &agentcli.Answer{Allow: true} }
func deny(agentcli.Event) *agentcli.Answer  { return &agentcli.Answer{Reason: "not today"} }
func always(agentcli.Event) *agentcli.Answer {
	return &agentcli.Answer{Allow: true, Always: true}
}

func (l *lab) exists(name string) bool {
	_, err := os.Stat(filepath.Join(l.setup.WorkDir, name))
	return err == nil
}

func (l *lab) run(command string) agentcli.Prompt {
	return agentcli.Prompt{Text: fmt.Sprintf(bash[l.name], command)}
}
