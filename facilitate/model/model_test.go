package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/facilitate/flow"
	"github.com/iris-operator/iris/facilitate/model"
)

// serve answers with the given bodies in turn; a body "429" or "500" is a
// status. got receives the last request.
func serve(t *testing.T, got *map[string]any, head *http.Header, bodies ...string) (string, *int) {
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := bodies[min(calls, len(bodies)-1)]
		calls++
		json.NewDecoder(r.Body).Decode(got)
		*head = r.Header
		if len(body) == 3 {
			var code int
			fmt.Sscan(body, &code)
			w.WriteHeader(code)
			return
		}
		w.Write([]byte(body))
	}))
	t.Cleanup(s.Close)
	return s.URL, &calls
}

var req = flow.Request{System: "sys", Prompt: "PROMPT", Schema: json.RawMessage(`{"type":"object"}`), MaxTokens: 9, Temperature: .5}

func TestAdapters(t *testing.T) {
	anthropic := `{"content":[{"type":"text","text":"x"},{"type":"tool_use","input":{"a":1}}],"usage":{"input_tokens":3,"output_tokens":4}}`
	openai := `{"choices":[{"message":{"content":"{\"a\":1}"}}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`
	for name, c := range map[string]struct {
		make  func(model.Options) flow.Model
		body  string
		check func(map[string]any, http.Header) bool
	}{
		"anthropic": {model.Anthropic, anthropic, func(b map[string]any, h http.Header) bool {
			return h.Get("X-Api-Key") == "k" && h.Get("Anthropic-Version") != "" && b["system"] == "sys" && b["tool_choice"] != nil
		}},
		"proxy": {model.Proxy, anthropic, func(b map[string]any, h http.Header) bool {
			return h.Get("Authorization") == "Bearer k" && b["tools"] != nil
		}},
		"openrouter": {model.OpenRouter, openai, func(b map[string]any, h http.Header) bool {
			return h.Get("Authorization") == "Bearer k" && b["response_format"] != nil && b["temperature"] == .5
		}},
	} {
		var got map[string]any
		var head http.Header
		url, _ := serve(t, &got, &head, c.body)
		r, err := c.make(model.Options{Key: "k", Model: "m", URL: url})(t.Context(), req)
		if err != nil || r.Text != `{"a":1}` || r.Usage != (flow.Usage{In: 3, Out: 4}) {
			t.Errorf("%s: %+v %v", name, r, err)
		}
		if !c.check(got, head) || got["max_tokens"] != 9.0 || got["model"] != "m" {
			t.Errorf("%s sent %v %v", name, got, head)
		}
	}
}

func TestRetriesByClass(t *testing.T) {
	ok := `{"content":[{"type":"text","text":"x"}]}`
	for _, c := range []struct {
		bodies []string
		calls  int
		good   bool
	}{
		{[]string{"429", "500", ok}, 3, true}, {[]string{"500"}, 3, false}, {[]string{"400", ok}, 1, false}, {[]string{"nonsense"}, 1, false},
	} {
		var got map[string]any
		var head http.Header
		url, calls := serve(t, &got, &head, c.bodies...)
		_, err := model.Anthropic(model.Options{URL: url, Wait: time.Millisecond})(t.Context(), flow.Request{Prompt: "PROMPT"})
		if (err == nil) != c.good || *calls != c.calls || err != nil && (!errors.Is(err, model.ErrProvider) || strings.Contains(err.Error(), "PROMPT")) {
			t.Errorf("%v: %d calls, %v", c.bodies, *calls, err)
		}
	}
	if _, err := model.OpenRouter(model.Options{URL: "http://127.0.0.1:1", Wait: time.Millisecond, Retries: -1})(t.Context(), req); !errors.Is(err, model.ErrProvider) {
		t.Errorf("nobody listens: %v", err)
	}
	if _, err := model.Proxy(model.Options{URL: ":"})(t.Context(), req); !errors.Is(err, model.ErrProvider) {
		t.Errorf("bad URL: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := model.Proxy(model.Options{URL: "http://127.0.0.1:1"})(ctx, req); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestKeysDoNotPrint(t *testing.T) {
	o := model.Options{Key: "s3cret"}
	js, _ := json.Marshal(o.Key)
	if s := fmt.Sprintf("%v %+v %#v %s", o, o, o, js); strings.Contains(s, "s3cret") {
		t.Error(s)
	}
}
