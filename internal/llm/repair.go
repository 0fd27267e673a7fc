package llm

import (
	"encoding/json"
	"slices"
)

// Interrupted is the result that Repair gives a call whose own result is lost.
const Interrupted = "This call was interrupted before its result was recorded. Treat it as failed: part of its effect may have happened. Check, and run it again if it is still needed."

// Repair returns a history that Valid accepts, whatever it is given: one cut at
// any point, with messages missing, or damaged. Calls without a result get an
// error result that says so, results without a call and empty messages go,
// neighbours of one side become one message where that is needed, broken
// arguments become {}, and what comes before the first user message is left
// out.
//
// A valid history comes back as it is. Otherwise the result is new; messages
// and their parts are never changed in place.
func Repair(messages []Message) []Message {
	if Valid(messages) == nil {
		return messages
	}
	var h history
	for i := range messages {
		m := messages[i]
		m.Parts = cleanParts(m.Role, m.Parts)
		switch m.Role {
		case User:
			h.user(m)
		case Assistant:
			h.assistant(m)
		}
	}
	h.settle()
	return h.out
}

// history grows message by message and is valid after settle.
type history struct {
	out []Message
}

// calls returns the calls that the message at the end answers or must answer.
func (h *history) calls() []Part {
	for i := len(h.out) - 1; i >= 0 && i >= len(h.out)-2; i-- {
		if h.out[i].Role == Assistant {
			return h.out[i].Parts
		}
	}
	return nil
}

func (h *history) last() *Message {
	if len(h.out) == 0 {
		return nil
	}
	return &h.out[len(h.out)-1]
}

func (h *history) user(m Message) {
	last, calls := h.last(), h.calls()
	var have []Part
	if last != nil && last.Role == User {
		have = last.Parts
	}
	merged := slices.Clone(have)
	for _, p := range m.Parts {
		if p.Kind == ResultPart && (countID(calls, CallPart, p.Result.ID) == 0 || countID(merged, ResultPart, p.Result.ID) > 0) {
			continue
		}
		merged = append(merged, p)
	}
	switch {
	case len(merged) == len(have):
	case have != nil:
		last.Parts = merged
	default:
		m.Parts = merged
		h.out = append(h.out, m)
	}
}

func (h *history) assistant(m Message) {
	if len(h.out) == 0 || !solid(m.Parts) {
		return
	}
	h.settle()
	last := h.last()
	if last.Role == User {
		h.out = append(h.out, m)
		return
	}
	if last.Provider != m.Provider || last.Model != m.Model {
		last.Parts = slices.DeleteFunc(slices.Clone(last.Parts), func(p Part) bool { return p.Kind == ThinkingPart })
	}
	m.Parts = slices.Concat(last.Parts, m.Parts)
	*last = m
}

// settle answers what is still open with error results.
func (h *history) settle() {
	var missing []Part
	last := h.last()
	for _, p := range h.calls() {
		if p.Kind != CallPart || last.Role == User && countID(last.Parts, ResultPart, p.Call.ID) > 0 {
			continue
		}
		missing = append(missing, Part{Kind: ResultPart, Result: &Result{ID: p.Call.ID, Name: p.Call.Name, Text: Interrupted, IsError: true}})
	}
	switch {
	case missing == nil:
	case last.Role == User:
		last.Parts = slices.Concat(missing, last.Parts)
	default:
		h.out = append(h.out, Message{Role: User, Parts: missing})
	}
}

func solid(parts []Part) bool {
	return slices.ContainsFunc(parts, func(p Part) bool { return p.Kind != ThinkingPart })
}

// cleanParts returns the parts that may stand in a message of that role.
func cleanParts(role Role, parts []Part) []Part {
	out := make([]Part, 0, len(parts))
	for _, p := range parts {
		if p.Kind == CallPart && p.Call != nil && !isObject(p.Call.Args) {
			c := *p.Call
			c.Args = json.RawMessage("{}")
			p.Call = &c
		}
		if p.Kind == ResultPart && p.Result != nil {
			p.Result = cleanResult(p.Result)
		}
		if validPart(role, &p) != nil || p.Kind == CallPart && countID(out, CallPart, p.Call.ID) > 0 {
			continue
		}
		out = append(out, p)
	}
	return out
}

// cleanResult returns r without images that are none.
func cleanResult(r *Result) *Result {
	bad := func(p Part) bool { return validImage(&p) != nil }
	if !slices.ContainsFunc(r.Images, bad) {
		return r
	}
	c := *r
	c.Images = slices.DeleteFunc(slices.Clone(r.Images), bad)
	return &c
}
