//go:build e2e

package claude_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/agentcli/claude"
)

// A wired is the real program behind an Agent alone, without a supervisor: what a
// supervisor keeps apart can be tried here.
type wired struct {
	t      *testing.T
	agent  agentcli.Agent
	events chan agentcli.Event
}

func (l *lab) wire(setup agentcli.Setup) *wired {
	t := l.t
	t.Helper()
	driver, err := claude.New(claude.Options{Retries: 1})
	if err != nil {
		t.Fatal(err)
	}
	setup.Bin, setup.WorkDir, setup.Scratch = real(t), l.work, t.TempDir()
	launch, err := driver.Launch(setup)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(launch.Path, launch.Args...)
	cmd.Dir, cmd.Env = l.work, append(agentcli.Environ(l.opts.Environ), launch.Env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, outW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = outW
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	outW.Close()
	w := &wired{t: t, events: make(chan agentcli.Event, 10000)}
	if w.agent, err = driver.Attach(setup, agentcli.Pipes{In: in, Out: out}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.events)
		_ = w.agent.Read(func(e agentcli.Event) { w.events <- e })
	}()
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		out.Close()
		for range w.events {
		}
	})
	return w
}

// until waits for an event of a kind, and lets the others go by.
func (w *wired) until(kind agentcli.Kind) agentcli.Event {
	w.t.Helper()
	late := time.After(patience)
	for {
		select {
		case e, ok := <-w.events:
			if !ok {
				w.t.Fatalf("the program ended before a %s", kind)
			}
			if e.Kind == kind {
				return e
			}
		case <-late:
			w.t.Fatalf("no %s within %s", kind, patience)
		}
	}
}

func (w *wired) send(text string) string {
	w.t.Helper()
	id := uuid.NewString()
	if err := w.agent.Send(w.t.Context(), agentcli.Prompt{ID: id, Text: text}); err != nil {
		w.t.Fatal(err)
	}
	return id
}

func TestRealQueuedMessages(t *testing.T) {
	l := newLab(t, agentcli.Manual)
	w := l.wire(agentcli.Setup{Mode: agentcli.Manual, Fresh: uuid.NewString()})
	if err := w.agent.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, _, err := w.agent.Models(t.Context()); err != nil || len(all) == 0 {
		t.Errorf("models %v, %v", all, err)
	}
	// Two messages while an answer streams are both accounted for.
	first := w.send("HOLD")
	w.until(agentcli.Delta)
	second, third := w.send("say two"), w.send("say three")
	l.api.Release()
	if e := w.until(agentcli.Result); !slices.Equal(e.Prompts, []string{first}) {
		t.Errorf("the first result answers %v, want %v", e.Prompts, first)
	}
	var answered []string // by one result, or by two if Claude was quick
	for len(answered) < 2 {
		answered = append(answered, w.until(agentcli.Result).Prompts...)
	}
	if !slices.Equal(answered, []string{second, third}) {
		t.Errorf("the next results answer %v, want %v and %v", answered, second, third)
	}
	// One while a question waits is taken into the turn at hand. The input of the call
	// is rewritten.
	fourth := w.send("RUN: echo original")
	ask := w.until(agentcli.Permission)
	fifth := w.send("and be quick")
	if err := w.agent.Answer(t.Context(), agentcli.Answer{ID: ask.ID, Allow: true, Input: json.RawMessage(`{"command":"echo REWRITTEN"}`)}); err != nil {
		t.Fatal(err)
	}
	if e := w.until(agentcli.ToolEnd); e.Tool.Result != "REWRITTEN" {
		t.Errorf("the call says %q, want what was rewritten", e.Tool.Result)
	}
	if e := w.until(agentcli.Result); !slices.Contains(e.Prompts, fourth) || !slices.Contains(e.Prompts, fifth) {
		t.Errorf("the result answers %v, want %v and %v", e.Prompts, fourth, fifth)
	}
	// The same message again is not run again.
	if err := w.agent.Send(t.Context(), agentcli.Prompt{ID: fourth, Text: "RUN: echo again"}); err != nil {
		t.Fatal(err)
	}
	if e := w.until(agentcli.Result); e.Reason != "duplicate" || !slices.Equal(e.Prompts, []string{fourth}) {
		t.Errorf("a message again: %+v, want to be told so", e)
	}
	if err := w.agent.SetModel(t.Context(), "sonnet"); err != nil {
		t.Error(err)
	}
	if err := w.agent.SetMode(t.Context(), agentcli.Auto); err != nil {
		t.Error(err)
	}
	w.send("which model")
	w.until(agentcli.Result)
	if r := l.api.AwaitText(t, "which model"); !strings.Contains(r.Model, "sonnet") {
		t.Errorf("model %q, want a sonnet", r.Model)
	}
	// A command of its own is answered, though Claude never repeats it.
	own := w.send("/cost")
	if e := w.until(agentcli.Result); !slices.Equal(e.Prompts, []string{own}) {
		t.Errorf("/cost: %v, want %v", e.Prompts, own)
	}
}

func TestRealUnknownSession(t *testing.T) {
	l := newLab(t, agentcli.Manual)
	w := l.wire(agentcli.Setup{Session: uuid.NewString()})
	if err := w.agent.Open(t.Context()); err != agentcli.ErrNoSession {
		t.Errorf("Open: %v, want ErrNoSession", err)
	}
	if e := w.until(agentcli.Result); !e.NoSession {
		t.Errorf("result %+v, want NoSession", e)
	}
}
