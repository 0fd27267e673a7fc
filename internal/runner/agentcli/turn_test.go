package agentcli_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/runnertest"
	"github.com/iris-operator/iris/internal/turn"
)

// TestEventsInOrder: what the program says arrives in its order, and the final
// text comes last.
func TestEventsInOrder(t *testing.T) {
	s := newStage(t, nil)
	var script, want []string
	for i := range 50 {
		script = append(script, fmt.Sprintf("SAY text %d", i), fmt.Sprintf("NOTE note %d", i))
		want = append(want, fmt.Sprintf("text %d", i), fmt.Sprintf("note %d", i))
	}
	g := s.start(lines(script...))
	end, err := g.wait()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range g.Events() {
		switch {
		case e.Kind == turn.Text && !e.Partial:
			got = append(got, e.Text)
		case e.Kind == turn.Status && strings.HasPrefix(e.Label, "note"):
			got = append(got, e.Label)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(end.Text, "text 0\n\ntext 1\n\n") || !strings.HasSuffix(end.Text, "text 49") {
		t.Errorf("the reply joins the texts as %q", end.Text)
	}
}

// TestDeltaXorText: pieces add up to the whole text that follows, which is in the
// reply once; pieces without a whole are in it too.
func TestDeltaXorText(t *testing.T) {
	s := newStage(t, nil)
	g := s.start("SAY one\nDELTA two \nDELTA three")
	end, err := g.wait()
	if err != nil || end.Text != "one\n\ntwothree" {
		t.Errorf("reply = %q, %v", end.Text, err)
	}
	var partial, whole int
	for _, e := range g.Events() {
		if e.Kind == turn.Text && e.Partial {
			partial++
		} else if e.Kind == turn.Text {
			whole++
		}
	}
	if partial != 3 || whole != 1 {
		t.Errorf("%d pieces and %d whole texts, want 3 and 1", partial, whole)
	}
}

// TestSubAgentTextIsFolded: it is a line of progress and no part of the reply.
func TestSubAgentTextIsFolded(t *testing.T) {
	s := newStage(t, nil)
	g := s.start("SUB deep thoughts of another\nSAY the answer")
	end, err := g.wait()
	if err != nil || end.Text != "the answer" {
		t.Errorf("reply = %q, %v", end.Text, err)
	}
	g.Wait(func(e turn.Event) bool {
		return e.Kind == turn.Status && e.Label == "sub-agent: deep thoughts of another"
	})
	for _, e := range g.Events() {
		if e.Kind == turn.Text && strings.Contains(e.Text, "deep") {
			t.Errorf("its text is shown like the answer: %+v", e)
		}
	}
}

// TestNoReplyOnTheWholeTurn judges the mark once, at the end of everything.
func TestNoReplyOnTheWholeTurn(t *testing.T) {
	for name, c := range map[string]struct {
		texts  []string
		want   string
		silent bool
	}{
		"the mark alone":            {[]string{"NO_REPLY"}, "", true},
		"lower case, decorated":     {[]string{" **no_reply** \n"}, "", true},
		"nothing":                   {nil, "", true},
		"blank":                     {[]string{"  \n"}, "", true},
		"text, then the mark":       {[]string{"Done.", "NO_REPLY"}, "Done.", false},
		"on a last line":            {[]string{"Done.\nNO_REPLY"}, "Done.", false},
		"after a sentence":          {[]string{"Done. NO_REPLY"}, "Done.", false},
		"mark, then text":           {[]string{"NO_REPLY", "but then this"}, "NO_REPLY\n\nbut then this", false},
		"a sentence about it":       {[]string{"please say no_reply"}, "please say no_reply", false},
		"a sentence about it, loud": {[]string{"You can answer NO_REPLY"}, "You can answer NO_REPLY", false},
		"quoted":                    {[]string{"The mark is `NO_REPLY`"}, "The mark is `NO_REPLY`", false},
		"part of a word":            {[]string{"XNO_REPLY"}, "XNO_REPLY", false},
		"twice":                     {[]string{"NO_REPLY", "NO_REPLY"}, "", true},
		"separators":                {[]string{"a\n", "", "\nb"}, "a\n\nb", false},
		"multi-byte before it":      {[]string{"été\nNO_REPLY"}, "été", false},
	} {
		if text, silent := agentcli.ReplyOf(c.texts); text != c.want || silent != c.silent {
			t.Errorf("%s: %q, silent %v; want %q, %v", name, text, silent, c.want, c.silent)
		}
	}
	s := newStage(t, nil)
	end, err := s.start("SAY NO_REPLY").wait()
	if err != nil || !end.Silent || end.Text != "" {
		t.Errorf("end = %+v, %v", end, err)
	}
}

// TestErrorsAreShown: a failure of the program ends the turn with its sentence and
// the text there was; retries are lines of progress.
func TestErrorsAreShown(t *testing.T) {
	s := newStage(t, nil)
	g := s.start("SAY half\nNOTE retrying in 2 s: 529\nFAIL API Error: 401\nnot logged in")
	end, err := g.wait()
	if err != nil || end.Kind != turn.Failed || end.Code != turn.CodeModel || end.Error != "API Error: 401" || !strings.HasPrefix(end.Text, "half") {
		t.Errorf("end = %+v, %v", end, err)
	}
	g.Wait(func(e turn.Event) bool { return e.Kind == turn.Status && strings.Contains(e.Label, "529") })
	if got := s.say("hello"); got != "echo: hello" {
		t.Errorf("then: %q", got)
	}
}

// TestUsageOfTheTurn: the event has what this turn cost, the conversation the sum.
func TestUsageOfTheTurn(t *testing.T) {
	s := newStage(t, nil)
	for _, cost := range []float64{0.5, 0.25} {
		end, err := s.start(fmt.Sprintf("COST %v\nSAY x", cost)).wait()
		want := &turn.Usage{Provider: "fake", Model: "fake-1", Calls: 1, Input: 10, Output: 5, Cost: cost, Window: 1000}
		if diff := cmp.Diff(want, end.Usage); err != nil || diff != "" {
			t.Errorf("usage: %v (-want +got):\n%s", err, diff)
		}
	}
	s.restart()
	if u, err := s.r.Usage(thread); err != nil || u != (agentcli.Spent{Turns: 2, Input: 20, Output: 10, Cost: 0.75}) {
		t.Errorf("Usage = %+v, %v", u, err)
	}
}

// TestOneTurnOneMessage: a result that answers another prompt does not end the turn,
// and the id of the prompt is the turn's.
func TestOneTurnOneMessage(t *testing.T) {
	s := newStage(t, nil)
	g := s.start("hello")
	g.wait()
	states := g.States()
	var st struct{ Sent bool }
	if len(states) != 1 || json.Unmarshal(states[0], &st) != nil || !st.Sent {
		t.Fatalf("states: %s", states)
	}
	if got := readSession(t, s); !strings.Contains(got, string(g.req.ID)) {
		t.Errorf("the program was given %q, want the id %s in it", got, g.req.ID)
	}
}

// TestNeverRunTwice: a message that was sent before a restart ends as interrupted;
// one that was not is run.
func TestNeverRunTwice(t *testing.T) {
	s := newStage(t, nil)
	g := s.start("WAIT")
	g.Wait(hasText("waiting"))
	g.stop(runner.ErrLeaving)
	if end, err := g.wait(); end != nil || !errors.Is(err, runner.ErrLeaving) {
		t.Fatalf("end = %+v, %v", end, err)
	}
	s.restart()
	req := g.req
	req.Attempt, req.Resume = 2, g.States()
	end, err := s.begin(req).wait()
	var known *runner.Error
	if end != nil || !errors.As(err, &known) || known.Code != turn.CodeInterrupted || !strings.Contains(known.Text, "Its session is kept; the next message goes on") {
		t.Errorf("second attempt: %+v, %v", end, err)
	}
	if s.pool.Live() != 0 {
		t.Error("a process was started for it")
	}
	req = runnertest.Request(thread, "hello")
	req.Attempt = 2
	if end, err := s.begin(req).wait(); err != nil || end.Text != "echo: hello" {
		t.Errorf("not sent before: %+v, %v", end, err)
	}
	req.Resume = []json.RawMessage{json.RawMessage(`"x"`)}
	if _, err := s.begin(req).wait(); !errors.Is(err, runner.ErrInterrupted) {
		t.Errorf("an unreadable state: %v", err)
	}
}

// TestOpenAskIsWithdrawnAfterRestart: the buttons of a turn that was cut off are
// closed when Iris is back.
func TestOpenAskIsWithdrawnAfterRestart(t *testing.T) {
	s := newStage(t, nil)
	req := runnertest.Request(thread, "x")
	for _, st := range []string{`{"session":"s","sent":true}`, `{"asked":"a1"}`, `{"asked":"a2"}`, `{"over":"a1"}`} {
		req.Resume = append(req.Resume, json.RawMessage(st))
	}
	g := s.begin(req)
	_, err := g.wait()
	if !errors.Is(err, runner.ErrInterrupted) || !strings.Contains(err.Error(), "withdrawn") {
		t.Errorf("Run = %v", err)
	}
	var closed []string
	for _, e := range g.Events() {
		if e.Kind == turn.AskFor {
			closed = append(closed, e.Ask.ID+" "+e.Ask.Outcome)
		}
	}
	if diff := cmp.Diff([]string{"a2 withdrawn"}, closed); diff != "" {
		t.Errorf("closed (-want +got):\n%s", diff)
	}
}

// TestLongLine: a line of two megabytes is read whole.
func TestLongLine(t *testing.T) {
	s := newStage(t, nil)
	if got := s.say("BIG 2000000"); len(got) != 2000000 {
		t.Errorf("%d bytes came, want 2000000", len(got))
	}
}

// TestAttachments: pictures and paths reach the program.
func TestAttachments(t *testing.T) {
	s := newStage(t, func(o *agentcli.Options) {
		o.Attach = func(context.Context, turn.Request) ([]agentcli.Image, []string, error) {
			return []agentcli.Image{{Mime: "image/png", Data: []byte("png")}}, []string{"/x/a.txt"}, nil
		}
	})
	req := runnertest.Request(thread, "")
	req.Message.Files = []chat.File{{Original: "a.txt", Local: "x/a.txt"}}
	end, err := s.begin(req).wait()
	want := "echo: Analyze the attached files.\n\nfile /x/a.txt\n\nimage image/png of 3 bytes"
	if err != nil || end.Text != want {
		t.Errorf("reply = %q, %v, want %q", end.Text, err, want)
	}
}

// TestAlone: what a program does by itself, after its turn, is told in a notice, and
// what it asks then is declined.
func TestAlone(t *testing.T) {
	s := newStage(t, nil)
	s.say("SAY done\nALONE the background task has ended\nASKALONE rm x")
	eventually(t, "the notices", func() bool { return len(s.told()) == 2 })
	told := strings.Join(s.told(), "|")
	if !strings.Contains(told, "the background task has ended") || !strings.Contains(told, "alone: false Nobody is here to answer") {
		t.Errorf("told: %q", told)
	}
}

func TestToolLabels(t *testing.T) {
	long := strings.Repeat("x", 2000)
	tool := func(name string, what agentcli.Deed, input string) agentcli.Tool {
		return agentcli.Tool{Name: name, What: what, Input: json.RawMessage(input)}
	}
	for name, c := range map[string]struct {
		tool agentcli.Tool
		want string
	}{
		"a command":                 {tool("Bash", agentcli.Execute, `{"command":"ls  -l\n/tmp","description":"x"}`), "Bash: ls -l /tmp"},
		"a long command":            {tool("Bash", agentcli.Execute, `{"command":"`+long+`"}`), "Bash: " + long[:793] + "…"},
		"a long path":               {tool("Read", agentcli.Read, `{"file_path":"`+long+`"}`), "Read: " + long[:113] + "…"},
		"a search":                  {tool("Grep", agentcli.Read, `{"pattern":"a.*b","path":"/src","token":"secret"}`), "Grep: a.*b in /src"},
		"a page":                    {tool("WebFetch", agentcli.Fetch, `{"url":"http://x"}`), "WebFetch: http://x"},
		"a list":                    {tool("TodoWrite", agentcli.Other, `{"todos":[{},{}]}`), "TodoWrite: 2 items"},
		"a sub-agent":               {tool("Task", agentcli.Other, `{"subagent_type":"general","description":"look","prompt":"p"}`), "Task: general: look"},
		"an unknown tool":           {tool("mcp__x__y", agentcli.Other, `{"token":"secret","password":"p"}`), "mcp__x__y"},
		"one that has a name":       {tool("mcp__x__y", agentcli.Other, `{"token":"secret","query":"q"}`), "mcp__x__y: q"},
		"no input":                  {tool("Thing", agentcli.Other, ``), "Thing"},
		"not an object":             {tool("Thing", agentcli.Other, `["secret"]`), "Thing"},
		"paths of the protocol":     {agentcli.Tool{Name: "edit", What: agentcli.Edit, Paths: []string{"/a", "/b"}}, "edit: /a, /b"},
		"a command of the protocol": {agentcli.Tool{Name: "shell", What: agentcli.Execute, Command: "ls"}, "shell: ls"},
	} {
		if got := agentcli.LabelOf(c.tool, 800); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestToolEvents: one start and one end per call, and no field of the input that is
// not meant for people.
func TestToolEvents(t *testing.T) {
	s := newStage(t, nil)
	g := s.start("RUN echo hi\nUSE Vault")
	if _, err := g.wait(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range g.Events() {
		if e.Kind == turn.ToolUse {
			got = append(got, fmt.Sprintf("%s %s %s %q %v", e.Tool.Phase, e.Tool.Label, e.Tool.Args, e.Tool.Result, e.Tool.IsError))
		}
	}
	want := []string{
		`start Bash: echo hi {"command":"echo hi"} "" false`, `end Bash: echo hi  "hi" false`,
		`start Vault  "" false`, `end Vault  "used" false`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tool events (-want +got):\n%s", diff)
	}
}
