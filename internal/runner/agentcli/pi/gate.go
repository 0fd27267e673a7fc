package pi

import (
	"encoding/json"
	"strings"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// An ask is a question of Pi that is open.
type ask struct {
	method   string
	question string // of an extension; empty: a tool call
	call     string
}

// A uiAnswer answers an extension.
type uiAnswer struct {
	Type      string  `json:"type"`
	ID        string  `json:"id"`
	Value     *string `json:"value,omitempty"`
	Confirmed *bool   `json:"confirmed,omitempty"`
	Cancelled bool    `json:"cancelled,omitempty"`
}

func (s *state) reply(id, value string) {
	s.say(uiAnswer{Type: "extension_ui_response", ID: id, Value: &value})
}

// withdraw ends what is asked: an abort of Pi would not.
func (s *state) withdraw() {
	for id := range s.asks {
		s.say(uiAnswer{Type: "extension_ui_response", ID: id, Cancelled: true})
		s.tell(agentcli.Event{Kind: agentcli.Withdrawn, ID: id})
	}
	clear(s.asks)
}

// answer settles an ask; one that is over is none.
func (s *state) answer(a agentcli.Answer) {
	q, open := s.asks[a.ID]
	if !open {
		return
	}
	delete(s.asks, a.ID)
	switch {
	case q.question == "":
		if !a.Allow {
			s.passed[q.call] = true
			s.steer()
		}
		word, _ := json.Marshal(map[string]any{"allow": a.Allow, "reason": a.Reason, "input": a.Input})
		s.reply(a.ID, string(word))
	case q.method == "confirm":
		yes := a.Allow && a.Picked[q.question] != no
		s.say(uiAnswer{Type: "extension_ui_response", ID: a.ID, Confirmed: &yes})
	case a.Allow && a.Picked[q.question] != "":
		s.reply(a.ID, a.Picked[q.question])
	default:
		s.say(uiAnswer{Type: "extension_ui_response", ID: a.ID, Cancelled: true})
	}
	if a.Stop {
		s.interrupt()
	}
}

// asked takes a question of an extension, ours first.
func (s *state) asked(l line) {
	q := ask{method: l.Method, question: strings.TrimSpace(l.Title + "\n" + l.Ask)}
	choices := agentcli.Choices{Question: q.question}
	switch {
	case l.Method == "setStatus" && l.StatusKey == "iris-gate":
		s.gated = true
		return
	case l.Method == "input" && l.Title == "iris-next":
		s.passed[l.Placeholder] = true
		s.steer()
		s.reply(l.ID, "")
		return
	case l.Method == "input" && l.Title == "iris-gate":
		s.gate(l)
		return
	case l.Method == "notify":
		s.tell(agentcli.Event{Kind: agentcli.Notice, Text: l.Ask})
		return
	case l.Method == "confirm":
		choices.Options = []agentcli.Option{{Label: "Yes"}, {Label: no}}
	case l.Method == "select":
		for _, o := range l.Options {
			choices.Options = append(choices.Options, agentcli.Option{Label: o})
		}
	case l.Method == "input", l.Method == "editor":
	default:
		return // nothing waits for an answer
	}
	s.asks[l.ID] = q
	s.tell(agentcli.Event{Kind: agentcli.Question, ID: l.ID, Choices: []agentcli.Choices{choices}})
}

// gate takes the question for a tool call.
func (s *state) gate(l line) {
	var call struct {
		ID    string          `json:"id"`
		Tool  string          `json:"tool"`
		Input json.RawMessage `json:"input"`
	}
	if s.interrupting || json.Unmarshal([]byte(l.Placeholder), &call) != nil || call.Tool == "" {
		s.say(uiAnswer{Type: "extension_ui_response", ID: l.ID, Cancelled: true})
		return
	}
	s.asks[l.ID] = ask{method: l.Method, call: call.ID}
	s.tell(agentcli.Event{Kind: agentcli.Permission, ID: l.ID, Tool: tool(call.ID, call.Tool, call.Input)})
}
