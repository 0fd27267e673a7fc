package llmtest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/iris-operator/iris/internal/llm"
)

func result(id, text string) llm.Part {
	return llm.Part{Kind: llm.ResultPart, Result: &llm.Result{ID: id, Name: "bash", Text: text}}
}

// Foreign returns a valid history as another provider might have left it: ids
// no service would make, used again in a later turn, thinking of other models,
// bytes that are not UTF-8, results in another order, several messages of one
// side in a row.
func Foreign() []llm.Message {
	image := llm.Part{Kind: llm.ImagePart, Mime: "image/jpeg", Data: []byte{0xff, 0xd8, 0xff}}
	long := "call|with/odd:characters," + strings.Repeat("x", 100)
	seen := result(long, "seen")
	seen.Result.Images = []llm.Part{image}
	failed := result("functions.bash:0", " ")
	failed.Result.IsError = true
	user := func(parts ...llm.Part) llm.Message { return llm.Message{Role: llm.User, Parts: parts} }
	other := func(parts ...llm.Part) llm.Message {
		return llm.Message{Role: llm.Assistant, Parts: parts, Provider: "elsewhere", Model: "m-1", Stop: llm.StopEnd}
	}
	return []llm.Message{
		user(Text("hello \xff\xfe bytes"), image),
		user(Text("and another")),
		other(Thinking("I think", "opaque of another"), Text("hi")),
		other(Text("still me")),
		user(Text("run it")),
		other(Thinking("", "redacted:abc"), Call("functions.bash:0", "bash", "{\"command\":\"echo \xff\"}"), Call(long, "read", " {} ")),
		user(Text("meanwhile"), seen, failed),
		other(Text("again \x00 with controls"), Call("functions.bash:0", "bash", `{"a":[1,{"b":null}]}`)),
		user(result("functions.bash:0", "fine")),
		other(Text("done \n")),
		user(Text("more?")),
	}
}

func (s suite) foreign(t *testing.T) {
	server, m := s.start(t)
	history := Foreign()
	if err := llm.Valid(history); err != nil {
		t.Fatal(err)
	}
	for _, thinking := range []int64{0, 2048} {
		h := listen(t, m.Stream(t.Context(), llm.Request{Messages: history, Thinking: thinking}))
		if h.err != nil || !strings.HasPrefix(h.text, "ok: more?") {
			t.Fatalf("Stream = %q, %v", h.text, h.err)
		}
	}
	results := 0
	for _, msg := range server.Requests()[0].Messages {
		for _, p := range msg.Parts {
			if p.Kind == llm.ThinkingPart {
				t.Errorf("thinking of another provider is sent: %+v", p)
			}
			if p.Result != nil {
				results++
			}
		}
	}
	if results != 3 {
		t.Errorf("%d results arrived, want 3", results)
	}
}

// repaired is F27: whatever is left of a history, the service takes what Repair
// makes of it.
func (s suite) repaired(t *testing.T) {
	_, m := s.start(t)
	whole := append(Foreign(), llm.Message{Role: llm.Assistant, Parts: []llm.Part{Call("last", "bash", `{"command":"x"}`)}})
	check := func(what string, history []llm.Message) {
		t.Helper()
		history = append(llm.Repair(history), llm.Message{Role: llm.User, Parts: []llm.Part{Text("go on")}})
		if h := listen(t, m.Stream(t.Context(), llm.Request{Messages: history, Thinking: 2048})); h.err != nil {
			t.Fatalf("%s: %v", what, h.err)
		}
	}
	for i := range whole {
		check(fmt.Sprintf("first %d messages", i), whole[:i])
		check(fmt.Sprintf("from message %d", i), whole[i:])
		without := append(append([]llm.Message(nil), whole[:i]...), whole[i+1:]...)
		check(fmt.Sprintf("without message %d", i), without)
	}
	lines, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	var back []llm.Message
	if err := json.Unmarshal(lines, &back); err != nil {
		t.Fatal(err)
	}
	check("written and read back", back)
}
