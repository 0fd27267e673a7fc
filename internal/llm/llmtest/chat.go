package llmtest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/iris-operator/iris/internal/llm"
)

// chatWire is Chat Completions, as the strictest of the compatible services
// judge it.
type chatWire struct{}

type chatRequest struct {
	Model               string        `json:"model"`
	Messages            []chatMessage `json:"messages"`
	Tools               []chatTool    `json:"tools"`
	Stream              bool          `json:"stream"`
	StreamOptions       *chatStream   `json:"stream_options"`
	MaxTokens           int64         `json:"max_tokens"`
	MaxCompletionTokens int64         `json:"max_completion_tokens"`
	ReasoningEffort     string        `json:"reasoning_effort"`
	PromptCacheKey      string        `json:"prompt_cache_key"`
	// Known and not looked at.
	Temperature       json.RawMessage `json:"temperature"`
	TopP              json.RawMessage `json:"top_p"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	ParallelToolCalls json.RawMessage `json:"parallel_tool_calls"`
	Store             json.RawMessage `json:"store"`
	User              json.RawMessage `json:"user"`
	Metadata          json.RawMessage `json:"metadata"`
	Stop              json.RawMessage `json:"stop"`
	Seed              json.RawMessage `json:"seed"`
	SafetyIdentifier  json.RawMessage `json:"safety_identifier"`
}

type chatStream struct {
	IncludeUsage       bool  `json:"include_usage"`
	IncludeObfuscation *bool `json:"include_obfuscation"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      *bool           `json:"strict"`
}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	Name       string          `json:"name"`
	Refusal    json.RawMessage `json:"refusal"`
	Reasoning  string          `json:"reasoning_content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []chatCall      `json:"tool_calls"`
}

type chatCall struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// openAIPart is a piece of content on both OpenAI wires.
type openAIPart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	ImageURL json.RawMessage `json:"image_url"`
	Detail   string          `json:"detail"`
	// Responses only, on output_text.
	Annotations json.RawMessage `json:"annotations"`
	Logprobs    json.RawMessage `json:"logprobs"`
}

// openAIHeader checks what both OpenAI wires demand of a request.
func openAIHeader(header http.Header, body []byte) error {
	bearer := strings.TrimPrefix(header.Get("Authorization"), "Bearer ")
	if bearer == "" && header.Get("Api-Key") == "" {
		return denied{http.StatusUnauthorized, "You didn't provide an API key."}
	}
	if !strings.HasPrefix(header.Get("Content-Type"), "application/json") {
		return fmt.Errorf("unsupported content type %q", header.Get("Content-Type"))
	}
	if !utf8.Valid(body) {
		return fmt.Errorf("the body is not valid UTF-8")
	}
	return nil
}

func (chatWire) parse(header http.Header, body []byte) (Request, error) {
	r := Request{Wire: Chat}
	if err := openAIHeader(header, body); err != nil {
		return r, err
	}
	var in chatRequest
	if err := strict(body, &in); err != nil {
		return r, fmt.Errorf("unrecognized request argument: %w", err)
	}
	r.Model, r.CacheKey, r.MaxTokens = in.Model, in.PromptCacheKey, max(in.MaxTokens, in.MaxCompletionTokens)
	r.Thinking = in.ReasoningEffort != "" && in.ReasoningEffort != "none"
	switch {
	case in.Model == "":
		return r, fmt.Errorf("you must provide a model parameter")
	case !in.Stream:
		return r, fmt.Errorf("stream: this fake only streams")
	case len(in.Messages) == 0:
		return r, fmt.Errorf("[] is too short - 'messages'")
	case in.MaxTokens > 0 && in.MaxCompletionTokens > 0:
		return r, fmt.Errorf("max_tokens and max_completion_tokens exclude each other")
	}
	for i, t := range in.Tools {
		if t.Type != "function" {
			return r, fmt.Errorf("tools.%d.type: %q", i, t.Type)
		}
		if err := openAITool(&r, t.Function); err != nil {
			return r, fmt.Errorf("tools.%d.%w", i, err)
		}
	}
	var open []string
	for i, m := range in.Messages {
		var err error
		if open, err = chatMessageInto(&r, m, open); err != nil {
			return r, fmt.Errorf("messages.%d: %w", i, err)
		}
	}
	if len(open) > 0 {
		return r, fmt.Errorf("an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id': %s", strings.Join(open, ", "))
	}
	return r, nil
}

func openAITool(r *Request, f chatFunction) error {
	var schema struct {
		Type string `json:"type"`
	}
	switch {
	case len(f.Name) > 64 || !toolName.MatchString(f.Name):
		return fmt.Errorf("function.name: %q does not match '^[a-zA-Z0-9_-]{1,64}$'", f.Name)
	case len(f.Parameters) > 0 && (json.Unmarshal(f.Parameters, &schema) != nil || schema.Type != "object"):
		return fmt.Errorf("function.parameters: schema must be of type \"object\"")
	case slices.ContainsFunc(r.Tools, func(t llm.ToolSpec) bool { return t.Name == f.Name }):
		return fmt.Errorf("function.name: %q is used twice", f.Name)
	}
	r.Tools = append(r.Tools, llm.ToolSpec{Name: f.Name, Description: f.Description, Schema: f.Parameters})
	return nil
}

// chatMessageInto judges a message with the calls that are open before it, and
// returns those that are open after it.
func chatMessageInto(r *Request, m chatMessage, open []string) ([]string, error) {
	if len(open) > 0 && m.Role != "tool" {
		return nil, fmt.Errorf("tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
	}
	if m.Role != "assistant" && (m.ToolCalls != nil || m.Reasoning != "") || m.Role != "tool" && m.ToolCallID != "" {
		return nil, fmt.Errorf("a field does not belong to role %q", m.Role)
	}
	parts, err := openAIContent(m.Content, "text", "image_url")
	if err != nil {
		return nil, err
	}
	switch m.Role {
	case "system", "developer":
		if len(r.Messages) > 0 {
			return nil, fmt.Errorf("%s message must be at the beginning", m.Role)
		}
		r.System += textOf(parts)
		return nil, nil
	case "user":
		if len(parts) == 0 {
			return nil, fmt.Errorf("user message without content")
		}
		r.Messages = append(r.Messages, llm.Message{Role: llm.User, Parts: parts})
		return nil, nil
	case "assistant":
		return chatAssistant(r, m, parts)
	case "tool":
		i := slices.Index(open, m.ToolCallID)
		if i < 0 {
			return nil, fmt.Errorf("messages with role 'tool' must be a response to a preceding message with 'tool_calls': %q", m.ToolCallID)
		}
		addResult(r, m.ToolCallID, parts)
		return slices.Delete(open, i, i+1), nil
	}
	return nil, fmt.Errorf("invalid role %q", m.Role)
}

func chatAssistant(r *Request, m chatMessage, parts []llm.Part) (open []string, err error) {
	if m.ToolCalls != nil && len(m.ToolCalls) == 0 {
		return nil, fmt.Errorf("[] is too short - 'tool_calls'")
	}
	if m.Reasoning != "" {
		parts = append([]llm.Part{Thinking(m.Reasoning, "")}, parts...)
	}
	for _, c := range m.ToolCalls {
		switch {
		case c.ID == "" || c.Type != "function" || !toolName.MatchString(c.Function.Name):
			return nil, fmt.Errorf("tool_calls: id, type and function.name are required")
		case slices.Contains(open, c.ID):
			return nil, fmt.Errorf("tool_calls: id %q is used twice", c.ID)
		case !llm.IsObject(json.RawMessage(c.Function.Arguments)):
			return nil, fmt.Errorf("tool_calls: arguments of %q are not a JSON object", c.Function.Name)
		}
		open = append(open, c.ID)
		parts = append(parts, Call(c.ID, c.Function.Name, c.Function.Arguments))
	}
	if len(parts) == 0 || len(m.ToolCalls) == 0 && textOf(parts) == "" {
		return nil, fmt.Errorf("assistant message must have either content or tool_calls")
	}
	if len(r.Messages) == 0 {
		return nil, fmt.Errorf("conversation must start with a user message")
	}
	r.Messages = append(r.Messages, llm.Message{Role: llm.Assistant, Parts: parts})
	return open, nil
}

// addResult appends a result to the user message that collects them.
func addResult(r *Request, id string, parts []llm.Part) {
	res := &llm.Result{ID: id, Text: textOf(parts)}
	for _, p := range parts {
		if p.Kind == llm.ImagePart {
			res.Images = append(res.Images, p)
		}
	}
	part := llm.Part{Kind: llm.ResultPart, Result: res}
	last := len(r.Messages) - 1
	if last >= 0 && r.Messages[last].Role == llm.User && r.Messages[last].Parts[0].Kind == llm.ResultPart {
		r.Messages[last].Parts = append(r.Messages[last].Parts, part)
		return
	}
	r.Messages = append(r.Messages, llm.Message{Role: llm.User, Parts: []llm.Part{part}})
}

func textOf(parts []llm.Part) string {
	var out []string
	for _, p := range parts {
		if p.Kind == llm.TextPart {
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n")
}

// openAIContent reads content: null, a string, or a list of parts of the given
// types.
func openAIContent(raw json.RawMessage, textType, imageType string) (out []llm.Part, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if text == "" {
			return nil, nil
		}
		return []llm.Part{Text(text)}, nil
	}
	var parts []openAIPart
	if err := strict(raw, &parts); err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	for _, p := range parts {
		switch {
		case p.Type == textType && p.Text != "":
			out = append(out, Text(p.Text))
		case p.Type == imageType && imageType != "":
			image, err := dataURL(p.ImageURL)
			if err != nil {
				return nil, err
			}
			out = append(out, image)
		default:
			return nil, fmt.Errorf("content: a part of type %q with text %q does not belong here", p.Type, p.Text)
		}
	}
	return out, nil
}

// dataURL reads an image, which is {"url": …} in one wire and the URL itself in
// the other.
func dataURL(raw json.RawMessage) (llm.Part, error) {
	var url string
	var inner struct {
		URL    string `json:"url"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(raw, &url) != nil {
		if err := strict(raw, &inner); err != nil {
			return llm.Part{}, fmt.Errorf("image_url: %w", err)
		}
		url = inner.URL
	}
	mime, data, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ";base64,")
	bytes, err := base64.StdEncoding.DecodeString(data)
	if !ok || err != nil || !slices.Contains(imageTypes, mime) {
		return llm.Part{}, fmt.Errorf("image_url: not a supported image")
	}
	return llm.Part{Kind: llm.ImagePart, Mime: mime, Data: bytes}, nil
}

func (chatWire) events(r Request, a Answer) (out []event) {
	chunk := func(choices []any, usage any) {
		out = append(out, event{"", obj{"id": fmt.Sprintf("chatcmpl-%d", r.Number), "object": "chat.completion.chunk", "created": 1700000000, "model": r.Model, "choices": choices, "usage": usage}})
	}
	delta := func(d obj) { chunk([]any{obj{"index": 0, "delta": d, "finish_reason": nil}}, nil) }
	delta(obj{"role": "assistant", "content": ""})
	calls := 0
	for _, p := range a.Parts {
		switch p.Kind {
		case llm.TextPart:
			for _, s := range pieces(p.Text) {
				delta(obj{"content": s})
			}
		case llm.ThinkingPart:
			for _, s := range pieces(p.Text) {
				delta(obj{"reasoning_content": s})
			}
		case llm.CallPart:
			index := calls
			calls++
			delta(obj{"tool_calls": []any{obj{"index": index, "id": p.Call.ID, "type": "function", "function": obj{"name": p.Call.Name, "arguments": ""}}}})
			if a.Fault.WrongID {
				index += 7
			}
			for _, s := range halves(p.Call.Args) {
				delta(obj{"tool_calls": []any{obj{"index": index, "function": obj{"arguments": s}}}})
			}
		}
	}
	finish := map[llm.StopReason]string{llm.StopEnd: "stop", llm.StopTools: "tool_calls", llm.StopLength: "length", llm.StopRefused: "content_filter"}[a.Stop]
	chunk([]any{obj{"index": 0, "delta": obj{}, "finish_reason": finish}}, nil)
	u := a.Usage
	prompt := u.Input + u.CacheRead
	chunk([]any{}, obj{"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output, "prompt_tokens_details": obj{"cached_tokens": u.CacheRead}})
	return append(out, event{"", "[DONE]"})
}

func (chatWire) failure(kind, message string) event {
	return event{"", chatWire{}.refusal(0, kind, message)}
}

func (chatWire) unknown() event {
	return event{"", obj{"id": "x", "object": "chat.completion.aroma", "choices": []any{}, "aroma": "coffee"}}
}

func (chatWire) ping() string { return ": keep-alive\n\n" }

func (chatWire) refusal(status int, kind, message string) any {
	return openAIRefusal(status, kind, message)
}

func openAIRefusal(status int, kind, message string) any {
	if kind == "" {
		kind = map[int]string{400: "invalid_request_error", 401: "authentication_error", 402: "insufficient_quota", 403: "permission_error", 404: "not_found_error", 413: "invalid_request_error", 429: "rate_limit_exceeded"}[status]
	}
	if kind == "" {
		kind = "server_error"
	}
	return obj{"error": obj{"message": message, "type": kind, "param": nil, "code": kind}}
}
