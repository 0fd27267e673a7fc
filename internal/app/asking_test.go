package app_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/llmtest"
)

// The tool that asks agents is offered while there are agents, from the next
// turn on.
func TestAskAgentIsOfferedWithAgents(t *testing.T) {
	model := llmtest.NewServer(t)
	offered := make(chan bool, 1)
	model.Script(func(r llmtest.Request) llmtest.Answer {
		offered <- slices.ContainsFunc(r.Tools, func(s llm.ToolSpec) bool { return s.Name == "ask_agent" })
		return llmtest.Answer{Parts: []llm.Part{llmtest.Text("well")}}
	})
	p := newPlace(t, wires(model)[0]...)
	s := p.serve()
	defer s.stop()
	id := p.session()
	registry := filepath.Join(p.workspace, "agents.json")
	for _, want := range []bool{false, true, false} {
		var err error
		if want {
			err = os.WriteFile(registry, []byte(`{"billing": {"bridge_url": "http://127.0.0.1:1"}}`), 0o600)
		} else if err = os.Remove(registry); os.IsNotExist(err) {
			err = nil
		}
		if err != nil {
			t.Fatal(err)
		}
		p.say(id, "how are you?")
		if got := <-offered; got != want {
			t.Errorf("offered: %v, want %v", got, want)
		}
	}
}
