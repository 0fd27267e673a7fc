package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/secret"
)

// serve answers every request with these bytes and keeps the last request.
func serve(t testing.TB, status int, header map[string]string, body string) (url string, last func() (*http.Request, string)) {
	t.Helper()
	var req *http.Request
	var sent string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		req, sent = r.Clone(context.Background()), string(data)
		w.Header().Set("Content-Type", "text/event-stream")
		for k, v := range header {
			w.Header().Set(k, v)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() (*http.Request, string) { return req, sent }
}

// frames makes a stream of data lines.
func frames(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

func text(s string) llm.Part { return llm.Part{Kind: llm.TextPart, Text: s} }
func user(parts ...llm.Part) llm.Message {
	return llm.Message{Role: llm.User, Parts: parts}
}
func call(id, name, args string) llm.Part {
	return llm.Part{Kind: llm.CallPart, Call: &llm.Call{ID: id, Name: name, Args: []byte(args)}}
}

// hear consumes one answer.
func hear(t testing.TB, m *Model, req llm.Request) (pieces []string, msg llm.Message, err error) {
	t.Helper()
	if req.Messages == nil {
		req.Messages = []llm.Message{user(text("hi"))}
	}
	for e, failure := range m.Stream(context.Background(), req) {
		switch {
		case failure != nil:
			err = failure
		case e.Done != nil:
			msg = e.Done.Message
		default:
			pieces = append(pieces, e.Text+e.Thinking)
		}
	}
	return pieces, msg, err
}

func chat(delta string) string { return `{"choices":[{"index":0,"delta":` + delta + `}]}` }

const (
	chatStop = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	done     = "[DONE]"
)

func TestChatStreams(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		parts  []llm.Part
		stop   llm.StopReason
		usage  *llm.Usage
		class  llm.Class
	}{
		"no usage":       {stream: frames(chat(`{"content":"a"}`), chatStop, done), parts: []llm.Part{text("a")}},
		"no DONE":        {stream: frames(chat(`{"content":"a"}`), chatStop), parts: []llm.Part{text("a")}},
		"no reason":      {stream: frames(chat(`{"content":"a"}`)), class: llm.ClassCut},
		"DONE too early": {stream: frames(chat(`{"content":"a"}`), done), class: llm.ClassCut},
		"half after end": {stream: frames(chat(`{"content":"a"}`), chatStop) + "data: {", parts: []llm.Part{text("a")}},
		"blank text":     {stream: frames(chat(`{"content":"\n"}`), chatStop, done)},
		"other choice":   {stream: frames(`{"choices":[{"index":1,"delta":{"content":"b"}}]}`, chat(`{"content":"a"}`), chatStop, done), parts: []llm.Part{text("a")}},
		"length":         {stream: frames(chat(`{"content":"a"}`), `{"choices":[{"delta":{},"finish_reason":"length"}]}`, done), parts: []llm.Part{text("a")}, stop: llm.StopLength},
		"filter":         {stream: frames(`{"choices":[{"delta":{},"finish_reason":"content_filter"}]}`, done), stop: llm.StopRefused},
		"refusal":        {stream: frames(chat(`{"refusal":"no"}`), chatStop, done), parts: []llm.Part{text("no")}, stop: llm.StopRefused},
		"unknown reason": {stream: frames(chat(`{"content":"a"}`), `{"choices":[{"delta":{},"finish_reason":"eos"}]}`, done), parts: []llm.Part{text("a")}},
		"cached (DeepSeek)": {stream: frames(chatStop, `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"prompt_cache_hit_tokens":4}}`, done),
			usage: &llm.Usage{Input: 5, Output: 2, CacheRead: 4}},
		"odd usage": {stream: frames(chatStop, `{"usage":{"prompt_tokens":-3,"completion_tokens":2,"prompt_tokens_details":null}}`, done), usage: &llm.Usage{Output: 2}},
		"reasoning field": {stream: frames(chat(`{"reasoning":"hm"}`), chat(`{"content":"a"}`), chatStop, done),
			parts: []llm.Part{{Kind: llm.ThinkingPart, Text: "hm"}, text("a")}},
		"reasoning object is ignored": {stream: frames(chat(`{"reasoning":{"x":1},"content":"a"}`), chatStop, done), parts: []llm.Part{text("a")}},
		"reasoning_content": {stream: frames(chat(`{"reasoning_content":"h"}`), chat(`{"reasoning_content":"m"}`), chat(`{"content":"a"}`), chatStop, done),
			parts: []llm.Part{{Kind: llm.ThinkingPart, Text: "hm", Opaque: thoughtField}, text("a")}},
		"pieces (Mistral)": {stream: frames(chat(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`), chat(`{"content":[{"type":"text","text":"a"}]}`), chatStop, done),
			parts: []llm.Part{{Kind: llm.ThinkingPart, Text: "hm"}, text("a")}},
		"odd pieces":   {stream: frames(chat(`{"content":[1]}`), chat(`{"content":{}}`), chatStop, done)},
		"no chunk":     {stream: frames(`nope`), class: llm.ClassBroken},
		"error object": {stream: frames(chat(`{"content":"a"}`), `{"error":{"message":"boom","code":429}}`), class: llm.ClassRateLimit},
		"error text":   {stream: frames(`{"error":"boom"}`), class: llm.ClassServer},
		"error null":   {stream: frames(`{"error":null}`, chatStop, done)},
		"error reason": {stream: frames(`{"choices":[{"delta":{},"finish_reason":"error"}]}`, done), class: llm.ClassServer},
		"no resources": {stream: frames(`{"choices":[{"delta":{},"finish_reason":"insufficient_system_resource"}]}`, done), class: llm.ClassOverloaded},
		"parallel calls in pieces": {stream: frames(
			chat(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":""}},{"index":1,"id":"b","function":{"name":"y","arguments":"{\"n\""}}]}`),
			chat(`{"tool_calls":[{"index":1,"function":{"arguments":":1}"}},{"index":0,"function":{"arguments":"{}"}}]}`), chatStop, done),
			parts: []llm.Part{call("a", "x", `{}`), call("b", "y", `{"n":1}`)}, stop: llm.StopTools},
		"calls without numbers": {stream: frames(
			chat(`{"tool_calls":[{"id":"a","function":{"name":"x","arguments":"{\"n\":"}}]}`), chat(`{"tool_calls":[{"id":"a","function":{"arguments":"1"}}]}`),
			chat(`{"tool_calls":[{"function":{"arguments":"}"}}]}`), chat(`{"tool_calls":[{"id":"b","function":{"name":"y"}}]}`), chatStop, done),
			parts: []llm.Part{call("a", "x", `{"n":1}`), call("b", "y", `{}`)}, stop: llm.StopTools},
		"calls with the same number": {stream: frames(
			chat(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}]}`),
			chat(`{"tool_calls":[{"index":0,"id":"b","function":{"name":"y","arguments":"{}"}}]}`), chatStop, done),
			parts: []llm.Part{call("a", "x", `{}`), call("b", "y", `{}`)}, stop: llm.StopTools},
		"calls without ids": {stream: frames(
			chat(`{"content":"t","tool_calls":[{"function":{"name":"x","arguments":{"n":1}}},{"function":{"name":"y","arguments":null}}]}`), chatStop, done),
			parts: []llm.Part{text("t"), call("call_2", "x", `{"n":1}`), call("call_3", "y", `{}`)}, stop: llm.StopTools},
		"call without name":   {stream: frames(chat(`{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}`), chatStop, done), class: llm.ClassBroken},
		"call cut by length":  {stream: frames(chat(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"{\"a\":"}}]}`), `{"choices":[{"delta":{},"finish_reason":"length"}]}`, done), class: llm.ClassBroken},
		"arguments of a list": {stream: frames(chat(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"x","arguments":"[]"}}]}`), chatStop, done), class: llm.ClassBroken},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := serve(t, 200, nil, c.stream)
			_, msg, err := hear(t, open(t, url, func(o *Options) { o.API = llm.OpenAICompletions }), llm.Request{})
			if llm.ClassOf(err) != c.class {
				t.Fatalf("err = %v, want class %q", err, c.class)
			}
			if c.class == "" {
				checkMessage(t, msg, c.parts, c.stop, c.usage)
			}
		})
	}
}

func checkMessage(t *testing.T, msg llm.Message, parts []llm.Part, stop llm.StopReason, usage *llm.Usage) {
	t.Helper()
	if stop == "" {
		stop = llm.StopEnd
	}
	want := llm.Message{Role: llm.Assistant, Provider: "openai", Model: "gpt-test", Stop: stop, Parts: parts, Usage: usage}
	if diff := cmp.Diff(want, msg); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func TestResponsesStreams(t *testing.T) {
	const completed = `{"type":"response.completed","response":{"status":"completed"}}`
	item := func(kind string, index, rest string) string {
		return `{"type":"response.output_item.` + kind + `","output_index":` + index + `,"item":{` + rest + `}}`
	}
	for name, c := range map[string]struct {
		stream string
		parts  []llm.Part
		stop   llm.StopReason
		usage  *llm.Usage
		class  llm.Class
		pieces []string
	}{
		"deltas without items": {stream: frames(`{"type":"response.reasoning_text.delta","output_index":0,"delta":"hm"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"a"}`, completed),
			parts: []llm.Part{{Kind: llm.ThinkingPart, Text: "hm"}, text("a")}, pieces: []string{"hm", "a"}},
		"items without deltas": {stream: frames(
			item("added", "0", `"type":"reasoning","id":"rs_1"`), item("done", "0", `"type":"reasoning","id":"rs_1","summary":[{"text":"h"},{"text":"m"}],"encrypted_content":"x"`),
			item("done", "1", `"type":"message","content":[{"type":"output_text","text":"a"}]`),
			item("added", "2", `"type":"function_call","name":"y"`), item("done", "2", `"type":"function_call","call_id":"c","name":"y","arguments":"{}"`), completed),
			parts: []llm.Part{{Kind: llm.ThinkingPart, Text: "h\n\nm", Opaque: "rs_1:x"}, text("a"), call("c", "y", `{}`)}, stop: llm.StopTools, pieces: []string{"h\n\nm", "a"}},
		"all at the end": {stream: frames(`{"type":"response.completed","response":{"status":"completed","output":[{"type":"web_search_call"},{"type":"message","content":[{"text":"a"}]}],"usage":{"input_tokens":7,"output_tokens":3,"input_tokens_details":{"cached_tokens":5}}}}`),
			parts: []llm.Part{text("a")}, usage: &llm.Usage{Input: 2, Output: 3, CacheRead: 5}, pieces: []string{"a"}},
		"call at the end": {stream: frames(`{"type":"response.completed","response":{"output":[{"type":"function_call","call_id":"c","name":"y","arguments":""}]}}`),
			parts: []llm.Part{call("c", "y", `{}`)}, stop: llm.StopTools},
		"two summaries": {stream: frames(item("added", "0", `"type":"reasoning"`), `{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"a"}`,
			`{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":1}`, `{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"b"}`, completed),
			parts: []llm.Part{{Kind: llm.ThinkingPart, Text: "a\n\nb"}}, pieces: []string{"a\n\nb"}},
		"refused at once":    {stream: frames(item("done", "0", `"type":"message","content":[{"type":"refusal","refusal":"no"}]`), completed), parts: []llm.Part{text("no")}, stop: llm.StopRefused, pieces: []string{"no"}},
		"filtered":           {stream: frames(`{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}`), stop: llm.StopRefused},
		"unknown item":       {stream: frames(item("added", "0", `"type":"aroma"`), item("done", "0", `"type":"aroma"`), completed)},
		"text in a call":     {stream: frames(item("added", "0", `"type":"function_call","call_id":"c","name":"y"`), `{"type":"response.output_text.delta","output_index":0,"delta":"a"}`, `{"type":"response.reasoning_text.delta","output_index":0,"delta":"a"}`, completed), parts: []llm.Part{call("c", "y", "{}")}, stop: llm.StopTools},
		"type in the event":  {stream: "event: response.completed\ndata: {\"response\":{}}\n\n"},
		"DONE is no end":     {stream: frames(done), class: llm.ClassCut},
		"twice":              {stream: frames(item("added", "0", `"type":"message"`), item("added", "0", `"type":"message"`)), class: llm.ClassBroken},
		"no JSON":            {stream: frames("x"), class: llm.ClassBroken},
		"no response":        {stream: frames(`{"type":"response.completed"}`), class: llm.ClassBroken},
		"delta of no call":   {stream: frames(`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"a"}`), class: llm.ClassBroken},
		"unnamed call":       {stream: frames(item("added", "0", `"type":"function_call","call_id":"c"`), completed), class: llm.ClassBroken},
		"failed":             {stream: frames(`{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}`), class: llm.ClassRateLimit},
		"failed at the end":  {stream: frames(`{"type":"response.completed","response":{"error":{"code":"server_error","message":"x"}}}`), class: llm.ClassServer},
		"error event":        {stream: frames(`{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"too much"}}`), class: llm.ClassTooLong},
		"error without item": {stream: frames(`{"type":"response.output_item.added"}`, `{"type":"response.output_item.done"}`, completed)},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := serve(t, 200, nil, c.stream)
			pieces, msg, err := hear(t, open(t, url, func(o *Options) { o.API = llm.OpenAIResponses }), llm.Request{})
			if llm.ClassOf(err) != c.class {
				t.Fatalf("err = %v, want class %q", err, c.class)
			}
			if c.class == "" {
				checkMessage(t, msg, c.parts, c.stop, c.usage)
				if !slices.Equal(pieces, c.pieces) {
					t.Errorf("pieces = %q, want %q", pieces, c.pieces)
				}
			}
		})
	}
}

func TestErrorsOfServers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		class  llm.Class
		text   string
	}{
		"context":         {400, `{"error":{"message":"m","type":"invalid_request_error","code":"context_length_exceeded"}}`, llm.ClassTooLong, "m"},
		"context (vLLM)":  {400, `{"object":"error","message":"This model's maximum context length is 4096 tokens.","type":"BadRequestError","code":400}`, llm.ClassTooLong, "This model's maximum context length is 4096 tokens."},
		"context (llama)": {500, `{"error":{"code":500,"message":"the request exceeds the available context size"}}`, llm.ClassTooLong, "the request exceeds the available context size"},
		"quota":           {429, `{"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`, llm.ClassQuota, "m"},
		"balance":         {402, `{"error":{"message":"Insufficient Balance"}}`, llm.ClassQuota, "Insufficient Balance"},
		"rate":            {429, `{"error":{"message":"m","code":"rate_limit_exceeded"}}`, llm.ClassRateLimit, "m"},
		"never fits":      {429, `{"error":{"message":"Request too large for gpt-x","code":"rate_limit_exceeded"}}`, llm.ClassTooLong, "Request too large for gpt-x"},
		"key":             {401, `{"error":{"message":"Incorrect API key provided: sk-very-secret-key.","code":"invalid_api_key"}}`, llm.ClassAuth, "Incorrect API key provided: [secret]."},
		"text":            {404, `{"error":"model 'x' not found"}`, llm.ClassInvalid, "model 'x' not found"},
		"no /v1":          {404, `404 page not found`, llm.ClassInvalid, "404 page not found (the base URL does not end in /v1, as most servers want it)"},
		"bare text":       {400, `"so not"`, llm.ClassInvalid, "so not"},
		"plain":           {400, `so not`, llm.ClassInvalid, "so not"},
		"detail":          {422, `{"detail":[{"msg":"extra"}]}`, llm.ClassInvalid, `[{"msg":"extra"}]`},
		"detail text":     {422, `{"detail":"extra"}`, llm.ClassInvalid, "extra"},
		"page":            {502, `<html>nginx</html>`, llm.ClassServer, "Bad Gateway"},
		"nothing":         {503, ``, llm.ClassOverloaded, "Service Unavailable"},
		"overloaded 400":  {400, `{"message":"model overloaded"}`, llm.ClassOverloaded, "model overloaded"},
		"redirect":        {302, ``, llm.ClassInvalid, "unexpected answer: Found"},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := serve(t, c.status, map[string]string{"Retry-After": "7", "Location": "/elsewhere"}, c.body)
			m := open(t, url, func(o *Options) {
				o.Key = secret.New("sk-very-secret-key")
				o.Headers = map[string]secret.Value{"X-Gate": secret.New("very-secret-gate")}
			})
			_, _, err := hear(t, m, llm.Request{})
			var e *llm.Error
			if !errors.As(err, &e) || e.Class != c.class || e.Status != c.status || e.Text != c.text {
				t.Fatalf("err = %#v", err)
			}
			if c.status >= 400 && e.RetryAfter != 7*time.Second {
				t.Errorf("retry after %s", e.RetryAfter)
			}
		})
	}
}

func TestErrorWords(t *testing.T) {
	for body, want := range map[string]llm.Class{
		`{"code":"invalid_api_key"}`: llm.ClassAuth, `{"code":"overloaded"}`: llm.ClassOverloaded, `{"type":"invalid_request_error"}`: llm.ClassInvalid,
		`{"code":503}`: llm.ClassOverloaded, `{"code":"402"}`: llm.ClassQuota, `{"code":7}`: llm.ClassServer, `{}`: llm.ClassServer, `{"message":"insufficient credits"}`: llm.ClassQuota,
	} {
		if got := wordsOf([]byte(body)).class(llm.ClassServer); got != want {
			t.Errorf("%s: class %q, want %q", body, got, want)
		}
	}
	m := open(t, "http://127.0.0.1:1", nil)
	if e := m.fail(llm.ClassServer, "", nil); e.Text == "" {
		t.Error("an error without a text")
	}
	for _, err := range []error{eventError{[]byte(`{"x":1}`)}, broken("a %s", "b")} {
		if err.Error() == "" {
			t.Errorf("%#v says nothing", err)
		}
	}
}

func TestAnswerThatIsNoStream(t *testing.T) {
	url, _ := serve(t, 200, map[string]string{"Content-Type": "text/html"}, "<html>log in</html>")
	if _, _, err := hear(t, open(t, url, nil), llm.Request{}); llm.ClassOf(err) != llm.ClassBroken || !strings.Contains(err.Error(), "text/html") {
		t.Errorf("err = %v", err)
	}
}

// FuzzStream reads any stream on both wires: it ends in a message that a next
// request may carry, or in an error with a class.
func FuzzStream(f *testing.F) {
	f.Add([]byte(frames(chat(`{"content":"a","reasoning_content":"b"}`), chat(`{"tool_calls":[{"id":"a","function":{"name":"x","arguments":"{}"}}]}`), chatStop, done)))
	f.Add([]byte(frames(`{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"y"}}`, `{"type":"response.completed","response":{"output":[{"type":"message","content":[{"text":"a"}]}]}}`)))
	f.Add([]byte("event: error\ndata: {\"error\":{\"code\":1}}\n\n"))
	opts := Options{Info: info(), Compat: whole}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, w := range []wire{chatWire{Options: opts}, responsesWire{opts}} {
			m := &Model{opts: opts}
			msg, err := w.read(llm.NewFrames(strings.NewReader(string(data))), nil, func(e llm.Event) bool {
				if e.Text == "" && e.Thinking == "" {
					t.Fatal("an empty event")
				}
				return true
			})
			if err != nil {
				if llm.ClassOf(m.failure(context.Background(), err)) == "" {
					t.Fatalf("err = %v", err)
				}
				continue
			}
			history := []llm.Message{user(text("x")), msg}
			var results []llm.Part
			solid := false
			for _, p := range msg.Parts {
				solid = solid || p.Kind != llm.ThinkingPart
				if p.Kind == llm.CallPart {
					results = append(results, llm.Part{Kind: llm.ResultPart, Result: &llm.Result{ID: p.Call.ID}})
				}
			}
			if results != nil {
				history = append(history, user(results...))
			}
			if err := llm.Valid(history); solid && err != nil {
				t.Fatalf("%v: %+v", err, msg)
			}
		}
	})
}
