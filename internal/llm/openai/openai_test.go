package openai

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/llmtest"
	"github.com/iris-operator/iris/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var whole = llm.Compat{DeveloperRole: true, ReasoningEffort: true, Store: true}

func info() llm.Info {
	return llm.Info{Provider: "openai", Model: "gpt-test", MaxOutput: 8000, Images: true, Thinking: true}
}

// open returns a model that speaks to a fake.
func open(t testing.TB, url string, change func(*Options)) *Model {
	t.Helper()
	opts := Options{Info: info(), BaseURL: url, Key: secret.New(llmtest.Key), Compat: whole}
	if change != nil {
		change(&opts)
	}
	m, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSuite(t *testing.T) {
	for wire, api := range map[llmtest.Wire]llm.API{llmtest.Responses: llm.OpenAIResponses, llmtest.Chat: llm.OpenAICompletions} {
		t.Run(string(api), func(t *testing.T) {
			llmtest.Run(t, wire, func(t *testing.T, url string) llm.Model {
				return open(t, url, func(o *Options) { o.API = api })
			})
		})
	}
}
