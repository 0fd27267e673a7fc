package native

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/chat"
)

var place = regexp.MustCompile(`\{\{[^}]*\}\}`)

// TestPromptTexts fills in every text and looks for places that were left empty.
func TestPromptTexts(t *testing.T) {
	names, err := filepath.Glob("prompt/*.md")
	if err != nil || len(names) < 10 {
		t.Fatalf("Glob = %v, %v", names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(data)) == "" {
			t.Errorf("%s: %v, %d bytes", name, err, len(data))
		}
	}
	n := &Native{opts: Options{
		Profile: DefaultProfile, Sandbox: "docker:box", Workspace: "/ws", Dir: "/here",
		Directory: func(chat.Address) []Entry { return []Entry{{ID: "U1", Name: "ann", Display: "Ann"}} },
		Agents: func() []AgentInfo {
			return []AgentInfo{{Name: "db", Description: "data", URL: "http://127.0.0.1:4200"}}
		},
		MCPStatus: nil,
		Sections:  func(chat.Address) []string { return []string{"## Extra\n{{text}} stays as it is"} },
	}}
	notes := Notes{Constitution: "Be {{channel}}.", System: "jq", Skills: []Skill{{Name: "a", Description: "<b>", Location: "/s"}}}
	got, err := n.system(t.Context(), chat.Address{Space: chat.Session, ID: "1"}, notes)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Be {{channel}}.", "{{text}} stays as it is", "sandbox (docker:box)", "`/here`", "/ws/SESSION-1/log.jsonl", "@ann Ann",
		"**db**: data", "http://127.0.0.1:4200/bridge", "<description>&lt;b&gt;</description>", "What it says now:\njq",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the prompt lacks %q", want)
		}
	}
	left := place.FindAllString(got, -1)
	if len(left) != 2 {
		t.Errorf("places left: %q, want the two that came in as values", left)
	}
}
