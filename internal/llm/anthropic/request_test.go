package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/llm"
)

func text(s string) llm.Part { return llm.Part{Kind: llm.TextPart, Text: s} }

func thought(s, opaque string) llm.Part {
	return llm.Part{Kind: llm.ThinkingPart, Text: s, Opaque: opaque}
}

func call(id string) llm.Part {
	return llm.Part{Kind: llm.CallPart, Call: &llm.Call{ID: id, Name: "bash", Args: json.RawMessage(`{"a":1}`)}}
}

func result(id, s string) llm.Part {
	return llm.Part{Kind: llm.ResultPart, Result: &llm.Result{ID: id, Name: "bash", Text: s}}
}

func user(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.User, Parts: parts} }

// mine is a message of the model under test.
func mine(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.Assistant, Parts: parts, Provider: "anthropic", Model: "claude-test"}
}

func other(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.Assistant, Parts: parts, Provider: "openai", Model: "gpt"}
}

func TestEncodeMessages(t *testing.T) {
	image := llm.Part{Kind: llm.ImagePart, Mime: "image/png", Data: []byte("hi!")}
	withImage := result("a", "")
	withImage.Result.Images = []llm.Part{image}
	failed := result("a", " \n")
	failed.Result.IsError = true
	odd := "a|b"
	for name, c := range map[string]struct {
		messages []llm.Message
		want     string // $ is the cache marker
	}{
		"text":             {[]llm.Message{user(text("a\"b"))}, `[{"role":"user","content":[{"type":"text","text":"a\"b"$}]}]`},
		"merged":           {[]llm.Message{user(text("a")), user(text("b"))}, `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"$}]}]`},
		"results first":    {[]llm.Message{user(text("x")), mine(call("a")), user(text("y"), result("a", "r"))}, `[{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"bash","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"r"}]},{"type":"text","text":"y"$}]}]`},
		"marker on result": {[]llm.Message{user(text("x")), mine(call("a")), user(failed)}, `[{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"bash","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"(no output)"}],"is_error":true$}]}]`},
		"images":           {[]llm.Message{user(image), mine(call("a")), user(withImage)}, `[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGkh"}}]},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"bash","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGkh"}}]$}]}]`},
		"own thinking":     {[]llm.Message{user(text("x")), mine(thought("t", "s"), thought("", "redacted:d"), thought("no signature", ""), text("y")), user(text("z"))}, `[{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"y"}]},{"role":"user","content":[{"type":"text","text":"z"$}]}]`},
		"other's thinking": {[]llm.Message{user(text("x")), other(thought("t", "s"), text("y")), user(text("z"))}, `[{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant","content":[{"type":"text","text":"y"}]},{"role":"user","content":[{"type":"text","text":"z"$}]}]`},
		"ends with ours":   {[]llm.Message{user(text("x")), mine(text("y \n"))}, `[{"role":"user","content":[{"type":"text","text":"x"$}]},{"role":"assistant","content":[{"type":"text","text":"y"}]}]`},
		"foreign ids":      {[]llm.Message{user(text("x")), other(call(odd)), user(result(odd, "r")), other(call(odd)), user(result(odd, "r"))}, `[{"role":"user","content":[{"type":"text","text":"x"}]},{"role":"assistant","content":[{"type":"tool_use","id":"ID","name":"bash","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"ID","content":[{"type":"text","text":"r"}]}]},{"role":"assistant","content":[{"type":"tool_use","id":"ID_2","name":"bash","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"ID_2","content":[{"type":"text","text":"r"}]$}]}]`},
		"nothing":          {nil, `[]`},
	} {
		m := open(t, "http://127.0.0.1:1")
		body := m.encode(llm.Request{Messages: c.messages})
		want := strings.ReplaceAll(strings.ReplaceAll(c.want, "$", marker), "ID", wireID(odd))
		_, got, _ := strings.Cut(string(body), `"messages":`)
		if diff := cmp.Diff(want+"}", got); diff != "" || !json.Valid(body) {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestImagesForABlindModel(t *testing.T) {
	blind := info()
	blind.Images = false
	m, err := New(Options{Info: blind})
	if err != nil {
		t.Fatal(err)
	}
	seen := result("a", "")
	image := llm.Part{Kind: llm.ImagePart, Mime: "image/png", Data: []byte("hi!")}
	seen.Result.Images = []llm.Part{image}
	body := m.encode(llm.Request{Messages: []llm.Message{user(image), mine(call("a")), user(seen)}})
	if bytes.Contains(body, []byte("base64")) || !bytes.Contains(body, []byte("cannot see")) || !bytes.Contains(body, []byte(noOutput)) {
		t.Errorf("body = %s", body)
	}
}

func TestThinkingBudget(t *testing.T) {
	plain := []llm.Message{user(text("x"))}
	for name, c := range map[string]struct {
		budget, max int64
		adaptive    bool
		messages    []llm.Message
		want        string
	}{
		"off":                     {0, 8000, false, plain, ""},
		"on":                      {4000, 8000, false, plain, `{"type":"enabled","budget_tokens":4000}`},
		"too small":               {1, 8000, false, plain, `{"type":"enabled","budget_tokens":1024}`},
		"leaves room":             {9000, 8000, false, plain, `{"type":"enabled","budget_tokens":4000}`},
		"no room":                 {9000, 1500, false, plain, ""},
		"adaptive":                {9000, 1500, true, plain, `{"type":"adaptive"}`},
		"amid own calls":          {2000, 8000, false, []llm.Message{user(text("x")), mine(thought("t", "s"), call("a")), user(result("a", "r"))}, `{"type":"enabled","budget_tokens":2000}`},
		"amid thoughtless calls":  {2000, 8000, false, []llm.Message{user(text("x")), mine(call("a")), user(result("a", "r")), user(text("and?"))}, ""},
		"amid another's calls":    {2000, 8000, false, []llm.Message{user(text("x")), other(thought("t", "s"), call("a")), user(result("a", "r"))}, ""},
		"text before the thought": {2000, 8000, false, []llm.Message{user(text("x")), other(text("y")), mine(thought("t", "s"), call("a")), user(result("a", "r"))}, ""},
		"after another's answer":  {2000, 8000, false, []llm.Message{user(text("x")), other(text("y")), user(text("z"))}, `{"type":"enabled","budget_tokens":2000}`},
	} {
		m, err := New(Options{Info: info(), Adaptive: c.adaptive})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			MaxTokens int64           `json:"max_tokens"`
			Thinking  json.RawMessage `json:"thinking"`
		}
		if err := json.Unmarshal(m.encode(llm.Request{Messages: c.messages, Thinking: c.budget, MaxTokens: c.max}), &got); err != nil || string(got.Thinking) != c.want || got.MaxTokens != c.max {
			t.Errorf("%s: thinking = %s, max_tokens = %d, %v; want %s", name, got.Thinking, got.MaxTokens, err, c.want)
		}
	}
	never := info()
	never.Thinking, never.MaxOutput = false, 0
	m, err := New(Options{Info: never})
	if err != nil {
		t.Fatal(err)
	}
	body := m.encode(llm.Request{Messages: plain, Thinking: 5000})
	if bytes.Contains(body, []byte("thinking")) || !bytes.Contains(body, []byte(`"max_tokens":8192`)) {
		t.Errorf("a model without thinking and maximum: %s", body)
	}
}

// The provider's cache only works if one turn's request begins with the bytes
// of the turn before, the marker aside.
func TestPrefixIsStable(t *testing.T) {
	m := open(t, "http://127.0.0.1:1")
	previous := ""
	for n := range 30 {
		body := string(m.encode(turns(n)))
		if strings.Count(body, marker) != 3 {
			t.Fatalf("%d markers, want 3: system, last tool, last user block", strings.Count(body, marker))
		}
		at := strings.LastIndex(body, marker)
		plain := body[:at] + body[at+len(marker):]
		// What is before the last question, which every history here ends with.
		prefix, _, _ := strings.Cut(previous, `{"type":"text","text":"and now?"`)
		if !strings.HasPrefix(plain, prefix) {
			t.Fatalf("the request of turn %d does not begin with that of turn %d", n, n-1)
		}
		previous = plain
	}
}

func TestEncodeAllocatesOncePerRequest(t *testing.T) {
	m := open(t, "http://127.0.0.1:1")
	req := turns(1000)
	if n := testing.AllocsPerRun(5, func() { m.encode(req) }); n > 60 {
		t.Errorf("%v allocations for a request of 1,000 turns: something allocates per message", n)
	}
}

func TestWireID(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"toolu_01", "a|b", "a:b", "a_b", "", strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 66), "日本"} {
		got := wireID(id)
		if got == "" || len(got) > maxID || !plain(got) {
			t.Errorf("wireID(%q) = %q", id, got)
		}
		if before, ok := seen[got]; ok {
			t.Errorf("wireID(%q) = wireID(%q)", id, before)
		}
		seen[got] = id
	}
	for in, want := range map[string]string{"bash": "bash", "mcp.tool/x": "mcp_tool_x", strings.Repeat("n", 200): strings.Repeat("n", 128)} {
		if got := wireName(in); got != want {
			t.Errorf("wireName(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzEncode(f *testing.F) {
	seed, _ := json.Marshal([]llm.Message{user(text("x")), mine(thought("t", "s"), call("a|")), user(result("a|", ""))})
	f.Add(seed, "system", int64(2000))
	f.Fuzz(func(t *testing.T, data []byte, system string, budget int64) {
		var messages []llm.Message
		if json.Unmarshal(data, &messages) != nil {
			return
		}
		m := open(t, "http://127.0.0.1:1")
		body := m.encode(llm.Request{System: system, Messages: llm.Repair(messages), Thinking: budget})
		if !json.Valid(body) {
			t.Errorf("not JSON: %s", body)
		}
	})
}

func ExampleNew() {
	m, err := New(Options{Info: llm.Info{Model: "claude-sonnet-4-5"}})
	fmt.Println(m.Info().Provider, err)
	// Output: anthropic <nil>
}
