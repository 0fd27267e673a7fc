package llmtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/llm"
)

// anthropicWire is the Messages API, version 2023-06-01.
type anthropicWire struct{}

type messagesRequest struct {
	Model         string          `json:"model"`
	MaxTokens     int64           `json:"max_tokens"`
	Stream        bool            `json:"stream"`
	System        json.RawMessage `json:"system"`
	Messages      []rawMessage    `json:"messages"`
	Tools         []messagesTool  `json:"tools"`
	Thinking      *thinkingConfig `json:"thinking"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	Metadata      json.RawMessage `json:"metadata"`
	StopSequences []string        `json:"stop_sequences"`
	CacheControl  *cacheControl   `json:"cache_control"`
}

type rawMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type messagesTool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"input_schema"`
	Type         string          `json:"type"`
	CacheControl *cacheControl   `json:"cache_control"`
}

type thinkingConfig struct {
	Type         string `json:"type"`
	BudgetTokens int64  `json:"budget_tokens"`
	Display      string `json:"display"`
}

type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl"`
}

type contentBlock struct {
	Type         string          `json:"type"`
	Text         *string         `json:"text"`
	Thinking     *string         `json:"thinking"`
	Signature    string          `json:"signature"`
	Data         string          `json:"data"`
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	ToolUseID    string          `json:"tool_use_id"`
	Content      json.RawMessage `json:"content"`
	IsError      bool            `json:"is_error"`
	Source       *imageSource    `json:"source"`
	CacheControl *cacheControl   `json:"cache_control"`
}

type imageSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
}

// allowed lists the fields of each kind of block besides type.
var allowed = map[string][]string{
	"text":              {"text", "cache_control"},
	"image":             {"source", "cache_control"},
	"thinking":          {"thinking", "signature"},
	"redacted_thinking": {"data"},
	"tool_use":          {"id", "name", "input", "cache_control"},
	"tool_result":       {"tool_use_id", "content", "is_error", "cache_control"},
}

var toolID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

func (anthropicWire) parse(header http.Header, body []byte) (Request, error) {
	r := Request{Wire: Anthropic}
	bearer := strings.TrimPrefix(header.Get("Authorization"), "Bearer ")
	if header.Get("X-Api-Key") == "" && bearer == "" {
		return r, denied{http.StatusUnauthorized, "x-api-key header is required"}
	}
	if v := header.Get("Anthropic-Version"); v != "2023-06-01" {
		return r, fmt.Errorf("anthropic-version: %q is not a valid version", v)
	}
	if !utf8.Valid(body) {
		return r, fmt.Errorf("the body is not valid UTF-8")
	}
	var in messagesRequest
	if err := strict(body, &in); err != nil {
		return r, fmt.Errorf("%w", err)
	}
	r.Model, r.MaxTokens, r.Thinking = in.Model, in.MaxTokens, in.Thinking != nil && in.Thinking.Type != "disabled"
	switch {
	case in.Model == "":
		return r, fmt.Errorf("model: field required")
	case in.MaxTokens < 1:
		return r, fmt.Errorf("max_tokens: field required")
	case !in.Stream:
		return r, fmt.Errorf("stream: this fake only streams")
	case len(in.Messages) == 0:
		return r, fmt.Errorf("messages: at least one message is required")
	}
	p := messagesParser{r: &r, seen: map[string]bool{}}
	p.marker(in.CacheControl)
	if err := p.system(in.System); err != nil {
		return r, err
	}
	if err := p.tools(in.Tools); err != nil {
		return r, err
	}
	for i, m := range in.Messages {
		if err := p.message(m, i == len(in.Messages)-1); err != nil {
			return r, fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	return r, p.whole(in.Thinking)
}

// messagesParser collects a request while it is judged.
type messagesParser struct {
	r    *Request
	seen map[string]bool // ids of tool_use blocks
	bad  error           // the first bad cache marker
}

func (p *messagesParser) marker(c *cacheControl) {
	if c == nil {
		return
	}
	p.r.Markers++
	if c.Type != "ephemeral" && p.bad == nil {
		p.bad = fmt.Errorf("cache_control.type: %q is not ephemeral", c.Type)
	}
}

func (p *messagesParser) system(raw json.RawMessage) error {
	blocks, err := blocksOf(raw)
	if err != nil {
		return fmt.Errorf("system: %w", err)
	}
	for _, b := range blocks {
		if b.Type != "text" || b.Text == nil || strings.TrimSpace(*b.Text) == "" {
			return fmt.Errorf("system: text content blocks must be non-empty")
		}
		p.marker(b.CacheControl)
		p.r.System += *b.Text
	}
	return nil
}

func (p *messagesParser) tools(tools []messagesTool) error {
	names := map[string]bool{}
	for i, t := range tools {
		var schema struct {
			Type string `json:"type"`
		}
		switch {
		case !toolName.MatchString(t.Name):
			return fmt.Errorf("tools.%d.custom.name: String should match pattern '%s'", i, toolName)
		case names[t.Name]:
			return fmt.Errorf("tools: Tool names must be unique")
		case json.Unmarshal(t.InputSchema, &schema) != nil || schema.Type != "object":
			return fmt.Errorf("tools.%d.custom.input_schema.type: Field required", i)
		}
		names[t.Name] = true
		p.marker(t.CacheControl)
		p.r.Tools = append(p.r.Tools, llm.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.InputSchema})
	}
	return nil
}

// blocksOf reads content: a string, or a list of blocks whose fields fit their
// type.
func blocksOf(raw json.RawMessage) ([]contentBlock, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []contentBlock{{Type: "text", Text: &text}}, nil
	}
	var blocks []contentBlock
	if err := strict(raw, &blocks); err != nil {
		return nil, err
	}
	var fields []map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	for i, f := range fields {
		known, ok := allowed[blocks[i].Type]
		if !ok {
			return nil, fmt.Errorf("%d: input tag %q does not match any of the expected tags", i, blocks[i].Type)
		}
		for name := range f {
			if name != "type" && !slices.Contains(known, name) {
				return nil, fmt.Errorf("%d.%s.%s: Extra inputs are not permitted", i, blocks[i].Type, name)
			}
		}
	}
	return blocks, nil
}

func (p *messagesParser) message(m rawMessage, last bool) error {
	if m.Role != "user" && m.Role != "assistant" {
		return fmt.Errorf("unexpected role %q; use the top-level system parameter", m.Role)
	}
	blocks, err := blocksOf(m.Content)
	if err != nil {
		return fmt.Errorf("content.%w", err)
	}
	if len(blocks) == 0 && !(last && m.Role == "assistant") {
		return fmt.Errorf("all messages must have non-empty content except for the optional final assistant message")
	}
	msg := llm.Message{Role: llm.Role(m.Role)}
	for i := range blocks {
		part, err := p.block(&blocks[i], msg.Role)
		if err != nil {
			return fmt.Errorf("content.%d: %w", i, err)
		}
		msg.Parts = append(msg.Parts, part)
	}
	if n := len(msg.Parts); n > 0 && last && msg.Role == llm.Assistant && strings.TrimRight(msg.Parts[n-1].Text, " \n\t") != msg.Parts[n-1].Text {
		return fmt.Errorf("final assistant content cannot end with trailing whitespace")
	}
	// The service combines neighbours of one role before it checks the rest.
	if n := len(p.r.Messages); n > 0 && p.r.Messages[n-1].Role == msg.Role {
		p.r.Messages[n-1].Parts = append(p.r.Messages[n-1].Parts, msg.Parts...)
	} else {
		p.r.Messages = append(p.r.Messages, msg)
	}
	return nil
}

// block turns a block into a part.
func (p *messagesParser) block(b *contentBlock, role llm.Role) (llm.Part, error) {
	p.marker(b.CacheControl)
	if want := map[string]llm.Role{"image": llm.User, "tool_result": llm.User, "tool_use": llm.Assistant, "thinking": llm.Assistant, "redacted_thinking": llm.Assistant}[b.Type]; want != "" && want != role {
		return llm.Part{}, fmt.Errorf("`%s` blocks can only be in `%s` messages", b.Type, want)
	}
	switch b.Type {
	case "text":
		if b.Text == nil || strings.TrimSpace(*b.Text) == "" {
			return llm.Part{}, fmt.Errorf("text content blocks must contain non-whitespace text")
		}
		return Text(*b.Text), nil
	case "thinking":
		if b.Thinking == nil || b.Signature == "" {
			return llm.Part{}, fmt.Errorf("thinking.signature: Field required")
		}
		return Thinking(*b.Thinking, b.Signature), nil
	case "redacted_thinking":
		if b.Data == "" {
			return llm.Part{}, fmt.Errorf("redacted_thinking.data: Field required")
		}
		return Thinking("", "redacted:"+b.Data), nil
	case "image":
		return imagePart(b.Source)
	case "tool_use":
		if !toolID.MatchString(b.ID) {
			return llm.Part{}, fmt.Errorf("tool_use.id: String should match pattern '%s'", toolID)
		}
		if p.seen[b.ID] {
			return llm.Part{}, fmt.Errorf("`tool_use` ids must be unique")
		}
		p.seen[b.ID] = true
		if !toolName.MatchString(b.Name) || !llm.IsObject(b.Input) {
			return llm.Part{}, fmt.Errorf("tool_use.input: Input should be a valid dictionary")
		}
		return Call(b.ID, b.Name, string(b.Input)), nil
	}
	return p.toolResult(b)
}

func (p *messagesParser) toolResult(b *contentBlock) (llm.Part, error) {
	blocks, err := blocksOf(b.Content)
	if err != nil {
		return llm.Part{}, fmt.Errorf("tool_result.content.%w", err)
	}
	if b.IsError && len(blocks) == 0 {
		return llm.Part{}, fmt.Errorf("tool_result: content cannot be empty if `is_error` is true")
	}
	res := &llm.Result{ID: b.ToolUseID, IsError: b.IsError}
	for i := range blocks {
		if t := blocks[i].Type; t != "text" && t != "image" {
			return llm.Part{}, fmt.Errorf("tool_result.content.%d: unexpected %s", i, t)
		}
		inner, err := p.block(&blocks[i], llm.User)
		if err != nil {
			return llm.Part{}, fmt.Errorf("tool_result.content.%d: %w", i, err)
		}
		if inner.Kind == llm.ImagePart {
			res.Images = append(res.Images, inner)
		}
		res.Text += inner.Text
	}
	return llm.Part{Kind: llm.ResultPart, Result: res}, nil
}

func imagePart(s *imageSource) (llm.Part, error) {
	if s == nil || s.Type != "base64" || !slices.Contains(imageTypes, s.MediaType) {
		return llm.Part{}, fmt.Errorf("image.source: unsupported")
	}
	data, err := base64.StdEncoding.DecodeString(s.Data)
	if err != nil || len(data) == 0 {
		return llm.Part{}, fmt.Errorf("image.source.base64: invalid base64 data")
	}
	return llm.Part{Kind: llm.ImagePart, Mime: s.MediaType, Data: data}, nil
}

// whole judges what only the whole request shows.
func (p *messagesParser) whole(thinking *thinkingConfig) error {
	messages := p.r.Messages
	if p.bad != nil {
		return p.bad
	}
	if p.r.Markers > 4 {
		return fmt.Errorf("a maximum of 4 blocks with cache_control may be provided. Found %d", p.r.Markers)
	}
	if messages[0].Role != llm.User {
		return fmt.Errorf("messages: first message must use the \"user\" role")
	}
	if err := paired(messages); err != nil {
		return err
	}
	if thinking == nil || thinking.Type != "enabled" {
		return nil
	}
	if thinking.BudgetTokens < 1024 || thinking.BudgetTokens >= p.r.MaxTokens {
		return fmt.Errorf("thinking.enabled.budget_tokens: must be at least 1024 and less than max_tokens")
	}
	if n := len(messages); n > 1 && messages[n-1].Role == llm.User && messages[n-1].Parts[0].Kind == llm.ResultPart && messages[n-2].Parts[0].Kind != llm.ThinkingPart {
		return fmt.Errorf("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`", n-2, messages[n-2].Parts[0].Kind)
	}
	return nil
}

// paired checks calls against results: all in the next message, first in it.
func paired(messages []llm.Message) error {
	var open []string
	for i, m := range messages {
		var got []string
		for j, part := range m.Parts {
			if part.Kind != llm.ResultPart {
				continue
			}
			if j != len(got) {
				return fmt.Errorf("messages.%d: tool_result blocks must come first", i)
			}
			if !slices.Contains(open, part.Result.ID) || slices.Contains(got, part.Result.ID) {
				return fmt.Errorf("messages.%d: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message", i, part.Result.ID)
			}
			got = append(got, part.Result.ID)
		}
		if len(got) != len(open) {
			return fmt.Errorf("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s", i-1, strings.Join(open, ", "))
		}
		open = nil
		for _, part := range m.Parts {
			if part.Kind == llm.CallPart {
				open = append(open, part.Call.ID)
			}
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("messages: `tool_use` ids were found without `tool_result` blocks immediately after: %s", strings.Join(open, ", "))
	}
	return nil
}

func (anthropicWire) events(r Request, a Answer) []event {
	ev := func(kind string, fields obj) event {
		fields["type"] = kind
		return event{kind, fields}
	}
	u := a.Usage
	out := []event{ev("message_start", obj{"message": obj{
		"id": fmt.Sprintf("msg_%d", r.Number), "type": "message", "role": "assistant", "model": r.Model, "content": []any{}, "stop_reason": nil, "stop_sequence": nil,
		"usage": obj{"input_tokens": u.Input, "cache_creation_input_tokens": u.CacheWrite, "cache_read_input_tokens": u.CacheRead, "output_tokens": 1},
	}})}
	for i, p := range a.Parts {
		index := i
		start := func(block obj) { out = append(out, ev("content_block_start", obj{"index": i, "content_block": block})) }
		delta := func(d obj) { out = append(out, ev("content_block_delta", obj{"index": index, "delta": d})) }
		switch p.Kind {
		case llm.TextPart:
			start(obj{"type": "text", "text": ""})
			for _, s := range pieces(p.Text) {
				delta(obj{"type": "text_delta", "text": s})
			}
		case llm.ThinkingPart:
			if data, ok := strings.CutPrefix(p.Opaque, "redacted:"); ok {
				start(obj{"type": "redacted_thinking", "data": data})
				break
			}
			start(obj{"type": "thinking", "thinking": "", "signature": ""})
			for _, s := range pieces(p.Text) {
				delta(obj{"type": "thinking_delta", "thinking": s})
			}
			delta(obj{"type": "signature_delta", "signature": p.Opaque})
		case llm.CallPart:
			start(obj{"type": "tool_use", "id": p.Call.ID, "name": p.Call.Name, "input": obj{}})
			if a.Fault.WrongID {
				index += 7
			}
			for _, s := range halves(p.Call.Args) {
				delta(obj{"type": "input_json_delta", "partial_json": s})
			}
		}
		out = append(out, ev("content_block_stop", obj{"index": i}))
	}
	stop := map[llm.StopReason]string{llm.StopEnd: "end_turn", llm.StopTools: "tool_use", llm.StopLength: "max_tokens", llm.StopRefused: "refusal"}[a.Stop]
	return append(out,
		ev("message_delta", obj{"delta": obj{"stop_reason": stop, "stop_sequence": nil}, "usage": obj{"output_tokens": u.Output}}),
		ev("message_stop", obj{}))
}

func (anthropicWire) failure(kind, message string) event {
	return event{"error", anthropicWire{}.refusal(0, kind, message)}
}

func (anthropicWire) unknown() event {
	return event{"content_block_aroma", obj{"type": "content_block_aroma", "index": 0, "delta": obj{"type": "aroma_delta", "aroma": "coffee"}}}
}

func (anthropicWire) ping() string {
	return "event: ping\ndata: {\"type\": \"ping\"}\n\n: keep-alive\n\n"
}

func (anthropicWire) refusal(status int, kind, message string) any {
	if kind == "" {
		kind = map[int]string{400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error"}[status]
	}
	if kind == "" {
		kind = "api_error"
	}
	return obj{"type": "error", "error": obj{"type": kind, "message": message}, "request_id": "req_1"}
}
