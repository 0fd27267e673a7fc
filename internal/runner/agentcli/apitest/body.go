package apitest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// message is a body, as far as the rules look at it.
type message struct {
	Model     string          `json:"model"`
	MaxTokens int64           `json:"max_tokens"`
	Stream    bool            `json:"stream"`
	System    json.RawMessage `json:"system"`
	Messages  []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Type   string          `json:"type"`
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"input_schema"`
	} `json:"tools"`
	Thinking struct {
		Type   string `json:"type"`
		Budget int64  `json:"budget_tokens"`
	} `json:"thinking"`
}

type part struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Signature string          `json:"signature"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	ToolUseID string          `json:"tool_use_id"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	Source    struct {
		Type  string `json:"type"`
		Media string `json:"media_type"`
		Data  string `json:"data"`
	} `json:"source"`
	Cache *struct {
		Type string `json:"type"`
	} `json:"cache_control"`
}

var (
	toolName   = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
)

// maxMarkers is how many cache markers the API takes.
const maxMarkers = 4

// read judges a body as the API does and writes into r what it says.
func read(body []byte, r *Request) (m message, err error) {
	if err := json.Unmarshal(body, &m); err != nil {
		return m, fmt.Errorf("the body is no JSON: %w", err)
	}
	r.Model, r.Turns = m.Model, len(m.Messages)
	j := judge{r: r, calls: map[string]bool{}}
	switch {
	case r.Key == "":
		return m, fmt.Errorf("x-api-key header is required")
	case m.Model == "":
		return m, fmt.Errorf("model: field required")
	case m.MaxTokens < 1:
		return m, fmt.Errorf("max_tokens: field required")
	case m.Thinking.Type == "enabled" && (m.Thinking.Budget < 1024 || m.Thinking.Budget >= m.MaxTokens):
		return m, fmt.Errorf("thinking.budget_tokens: must be at least 1024 and below max_tokens")
	case len(m.Messages) == 0:
		return m, fmt.Errorf("messages: at least one message is required")
	case m.Messages[0].Role != "user":
		return m, fmt.Errorf("messages: first message must use the \"user\" role")
	}
	system, err := parts(m.System)
	if err != nil {
		return m, fmt.Errorf("system: %w", err)
	}
	for _, p := range system {
		if p.Type != "text" || strings.TrimSpace(p.Text) == "" {
			return m, fmt.Errorf("system: text content blocks must be non-empty")
		}
		j.mark(p)
		r.System += p.Text
	}
	if err := j.tools(m); err != nil {
		return m, err
	}
	role := ""
	for i, msg := range m.Messages {
		list, err := parts(msg.Content)
		if err == nil {
			err = j.message(msg.Role, list, msg.Role != role)
		}
		if err != nil {
			return m, fmt.Errorf("messages.%d: %w", i, err)
		}
		role = msg.Role
	}
	if err := j.answered(); err != nil {
		return m, err
	}
	if j.markers > maxMarkers {
		return m, fmt.Errorf("a maximum of %d blocks with cache_control may be provided. Found %d", maxMarkers, j.markers)
	}
	r.Text = strings.Join(j.texts, "\n")
	return m, nil
}

// judge goes through a body.
type judge struct {
	r       *Request
	calls   map[string]bool // ids of all tool calls
	open    []string        // calls of the message before that have no result yet
	texts   []string        // what the user said last
	markers int
}

func (j *judge) mark(p part) {
	if p.Cache != nil {
		j.markers++
	}
}

func (j *judge) tools(m message) error {
	for i, t := range m.Tools {
		if !toolName.MatchString(t.Name) {
			return fmt.Errorf("tools.%d.name: %q does not match %s", i, t.Name, toolName)
		}
		if slices.Contains(j.r.Tools, t.Name) {
			return fmt.Errorf("tools: Tool names must be unique (%s)", t.Name)
		}
		var schema struct {
			Type string `json:"type"`
		}
		if own := t.Type == "" || t.Type == "custom"; own && (json.Unmarshal(t.Schema, &schema) != nil || schema.Type != "object") {
			return fmt.Errorf("tools.%d.input_schema.type: field required", i)
		}
		j.r.Tools = append(j.r.Tools, t.Name)
	}
	return nil
}

// message judges one; fresh says that the one before had another role.
func (j *judge) message(role string, list []part, fresh bool) error {
	if role != "user" && role != "assistant" && (role != "system" || j.r.Beta == "") {
		return fmt.Errorf("unexpected role %q", role)
	}
	if role == "system" { // a beta: instructions amid the conversation, none of what the user said
		for _, p := range list {
			if p.Type != "text" {
				return fmt.Errorf("a system message holds %s", p.Type)
			}
			j.mark(p)
		}
		return nil
	}
	if len(list) == 0 {
		return fmt.Errorf("content must not be empty")
	}
	if role == "assistant" {
		if err := j.answered(); fresh && err != nil {
			return err
		}
		// A new answer: what was said before it is old.
		j.texts, j.r.Results = nil, nil
	}
	// What a turn that failed or was stopped had said is old as well.
	if slices.ContainsFunc(list, func(p part) bool { return p.Type == "text" && significant(p.Text) }) {
		j.texts = nil
	}
	for i, p := range list {
		j.mark(p)
		if p.Type == "text" && strings.HasPrefix(strings.TrimSpace(p.Text), "[Request interrupted") {
			j.texts = nil
		}
		if err := j.part(role, p); err != nil {
			return fmt.Errorf("content.%d: %w", i, err)
		}
	}
	return nil
}

func (j *judge) part(role string, p part) error {
	switch p.Type {
	case "text":
		if strings.TrimSpace(p.Text) == "" {
			return fmt.Errorf("text content blocks must be non-empty")
		}
		if role == "user" && significant(p.Text) {
			j.texts = append(j.texts, p.Text)
		}
	case "image":
		return j.image(p)
	case "tool_use":
		var input map[string]any
		if role != "assistant" || p.ID == "" || j.calls[p.ID] || !toolName.MatchString(p.Name) || json.Unmarshal(p.Input, &input) != nil {
			return fmt.Errorf("tool_use %q (%s): wrong role, id, name or input", p.ID, p.Name)
		}
		j.calls[p.ID] = true
		j.open = append(j.open, p.ID)
	case "tool_result":
		return j.result(role, p)
	case "thinking":
		if role != "assistant" || p.Signature == "" {
			return fmt.Errorf("thinking.signature: field required")
		}
	case "redacted_thinking", "document", "server_tool_use", "web_search_tool_result":
	default:
		return fmt.Errorf("input tag %q does not match any of the expected tags", p.Type)
	}
	return nil
}

func (j *judge) image(p part) error {
	data, err := base64.StdEncoding.DecodeString(p.Source.Data)
	if p.Source.Type != "base64" || !slices.Contains(imageTypes, p.Source.Media) || err != nil || len(data) == 0 {
		return fmt.Errorf("image.source: %s, %s, %d bytes: %v", p.Source.Type, p.Source.Media, len(data), err)
	}
	j.r.Images++
	return nil
}

func (j *judge) result(role string, p part) error {
	i := slices.Index(j.open, p.ToolUseID)
	if role != "user" || i < 0 {
		return fmt.Errorf("unexpected tool_use_id %q in a tool_result", p.ToolUseID)
	}
	j.open = slices.Delete(j.open, i, i+1)
	inner, err := parts(p.Content)
	if err != nil {
		return fmt.Errorf("tool_result: %w", err)
	}
	res := Result{ID: p.ToolUseID, Failed: p.IsError}
	for _, q := range inner {
		switch q.Type {
		case "text":
			res.Text += q.Text
		case "image":
			if err := j.image(q); err != nil {
				return err
			}
		case "tool_reference":
		default:
			return fmt.Errorf("tool_result: unexpected %s", q.Type)
		}
	}
	j.r.Results = append(j.r.Results, res)
	j.texts = nil
	return nil
}

// answered reports calls without a result.
func (j *judge) answered() error {
	if len(j.open) == 0 {
		return nil
	}
	return fmt.Errorf("`tool_use` ids were found without `tool_result` blocks immediately after: %s", strings.Join(j.open, ", "))
}

// parts reads content: a string, or a list of parts.
func parts(raw json.RawMessage) (list []part, err error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []part{{Type: "text", Text: text}}, nil
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("content is no list of parts: %w", err)
	}
	return list, nil
}

// significant reports that a person wrote it, and not the program around them.
func significant(text string) bool {
	text = strings.TrimSpace(text)
	for _, prefix := range []string{"<system-reminder>", "[Request interrupted", "<local-command"} {
		if strings.HasPrefix(text, prefix) {
			return false
		}
	}
	return true
}
