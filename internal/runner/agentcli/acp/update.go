package acp

import (
	"encoding/json"
	"strings"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// A tool is a tool call as it has been told so far.
type tool struct {
	agentcli.Tool
	kind           string
	parent         string
	started, ended bool
}

// update understands one update of the session. mu is held.
func (a *Agent) update(n notification) {
	u := n.Update
	switch u.Kind { // what holds also while the past is told
	case "config_option_update":
		a.models.takeOptions(u.Options)
		return
	case "usage_update":
		a.window = u.Size
		if u.Cost != nil && (u.Cost.Currency == "" || u.Cost.Currency == "USD") {
			a.cost = u.Cost.Amount
			if a.muted {
				a.spent = a.cost
			}
		}
		return
	}
	if a.muted || n.Session != a.id {
		return
	}
	switch u.Kind {
	case "agent_message_chunk":
		var b block
		if decode(u.Content, &b) != nil {
			return
		}
		text := b.Text
		if b.Type == "resource_link" {
			text = b.URI
		}
		if text == "" {
			return // the first piece of some agents
		}
		a.tellHeld()
		if a.aside(text) {
			return
		}
		if u.Message != a.said {
			a.flushText()
			a.said = u.Message
		}
		a.text.WriteString(text)
		if a.running != nil {
			a.running.spoke = true
		}
		a.events.put(agentcli.Event{Kind: agentcli.Delta, Text: text})
	case "agent_thought_chunk":
		var b block
		if decode(u.Content, &b) == nil && b.Text != "" {
			a.tellHeld()
			a.events.put(agentcli.Event{Kind: agentcli.Thought, Text: b.Text})
		}
	case "tool_call", "tool_call_update":
		a.toolCall(u.toolCall, u.Content)
	}
}

// aside tells what an agent says about itself as what it is, a notice. mu is held.
func (a *Agent) aside(text string) bool {
	rest := strings.TrimSpace(text)
	for _, s := range a.opts.Preset.faults {
		if strings.HasPrefix(rest, s) && a.running != nil {
			a.running.fault = clip(oneLine(strings.TrimPrefix(rest, "Error: ")), 500)
			return true
		}
	}
	for _, s := range a.opts.Preset.asides {
		if strings.HasPrefix(rest, s) {
			a.flushText()
			a.events.put(agentcli.Event{Kind: agentcli.Notice, Text: oneLine(strings.TrimPrefix(rest, "Info: "))})
			return true
		}
	}
	return false
}

// toolCall takes what is new of a call. The start is told when the input is
// there, or else before anything that follows; the end once.
func (a *Agent) toolCall(c toolCall, content json.RawMessage) {
	if c.ID == "" {
		return
	}
	if a.held != nil && a.held.ID != c.ID {
		a.tellHeld()
	}
	t := a.tools[c.ID]
	if t == nil {
		t = &tool{Tool: agentcli.Tool{ID: c.ID}}
		a.tools[c.ID] = t
	}
	if t.ended {
		return
	}
	t.take(c, content)
	if !t.started {
		if a.held = t; hasInput(t.Input) || c.Status == "in_progress" {
			a.tellHeld()
		}
	}
	if c.Status == "completed" || c.Status == "failed" {
		a.tellHeld()
		t.Result, t.Failed = resultOf(c.Output, content), c.Status == "failed"
		a.endTool(t)
	}
}

// tellHeld tells the start of the call that waits for its input. mu is held.
func (a *Agent) tellHeld() {
	t := a.held
	if a.held = nil; t == nil || t.started {
		return
	}
	a.flushText()
	t.started = true
	if a.running != nil {
		a.running.worked = true
	}
	a.events.put(agentcli.Event{Kind: agentcli.ToolStart, ID: t.ID, Parent: t.parent, Tool: t.Tool})
}

func (a *Agent) endTool(t *tool) {
	t.ended = true
	a.events.put(agentcli.Event{Kind: agentcli.ToolEnd, ID: t.ID, Parent: t.parent, Tool: t.Tool})
}

// flushText tells the text at hand as a whole. mu is held.
func (a *Agent) flushText() {
	if a.text.Len() > 0 {
		a.events.put(agentcli.Event{Kind: agentcli.Text, Text: a.text.String()})
		a.text.Reset()
	}
	a.said = ""
}

// flushTurn closes what a turn left open, in the order it was opened. mu is held.
func (a *Agent) flushTurn() {
	a.tellHeld()
	a.flushText()
	for _, t := range a.tools {
		if t.started && !t.ended {
			t.Failed = true
			a.endTool(t)
		}
	}
	a.tools = map[string]*tool{}
	a.once = map[string]int{}
	a.withdraw()
}
