package openai

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
)

// chatChunk is what we use of a chunk; all else is ignored.
type chatChunk struct {
	Choices []chatChoice    `json:"choices"`
	Usage   *chatUsage      `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type chatChoice struct {
	Index  int       `json:"index"`
	Delta  chatDelta `json:"delta"`
	Finish string    `json:"finish_reason"`
}

type chatDelta struct {
	Content json.RawMessage `json:"content"` // a string, or pieces (Mistral)
	Refusal string          `json:"refusal"`
	Thought string          `json:"reasoning_content"`
	// Reasoning is what OpenRouter and newer servers call the same.
	Reasoning json.RawMessage `json:"reasoning"`
	Calls     []chatCallDelta `json:"tool_calls"`
}

type chatCallDelta struct {
	Index    *int   `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name string          `json:"name"`
		Args json.RawMessage `json:"arguments"` // a string, or an object
	} `json:"function"`
}

type chatUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Details    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Hit int64 `json:"prompt_cache_hit_tokens"` // DeepSeek
}

func (u *chatUsage) usage() *llm.Usage {
	cached := min(count(max(u.Details.Cached, u.Hit)), count(u.Prompt))
	return &llm.Usage{Input: count(u.Prompt) - cached, Output: count(u.Completion), CacheRead: cached}
}

// chatAnswer adds the calls' own bookkeeping: servers number calls, or name
// them, or do neither.
type chatAnswer struct {
	answer
	finished bool
}

func (w chatWire) read(frames *llm.Frames, names names, yield func(llm.Event) bool) (llm.Message, error) {
	var a chatAnswer
	for {
		frame, err := frames.Next()
		if err != nil {
			// Servers differ in whether they say [DONE]; a finish reason is
			// the end of the answer for all.
			if a.finished && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
				return a.message(w.Info, names)
			}
			return llm.Message{}, err
		}
		if string(frame.Data) == "[DONE]" {
			if !a.finished {
				return llm.Message{}, io.ErrUnexpectedEOF
			}
			return a.message(w.Info, names)
		}
		if len(frame.Data) == 0 {
			continue
		}
		var c chatChunk
		if err := json.Unmarshal(frame.Data, &c); err != nil {
			return llm.Message{}, broken("an event that is no chunk: %s", frame.Data)
		}
		if given(c.Error) {
			return llm.Message{}, eventError{slices.Clone(c.Error)}
		}
		events, err := a.take(&c)
		if err != nil {
			return llm.Message{}, err
		}
		for _, e := range events {
			if !yield(e) {
				return llm.Message{}, errStopped
			}
		}
	}
}

// take adds a chunk and returns what the consumer should see of it.
func (a *chatAnswer) take(c *chatChunk) (events []llm.Event, err error) {
	if c.Usage != nil && (c.Usage.Prompt > 0 || c.Usage.Completion > 0) {
		a.usage = c.Usage.usage()
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if choice.Index != 0 {
			continue
		}
		d := &choice.Delta
		thought := d.Thought
		if thought == "" {
			thought = plainText(d.Reasoning)
		}
		text, more := chatContent(d.Content)
		if thought += more; thought != "" {
			s := a.tail(llm.ThinkingPart)
			s.text = append(s.text, thought...)
			if d.Thought != "" {
				s.opaque = thoughtField
			}
			events = append(events, llm.Event{Thinking: thought})
		}
		if d.Refusal != "" {
			a.refused = true
			text += d.Refusal
		}
		if text != "" {
			s := a.tail(llm.TextPart)
			s.text = append(s.text, text...)
			events = append(events, llm.Event{Text: text})
		}
		for j := range d.Calls {
			if err := a.call(&d.Calls[j]); err != nil {
				return nil, err
			}
		}
		if choice.Finish != "" {
			if err := a.finish(choice.Finish); err != nil {
				return nil, err
			}
		}
	}
	return events, nil
}

// tail is the part that text of a kind goes on in.
func (a *chatAnswer) tail(kind llm.PartKind) *slot {
	if n := len(a.slots); n > 0 && a.slots[n-1].kind == kind {
		return a.slots[n-1]
	}
	return a.add(-1, kind)
}

// call adds a piece of a call. It begins a call when its number or id is new,
// or when it has neither but a name.
func (a *chatAnswer) call(d *chatCallDelta) error {
	var s *slot
	switch {
	case d.Index != nil:
		s = a.find(*d.Index)
	case d.ID != "":
		if i := slices.IndexFunc(a.slots, func(s *slot) bool { return s.kind == llm.CallPart && s.id == d.ID }); i >= 0 {
			s = a.slots[i]
		}
	case d.Function.Name == "" && len(a.slots) > 0:
		s = a.slots[len(a.slots)-1]
	}
	if s != nil && (s.kind != llm.CallPart || d.ID != "" && s.id != "" && d.ID != s.id) {
		s = nil
	}
	if s == nil {
		if d.Function.Name == "" {
			return broken("a piece of a tool call that has not begun")
		}
		index := len(a.slots) + 1<<20 // unlike any that a server counts to
		if d.Index != nil {
			index = *d.Index
		}
		s = a.add(index, llm.CallPart)
	}
	if d.ID != "" {
		s.id = d.ID
	}
	if s.name == "" {
		s.name = d.Function.Name
	}
	if text := plainText(d.Function.Args); text != "" {
		s.args = append(s.args, text...)
	} else if given(d.Function.Args) && d.Function.Args[0] == '{' {
		s.args = append(s.args, d.Function.Args...)
	}
	return nil
}

// finish notes why the answer ended. Words that no one defined mean its end.
func (a *chatAnswer) finish(reason string) error {
	a.finished = true
	switch reason {
	case "length", "max_tokens", "model_length":
		a.stop = llm.StopLength
	case "tool_calls", "function_call":
		a.stop = llm.StopEnd // it is StopTools when calls are there
	case "content_filter", "refusal":
		a.stop = llm.StopRefused
	case "error":
		return eventError{json.RawMessage(`{"message":"the answer ended with an error","code":"server_error"}`)}
	case "insufficient_system_resource":
		return eventError{json.RawMessage(`{"message":"the server ran out of resources","code":"overloaded_error"}`)}
	}
	return nil
}

// plainText reads a JSON string; anything else is empty.
func plainText(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// chatContent reads content: a string, or a list of pieces of text and thought.
func chatContent(raw json.RawMessage) (text, thought string) {
	if len(raw) == 0 || raw[0] != '[' {
		return plainText(raw), ""
	}
	var pieces []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Thinking []struct {
			Text string `json:"text"`
		} `json:"thinking"`
	}
	if json.Unmarshal(raw, &pieces) != nil {
		return "", ""
	}
	var t, h strings.Builder
	for _, p := range pieces {
		t.WriteString(p.Text)
		for _, q := range p.Thinking {
			h.WriteString(q.Text)
		}
	}
	return t.String(), h.String()
}
