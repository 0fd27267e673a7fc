package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/secret"
)

// body decodes what a wire makes of a request.
func body(t testing.TB, w wire, req llm.Request) map[string]any {
	t.Helper()
	var out map[string]any
	data := w.encode(req)
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return out
}

// shown is a value as JSON, for comparing.
func shown(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func result(id, text string, images ...llm.Part) llm.Part {
	return llm.Part{Kind: llm.ResultPart, Result: &llm.Result{ID: id, Name: "look", Text: text, Images: images}}
}

func assistant(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.Assistant, Provider: "openai", Model: "gpt-test", Parts: parts}
}

var picture = llm.Part{Kind: llm.ImagePart, Mime: "image/png", Data: []byte("abc")}

func TestChatMessages(t *testing.T) {
	thought := llm.Part{Kind: llm.ThinkingPart, Text: "hm", Opaque: thoughtField}
	foreign := assistant(thought, call("b", "y", "{}"))
	foreign.Model = "other"
	for name, c := range map[string]struct {
		history []llm.Message
		mistral bool
		blind   bool
		want    string
	}{
		"neighbours merge": {history: []llm.Message{user(text("a")), user(text("b")), assistant(text("c")), assistant(text("d"))},
			want: `[{"content":"a\nb","role":"user"},{"content":"c\nd","role":"assistant"}]`},
		"picture": {history: []llm.Message{user(text("a"), picture)},
			want: `[{"content":[{"text":"a","type":"text"},{"image_url":{"url":"data:image/png;base64,YWJj"},"type":"image_url"}],"role":"user"}]`},
		"picture for the blind": {history: []llm.Message{user(text("a"), picture), assistant(call("c", "look", "{}")), user(result("c", "", picture))}, blind: true,
			want: `[{"content":"a\n(an image that this model cannot see)","role":"user"},{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"look"},"id":"c","type":"function"}]},{"content":"(no output)\n(an image that this model cannot see)","role":"tool","tool_call_id":"c"}]`},
		"picture in a result": {history: []llm.Message{user(text("a")), assistant(call("c", "look", `{"x":1}`)), user(text("and"), result("c", "r", picture))},
			want: `[{"content":"a","role":"user"},{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"x\":1}","name":"look"},"id":"c","type":"function"}]},{"content":"r","role":"tool","tool_call_id":"c"},{"content":[{"text":"(images from the result of look)","type":"text"},{"image_url":{"url":"data:image/png;base64,YWJj"},"type":"image_url"},{"text":"and","type":"text"}],"role":"user"}]`},
		"mistral": {history: []llm.Message{user(text("a")), assistant(call("call_123", "look", `{}`)), user(result("call_123", "r"), text("b"))}, mistral: true,
			want: `[{"content":"a","role":"user"},{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"look"},"id":"ID","type":"function"}]},{"content":"r","name":"look","role":"tool","tool_call_id":"ID"},{"content":"(continuing)","role":"assistant"},{"content":"b","role":"user"}]`},
		"reasoning while working": {history: []llm.Message{user(text("a")), assistant(thought, call("a", "y", "{}")), user(result("a", "r")), foreign, user(result("b", "r"))},
			want: `[{"content":"a","role":"user"},{"content":null,"reasoning_content":"hm","role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"y"},"id":"a","type":"function"}]},{"content":"r","role":"tool","tool_call_id":"a"},{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"y"},"id":"b","type":"function"}]},{"content":"r","role":"tool","tool_call_id":"b"}]`},
		"reasoning of earlier turns": {history: []llm.Message{user(text("a")), assistant(thought, call("a", "y", "{}")), user(result("a", "r"), text("b"))},
			want: `[{"content":"a","role":"user"},{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"y"},"id":"a","type":"function"}]},{"content":"r","role":"tool","tool_call_id":"a"},{"content":"b","role":"user"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Options{Info: info()}
			opts.Info.Images = !c.blind
			got := shown(t, body(t, chatWire{opts, c.mistral}, llm.Request{Messages: c.history})["messages"])
			want := strings.ReplaceAll(c.want, "ID", nineID("call_123"))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResponsesInput(t *testing.T) {
	thought := llm.Part{Kind: llm.ThinkingPart, Text: "hm", Opaque: "rs_1:enc"}
	other := assistant(thought, text("b"))
	other.Provider = "anthropic"
	for name, c := range map[string]struct {
		history []llm.Message
		blind   bool
		want    string
	}{
		"reasoning comes back": {history: []llm.Message{user(text("a")), assistant(thought, text("b"))},
			want: `[{"content":[{"text":"a","type":"input_text"}],"role":"user","type":"message"},{"encrypted_content":"enc","id":"rs_1","summary":[{"text":"hm","type":"summary_text"}],"type":"reasoning"},{"content":[{"text":"b","type":"output_text"}],"role":"assistant","type":"message"}]`},
		"but not from elsewhere, without its item, or unsealed": {history: []llm.Message{user(text("a")), other, assistant(text("b"), thought), assistant(llm.Part{Kind: llm.ThinkingPart, Opaque: thoughtField}, text("c"))},
			want: `[{"content":[{"text":"a","type":"input_text"}],"role":"user","type":"message"},{"content":[{"text":"b","type":"output_text"}],"role":"assistant","type":"message"},{"content":[{"text":"b","type":"output_text"}],"role":"assistant","type":"message"},{"content":[{"text":"c","type":"output_text"}],"role":"assistant","type":"message"}]`},
		"results with pictures": {history: []llm.Message{user(picture), assistant(call("c", "look", "{}")), user(result("c", "r", picture))},
			want: `[{"content":[{"image_url":"data:image/png;base64,YWJj","type":"input_image"}],"role":"user","type":"message"},{"arguments":"{}","call_id":"c","name":"look","type":"function_call"},{"call_id":"c","output":[{"text":"r","type":"input_text"},{"image_url":"data:image/png;base64,YWJj","type":"input_image"}],"type":"function_call_output"}]`},
		"pictures for the blind": {history: []llm.Message{user(picture)}, blind: true,
			want: `[{"content":[{"text":"(an image that this model cannot see)","type":"input_text"}],"role":"user","type":"message"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Options{Info: info()}
			opts.Info.Images = !c.blind
			if diff := cmp.Diff(c.want, shown(t, body(t, responsesWire{opts}, llm.Request{Messages: c.history})["input"])); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestFields(t *testing.T) {
	req := llm.Request{System: "be kind", MaxTokens: 5, Thinking: 4096, CacheKey: strings.Repeat("k", 100), Messages: []llm.Message{user(text("a"))}}
	opts := Options{Info: info(), Compat: whole}
	got := body(t, responsesWire{opts}, req)
	key, _ := got["prompt_cache_key"].(string)
	if len(key) > maxKey || len(key) < 50 || got["max_output_tokens"] != 16.0 || got["store"] != false || got["instructions"] != "be kind" ||
		shown(t, got["reasoning"]) != `{"effort":"medium","summary":"auto"}` || shown(t, got["include"]) != `["reasoning.encrypted_content"]` {
		t.Errorf("responses: %v", got)
	}
	got = body(t, chatWire{Options: opts}, req)
	if got["max_completion_tokens"] != 5.0 || got["reasoning_effort"] != "medium" || got["store"] != false || !strings.Contains(shown(t, got["messages"]), `"role":"developer"`) ||
		shown(t, got["stream_options"]) != `{"include_usage":true}` {
		t.Errorf("chat: %v", got)
	}
	req.MaxTokens, opts.Compat = 0, llm.Compat{}
	got = body(t, chatWire{Options: opts, mistral: true}, req)
	if got["max_tokens"] != 8000.0 || got["stream_options"] != nil || got["reasoning_effort"] != nil || got["store"] != nil || !strings.Contains(shown(t, got["messages"]), `"role":"system"`) {
		t.Errorf("plain chat: %v", got)
	}
	opts.Info.Thinking, opts.Info.MaxOutput = false, 0
	if got = body(t, responsesWire{opts}, req); got["include"] != nil || got["reasoning"] != nil || got["store"] != nil || got["max_output_tokens"] != nil {
		t.Errorf("plain responses: %v", got)
	}
	if got = body(t, chatWire{Options: opts}, req); got["max_tokens"] != nil {
		t.Errorf("chat without a known maximum: %v", got)
	}
}

func TestEffort(t *testing.T) {
	for budget, want := range map[int64]string{1: "low", 2048: "low", 2049: "medium", 8192: "medium", 8193: "high"} {
		if got := effort(budget); got != want {
			t.Errorf("effort(%d) = %q, want %q", budget, got, want)
		}
	}
}

func TestNamesAndIDsFitTheWire(t *testing.T) {
	long := "mcp__" + strings.Repeat("x", 80)
	tools := []llm.ToolSpec{{Name: long + "a"}, {Name: long + "b"}, {Name: "a.b"}, {Name: "bash", Schema: []byte(`{"type":"object"}`)}, {Name: ""}}
	names, seen := namesOf(tools), map[string]bool{}
	for _, tool := range tools {
		w := wireName(tool.Name)
		if len(w) > maxName || !plain(w) || seen[w] || names.real(w) != tool.Name {
			t.Errorf("wireName(%q) = %q, back %q", tool.Name, w, names.real(w))
		}
		seen[w] = true
	}
	for _, id := range []string{"", "call_1", "a:b", strings.Repeat("y", 41), "ünï"} {
		if w := wireID(id); w == "" || len(w) > maxID || !plain(w) {
			t.Errorf("wireID(%q) = %q", id, w)
		}
		if n := nineID(id); len(n) != 9 || !plain(n) {
			t.Errorf("nineID(%q) = %q", id, n)
		}
	}
	if nineID("abcDEF123") != "abcDEF123" {
		t.Error("a fitting id changed")
	}
	url, _ := serve(t, 200, nil, frames(chat(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"`+wireName(long+"a")+`","arguments":"{}"}}]}`), chatStop, done))
	_, msg, err := hear(t, open(t, url, nil), llm.Request{Tools: tools})
	if err != nil || len(msg.Parts) != 1 || msg.Parts[0].Call.Name != long+"a" {
		t.Errorf("a long name comes back as %+v, %v", msg.Parts, err)
	}
}

// TestSameIDsInOneHistory: two providers, or a server without ids, may have
// used one id twice.
func TestSameIDsInOneHistory(t *testing.T) {
	history := []llm.Message{user(text("a")), assistant(call("c", "y", "{}")), user(result("c", "1")), assistant(call("c", "y", "{}")), user(result("c", "2"))}
	for name, w := range map[string]wire{"chat": chatWire{Options: Options{Info: info()}}, "responses": responsesWire{Options{Info: info()}}} {
		data := string(w.encode(llm.Request{Messages: history}))
		second := wireID("c\x002")
		if strings.Count(data, `"`+second+`"`) != 2 || strings.Count(data, `"c"`) != 2 {
			t.Errorf("%s: %s", name, data)
		}
	}
	e := encoder{id: wireID}
	if e.resultID("lost") != "lost" {
		t.Error("a result without its call changes its id")
	}
}

func TestResultText(t *testing.T) {
	e := encoder{info: info()}
	for want, r := range map[string]llm.Result{"x": {Text: "x"}, noOutput: {Text: " "}, "(failed without output)": {IsError: true}} {
		if got := e.resultText(&r); got != want {
			t.Errorf("resultText(%+v) = %q", r, got)
		}
	}
}

func TestNewAndHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*Options)
		url      string
		api      llm.API
		refuse   string
		azure    bool
		mistrals bool
	}{
		"default":         {change: func(o *Options) {}, url: "https://api.openai.com/v1/responses"},
		"elsewhere":       {change: func(o *Options) { o.BaseURL = "http://h/v1/" }, url: "http://h/v1/chat/completions"},
		"whole URL":       {change: func(o *Options) { o.BaseURL = "http://h/v1/chat/completions" }, url: "http://h/v1/chat/completions"},
		"azure":           {change: func(o *Options) { o.BaseURL = "https://a.openai.azure.com/openai/deployments/d?api-version=v" }, url: "https://a.openai.azure.com/openai/deployments/d/chat/completions?api-version=v", azure: true},
		"mistral":         {change: func(o *Options) { o.BaseURL = "https://api.mistral.ai/v1" }, url: "https://api.mistral.ai/v1/chat/completions", mistrals: true},
		"no model":        {change: func(o *Options) { o.Info.Model = "" }, refuse: "no model"},
		"no URL":          {change: func(o *Options) { o.BaseURL = "user:hunter2@h" }, refuse: "not an http(s) URL"},
		"unknown api":     {change: func(o *Options) { o.API = llm.BedrockConverse }, refuse: "unknown api"},
		"provider itself": {change: func(o *Options) { o.Info.Provider = "" }, url: "https://api.openai.com/v1/responses"},
	} {
		opts := Options{Info: info()}
		c.change(&opts)
		m, err := New(opts)
		if c.refuse != "" {
			if err == nil || !strings.Contains(err.Error(), c.refuse) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: err = %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		w, _ := m.wire.(chatWire)
		if m.url != c.url || m.azure != c.azure || w.mistral != c.mistrals || m.Info().Provider != "openai" {
			t.Errorf("%s: %q, azure %v, mistral %v", name, m.url, m.azure, w.mistral)
		}
	}
	url, last := serve(t, 200, nil, frames(chatStop, done))
	for name, c := range map[string]struct {
		azure, bearer bool
		key           string
		authorization string
		apiKey        string
	}{
		"bearer": {key: "sk-1", authorization: "Bearer sk-1"}, "none": {}, "azure": {azure: true, key: "sk-1", apiKey: "sk-1"},
		"azure with bearer": {azure: true, bearer: true, key: "sk-1", authorization: "Bearer sk-1"},
	} {
		m := open(t, url+"/v1", func(o *Options) {
			o.Key, o.AuthHeader = secret.New(c.key), c.bearer
			o.Headers = map[string]secret.Value{"X-Title": secret.New("iris")}
		})
		m.azure = c.azure
		if _, _, err := hear(t, m, llm.Request{}); err != nil {
			t.Fatal(err)
		}
		r, _ := last()
		if r.Header.Get("Authorization") != c.authorization || r.Header.Get("Api-Key") != c.apiKey || r.Header.Get("X-Title") != "iris" || r.URL.Path != "/v1/chat/completions" {
			t.Errorf("%s: %v %v", name, r.URL, r.Header)
		}
	}
}

func BenchmarkEncodeThousandTurns(b *testing.B) {
	var history []llm.Message
	for range 1000 {
		history = append(history, user(text(strings.Repeat("question ", 20))), assistant(text("I look."), call("c", "bash", `{"label":"x","command":"ls -la"}`)),
			user(result("c", strings.Repeat("line of output\n", 20))), assistant(text(strings.Repeat("answer ", 30))))
	}
	for name, w := range map[string]wire{"chat": chatWire{Options: Options{Info: info()}}, "responses": responsesWire{Options{Info: info()}}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				w.encode(llm.Request{Messages: history})
			}
		})
	}
}
