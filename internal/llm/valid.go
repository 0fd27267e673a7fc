package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Valid reports what makes a history unusable as a request, or nil. These are
// the rules that every provider enforces and that adapters rely on:
//
//   - the first message is from the user; several messages of one side in a row
//     are fine, adapters merge them;
//   - no message and no part is empty. Text counts as empty when it is blank,
//     and thinking alone does not fill a message;
//   - images and results stand in user messages, thinking and calls in
//     assistant messages;
//   - every call has an id (used once in its message), a name and one JSON
//     object as arguments, and the very next message holds exactly one result
//     for it; there are no other results.
//
// An empty history is valid. A valid history may end with either side, but a
// request should end with the user: some models refuse to continue an answer.
func Valid(messages []Message) error {
	var open []string // ids that the next message must answer
	for i := range messages {
		m := &messages[i]
		if err := validMessage(m, open); err != nil {
			return fmt.Errorf("message %d (%s): %w", i, m.Role, err)
		}
		if i == 0 && m.Role != User {
			return fmt.Errorf("message 0 (%s): a history begins with the user", m.Role)
		}
		open = open[:0]
		for _, p := range m.Parts {
			if p.Kind == CallPart {
				open = append(open, p.Call.ID)
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("message %d (assistant): call %q has no result", len(messages)-1, open[0])
	}
	return nil
}

func validMessage(m *Message, open []string) error {
	if m.Role != User && m.Role != Assistant {
		return fmt.Errorf("unknown role %q", m.Role)
	}
	solid := false
	for i := range m.Parts {
		if err := validPart(m.Role, &m.Parts[i]); err != nil {
			return fmt.Errorf("part %d (%s): %w", i, m.Parts[i].Kind, err)
		}
		solid = solid || m.Parts[i].Kind != ThinkingPart
	}
	if !solid {
		return fmt.Errorf("empty message")
	}
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Kind == CallPart && countID(m.Parts, CallPart, p.Call.ID) > 1 {
			return fmt.Errorf("call id %q is used twice", p.Call.ID)
		}
	}
	results := 0
	for i := range m.Parts {
		if m.Parts[i].Kind == ResultPart {
			results++
		}
	}
	for _, id := range open {
		if n := countID(m.Parts, ResultPart, id); n != 1 {
			return fmt.Errorf("call %q has %d results, want 1", id, n)
		}
	}
	if results != len(open) {
		return fmt.Errorf("%d results for %d calls", results, len(open))
	}
	return nil
}

func validPart(role Role, p *Part) error {
	switch p.Kind {
	case TextPart:
		if blank(p.Text) {
			return fmt.Errorf("blank text")
		}
		return nil
	case ThinkingPart:
		if role != Assistant {
			return fmt.Errorf("not the assistant's")
		}
		if p.Text == "" && p.Opaque == "" {
			return fmt.Errorf("empty thinking")
		}
		return nil
	case ImagePart:
		if role != User {
			return fmt.Errorf("not the user's")
		}
		return validImage(p)
	case CallPart:
		if role != Assistant || p.Call == nil {
			return fmt.Errorf("not an assistant's call")
		}
		if p.Call.ID == "" || p.Call.Name == "" {
			return fmt.Errorf("call without id or name")
		}
		if !isObject(p.Call.Args) {
			return fmt.Errorf("arguments of %q are not one JSON object", p.Call.Name)
		}
		return nil
	case ResultPart:
		if role != User || p.Result == nil {
			return fmt.Errorf("not a user's result")
		}
		for i := range p.Result.Images {
			if err := validImage(&p.Result.Images[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("unknown kind")
}

func validImage(p *Part) error {
	if p.Kind != ImagePart || p.Mime == "" || len(p.Data) == 0 {
		return fmt.Errorf("image without type or data")
	}
	return nil
}

// countID counts parts of a kind with an id. Messages have few calls, so this
// beats a map.
func countID(parts []Part, kind PartKind, id string) (n int) {
	for i := range parts {
		if p := &parts[i]; p.Kind == kind && (kind == CallPart && p.Call.ID == id || kind == ResultPart && p.Result.ID == id) {
			n++
		}
	}
	return n
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

// isObject reports whether raw is exactly one JSON object.
func isObject(raw json.RawMessage) bool {
	t := bytes.TrimLeft(raw, " \t\r\n")
	return len(t) > 0 && t[0] == '{' && json.Valid(t)
}
