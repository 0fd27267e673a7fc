package anthropic

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/llmtest"
	"github.com/iris-operator/iris/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func info() llm.Info {
	return llm.Info{Provider: "anthropic", Model: "claude-test", MaxOutput: 8000, Images: true, Thinking: true}
}

func open(t testing.TB, url string) *Model {
	t.Helper()
	m, err := New(Options{Info: info(), BaseURL: url, Key: secret.New(llmtest.Key)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestSuite(t *testing.T) {
	llmtest.Run(t, llmtest.Anthropic, func(t *testing.T, url string) llm.Model { return open(t, url) })
}
