package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

const (
	callBash   = `{"sessionUpdate":"tool_call","toolCallId":"t1","title":"x","kind":"execute","status":"pending","rawInput":%s}`
	askOptions = `"options":[{"optionId":"yes!","kind":"allow_once","name":"Yes"},{"optionId":"ever","kind":"allow_always","name":"Ever"},{"optionId":"no!","kind":"reject_once","name":"No"}]`
)

func permit(id, input string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t1","rawInput":%s},%s}}`, id, input, askOptions)
}

// TestIDsKeepTheirType: an id that is a string comes back as one, 0 is an id.
func TestIDsKeepTheirType(t *testing.T) {
	for _, id := range []string{`0`, `"0"`, `-7`, `"perm/ü"`, `9007199254740993`, `1.0`} {
		p, _ := ready(t, Options{}, agentcli.Setup{})
		p.line(permit(id, `{"command":"ls"}`))
		e := p.await(agentcli.Permission)
		if err := p.agent.Answer(t.Context(), agentcli.Answer{ID: e.ID, Allow: true}); err != nil {
			t.Fatal(err)
		}
		if got := p.next(""); string(got.ID) != id {
			t.Errorf("the request %s was answered as %s", id, got.ID)
		}
	}
}

// TestPermissionsByKind: what is picked follows from the kind of an option, and
// no grant is wider than what was said.
func TestPermissionsByKind(t *testing.T) {
	for name, c := range map[string]struct {
		options string
		answer  agentcli.Answer
		want    string
	}{
		"once":               {askOptions, agentcli.Answer{Allow: true}, `{"outcome":{"outcome":"selected","optionId":"yes!"}}`},
		"always":             {askOptions, agentcli.Answer{Allow: true, Always: true}, `{"outcome":{"outcome":"selected","optionId":"ever"}}`},
		"refused":            {askOptions, agentcli.Answer{Reason: "no"}, `{"outcome":{"outcome":"selected","optionId":"no!"}}`},
		"only always":        {`"options":[{"optionId":"ever","kind":"allow_always"}]`, agentcli.Answer{Allow: true}, `{"outcome":{"outcome":"cancelled"}}`},
		"no always":          {`"options":[{"optionId":"1","kind":"allow_once"}]`, agentcli.Answer{Allow: true, Always: true}, `{"outcome":{"outcome":"selected","optionId":"1"}}`},
		"nothing to refuse":  {`"options":[{"optionId":"1","kind":"reject_always"}]`, agentcli.Answer{}, `{"outcome":{"outcome":"cancelled"}}`},
		"first of each kind": {`"options":[{"optionId":"a","kind":"allow_once"},{"optionId":"b","kind":"allow_once"}]`, agentcli.Answer{Allow: true}, `{"outcome":{"outcome":"selected","optionId":"a"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := ready(t, Options{}, agentcli.Setup{})
			p.line(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t1","kind":"execute","rawInput":{"command":"ls"}},%s}}`, c.options))
			e := p.await(agentcli.Permission)
			if e.Tool.Command != "ls" || e.Tool.What != agentcli.Execute {
				t.Errorf("Permission = %+v", e.Tool)
			}
			c.answer.ID = e.ID
			if err := p.agent.Answer(t.Context(), c.answer); err != nil {
				t.Fatal(err)
			}
			if got := p.next(""); string(got.Result) != c.want {
				t.Errorf("answer %s, want %s", got.Result, c.want)
			}
			if err := p.agent.Answer(t.Context(), c.answer); err != nil { // over is no error
				t.Errorf("a second answer: %v", err)
			}
			p.quiet()
		})
	}
}

// TestAlwaysStaysInTheSession: what would land in a file of the project is
// remembered by the driver; the policy still sees the call.
func TestAlwaysStaysInTheSession(t *testing.T) {
	p := join(t, Options{Preset: ClaudeCode()}, agentcli.Setup{})
	p.open(plainCaps, `{"sessionId":"s"}`)
	p.prompt("p1", "hello")
	for i, c := range []struct {
		input   string
		granted bool
	}{{`{"command":"ls"}`, false}, {`{"command":"ls"}`, true}, {`{"command":"rm x"}`, false}} {
		p.line(permit(fmt.Sprint(i), c.input))
		e := p.await(agentcli.Permission)
		if e.Tool.Granted != c.granted {
			t.Errorf("%d: Granted = %t", i, e.Tool.Granted)
		}
		if err := p.agent.Answer(t.Context(), agentcli.Answer{ID: e.ID, Allow: true, Always: true}); err != nil {
			t.Fatal(err)
		}
		if got := p.next(""); !strings.Contains(string(got.Result), `"yes!"`) {
			t.Errorf("%d: answer %s, want the option for once", i, got.Result)
		}
		p.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed"}`)
		p.agent.mu.Lock()
		delete(p.agent.tools, "t1")
		p.agent.mu.Unlock()
	}
}

// TestAskComesAfterWhatWasBefore: updates, the start of the call, the question; in
// the order of the lines, however slow the consumer.
func TestAskComesAfterWhatWasBefore(t *testing.T) {
	p := join(t, Options{}, agentcli.Setup{})
	p.each = func(agentcli.Event) { time.Sleep(time.Millisecond) } // slow, not a wait
	p.open(plainCaps, `{"sessionId":"s"}`)
	id := p.prompt("p1", "hello")
	for i := range 20 {
		p.update(fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%d "}}`, i))
	}
	p.update(fmt.Sprintf(callBash, `{}`))
	p.line(permit("0", `{"command":"ls"}`))
	p.feed(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}`, id)
	p.await(agentcli.Result)
	var kinds []string
	for l := range strings.Lines(p.log()) {
		if k, _, _ := strings.Cut(l, " id="); !strings.HasPrefix(l, "delta") {
			kinds = append(kinds, strings.TrimSpace(k))
		}
	}
	want := []string{"session", "taken up", `text text="0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 "`, "tool start", "permission", "tool end", "withdrawn", `result prompts="[p1]" reason="end_turn"`}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestAnswersFromInside: a consumer may answer, stop and send from inside of an
// event.
func TestAnswersFromInside(t *testing.T) {
	p := join(t, Options{}, agentcli.Setup{})
	p.each = func(e agentcli.Event) {
		if e.Kind == agentcli.Permission {
			if err := p.agent.Answer(context.Background(), agentcli.Answer{ID: e.ID, Stop: true}); err != nil {
				t.Error(err)
			}
		}
	}
	p.open(plainCaps, `{"sessionId":"s"}`)
	id := p.prompt("p1", "hello")
	p.line(permit("0", `{"command":"ls"}`))
	p.next("")
	p.next("session/cancel")
	p.feed(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"cancelled"}}`, id)
	if e := p.await(agentcli.Result); !e.Interrupted || e.Failure != "" {
		t.Errorf("Result = %s", show(e))
	}
}

// TestOneToolLinePerCall: a call that is told twice, updated often and ended twice
// starts and ends once.
func TestOneToolLinePerCall(t *testing.T) {
	p, id := ready(t, Options{}, agentcli.Setup{})
	p.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""}}`)
	p.update(fmt.Sprintf(callBash, `{}`))
	p.update(fmt.Sprintf(callBash, `{"command":"ls","n":9007199254740993}`))
	p.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1"}`)
	p.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"in_progress"}`)
	p.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"completed","content":[{"type":"content","content":{"type":"text","text":"out"}}]}`)
	p.update(`{"sessionUpdate":"tool_call_update","toolCallId":"t1","status":"failed","rawOutput":"late"}`)
	p.update(`{"sessionUpdate":"tool_call","toolCallId":"t2","kind":"read","locations":[{"path":"/a"}]}`)
	p.update(`{"sessionUpdate":"plan","entries":[]}`)
	p.update(`{"sessionUpdate":"something new","content":3}`)
	p.feed(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}`, id)
	p.await(agentcli.Result)
	want := `session id="s"
taken up id="p1"
tool start id="t1" tool="Bash" what="execute" command="ls"
tool end id="t1" tool="Bash" what="execute" command="ls" result="out"
tool start id="t2" tool="Read" what="read" paths="[/a]"
tool end id="t2" tool="Read" what="read" paths="[/a]" failed="true"
result prompts="[p1]" reason="end_turn"
`
	if diff := cmp.Diff(want, p.log()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	for _, e := range p.events {
		if e.Kind == agentcli.ToolStart && e.ID == "t1" && string(e.Tool.Input) != `{"command":"ls","n":9007199254740993}` {
			t.Errorf("the input came as %s", e.Tool.Input)
		}
	}
}

// TestEveryEndOfATurnIsTold: whatever a prompt is answered with ends it, and
// anything but a good end says so.
func TestEveryEndOfATurnIsTold(t *testing.T) {
	said := `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"hi"}}`
	for name, c := range map[string]struct {
		preset Preset
		before string
		answer string
		want   string // of Failure
	}{
		"good":            {Preset{}, said, `"result":{"stopReason":"end_turn"}`, ""},
		"no word":         {Preset{}, "", `"result":{"stopReason":"end_turn"}`, "the agent ended its turn without a word"},
		"no word copilot": {Copilot(), "", `"result":{"stopReason":"end_turn"}`, Copilot().silence},
		"a wrong key":     {Copilot(), `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Error: Authentication failed with provider at http://x (HTTP 401)."}}`, `"result":{"stopReason":"end_turn"}`, "Authentication failed with provider at http://x (HTTP 401)."},
		"a fault":         {Copilot(), `{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Error: Failed to get response from the AI model; retried"}}`, `"result":{"stopReason":"end_turn"}`, "Failed to get response from the AI model; retried"},
		"a tool, no word": {Preset{}, fmt.Sprintf(callBash, `{"command":"ls"}`), `"result":{"stopReason":"end_turn"}`, ""},
		"tokens":          {Preset{}, said, `"result":{"stopReason":"max_tokens"}`, "the model reached the most it may write in one turn"},
		"requests":        {Preset{}, said, `"result":{"stopReason":"max_turn_requests"}`, "the agent reached the most requests it may make in one turn"},
		"refusal":         {Preset{}, said, `"result":{"stopReason":"refusal"}`, "the model refused to go on"},
		"cancelled":       {Preset{}, said, `"result":{"stopReason":"cancelled"}`, "the agent broke off by itself"},
		"an error":        {Preset{}, said, `"error":{"code":-32603,"message":"Internal error","data":{"details":"overloaded\nnow"}}`, "Internal error: overloaded now"},
		"an empty error":  {Preset{}, "", `"error":{}`, "error 0"},
		"data as text":    {Preset{}, "", `"error":{"code":1,"message":"m","data":"d"}`, "m: d"},
		"not logged in":   {Preset{}, "", `"error":{"code":-32000,"message":"log in"}`, "the agent is not logged in: log in"},
		"nonsense":        {Preset{}, said, `"result":"what"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := join(t, Options{Preset: c.preset}, agentcli.Setup{Scratch: t.TempDir()})
			p.open(plainCaps, `{"sessionId":"s"}`)
			id := p.prompt("p1", "hello")
			if c.before != "" {
				p.update(c.before)
			}
			p.feed(`{"jsonrpc":"2.0","id":%s,%s}`, id, c.answer)
			e := p.await(agentcli.Result)
			if e.Failure != c.want || !cmp.Equal(e.Prompts, []string{"p1"}) || e.Interrupted {
				t.Errorf("Result = %s, want the failure %q", show(e), c.want)
			}
			p.prompt("p2", "and the next one goes")
		})
	}
}

// TestPromptsGoOneByOne: a second prompt waits in the driver until the first is
// answered, and each has its own result.
func TestPromptsGoOneByOne(t *testing.T) {
	p, first := ready(t, Options{}, agentcli.Setup{})
	if err := p.agent.Send(t.Context(), agentcli.Prompt{ID: "p2", Text: "two"}); err != nil {
		t.Fatal(err)
	}
	p.quiet()
	p.feed(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}`, first)
	if e := p.await(agentcli.Result); e.Prompts[0] != "p1" {
		t.Errorf("Result = %s", show(e))
	}
	second := p.next("session/prompt")
	p.feed(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}`, second.ID)
	if e := p.await(agentcli.Result); e.Prompts[0] != "p2" {
		t.Errorf("Result = %s", show(e))
	}
}

// TestInterrupt: nothing at work, at work, before the handshake has ended.
func TestInterrupt(t *testing.T) {
	p := join(t, Options{}, agentcli.Setup{})
	if err := p.agent.Send(t.Context(), agentcli.Prompt{ID: "early"}); err != nil {
		t.Fatal(err)
	}
	if err := p.agent.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e := p.await(agentcli.Result); !e.Interrupted || e.Prompts[0] != "early" {
		t.Errorf("Result = %s", show(e))
	}
	p.open(plainCaps, `{"sessionId":"s"}`)
	if err := p.agent.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.quiet()
	id := p.prompt("p1", "hello")
	p.line(permit("0", `{"command":"ls"}`))
	e := p.await(agentcli.Permission)
	if err := p.agent.Interrupt(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.next("session/cancel")
	if got := p.next(""); string(got.Result) != `{"outcome":{"outcome":"cancelled"}}` {
		t.Errorf("the open permission was answered %s", got.Result)
	}
	if w := p.await(agentcli.Withdrawn); w.ID != e.ID {
		t.Errorf("Withdrawn %q, want %q", w.ID, e.ID)
	}
	p.feed(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"aborted"}}`, id)
	if e := p.await(agentcli.Result); !e.Interrupted {
		t.Errorf("Result = %s", show(e))
	}
}

// TestUsageIsTheDifference: an agent counts from the start of its session, or from
// anew.
func TestUsageIsTheDifference(t *testing.T) {
	p, id := ready(t, Options{}, agentcli.Setup{})
	p.update(`{"sessionUpdate":"usage_update","used":10,"size":200000,"cost":{"amount":0.25,"currency":"USD"}}`)
	for i, c := range []struct {
		answer string
		want   agentcli.Usage
	}{
		{`"inputTokens":100,"outputTokens":10,"cachedReadTokens":5,"cachedWriteTokens":1`, agentcli.Usage{Input: 100, Output: 10, CacheRead: 5, CacheWrite: 1, Cost: 0.25, Window: 200000}},
		{`"inputTokens":150,"outputTokens":30,"cachedReadTokens":6,"cachedWriteTokens":1`, agentcli.Usage{Input: 50, Output: 20, CacheRead: 1, Window: 200000}},
		{`"inputTokens":7,"outputTokens":3`, agentcli.Usage{Input: 7, Output: 3, Window: 200000}},
	} {
		if i > 0 {
			id = p.prompt(fmt.Sprint(i), "x")
		}
		p.feed(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn","usage":{%s}}}`, id, c.answer)
		if e := p.await(agentcli.Result); e.Usage == nil || *e.Usage != c.want {
			t.Errorf("%d: Usage = %+v, want %+v", i, e.Usage, c.want)
		}
	}
}

// TestPromptBlocks: pictures before the text, files as links, our instructions
// once, and a word about what an agent cannot see.
func TestPromptBlocks(t *testing.T) {
	img := agentcli.Prompt{ID: "1", Text: "look", Images: []agentcli.Image{{Mime: "image/png", Data: []byte("png")}}, Files: []string{"/a b/ü.txt"}}
	for name, c := range map[string]struct {
		caps string
		want string
	}{
		"images": {plainCaps, `[{"type":"text","text":"be kind"},{"type":"image","data":"cG5n","mimeType":"image/png"},{"type":"text","text":"look"},{"type":"resource_link","uri":"file:///a%20b/%C3%BC.txt","name":"ü.txt"}]`},
		"none":   {`{"protocolVersion":1}`, `[{"type":"text","text":"be kind"},{"type":"text","text":"look"},{"type":"text","text":"(1 attached image(s) are left out: this agent takes none.)"},{"type":"resource_link","uri":"file:///a%20b/%C3%BC.txt","name":"ü.txt"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			p := join(t, Options{}, agentcli.Setup{System: "be kind"})
			p.open(c.caps, `{"sessionId":"s"}`)
			if err := p.agent.Send(t.Context(), img); err != nil {
				t.Fatal(err)
			}
			m := p.next("session/prompt")
			var got struct{ Prompt json.RawMessage }
			if err := json.Unmarshal(m.Params, &got); err != nil || string(got.Prompt) != c.want {
				t.Errorf("prompt %s, want %s", got.Prompt, c.want)
			}
			p.feed(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}`, m.ID)
			p.await(agentcli.Result)
			p.agent.Send(t.Context(), agentcli.Prompt{ID: "2"})
			if m := p.next("session/prompt"); strings.Contains(string(m.Params), "be kind") {
				t.Errorf("the instructions came again: %s", m.Params)
			}
		})
	}
}

// TestGone: an agent that has ended takes nothing more, and says so.
func TestGone(t *testing.T) {
	p, _ := ready(t, Options{}, agentcli.Setup{})
	p.line(permit("0", `{"command":"ls"}`))
	ask := p.await(agentcli.Permission)
	if err := p.hangUp(); err != nil {
		t.Errorf("Read = %v", err)
	}
	p.await(agentcli.Withdrawn)
	for name, err := range map[string]error{
		"Send":   p.agent.Send(t.Context(), agentcli.Prompt{ID: "x"}),
		"Answer": p.agent.Answer(t.Context(), agentcli.Answer{ID: ask.ID, Allow: true}),
		"Open":   p.agent.Open(t.Context()),
		"Stop":   p.agent.Interrupt(t.Context()),
	} {
		if !errors.Is(err, agentcli.ErrGone) {
			t.Errorf("%s = %v, want ErrGone", name, err)
		}
	}
}

// TestOtherInputIsNotOffered: the protocol has no way to run something else than
// what was asked; the question stays open.
func TestOtherInputIsNotOffered(t *testing.T) {
	p, _ := ready(t, Options{}, agentcli.Setup{})
	p.line(permit("0", `{"command":"ls"}`))
	e := p.await(agentcli.Permission)
	if err := p.agent.Answer(t.Context(), agentcli.Answer{ID: e.ID, Allow: true, Input: json.RawMessage(`{}`)}); !errors.Is(err, agentcli.ErrNotOffered) {
		t.Errorf("Answer = %v", err)
	}
	if err := p.agent.Answer(t.Context(), agentcli.Answer{ID: e.ID}); err != nil {
		t.Fatal(err)
	}
	p.next("")
}

// TestAPlanIsAPlan: leaving plan mode is a plan to approve.
func TestAPlanIsAPlan(t *testing.T) {
	p, _ := ready(t, Options{}, agentcli.Setup{})
	p.line(`{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t9","kind":"switch_mode","rawInput":{"plan":"do x"}},` + askOptions + `}}`)
	if e := p.await(agentcli.Plan); e.Text != "do x" {
		t.Errorf("Plan = %+v", e)
	}
}

// TestWhatIsNotOurs: other sessions, unknown methods, nonsense.
func TestWhatIsNotOurs(t *testing.T) {
	p, id := ready(t, Options{}, agentcli.Setup{})
	p.feed(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"other","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"no"}}}}`)
	p.feed(`{"jsonrpc":"2.0","id":5,"method":"session/request_permission","params":{"sessionId":"other","toolCall":{"toolCallId":"t"},%s}}`, askOptions)
	if got := p.next(""); string(got.Result) != `{"outcome":{"outcome":"cancelled"}}` {
		t.Errorf("another session's question: %s", got.Result)
	}
	for _, m := range []string{"no/such", "elicitation/create"} {
		p.feed(`{"jsonrpc":"2.0","id":6,"method":%q,"params":{}}`, m)
		if got := p.next(""); got.Error == nil || got.Error.Code != codeMethod {
			t.Errorf("%s: %+v", m, got)
		}
	}
	p.feed(`{"jsonrpc":"2.0","id":7,"method":"session/request_permission","params":3}`)
	if got := p.next(""); got.Error == nil || got.Error.Code != codeParams {
		t.Errorf("bad params: %+v", got)
	}
	for _, s := range []string{"Debug: starting", `{"half":`, `[1]`, `{"jsonrpc":"2.0","id":{},"result":1}`, `{"jsonrpc":"2.0","id":999,"result":1}`, `{"jsonrpc":"2.0","id":"1","result":1}`, `{"id":null}`, "\xff\xfe", `{"method":"session/update","params":7}`} {
		p.line(s)
	}
	p.quiet()
	p.feed(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"refusal"}}`, id)
	p.await(agentcli.Result)
}

// TestLongLines: a line has no limit.
func TestLongLines(t *testing.T) {
	p, id := ready(t, Options{}, agentcli.Setup{})
	const size = 24 << 20
	p.update(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + strings.Repeat("x", size) + `"}}`)
	if e := p.await(agentcli.Delta); len(e.Text) != size {
		t.Errorf("%d bytes came", len(e.Text))
	}
	p.feed(`{"jsonrpc":"2.0","id":%s,"result":{"stopReason":"end_turn"}}`, id)
	p.await(agentcli.Result)
}
