//go:build e2e

package acp

import (
	"bytes"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/agentcli/apitest"
)

// agents are the real programs that can work against the fake API.
var agents = []string{"claude-code-acp", "copilot"}

// TestRealAgents has each real agent go through a conversation: text, a command
// allowed, refused, allowed for the session, stops, an error of the API, a picture
// and a file, then the same session in another process.
func TestRealAgents(t *testing.T) {
	for _, name := range agents {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, name)
			r, err := l.start("")
			if err != nil {
				t.Fatal(err)
			}
			session := r.await("the session", of(agentcli.Session)).ID

			said, end, _ := r.turn(agentcli.Prompt{Text: "hello there"}, nil)
			if !strings.Contains(said, "echo: ") || !strings.Contains(said, "hello there") || end.Failure != "" {
				t.Errorf("a text turn: %q, %s", said, show(end))
			}
			if first := l.api.AwaitText(t, "hello there"); !bytes.Contains(first.Body, []byte(l.setup.System)) {
				t.Error("our part of the system prompt did not arrive")
			}

			_, end, asked := r.turn(l.run("echo one > allowed"), allow)
			if end.Failure != "" || len(asked) == 0 || !l.exists("allowed") || !strings.Contains(asked[0].Tool.Command, "echo one") || asked[0].Tool.What != agentcli.Execute {
				t.Errorf("allowed: %s, asked %d, ran %t", show(end), len(asked), l.exists("allowed"))
			}
			for _, e := range asked[1:] {
				t.Errorf("asked again: %s", show(e))
			}

			_, end, asked = r.turn(l.run("touch refused"), deny)
			if len(asked) != 1 || l.exists("refused") || end.Failure != "" {
				t.Errorf("refused: %s, asked %d, ran %t", show(end), len(asked), l.exists("refused"))
			}

			_, _, asked = r.turn(l.run("touch always1"), always)
			if len(asked) == 0 || !l.exists("always1") {
				t.Errorf("always: asked %d, ran %t", len(asked), l.exists("always1"))
			}
			os.Remove(filepath.Join(l.setup.WorkDir, "always1"))
			_, _, asked = r.turn(l.run("touch always1"), func(e agentcli.Event) *agentcli.Answer {
				if !e.Tool.Granted {
					t.Errorf("asked again after always: %s", show(e))
				}
				return &agentcli.Answer{Allow: true}
			})
			if !l.exists("always1") {
				t.Errorf("after always: asked %d, and it did not run", len(asked))
			}
			if l.exists(".claude/settings.local.json") {
				t.Error("a grant for the session was written into the project")
			}

			r.answer = nil
			r.say(l.run("touch pending"))
			ask := r.await("the question", of(agentcli.Permission))
			if err := r.agent.Interrupt(t.Context()); err != nil {
				t.Fatal(err)
			}
			if w := r.await("the withdrawal", of(agentcli.Withdrawn)); w.ID != ask.ID {
				t.Errorf("withdrawn %q, want %q", w.ID, ask.ID)
			}
			if end := r.await("the end", of(agentcli.Result)); !end.Interrupted || l.exists("pending") {
				t.Errorf("stopped while it asked: %s, ran %t", show(end), l.exists("pending"))
			}

			var img bytes.Buffer
			if err := png.Encode(&img, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(l.setup.WorkDir, "attached.txt")
			write(t, file, "in the file", 0o600)
			said, _, _ = r.turn(agentcli.Prompt{Text: "a picture came", Images: []agentcli.Image{{Mime: "image/png", Data: img.Bytes()}}, Files: []string{file}}, allow)
			got := l.api.Await(t, "the picture", func(q apitest.Request) bool { return q.Images > 0 })
			if !bytes.Contains(got.Body, []byte("attached.txt")) || !strings.Contains(said, "echo") {
				t.Errorf("a picture and a file: %q, images %d", said, got.Images)
			}

			// The same session in another process; nothing of the past is told again.
			r.tree.End(0)
			<-r.ended
			again, err := l.start(session)
			if err != nil {
				t.Fatal(err)
			}
			said, end, _ = again.turn(agentcli.Prompt{Text: "do you remember"}, nil)
			if !strings.Contains(said, "do you remember") || strings.Contains(said, "hello there") || end.Failure != "" {
				t.Errorf("resumed: %q, %s", said, show(end))
			}
			if last := l.api.AwaitText(t, "do you remember"); !bytes.Contains(last.Body, []byte("hello there")) {
				t.Error("the resumed session has lost its past")
			}
		})
	}
}

// TestRealAgentsStopWhileSpeaking ends an answer in the middle.
func TestRealAgentsStopWhileSpeaking(t *testing.T) {
	for _, name := range agents {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, name)
			r, err := l.start("")
			if err != nil {
				t.Fatal(err)
			}
			r.say(agentcli.Prompt{Text: "SLOW"})
			r.await("some text", of(agentcli.Delta))
			if err := r.agent.Interrupt(t.Context()); err != nil {
				t.Fatal(err)
			}
			if end := r.await("the end", of(agentcli.Result)); !end.Interrupted {
				t.Errorf("stopped while it spoke: %s", show(end))
			}
		})
	}
}

// TestRealAgentsTellAnError: an error of the API ends the turn and is told.
func TestRealAgentsTellAnError(t *testing.T) {
	for _, name := range agents {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, name)
			r, err := l.start("")
			if err != nil {
				t.Fatal(err)
			}
			for _, code := range []string{"ERR500", "ERR401"} {
				if said, end, _ := r.turn(agentcli.Prompt{Text: code}, nil); end.Failure == "" {
					t.Errorf("%s: %q, %s", code, said, show(end))
				}
			}
		})
	}
}

// TestRealAgentsBadSession: a session that is not there is told as such, so that a
// fresh one can be begun.
func TestRealAgentsBadSession(t *testing.T) {
	for _, name := range agents {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, name)
			r, err := l.start("01234567-89ab-4cde-8f01-23456789abcd")
			if err == nil { // told with the first prompt
				_, end, _ := r.turn(agentcli.Prompt{Text: "hello"}, nil)
				if !end.NoSession {
					t.Errorf("an unknown session: %s", show(end))
				}
			} else if !errors.Is(err, agentcli.ErrNoSession) {
				t.Errorf("Open = %v, want ErrNoSession", err)
			}
		})
	}
}

// TestRealAgentsSideBySide: two sessions in two processes do not hear each other.
func TestRealAgentsSideBySide(t *testing.T) {
	for _, name := range agents {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, name)
			one, err := l.start("")
			if err != nil {
				t.Fatal(err)
			}
			two, err := l.start("")
			if err != nil {
				t.Fatal(err)
			}
			one.say(agentcli.Prompt{Text: "SLOW"})
			one.await("some text", of(agentcli.Delta))
			said, _, _ := two.turn(agentcli.Prompt{Text: "and you"}, nil)
			if !strings.Contains(said, "and you") || strings.Contains(one.log(), "and you") {
				t.Errorf("the second said %q", said)
			}
		})
	}
}

// TestRealClaudeWritesThroughUs: the adapter's files go over the client, where a
// person and the policy see them.
func TestRealClaudeWritesThroughUs(t *testing.T) {
	l := newLab(t, "claude-code-acp")
	r, err := l.start("")
	if err != nil {
		t.Fatal(err)
	}
	inside, outside := filepath.Join(l.setup.WorkDir, "in.txt"), filepath.Join(t.TempDir(), "out.txt")
	call := func(path string) agentcli.Prompt {
		return agentcli.Prompt{Text: `TOOL:mcp__acp__Write {"file_path":"` + path + `","content":"text"}`}
	}
	_, end, asked := r.turn(call(inside), allow)
	if text, _ := os.ReadFile(inside); string(text) != "text" || len(asked) != 1 || asked[0].Tool.What != agentcli.Edit || asked[0].Tool.Paths[0] != inside {
		t.Errorf("inside: %q, asked %d, %s", text, len(asked), show(end))
	}
	_, _, asked = r.turn(call(outside), deny)
	if _, err := os.Stat(outside); err == nil || len(asked) != 1 {
		t.Errorf("outside, refused: asked %d, %v", len(asked), err)
	}
	_, _, asked = r.turn(agentcli.Prompt{Text: `TOOL:mcp__acp__Read {"file_path":"` + inside + `"}`}, allow)
	if len(asked) != 1 || asked[0].Tool.What != agentcli.Read {
		t.Errorf("reading in manual mode: asked %d", len(asked))
	}
}

// TestRealClaudeStopsACommand: a stop ends the command that runs for the agent, and
// what it put into the background.
func TestRealClaudeStopsACommand(t *testing.T) {
	l := newLab(t, "claude-code-acp")
	r, err := l.start("")
	if err != nil {
		t.Fatal(err)
	}
	r.answer = allow
	r.say(l.run("setsid sleep 300 & echo $! > p; mv p pid; sleep 300"))
	pid := ""
	until(t, "the command runs", func() bool {
		text, _ := os.ReadFile(filepath.Join(l.setup.WorkDir, "pid"))
		pid = strings.TrimSpace(string(text))
		return pid != ""
	})
	if err := r.agent.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if end := r.await("the end", of(agentcli.Result)); !end.Interrupted {
		t.Errorf("stopped: %s", show(end))
	}
	until(t, "its child ends", func() bool {
		_, err := os.Stat("/proc/" + pid)
		return err != nil
	})
}

// TestRealGeminiHandshake: its model speaks another protocol, so that its first
// turn has to end with an error that is told.
func TestRealGeminiHandshake(t *testing.T) {
	l := newLab(t, "gemini")
	r, err := l.start("")
	if err != nil {
		t.Fatal(err)
	}
	r.await("the session", of(agentcli.Session))
	if all, current, err := r.agent.Models(t.Context()); err != nil || len(all) == 0 || current == "" {
		t.Errorf("Models = %v, %q, %v", all, current, err)
	}
	if _, end, _ := r.turn(agentcli.Prompt{Text: "hello"}, nil); end.Failure == "" {
		t.Errorf("a turn without a model: %s", show(end))
	}
}
