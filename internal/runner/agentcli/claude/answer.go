package claude

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// refused is what Claude is told when nobody gave a reason.
const refused = "The person did not allow this. Stop here and wait for what they want instead."

// Answer implements agentcli.Agent.
func (a *Agent) Answer(ctx context.Context, ans agentcli.Answer) error {
	a.mu.Lock()
	open, ok := a.state.open[ans.ID]
	if !ok {
		a.mu.Unlock()
		return nil
	}
	delete(a.state.open, ans.ID)
	reply := verdict(open, ans)
	if ans.Allow && ans.Always && open.kind == agentcli.Permission {
		if what := like(allowed(open.tool, ans.Input)); what != "" {
			a.state.granted[what] = true
		}
	}
	if !ans.Allow && ans.Stop {
		a.state.stop = true
	}
	a.mu.Unlock()
	return a.reply(ctx, ans.ID, "success", "response", reply)
}

// A decision is what Claude gets back. Allow needs an object as input and deny a
// message: without, the call fails with a stack trace for the model.
type decision struct {
	Behavior    string          `json:"behavior"`
	Input       json.RawMessage `json:"updatedInput,omitempty"`
	Permissions []any           `json:"updatedPermissions,omitempty"`
	Message     string          `json:"message,omitempty"`
	Interrupt   bool            `json:"interrupt,omitempty"`
}

func verdict(open ask, ans agentcli.Answer) decision {
	if !ans.Allow {
		d := decision{Behavior: "deny", Message: ans.Reason, Interrupt: ans.Stop}
		if strings.TrimSpace(d.Message) == "" {
			d.Message = refused
		}
		return d
	}
	d := decision{Behavior: "allow", Input: open.tool.Input}
	switch open.kind {
	case agentcli.Question:
		d.Input = picked(open.tool.Input, ans.Picked)
	case agentcli.Permission:
		t := allowed(open.tool, ans.Input)
		d.Input = t.Input
		if ans.Always {
			d.Permissions = rule(t)
		}
	}
	return d
}

// allowed is the call as it will run.
func allowed(t agentcli.Tool, input json.RawMessage) agentcli.Tool {
	if len(input) == 0 || string(object(input)) != string(input) {
		return t
	}
	n := describe(t.ID, t.Name, input)
	n.Outside = t.Outside
	return n
}

// rule is what Claude keeps for the session, for versions and tools whose calls it
// would let pass then. Where a rule would allow more than the person saw (a star in a
// command is a pattern), there is none.
func rule(t agentcli.Tool) []any {
	r := map[string]string{"toolName": t.Name}
	switch {
	case like(t) == "":
		return nil
	case t.What == agentcli.Execute:
		if strings.Contains(t.Command, "*") {
			return nil
		}
		r["ruleContent"] = t.Command
	case t.What != agentcli.Other:
		return nil
	}
	return []any{map[string]any{"type": "addRules", "rules": []any{r}, "behavior": "allow", "destination": "session"}}
}

// picked is the input of AskUserQuestion with its answers.
func picked(raw json.RawMessage, answers map[string]string) json.RawMessage {
	var in map[string]json.RawMessage
	if json.Unmarshal(raw, &in) != nil || in == nil {
		in = map[string]json.RawMessage{}
	}
	if answers == nil {
		answers = map[string]string{}
	}
	text, err := json.Marshal(answers)
	if err != nil {
		return raw
	}
	in["answers"] = text
	whole, err := json.Marshal(in)
	if err != nil {
		return raw
	}
	return whole
}
