package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
)

// responsesEvent is what we use of an event; all else is ignored.
type responsesEvent struct {
	Type         string           `json:"type"`
	OutputIndex  int              `json:"output_index"`
	SummaryIndex int              `json:"summary_index"`
	Delta        json.RawMessage  `json:"delta"` // a string where we look at it
	Arguments    string           `json:"arguments"`
	Item         *responsesItem   `json:"item"`
	Response     *responsesObject `json:"response"`
}

type responsesItem struct {
	ID        string           `json:"id"`
	Type      string           `json:"type"`
	CallID    string           `json:"call_id"`
	Name      string           `json:"name"`
	Arguments string           `json:"arguments"`
	Content   []responsesPiece `json:"content"`
	Summary   []responsesPiece `json:"summary"`
	Encrypted string           `json:"encrypted_content"`
}

type responsesPiece struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
}

type responsesObject struct {
	Status     string          `json:"status"`
	Error      json.RawMessage `json:"error"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Output []responsesItem `json:"output"`
	Usage  *struct {
		Input   int64 `json:"input_tokens"`
		Output  int64 `json:"output_tokens"`
		Details struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	} `json:"usage"`
}

type responsesAnswer struct{ answer }

func (w responsesWire) read(frames *llm.Frames, names names, yield func(llm.Event) bool) (llm.Message, error) {
	var a responsesAnswer
	for {
		frame, err := frames.Next()
		if err != nil {
			return llm.Message{}, err
		}
		if len(frame.Data) == 0 || string(frame.Data) == "[DONE]" {
			continue
		}
		var ev responsesEvent
		if err := json.Unmarshal(frame.Data, &ev); err != nil {
			return llm.Message{}, broken("an event that is not JSON: %s", frame.Data)
		}
		if ev.Type == "" {
			ev.Type = frame.Type
		}
		if ev.Type == "error" || ev.Type == "response.failed" {
			return llm.Message{}, eventError{slices.Clone(frame.Data)}
		}
		events, done, err := a.take(&ev)
		if err != nil {
			return llm.Message{}, err
		}
		for _, e := range events {
			if e.Text+e.Thinking != "" && !yield(e) {
				return llm.Message{}, errStopped
			}
		}
		if done {
			return a.message(w.Info, names)
		}
	}
}

// take adds an event and returns what the consumer should see of it, and
// whether the answer is complete.
func (a *responsesAnswer) take(ev *responsesEvent) (events []llm.Event, done bool, err error) {
	switch ev.Type {
	case "response.output_item.added":
		if ev.Item != nil {
			return nil, false, a.begin(ev.OutputIndex, ev.Item)
		}
	case "response.output_text.delta":
		return a.text(ev.OutputIndex, plainText(ev.Delta)), false, nil
	case "response.refusal.delta":
		a.refused = true
		return a.text(ev.OutputIndex, plainText(ev.Delta)), false, nil
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return a.thought(ev.OutputIndex, plainText(ev.Delta)), false, nil
	case "response.reasoning_summary_part.added":
		if s := a.find(ev.OutputIndex); ev.SummaryIndex > 0 && s != nil && len(s.text) > 0 {
			return a.thought(ev.OutputIndex, "\n\n"), false, nil
		}
	case "response.function_call_arguments.delta":
		s := a.find(ev.OutputIndex)
		if s == nil || s.kind != llm.CallPart {
			return nil, false, broken("a piece of a tool call that has not begun")
		}
		s.args = append(s.args, plainText(ev.Delta)...)
	case "response.output_item.done":
		if ev.Item != nil {
			events, err = a.end(ev.OutputIndex, ev.Item)
			return events, false, err
		}
	case "response.completed", "response.incomplete":
		events, err = a.complete(ev.Response)
		return events, true, err
	}
	return nil, false, nil
}

// begin opens the part of an item. Kinds that we do not know have none.
func (a *responsesAnswer) begin(index int, item *responsesItem) error {
	if a.find(index) != nil {
		return broken("item %d of the answer begins twice", index)
	}
	switch item.Type {
	case "message":
		a.add(index, llm.TextPart)
	case "reasoning":
		a.add(index, llm.ThinkingPart)
	case "function_call":
		s := a.add(index, llm.CallPart)
		s.id, s.name = item.CallID, item.Name
	}
	return nil
}

// text goes on in the part of its item; servers that announce no items get one.
func (a *responsesAnswer) text(index int, text string) []llm.Event {
	s := a.find(index)
	if s == nil {
		s = a.add(index, llm.TextPart)
	}
	if s.kind != llm.TextPart {
		return nil
	}
	s.text = append(s.text, text...)
	return []llm.Event{{Text: text}}
}

func (a *responsesAnswer) thought(index int, text string) []llm.Event {
	s := a.find(index)
	if s == nil {
		s = a.add(index, llm.ThinkingPart)
	}
	if s.kind != llm.ThinkingPart {
		return nil
	}
	s.text = append(s.text, text...)
	return []llm.Event{{Thinking: text}}
}

// end closes the part of an item, and takes from the whole item what did not
// come in pieces.
func (a *responsesAnswer) end(index int, item *responsesItem) (events []llm.Event, err error) {
	s := a.find(index)
	if s == nil && item.Type == "function_call" {
		return nil, broken("a tool call that has not begun")
	}
	if s == nil {
		if err := a.begin(index, item); err != nil {
			return nil, err
		}
		if s = a.find(index); s == nil {
			return nil, nil
		}
	}
	switch {
	case s.kind == llm.TextPart && len(s.text) == 0:
		for _, p := range item.Content {
			a.refused = a.refused || p.Refusal != ""
			events = append(events, a.text(index, p.Text+p.Refusal)...)
		}
	case s.kind == llm.ThinkingPart && item.Type == "reasoning":
		if len(s.text) == 0 {
			events = a.thought(index, joined(item.Summary))
		}
		if item.Encrypted != "" && item.ID != "" {
			s.opaque = item.ID + ":" + item.Encrypted
		}
	case s.kind == llm.CallPart:
		if item.Arguments != "" {
			s.args = []byte(item.Arguments)
		}
		if item.CallID != "" {
			s.id = item.CallID
		}
	}
	return events, nil
}

func joined(pieces []responsesPiece) string {
	var all []string
	for _, p := range pieces {
		all = append(all, p.Text)
	}
	return strings.Join(all, "\n\n")
}

// complete takes the end of the answer, and items that were only told there.
func (a *responsesAnswer) complete(r *responsesObject) (events []llm.Event, err error) {
	if r == nil {
		return nil, broken("an end without an answer")
	}
	if given(r.Error) {
		return nil, eventError{slices.Clone(r.Error)}
	}
	if len(a.slots) == 0 {
		for i := range r.Output {
			if err := a.begin(i, &r.Output[i]); err != nil {
				return nil, err
			}
			more, err := a.end(i, &r.Output[i])
			if err != nil {
				return nil, err
			}
			events = append(events, more...)
		}
	}
	if r.Status == "incomplete" || r.Incomplete != nil {
		a.stop = llm.StopLength
		if r.Incomplete != nil && r.Incomplete.Reason == "content_filter" {
			a.stop = llm.StopRefused
		}
	}
	if u := r.Usage; u != nil {
		cached := min(count(u.Details.Cached), count(u.Input))
		a.usage = &llm.Usage{Input: count(u.Input) - cached, Output: count(u.Output), CacheRead: cached}
	}
	return events, nil
}
