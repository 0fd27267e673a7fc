package claude

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A peer is the other end of an Agent's pipes: what the process would read and print.
type peer struct {
	t      *testing.T
	agent  *Agent
	stdin  *bufio.Reader
	stdout *io.PipeWriter
	events chan agentcli.Event
	ended  chan error
}

func meet(t *testing.T, setup agentcli.Setup) *peer {
	t.Helper()
	if setup.WorkDir == "" {
		setup.WorkDir = t.TempDir()
	}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Attach(setup, agentcli.Pipes{In: inW, Out: outR})
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, agent: a.(*Agent), stdin: bufio.NewReader(inR), stdout: outW, events: make(chan agentcli.Event, 100), ended: make(chan error, 1)}
	go func() { p.ended <- a.Read(func(e agentcli.Event) { p.events <- e }); close(p.events) }()
	t.Cleanup(func() {
		inR.Close()
		outW.Close()
		for range p.events {
		}
	})
	return p
}

// says prints a line as the process.
func (p *peer) says(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdout, line+"\n"); err != nil {
		p.t.Fatalf("print: %v", err)
	}
}

// hears reads a line as the process.
func (p *peer) hears() string {
	p.t.Helper()
	line, err := p.stdin.ReadString('\n')
	if err != nil {
		p.t.Fatalf("read: %v", err)
	}
	return strings.TrimSuffix(line, "\n")
}

// event waits for the next event.
func (p *peer) event() agentcli.Event {
	p.t.Helper()
	select {
	case e, ok := <-p.events:
		if !ok {
			p.t.Fatal("no event: the output has ended")
		}
		return e
	case <-time.After(20 * time.Second):
		p.t.Fatal("no event")
		panic("unreachable")
	}
}

// want checks the next event, as drawn.
func (p *peer) want(line string) agentcli.Event {
	p.t.Helper()
	e := p.event()
	if got := drawn(e); got != line {
		p.t.Errorf("event %s, want %s", got, line)
	}
	return e
}

// doing runs a call of the Agent beside the test.
func doing(f func() error) chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

const (
	initLine = `{"type":"system","subtype":"init","session_id":"s1","model":"m1"}`
	bashAsk  = `{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"t1"}}`
	doneLine = `{"type":"result","subtype":"success","num_turns":1,"modelUsage":{}}`
)

func replayLine(id string) string {
	return fmt.Sprintf(`{"type":"user","message":{"role":"user","content":"x"},"uuid":%q,"timestamp":"now","isReplay":true}`, id)
}

// TestAnswers writes every kind of answer. Claude fails a call whose allow has no
// input or whose deny has no message.
func TestAnswers(t *testing.T) {
	const (
		question = `{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"AskUserQuestion","input":{"questions":[{"question":"Which?","header":"H","options":[{"label":"A","description":"a"}],"multiSelect":true}]},"tool_use_id":"t1"}}`
		plan     = `{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"ExitPlanMode","input":{"plan":"do x"},"tool_use_id":"t1"}}`
		noInput  = `{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":"odd","tool_use_id":"t1"}}`
		star     = `{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"rm *"},"tool_use_id":"t1"}}`
		mcp      = `{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"mcp__a__b","input":{"n":1},"tool_use_id":"t1"}}`
		edit     = `{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Write","input":{"file_path":"a"},"tool_use_id":"t1"}}`
	)
	for name, c := range map[string]struct {
		ask    string
		answer agentcli.Answer
		want   string
	}{
		"allow":            {bashAsk, agentcli.Answer{Allow: true}, `{"behavior":"allow","updatedInput":{"command":"ls"}}`},
		"allow, odd input": {noInput, agentcli.Answer{Allow: true}, `{"behavior":"allow","updatedInput":{}}`},
		"rewritten":        {bashAsk, agentcli.Answer{Allow: true, Input: json.RawMessage(`{"command":"pwd"}`)}, `{"behavior":"allow","updatedInput":{"command":"pwd"}}`},
		"rewritten badly":  {bashAsk, agentcli.Answer{Allow: true, Input: json.RawMessage(`"pwd"`)}, `{"behavior":"allow","updatedInput":{"command":"ls"}}`},
		"always": {bashAsk, agentcli.Answer{Allow: true, Always: true},
			`{"behavior":"allow","updatedInput":{"command":"ls"},"updatedPermissions":[{"behavior":"allow","destination":"session","rules":[{"ruleContent":"ls","toolName":"Bash"}],"type":"addRules"}]}`},
		"always, with a star": {star, agentcli.Answer{Allow: true, Always: true}, `{"behavior":"allow","updatedInput":{"command":"rm *"}}`},
		"always, mcp": {mcp, agentcli.Answer{Allow: true, Always: true},
			`{"behavior":"allow","updatedInput":{"n":1},"updatedPermissions":[{"behavior":"allow","destination":"session","rules":[{"toolName":"mcp__a__b"}],"type":"addRules"}]}`},
		"always, edits":   {edit, agentcli.Answer{Allow: true, Always: true}, `{"behavior":"allow","updatedInput":{"file_path":"a"}}`},
		"deny":            {bashAsk, agentcli.Answer{Reason: "no"}, `{"behavior":"deny","message":"no"}`},
		"deny, no reason": {bashAsk, agentcli.Answer{}, `{"behavior":"deny","message":"` + refused + `"}`},
		"deny and stop":   {bashAsk, agentcli.Answer{Reason: "no", Stop: true}, `{"behavior":"deny","message":"no","interrupt":true}`},
		"picked": {question, agentcli.Answer{Allow: true, Picked: map[string]string{"Which?": "A"}},
			`{"behavior":"allow","updatedInput":{"answers":{"Which?":"A"},"questions":[{"question":"Which?","header":"H","options":[{"label":"A","description":"a"}],"multiSelect":true}]}}`},
		"nothing picked":   {question, agentcli.Answer{Reason: "later"}, `{"behavior":"deny","message":"later"}`},
		"plan":             {plan, agentcli.Answer{Allow: true}, `{"behavior":"allow","updatedInput":{"plan":"do x"}}`},
		"plan, not always": {plan, agentcli.Answer{Allow: true, Always: true}, `{"behavior":"allow","updatedInput":{"plan":"do x"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			p := meet(t, agentcli.Setup{})
			p.says(c.ask)
			e := p.event()
			c.answer.ID = e.ID
			done := doing(func() error { return p.agent.Answer(t.Context(), c.answer) })
			want := fmt.Sprintf(`{"response":{"request_id":"r1","response":%s,"subtype":"success"},"type":"control_response"}`, c.want)
			if diff := cmp.Diff(want, p.hears()); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
			if err := <-done; err != nil {
				t.Errorf("Answer: %v", err)
			}
			// A second answer is over already: nothing is written, and the next line is ours.
			if err := p.agent.Answer(t.Context(), c.answer); err != nil {
				t.Errorf("second Answer: %v", err)
			}
		})
	}
}

func TestAlwaysIsRemembered(t *testing.T) {
	p := meet(t, agentcli.Setup{})
	ask := func(id, tool, input string) agentcli.Event {
		p.says(fmt.Sprintf(`{"type":"control_request","request_id":%q,"request":{"subtype":"can_use_tool","tool_name":%q,"input":%s,"tool_use_id":"t"}}`, id, tool, input))
		return p.event()
	}
	answer := func(id string, always bool) {
		done := doing(func() error { return p.agent.Answer(t.Context(), agentcli.Answer{ID: id, Allow: true, Always: always}) })
		p.hears()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		tool, input string
		always      bool
		granted     bool
	}{
		{"Bash", `{"command":"make"}`, false, false},
		{"Bash", `{"command":"make"}`, true, false},
		{"Bash", `{"command":"make"}`, false, true},
		{"Bash", `{"command":"make install"}`, false, false},
		{"Write", `{"file_path":"a"}`, true, false},
		{"Edit", `{"file_path":"b"}`, false, true},
		{"Edit", `{"file_path":"/elsewhere/b"}`, true, false},
		{"Edit", `{"file_path":"/elsewhere/b"}`, false, false}, // what is outside is asked each time
		{"Edit", `{"file_path":".git/config"}`, false, false},
		{"Read", `{"file_path":"b"}`, false, false},
		{"WebFetch", `{"url":"https://a.example/x"}`, true, false},
		{"WebFetch", `{"url":"https://a.example/y"}`, false, true},
		{"WebFetch", `{"url":"https://b.example/y"}`, false, false},
		{"mcp__x__y", `{"n":1}`, true, false},
		{"mcp__x__y", `{"n":2}`, false, true},
		{"mcp__x__y", `{"where":"/etc"}`, false, false},
	} {
		id := fmt.Sprint(i)
		e := ask(id, c.tool, c.input)
		if e.Tool.Granted != c.granted {
			t.Errorf("%d: %s %s: granted %v, want %v", i, c.tool, c.input, e.Tool.Granted, c.granted)
		}
		answer(id, c.always)
	}
}

func TestSend(t *testing.T) {
	for name, c := range map[string]struct {
		prompt agentcli.Prompt
		want   string
	}{
		"text":  {agentcli.Prompt{ID: "u1", Text: "hello"}, `"hello"`},
		"files": {agentcli.Prompt{ID: "u1", Text: "look", Files: []string{"/a/b c.txt", "/a/\nx"}}, `"look\n\nAttached files:\n- /a/b c.txt\n- /a/ x"`},
		"nothing said": {agentcli.Prompt{ID: "u1", Images: []agentcli.Image{{Mime: "image/png", Data: []byte("abc")}}},
			`[{"source":{"data":"YWJj","media_type":"image/png","type":"base64"},"type":"image"},{"text":"Please look at what is attached.","type":"text"}]`},
		"lines": {agentcli.Prompt{ID: "u1", Text: "a\nb\u2028c"}, `"a\nb\u2028c"`},
	} {
		t.Run(name, func(t *testing.T) {
			p := meet(t, agentcli.Setup{})
			done := doing(func() error { return p.agent.Send(t.Context(), c.prompt) })
			want := fmt.Sprintf(`{"message":{"content":%s,"role":"user"},"type":"user","uuid":"u1"}`, c.want)
			if diff := cmp.Diff(want, p.hears()); diff != "" {
				t.Errorf("prompt (-want +got):\n%s", diff)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// prompts sends prompts with these ids.
func (p *peer) prompts(ids ...string) {
	p.t.Helper()
	for _, id := range ids {
		done := doing(func() error { return p.agent.Send(p.t.Context(), agentcli.Prompt{ID: id, Text: id}) })
		p.hears()
		if err := <-done; err != nil {
			p.t.Fatal(err)
		}
	}
}

// TestEachMessageIsAccountedFor: one result may answer several prompts, and a turn
// that Claude begins by itself answers none.
func TestEachMessageIsAccountedFor(t *testing.T) {
	for name, c := range map[string]struct {
		sent  []string
		lines []string
		want  [][]string // the prompts of each result
	}{
		"one after the other": {[]string{"a", "b"}, []string{initLine, replayLine("a"), doneLine, initLine, replayLine("b"), doneLine}, [][]string{{"a"}, {"b"}}},
		"while a call waits":  {[]string{"a", "b"}, []string{initLine, replayLine("a"), replayLine("b"), doneLine}, [][]string{{"a", "b"}}},
		"a command of Claude's own, never repeated": {[]string{"/cost", "b"}, []string{initLine, strings.Replace(doneLine, `"num_turns":1`, `"num_turns":0`, 1), initLine, replayLine("b"), doneLine},
			[][]string{{"/cost"}, {"b"}}},
		"a background task reports first": {[]string{"a"},
			[]string{`{"type":"system","subtype":"task_notification","task_id":"x"}`, initLine, doneLine, initLine, replayLine("a"), doneLine}, [][]string{{agentcli.Unasked}, {"a"}}},
		"ids of others": {[]string{"a"}, []string{initLine, replayLine("zzz"), replayLine("a"), replayLine("a"), doneLine}, [][]string{{"a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := meet(t, agentcli.Setup{})
			p.prompts(c.sent...)
			go func() {
				for _, l := range c.lines {
					io.WriteString(p.stdout, l+"\n")
				}
				p.stdout.Close()
			}()
			var got [][]string
			for e := range p.events {
				if e.Kind == agentcli.Result {
					got = append(got, e.Prompts)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("prompts of the results (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnEchoIsNoAnswer: Claude repeats the answers it gets, and only the id tells them
// from answers to us.
func TestAnEchoIsNoAnswer(t *testing.T) {
	p := meet(t, agentcli.Setup{})
	done := doing(func() error { return p.agent.SetModel(t.Context(), "sonnet") })
	if got, want := p.hears(), `{"request":{"model":"sonnet","subtype":"set_model"},"request_id":"iris-1","type":"control_request"}`; got != want {
		t.Errorf("request %s, want %s", got, want)
	}
	p.says(`{"type":"control_response","response":{"subtype":"success","request_id":"r1","response":{"behavior":"allow"}}}`)
	p.says(initLine)
	p.want(`session id="s1"`)
	select {
	case err := <-done:
		t.Fatalf("an echo ended the request: %v", err)
	default:
	}
	p.says(`{"type":"control_response","response":{"subtype":"success","request_id":"iris-1"}}`)
	if err := <-done; err != nil {
		t.Errorf("SetModel: %v", err)
	}
	if _, current, _ := p.agent.Models(t.Context()); current != "sonnet" {
		t.Errorf("model %q, want sonnet", current)
	}
	done = doing(func() error { return p.agent.SetMode(t.Context(), agentcli.Auto) })
	if got, want := p.hears(), `{"request":{"mode":"default","subtype":"set_permission_mode"},"request_id":"iris-2","type":"control_request"}`; got != want {
		t.Errorf("request %s, want %s", got, want)
	}
	p.says(`{"type":"control_response","response":{"subtype":"error","request_id":"iris-2","error":"no"}}`)
	if err := <-done; err == nil || err.Error() != "set the permission mode: no" {
		t.Errorf("SetMode: %v", err)
	}
}

func TestInterrupt(t *testing.T) {
	p := meet(t, agentcli.Setup{})
	settle := func() {
		t.Helper()
		done := doing(func() error { return p.agent.Interrupt(t.Context()) })
		var r struct {
			ID string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(p.hears()), &r); err != nil {
			t.Fatal(err)
		}
		p.says(fmt.Sprintf(`{"type":"control_response","response":{"subtype":"success","request_id":%q}}`, r.ID))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	// Before the work has begun: it is interrupted when it begins.
	p.prompts("a")
	settle()
	p.says(initLine)
	p.want(`session id="s1"`)
	if got := p.hears(); !strings.Contains(got, `"subtype":"interrupt"`) {
		t.Errorf("when the work begins it is told %s, want an interrupt", got)
	}
	p.says(replayLine("a"))
	p.want(`taken up id="a"`)
	p.says(bashAsk)
	p.event()
	p.says(`{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools","errors":["[ede_diagnostic] x"]}`)
	p.want(`withdrawn id="r1"`)
	e := p.event()
	if !e.Interrupted || e.Failure != "" || e.Reason != "aborted_tools" || !cmp.Equal(e.Prompts, []string{"a"}) {
		t.Errorf("result %+v, want interrupted, for a, no failure", e)
	}
	// Idle: nothing follows, and the next work is not interrupted.
	settle()
	p.prompts("b")
	p.says(initLine)
	p.says(replayLine("b"))
	p.want(`taken up id="b"`)
	p.says(`{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["it broke"]}`)
	if e := p.event(); e.Interrupted || e.Failure != "it broke" {
		t.Errorf("result %+v, want a failure of its own", e)
	}
}

func TestWithdrawn(t *testing.T) {
	p := meet(t, agentcli.Setup{})
	p.says(bashAsk)
	p.event()
	p.says(`{"type":"control_cancel_request","request_id":"other"}`)
	p.says(`{"type":"control_cancel_request","request_id":"r1"}`)
	p.want(`withdrawn id="r1"`)
	if err := p.agent.Answer(t.Context(), agentcli.Answer{ID: "r1", Allow: true}); err != nil {
		t.Errorf("Answer of what is withdrawn: %v", err)
	}
	p.says(strings.ReplaceAll(bashAsk, "r1", "r2"))
	p.event()
	p.stdout.Close()
	p.want(`withdrawn id="r2"`)
	if err := <-p.ended; err != nil {
		t.Errorf("Read: %v", err)
	}
}

func TestOpen(t *testing.T) {
	t.Run("models", func(t *testing.T) {
		p := meet(t, agentcli.Setup{})
		done := doing(func() error { return p.agent.Open(t.Context()) })
		p.hears()
		p.says(`{"type":"control_response","response":{"subtype":"success","request_id":"iris-1","response":{"models":[{"value":"opus","displayName":"Opus"}]}}}`)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		all, _, err := p.agent.Models(t.Context())
		if diff := cmp.Diff([]agentcli.Model{{ID: "opus", Name: "Opus"}}, all); err != nil || diff != "" {
			t.Errorf("models: %v %s", err, diff)
		}
	})
	t.Run("a version that does not know the request", func(t *testing.T) {
		p := meet(t, agentcli.Setup{})
		done := doing(func() error { return p.agent.Open(t.Context()) })
		p.hears()
		p.says(`{"type":"control_response","response":{"subtype":"error","request_id":"iris-1","error":"unsupported"}}`)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("unknown session", func(t *testing.T) {
		p := meet(t, agentcli.Setup{Session: "s"})
		done := doing(func() error { return p.agent.Open(t.Context()) })
		p.hears()
		p.says(`{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found with session ID: s"]}`)
		if e := p.event(); !e.NoSession || e.Failure != forgotten {
			t.Errorf("result %+v, want NoSession", e)
		}
		if err := <-done; !errors.Is(err, agentcli.ErrNoSession) {
			t.Errorf("Open: %v, want ErrNoSession", err)
		}
	})
	t.Run("a process that ends", func(t *testing.T) {
		p := meet(t, agentcli.Setup{})
		done := doing(func() error { return p.agent.Open(t.Context()) })
		p.hears()
		p.stdout.Close()
		if err := <-done; !errors.Is(err, agentcli.ErrGone) {
			t.Errorf("Open: %v, want ErrGone", err)
		}
		if err := p.agent.Send(t.Context(), agentcli.Prompt{ID: "x"}); !errors.Is(err, agentcli.ErrGone) {
			t.Errorf("Send: %v, want ErrGone", err)
		}
	})
	t.Run("a process that is silent", func(t *testing.T) {
		p := meet(t, agentcli.Setup{})
		ctx, cancel := context.WithCancelCause(t.Context())
		done := doing(func() error { return p.agent.Open(ctx) })
		p.hears()
		late := errors.New("too late")
		cancel(late)
		if err := <-done; !errors.Is(err, late) {
			t.Errorf("Open: %v, want the cause of its context", err)
		}
	})
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestABrokenPipeIsAnError(t *testing.T) {
	out, w := io.Pipe()
	a := newAgent(agentcli.Setup{}, agentcli.Pipes{In: broken{}, Out: out})
	for name, err := range map[string]error{
		"Send":      a.Send(t.Context(), agentcli.Prompt{ID: "x", Text: "x"}),
		"Interrupt": a.Interrupt(t.Context()),
		"SetModel":  a.SetModel(t.Context(), "x"),
	} {
		if !errors.Is(err, agentcli.ErrGone) || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %v, want ErrGone", name, err)
		}
	}
	if len(a.state.sent) != 0 {
		t.Errorf("sent %v, want none: it was not written", a.state.sent)
	}
	w.Close()
	if _, err := (&Claude{}).Attach(agentcli.Setup{}, agentcli.Pipes{}); err == nil {
		t.Error("Attach without pipes: no error")
	}
}

func TestARequestNobodyKnowsIsRefused(t *testing.T) {
	p := meet(t, agentcli.Setup{})
	p.says(`{"type":"control_request","request_id":"h1","request":{"subtype":"hook_callback"}}`)
	if got, want := p.hears(), `{"response":{"error":"not offered here","request_id":"h1","subtype":"error"},"type":"control_response"}`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
}
