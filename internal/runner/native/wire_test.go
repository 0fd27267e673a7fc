package native

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/anthropic"
	"github.com/iris-operator/iris/internal/llm/llmtest"
	"github.com/iris-operator/iris/internal/llm/openai"
	"github.com/iris-operator/iris/internal/secret"
)

// onWires runs a test with a model of each wire against a server that refuses
// what the providers refuse.
func onWires(t *testing.T, f func(t *testing.T, s *llmtest.Server, m llm.Model)) {
	i := llm.Info{Model: "m", Window: 200_000, MaxOutput: 8000, Images: true, Thinking: true}
	for name, open := range map[string]func(url string) (llm.Model, error){
		"anthropic": func(url string) (llm.Model, error) {
			return anthropic.New(anthropic.Options{Info: i, BaseURL: url, Key: secret.New(llmtest.Key)})
		},
		"chat": func(url string) (llm.Model, error) {
			return openai.New(openai.Options{Info: i, API: llm.OpenAICompletions, BaseURL: url + "/v1", Key: secret.New(llmtest.Key)})
		},
		"responses": func(url string) (llm.Model, error) {
			return openai.New(openai.Options{Info: i, API: llm.OpenAIResponses, BaseURL: url + "/v1", Key: secret.New(llmtest.Key)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := llmtest.NewServer(t)
			m, err := open(s.URL())
			if err != nil {
				t.Fatal(err)
			}
			f(t, s, m)
		})
	}
}

// F27 against the strict validators: the session file is cut at each entry and
// within it, by a real store, and the next request is accepted on every wire.
func TestCutHistoryIsAcceptedOnEveryWire(t *testing.T) {
	onWires(t, func(t *testing.T, s *llmtest.Server, m llm.Model) {
		s.Script(func(r llmtest.Request) llmtest.Answer {
			if len(r.Results()) > 0 || strings.Contains(r.Text(), "after") {
				return llmtest.Answer{Parts: []llm.Part{llmtest.Text("done")}}
			}
			return llmtest.Answer{Parts: []llm.Part{llmtest.Thinking("hm", "sig"), llmtest.Text("look"), llmtest.Call("c1", "echo", `{"n":1}`), llmtest.Call("c2", "echo", `{"n":2}`)}}
		})
		b := newBed(t, one(m), func(o *Options) { tools(echo("echo"))(o); o.Thinking = 2000 })
		b.say("first")
		b.say("second")
		file := filepath.Join(b.root, room.Dir(), "context.jsonl")
		whole := mustRead(t, file)
		var cuts []int
		for i, c := range whole {
			if c == '\n' {
				cuts = append(cuts, i-20, i, i+1)
			}
		}
		if len(cuts) < 20 {
			t.Fatalf("%d cuts", len(cuts))
		}
		for _, cut := range cuts {
			if err := os.WriteFile(file, whole[:cut], 0o600); err != nil {
				t.Fatal(err)
			}
			b.restart()
			if _, err := b.run(b.accept("after")); err != nil {
				t.Errorf("cut at %d: %v", cut, err)
			}
		}
		for _, why := range s.Refused() {
			t.Errorf("a request was refused: %s", why)
		}
	})
}

// A turn with everything in it, twice, and after a fallback to another wire.
func TestTurnsOnEveryWire(t *testing.T) {
	onWires(t, func(t *testing.T, s *llmtest.Server, m llm.Model) {
		s.Script(func(r llmtest.Request) llmtest.Answer {
			if len(r.Results()) > 0 {
				return llmtest.Answer{Parts: []llm.Part{llmtest.Text("done")}}
			}
			return llmtest.Answer{Parts: []llm.Part{llmtest.Call("c1", "echo", `{"label":"x"}`)}}
		})
		first := newBed(t, one(m), tools(echo("echo")))
		first.say("one")
		if end := first.say("two"); end.Text != "done" || end.Usage.Calls != 2 {
			t.Errorf("end = %+v", end)
		}
		s.Script(func(r llmtest.Request) llmtest.Answer {
			return llmtest.Answer{Status: 401, Message: "no such key"}
		})
		other := scriptedOK(info)
		first.opts.Models = func(context.Context) ([]llm.Model, error) { return []llm.Model{m, other}, nil }
		first.restart()
		first.say("three")
		valid(t, other.Requests()...)
		for _, why := range s.Refused() {
			t.Errorf("a request was refused: %s", why)
		}
	})
}
