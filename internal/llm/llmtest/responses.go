package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
)

// responsesWire is the OpenAI Responses API, used without its memory: every
// request carries the whole history.
type responsesWire struct{}

type responsesRequest struct {
	Model           string          `json:"model"`
	Input           json.RawMessage `json:"input"`
	Instructions    string          `json:"instructions"`
	Tools           []responsesTool `json:"tools"`
	Stream          bool            `json:"stream"`
	MaxOutputTokens int64           `json:"max_output_tokens"`
	PromptCacheKey  string          `json:"prompt_cache_key"`
	Reasoning       *struct {
		Effort  string `json:"effort"`
		Summary string `json:"summary"`
	} `json:"reasoning"`
	// Known and not looked at.
	Store             json.RawMessage `json:"store"`
	Include           json.RawMessage `json:"include"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	ParallelToolCalls json.RawMessage `json:"parallel_tool_calls"`
	Temperature       json.RawMessage `json:"temperature"`
	TopP              json.RawMessage `json:"top_p"`
	Text              json.RawMessage `json:"text"`
	Truncation        json.RawMessage `json:"truncation"`
	Metadata          json.RawMessage `json:"metadata"`
	User              json.RawMessage `json:"user"`
	SafetyIdentifier  json.RawMessage `json:"safety_identifier"`
}

type responsesTool struct {
	Type string `json:"type"`
	chatFunction
}

type responsesItem struct {
	Type      string          `json:"type"`
	ID        string          `json:"id"`
	Status    string          `json:"status"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
	Summary   []openAIPart    `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
}

func (responsesWire) parse(header http.Header, body []byte) (Request, error) {
	r := Request{Wire: Responses}
	if err := openAIHeader(header, body); err != nil {
		return r, err
	}
	var in responsesRequest
	if err := strict(body, &in); err != nil {
		return r, fmt.Errorf("unknown parameter: %w", err)
	}
	r.Model, r.System, r.CacheKey, r.MaxTokens = in.Model, in.Instructions, in.PromptCacheKey, in.MaxOutputTokens
	r.Thinking = in.Reasoning != nil && in.Reasoning.Effort != "" && in.Reasoning.Effort != "none"
	switch {
	case in.Model == "":
		return r, fmt.Errorf("missing required parameter: 'model'")
	case !in.Stream:
		return r, fmt.Errorf("stream: this fake only streams")
	case in.MaxOutputTokens != 0 && in.MaxOutputTokens < 16:
		return r, fmt.Errorf("max_output_tokens: expected a value >= 16")
	}
	for i, t := range in.Tools {
		if t.Type != "function" {
			return r, fmt.Errorf("tools[%d].type: %q", i, t.Type)
		}
		if err := openAITool(&r, t.chatFunction); err != nil {
			return r, fmt.Errorf("tools[%d].%w", i, err)
		}
	}
	items, err := responsesItems(in.Input)
	if err != nil {
		return r, err
	}
	return r, responsesHistory(&r, items)
}

func responsesItems(raw json.RawMessage) (items []responsesItem, err error) {
	var text string
	if json.Unmarshal(raw, &text) == nil && text != "" {
		content, err := json.Marshal(text)
		return []responsesItem{{Role: "user", Content: content}}, err
	}
	if err := strict(raw, &items); err != nil {
		return nil, fmt.Errorf("input: %w", err)
	}
	if len(items) == 0 {
		return nil, fmt.Errorf("missing required parameter: 'input'")
	}
	return items, nil
}

// responsesHistory judges the items in their order.
func responsesHistory(r *Request, items []responsesItem) error {
	var open, seen []string // call ids: without output so far, ever
	for i, it := range items {
		var err error
		switch it.Type {
		case "", "message":
			err = responsesMessage(r, it)
		case "function_call":
			switch {
			case it.CallID == "" || len(it.CallID) > 64 || !toolName.MatchString(it.Name):
				err = fmt.Errorf("call_id and name are required, at most 64 characters")
			case it.ID != "" && !strings.HasPrefix(it.ID, "fc"):
				err = fmt.Errorf("id: expected an ID that begins with 'fc'")
			case !llm.IsObject(json.RawMessage(it.Arguments)):
				err = fmt.Errorf("arguments of %q are not a JSON object", it.Name)
			case slices.Contains(open, it.CallID):
				err = fmt.Errorf("duplicate function call %s", it.CallID)
			}
			open = append(open, it.CallID)
			seen = append(seen, it.CallID)
			addAssistant(r, Call(it.CallID, it.Name, it.Arguments))
		case "function_call_output":
			at := slices.Index(open, it.CallID)
			if at < 0 {
				return fmt.Errorf("input[%d]: no tool call found for function call output with call_id %s", i, it.CallID)
			}
			open = slices.Delete(open, at, at+1)
			var parts []llm.Part
			parts, err = openAIContent(it.Output, "input_text", "input_image")
			if len(it.Output) == 0 {
				err = fmt.Errorf("missing required parameter: 'output'")
			}
			addResult(r, it.CallID, parts)
		case "reasoning":
			err = responsesReasoning(r, it, items[i+1:])
		default:
			err = fmt.Errorf("invalid type %q", it.Type)
		}
		if err != nil {
			return fmt.Errorf("input[%d]: %w", i, err)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("no tool output found for function call %s", open[0])
	}
	if len(seen) > 0 && len(r.Messages) > 0 && r.Messages[0].Role != llm.User {
		return fmt.Errorf("a function call has no user message before it")
	}
	return nil
}

func responsesMessage(r *Request, it responsesItem) error {
	textType, imageType := "input_text", "input_image"
	if it.Role == "assistant" {
		textType, imageType = "output_text", ""
	}
	parts, err := openAIContent(it.Content, textType, imageType)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return fmt.Errorf("message of role %q without content", it.Role)
	}
	switch it.Role {
	case "system", "developer":
		if len(r.Messages) > 0 {
			return fmt.Errorf("%s message must be at the beginning", it.Role)
		}
		r.System += textOf(parts)
	case "user":
		r.Messages = append(r.Messages, llm.Message{Role: llm.User, Parts: parts})
	case "assistant":
		addAssistant(r, parts...)
	default:
		return fmt.Errorf("invalid role %q", it.Role)
	}
	return nil
}

func responsesReasoning(r *Request, it responsesItem, rest []responsesItem) error {
	if !strings.HasPrefix(it.ID, "rs") {
		return fmt.Errorf("reasoning: expected an ID that begins with 'rs'")
	}
	if it.Summary == nil {
		return fmt.Errorf("reasoning: missing required parameter: 'summary'")
	}
	next := ""
	for _, o := range rest {
		if o.Type != "reasoning" {
			next = o.Type + o.Role
			break
		}
	}
	if next != "function_call" && next != "assistant" && next != "messageassistant" {
		return fmt.Errorf("reasoning item %s was provided without its required following item", it.ID)
	}
	var text []string
	for _, s := range it.Summary {
		text = append(text, s.Text)
	}
	addAssistant(r, Thinking(strings.Join(text, "\n"), it.Encrypted))
	return nil
}

// addAssistant appends parts to the assistant message that is open.
func addAssistant(r *Request, parts ...llm.Part) {
	if n := len(r.Messages); n > 0 && r.Messages[n-1].Role == llm.Assistant {
		r.Messages[n-1].Parts = append(r.Messages[n-1].Parts, parts...)
		return
	}
	r.Messages = append(r.Messages, llm.Message{Role: llm.Assistant, Parts: parts})
}

// responsesDrawing collects the events of an answer.
type responsesDrawing struct {
	out   []event
	items []any
}

func (d *responsesDrawing) add(kind string, fields obj) {
	fields["type"], fields["sequence_number"] = kind, len(d.out)
	d.out = append(d.out, event{kind, fields})
}

func (responsesWire) events(r Request, a Answer) []event {
	var d responsesDrawing
	whole := func(status string) obj {
		return obj{"id": fmt.Sprintf("resp_%d", r.Number), "object": "response", "created_at": 1700000000, "status": status, "model": r.Model, "output": d.items, "error": nil, "incomplete_details": nil, "usage": nil}
	}
	d.items = []any{}
	d.add("response.created", obj{"response": whole("in_progress")})
	d.add("response.in_progress", obj{"response": whole("in_progress")})
	for i, p := range a.Parts {
		switch p.Kind {
		case llm.TextPart:
			d.text(r, i, p.Text, a.Stop == llm.StopRefused)
		case llm.ThinkingPart:
			d.reasoning(r, i, p)
		case llm.CallPart:
			d.call(r, i, p.Call, a.Fault.WrongID)
		}
	}
	u := a.Usage
	status, end := "completed", "response.completed"
	if a.Stop == llm.StopLength {
		status, end = "incomplete", "response.incomplete"
	}
	done := whole(status)
	if a.Stop == llm.StopLength {
		done["incomplete_details"] = obj{"reason": "max_output_tokens"}
	}
	in := u.Input + u.CacheRead
	done["usage"] = obj{"input_tokens": in, "input_tokens_details": obj{"cached_tokens": u.CacheRead}, "output_tokens": u.Output, "output_tokens_details": obj{"reasoning_tokens": 0}, "total_tokens": in + u.Output}
	d.add(end, obj{"response": done})
	return d.out
}

func (d *responsesDrawing) text(r Request, i int, text string, refused bool) {
	id := fmt.Sprintf("msg_%d_%d", r.Number, i)
	kind, field, stream := "output_text", "text", "response.output_text"
	if refused {
		kind, field, stream = "refusal", "refusal", "response.refusal"
	}
	at := obj{"item_id": id, "output_index": i, "content_index": 0}
	with := func(k string, v any) obj {
		o := obj{k: v}
		for k, v := range at {
			o[k] = v
		}
		return o
	}
	d.add("response.output_item.added", obj{"output_index": i, "item": obj{"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []any{}}})
	d.add("response.content_part.added", with("part", obj{"type": kind, field: "", "annotations": []any{}}))
	for _, s := range pieces(text) {
		d.add(stream+".delta", with("delta", s))
	}
	d.add(stream+".done", with(field, text))
	part := obj{"type": kind, field: text, "annotations": []any{}}
	d.add("response.content_part.done", with("part", part))
	item := obj{"id": id, "type": "message", "status": "completed", "role": "assistant", "content": []any{part}}
	d.items = append(d.items, item)
	d.add("response.output_item.done", obj{"output_index": i, "item": item})
}

func (d *responsesDrawing) reasoning(r Request, i int, p llm.Part) {
	id := fmt.Sprintf("rs_%d_%d", r.Number, i)
	d.add("response.output_item.added", obj{"output_index": i, "item": obj{"id": id, "type": "reasoning", "summary": []any{}, "encrypted_content": ""}})
	d.add("response.reasoning_summary_part.added", obj{"item_id": id, "output_index": i, "summary_index": 0, "part": obj{"type": "summary_text", "text": ""}})
	for _, s := range pieces(p.Text) {
		d.add("response.reasoning_summary_text.delta", obj{"item_id": id, "output_index": i, "summary_index": 0, "delta": s})
	}
	d.add("response.reasoning_summary_text.done", obj{"item_id": id, "output_index": i, "summary_index": 0, "text": p.Text})
	part := obj{"type": "summary_text", "text": p.Text}
	d.add("response.reasoning_summary_part.done", obj{"item_id": id, "output_index": i, "summary_index": 0, "part": part})
	item := obj{"id": id, "type": "reasoning", "summary": []any{part}, "encrypted_content": p.Opaque}
	d.items = append(d.items, item)
	d.add("response.output_item.done", obj{"output_index": i, "item": item})
}

func (d *responsesDrawing) call(r Request, i int, c *llm.Call, wrong bool) {
	id := fmt.Sprintf("fc_%d_%d", r.Number, i)
	item := func(status, args string) obj {
		return obj{"id": id, "type": "function_call", "status": status, "call_id": c.ID, "name": c.Name, "arguments": args}
	}
	d.add("response.output_item.added", obj{"output_index": i, "item": item("in_progress", "")})
	at, index := id, i
	if wrong {
		at, index = "fc_unknown", i+7
	}
	for _, s := range halves(c.Args) {
		d.add("response.function_call_arguments.delta", obj{"item_id": at, "output_index": index, "delta": s})
	}
	d.add("response.function_call_arguments.done", obj{"item_id": at, "output_index": index, "arguments": string(c.Args)})
	d.items = append(d.items, item("completed", string(c.Args)))
	done := item("completed", string(c.Args))
	if wrong {
		done["id"] = at
	}
	d.add("response.output_item.done", obj{"output_index": index, "item": done})
}

func (responsesWire) failure(kind, message string) event {
	if kind == "overloaded_error" {
		kind = "server_is_overloaded"
	}
	return event{"error", obj{"type": "error", "code": kind, "message": message, "param": nil, "sequence_number": 99}}
}

func (responsesWire) unknown() event {
	return event{"response.aroma.delta", obj{"type": "response.aroma.delta", "item_id": "aroma_1", "output_index": 90, "delta": "coffee", "sequence_number": 1}}
}

func (responsesWire) ping() string { return ": keep-alive\n\n" }

func (responsesWire) refusal(status int, kind, message string) any {
	return openAIRefusal(status, kind, message)
}
