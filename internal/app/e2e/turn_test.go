//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/iris-operator/iris/internal/turn"
)

// TestLoginByLink: the one-time link logs in once and never again.
func TestLoginByLink(t *testing.T) {
	s := startIris(t)
	b := openBrowser(t)
	p := b.tab()
	p.enter(s.link)
	p.read(".status", "rehearsal") // it comes with the first answer about the server
	if got := p.text(".status"); !strings.Contains(got, "$0.00") {
		t.Errorf("status line = %q, want the cost", got)
	}
	p.click(`[aria-label="Log out"]`)
	p.read(".login", "open the link that iris serve prints")
	p.expect("401")
	p.open(s.link)
	p.read(".login", "login link was used")
	p.open(s.url)
	p.read(".login", "open the link that iris serve prints")
	if n := p.count("#password"); n != 0 {
		t.Error("a password is asked for although none is set")
	}
}

// TestUsedLinkWhileLoggedIn: who opens the link again is where they wanted to
// be.
func TestUsedLinkWhileLoggedIn(t *testing.T) {
	s := startIris(t)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.open(s.link)
	p.see("#message")
}

// TestLoginByPassword: a wrong password is said to be one, the right one opens.
func TestLoginByPassword(t *testing.T) {
	s := newStage(t, nil)
	p := openBrowser(t).tab()
	p.expect("401")
	p.open(s.url)
	p.see("#password")
	p.shot("login-light")
	p.do(chromedp.SendKeys(chromedp.CSS("#password"), "open"))
	p.enterKey()
	p.read("#login-error", "Wrong password")
	p.do(chromedp.SendKeys(chromedp.CSS("#password"), "sesame"))
	p.click(".login button")
	p.connected()
	p.do(chromedp.Reload())
	p.connected()
}

// TestMessageToReply: a message becomes live text, a tool card with its output
// and a reply.
func TestMessageToReply(t *testing.T) {
	s := startIris(t)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.say("run echo one; sleep 1; echo two")
	p.see(".tool.running")
	p.read(".tool .tool-command", "echo one; sleep 1; echo two")
	p.done(1)
	p.read(".tool.ok .tool-output", "one\ntwo")
	p.read(".turn .text", "rehearsal")
	if n := p.count(".bubble"); n != 1 {
		t.Errorf("%d bubbles, want 1", n)
	}
	p.read(".row.here", "run echo one")
	p.until("tokens are counted", `/[1-9][\d.k]* in/.test(document.querySelector(".status").innerText)`)
}

// TestLiveText: pieces are shown as they come and give way to the whole.
func TestLiveText(t *testing.T) {
	next := make(chan string)
	s := newStage(t, map[string]scene{"tell": func(ctx context.Context, _ *stage, _ turn.Request, say func(turn.Event)) {
		for text := range next {
			say(turn.Event{Kind: turn.Text, Text: text, Partial: true})
		}
		say(turn.Event{Kind: turn.Final, Text: "Once **upon** a time."})
	}})
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.say("tell me")
	next <- "Once "
	p.read(".text.growing", "Once")
	next <- "**upon** a"
	p.read(".text.growing strong", "upon")
	close(next)
	p.done(1)
	p.read(".text", "Once upon a time.")
	if n := p.count(".text"); n != 1 {
		t.Errorf("%d texts, want the whole in the place of its pieces", n)
	}
}

// TestReloadMidTurn: what a turn has shown is there after a reload, and the turn
// goes on.
func TestReloadMidTurn(t *testing.T) {
	gate := make(chan struct{})
	s := newStage(t, map[string]scene{"work": func(ctx context.Context, _ *stage, _ turn.Request, say func(turn.Event)) {
		call := turn.Tool{ID: "c1", Name: "bash", Label: "count", Args: json.RawMessage(`{"command":"wc -l"}`), Phase: turn.Start}
		say(turn.Event{Kind: turn.Text, Text: "Let me count."})
		say(turn.Event{Kind: turn.ToolUse, Tool: &call})
		say(turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "c1", Name: "bash", Result: "42 lines", DurationMS: 7, Phase: turn.End}})
		say(turn.Event{Kind: turn.Text, Text: "There are ", Partial: true})
		<-gate
		say(turn.Event{Kind: turn.Text, Text: "42.", Partial: true})
		say(turn.Event{Kind: turn.Final, Text: "There are 42."})
	}})
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.say("work please")
	p.read(".text.growing", "There are")
	p.do(chromedp.Reload())
	p.connected()
	p.read(".bubble", "work please")
	p.read(".tool.ok .tool-output", "42 lines")
	p.read(".text.growing", "There are")
	p.see(".button.stop")
	close(gate)
	p.done(1)
	p.read(".text", "There are 42.")
	if n := p.count(".text"); n != 2 {
		t.Errorf("%d texts, want 2", n)
	}
}

// TestKillAndRestart: the server is killed in the middle of a turn; the page
// comes back by itself, with one reply and nothing twice.
func TestKillAndRestart(t *testing.T) {
	s := startIris(t)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.expect("WebSocket", "ERR_", "Failed to load")
	p.say("run sleep 2; echo finished")
	p.see(".tool.running")
	s.kill(syscall.SIGKILL)
	p.read(".banner", "connection")
	// Written while nobody listens: it must arrive, once.
	p.say("run echo second")
	p.read(".said-note", "Sending")
	s.start()
	p.connected()
	p.done(2)
	p.read(".tool-output", "second")
	if n := p.count(".bubble"); n != 2 {
		t.Errorf("%d bubbles, want 2", n)
	}
	before := p.text(".thread")
	p.do(chromedp.Reload())
	p.connected()
	p.done(2)
	p.until("the same after a reload", fmt.Sprintf(`document.querySelector(".thread").innerText.replace(/\s+/g, " ").trim() === %s`, quote(strings.Join(strings.Fields(before), " "))))
	if n := p.count(".turn"); n != 2 {
		t.Errorf("%d turns after the reload, want 2", n)
	}
}

// TestReloadWithUnsentMessage: what was written without a connection survives a
// reload of the page too.
func TestReloadWithUnsentMessage(t *testing.T) {
	s := startIris(t)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.expect("WebSocket", "ERR_", "Failed to load")
	p.say("first")
	p.done(1)
	s.kill(syscall.SIGTERM)
	p.see(".banner")
	p.say("run echo kept")
	p.read(".said-note", "Sending")
	s.start()
	p.do(chromedp.Reload())
	p.connected()
	p.done(2)
	p.read(".tool-output", "kept")
	if n := p.count(".bubble"); n != 2 {
		t.Errorf("%d bubbles, want 2", n)
	}
}

// TestStop: the button ends the turn, and its text so far stays.
func TestStop(t *testing.T) {
	s := startIris(t)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.say("run sleep 600")
	p.see(".tool.running")
	p.shot("running-light")
	p.click(".button.stop")
	p.done(1)
	p.read(".turn.stopped .stopped", "Stopped")
	if n := p.count(".button.stop"); n != 0 {
		t.Error("there is a stop button and nothing runs")
	}
	// Escape does the same.
	p.say("run sleep 601")
	p.see(".tool.running")
	p.keys("\x1b")
	p.done(2)
}

// TestCompactAndReset: both are reachable by menu and by command, and leave a
// line in the thread.
func TestCompactAndReset(t *testing.T) {
	s := newStage(t, nil)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.say("hello")
	p.done(1)
	p.say("/compact")
	p.read(".notice", "Compacted: 12k tokens are 900 now")
	p.click("#thread-menu")
	p.do(chromedp.Click("//button[contains(., 'Reset')]"))
	p.see("dialog.confirm")
	p.shot("confirm-light")
	p.click("dialog .primary")
	p.read(".notice", "Context cleared")
	p.until("one line for each", `document.querySelectorAll(".notice").length === 2`)
	p.until("nothing said twice", `document.querySelectorAll(".flash").length === 0`)
	p.say("/stop")
	p.read(".flash", "Nothing running")
}

// TestSecondTab: two tabs show the same.
func TestSecondTab(t *testing.T) {
	gate := make(chan struct{})
	s := newStage(t, map[string]scene{"slow": func(ctx context.Context, _ *stage, _ turn.Request, say func(turn.Event)) {
		say(turn.Event{Kind: turn.Text, Text: "half", Partial: true})
		<-gate
		say(turn.Event{Kind: turn.Final, Text: "half and half"})
	}})
	b := openBrowser(t)
	p, q := b.tab(), b.tab()
	p.enter(s.link)
	p.say("slow one")
	p.read(".growing", "half")
	q.open(s.url + "/#" + eval[string](p, "location.hash.slice(1)"))
	q.connected()
	q.read(".growing", "half")
	q.say("from the other tab")
	p.read(".bubble", "from the other tab")
	p.read(".said-note", "Waiting for its turn")
	close(gate)
	p.done(2)
	q.done(2)
	if a, b := p.text(".thread"), q.text(".thread"); a != b {
		t.Errorf("the tabs differ:\n%s\n---\n%s", a, b)
	}
}

// TestQueueFull: a message that is refused says so, and can be sent again.
func TestQueueFull(t *testing.T) {
	gate := make(chan struct{})
	s := newStage(t, map[string]scene{"wait": func(ctx context.Context, _ *stage, _ turn.Request, say func(turn.Event)) {
		<-gate
		say(turn.Event{Kind: turn.Final, Text: "at last"})
	}})
	p := openBrowser(t).tab()
	p.enter(s.link)
	for i := range 7 {
		p.say(fmt.Sprintf("wait %d", i))
	}
	p.read(".said-note.failed", "Too many messages are waiting")
	p.shot("queue-full-light")
	close(gate)
	p.done(6)
	p.do(chromedp.Click("//button[contains(., 'Send again')]"))
	p.done(7)
}

// TestApprovalForReal takes a held command through the real program: asked,
// shown again after a reload, allowed once, and shown as settled.
func TestApprovalForReal(t *testing.T) {
	const command = "echo ran >> counter; : $((echo x) | cat)" // cannot be judged
	s := startIris(t)
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.say("run `" + command + "`")
	p.read(".approval-command", command)
	p.done(1)
	p.do(chromedp.Reload())
	p.read(".approval-command", command)
	p.click(".approval .primary")
	p.done(2)
	p.until("the question is gone", `!document.querySelector(".approval")`)
	p.do(chromedp.Reload())
	p.done(2)
	p.until("the question stays gone", `!document.querySelector(".approval")`)
	data, err := os.ReadFile(filepath.Join(s.cwd, "counter"))
	if err != nil || string(data) != "ran\n" {
		t.Errorf("counter = %q, %v", data, err)
	}
}

// TestApproval: a question shows the exact command and sends the answer.
func TestApproval(t *testing.T) {
	s := newStage(t, map[string]scene{"clean": func(ctx context.Context, s *stage, req turn.Request, say func(turn.Event)) {
		yes := s.ask(ctx, turn.Ask{ID: string(req.ID), Text: "This removes files. May it run?", Command: "rm -rf build/ && echo \"<b>done</b>\"", Until: req.Started.Add(30 * 60e9)}, say)
		say(turn.Event{Kind: turn.Final, Text: fmt.Sprintf("You said %v.", yes)})
	}})
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.say("clean up")
	p.read(".approval-command", `rm -rf build/ && echo "<b>done</b>"`)
	p.screen(1280, 800, "light")
	p.shot("approval-light")
	p.screen(375, 720, "dark")
	p.shot("approval-small-dark")
	p.screen(1280, 800, "light")
	p.click(".approval .primary")
	p.done(1)
	p.read(".text", "You said true.")
	if a := <-s.answers; !a.Yes {
		t.Errorf("answer = %+v, want yes", a)
	}
	p.until("the question is gone", `!document.querySelector(".approval")`)
	p.say("clean again")
	p.click(".approval .button:not(.primary)")
	p.done(2)
	p.read(".text", "You said false.")
}

// TestAgents: who answers can be chosen when there is somebody to choose.
func TestAgents(t *testing.T) {
	s := newStage(t, map[string]scene{"who": func(ctx context.Context, _ *stage, req turn.Request, say func(turn.Event)) {
		say(turn.Event{Kind: turn.Final, Text: "here"})
	}})
	p := openBrowser(t).tab()
	p.enter(s.link)
	p.see(".composer select")
	p.do(chromedp.SetValue(chromedp.CSS(".composer select"), "billing"))
	eval[bool](p, `document.querySelector(".composer select").dispatchEvent(new Event("change", {bubbles: true}))`)
	p.connected()
	p.say("who is it")
	p.done(1)
	p.read(".answer-from", "billing")
}
