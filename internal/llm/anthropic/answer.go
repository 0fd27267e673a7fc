package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/iris-operator/iris/internal/llm"
)

// redactedMark distinguishes, in Part.Opaque, hidden thinking from the
// signature of thinking that can be read. Neither contains a colon itself.
const redactedMark = "redacted:"

func redacted(opaque string) (data string, ok bool) { return strings.CutPrefix(opaque, redactedMark) }

// streamEvent is what we use of the stream's events; all else is ignored.
type streamEvent struct {
	Type    string `json:"type"`
	Index   int    `json:"index"`
	Message struct {
		Usage tokens `json:"usage"`
	} `json:"message"`
	Block struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	} `json:"content_block"`
	Delta struct {
		Type       string `json:"type"`
		Text       string `json:"text"`
		Thinking   string `json:"thinking"`
		Signature  string `json:"signature"`
		JSON       string `json:"partial_json"`
		StopReason string `json:"stop_reason"`
	} `json:"delta"`
	Usage tokens          `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// tokens are counts so far; a later one replaces an earlier one where it is
// there.
type tokens struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
}

func (t tokens) into(u *llm.Usage) {
	replace(&u.Input, t.Input)
	replace(&u.Output, t.Output)
	replace(&u.CacheRead, t.CacheRead)
	replace(&u.CacheWrite, t.CacheWrite)
}

func replace(to, from *int64) {
	if from != nil && *from >= 0 {
		*to = *from
	}
}

// A block is a part of the answer while it grows.
type block struct {
	index  int
	kind   llm.PartKind // "" for kinds we do not know
	text   []byte
	opaque string
	id     string
	name   string
	args   []byte
	input  json.RawMessage // arguments that came with the start
}

// answer is the message while it grows.
type answer struct {
	blocks []block
	usage  llm.Usage
	stop   string
}

// errStopped says that the consumer wants no more.
var errStopped = errors.New("the consumer has stopped")

// read yields the pieces of the stream and returns the whole answer.
func (m *Model) read(body io.Reader, yield func(llm.Event, error) bool) (llm.Message, error) {
	frames := llm.NewFrames(body)
	pieces := llm.Join(frames, func(ev llm.Event) bool { return yield(ev, nil) })
	message, err := m.readAll(frames, pieces)
	if !pieces.Flush() {
		return llm.Message{}, errStopped
	}
	return message, err
}

func (m *Model) readAll(frames *llm.Frames, pieces *llm.Joiner) (llm.Message, error) {
	var a answer
	var ev streamEvent // one for all: it does not stay on the stack
	for {
		frame, err := frames.Next()
		if err != nil {
			return llm.Message{}, err
		}
		if len(frame.Data) == 0 || frame.Type == "ping" {
			continue
		}
		ev = streamEvent{}
		if err := json.Unmarshal(frame.Data, &ev); err != nil {
			return llm.Message{}, broken("an event that is not JSON: %s", frame.Data)
		}
		out, err := a.take(&ev)
		if err != nil {
			return llm.Message{}, err
		}
		if ev.Type == "message_stop" {
			return a.message(m.opts.Info)
		}
		if !pieces.Add(out) {
			return llm.Message{}, errStopped
		}
	}
}

// take adds an event and returns what the consumer should see of it.
func (a *answer) take(ev *streamEvent) (llm.Event, error) {
	switch ev.Type {
	case "message_start":
		ev.Message.Usage.into(&a.usage)
	case "content_block_start":
		return a.start(ev)
	case "content_block_delta":
		return a.delta(ev)
	case "message_delta":
		if ev.Delta.StopReason != "" {
			a.stop = ev.Delta.StopReason
		}
		ev.Usage.into(&a.usage)
	case "error":
		return llm.Event{}, eventError{ev.Error}
	}
	return llm.Event{}, nil
}

func (a *answer) find(index int) *block {
	i := slices.IndexFunc(a.blocks, func(b block) bool { return b.index == index })
	if i < 0 {
		return nil
	}
	return &a.blocks[i]
}

func (a *answer) start(ev *streamEvent) (llm.Event, error) {
	if a.find(ev.Index) != nil {
		return llm.Event{}, broken("block %d begins twice", ev.Index)
	}
	b := block{index: ev.Index}
	var out llm.Event
	switch c := &ev.Block; c.Type {
	case "text":
		b.kind, b.text, out.Text = llm.TextPart, []byte(c.Text), c.Text
	case "thinking":
		b.kind, b.text, b.opaque, out.Thinking = llm.ThinkingPart, []byte(c.Thinking), c.Signature, c.Thinking
	case "redacted_thinking":
		b.kind, b.opaque = llm.ThinkingPart, redactedMark+c.Data
	case "tool_use":
		if c.ID == "" || c.Name == "" {
			return out, broken("a tool call without id or name")
		}
		if slices.ContainsFunc(a.blocks, func(o block) bool { return o.kind == llm.CallPart && o.id == c.ID }) {
			return out, broken("two tool calls with the id %s", c.ID)
		}
		b.kind, b.id, b.name, b.input = llm.CallPart, c.ID, c.Name, slices.Clone(c.Input)
	}
	a.blocks = append(a.blocks, b)
	return out, nil
}

func (a *answer) delta(ev *streamEvent) (out llm.Event, err error) {
	b := a.find(ev.Index)
	if b == nil {
		return out, broken("a piece of block %d, which has not begun", ev.Index)
	}
	switch d := &ev.Delta; {
	case d.Type == "text_delta" && b.kind == llm.TextPart:
		b.text = append(b.text, d.Text...)
		out.Text = d.Text
	case d.Type == "thinking_delta" && b.kind == llm.ThinkingPart:
		b.text = append(b.text, d.Thinking...)
		out.Thinking = d.Thinking
	case d.Type == "signature_delta" && b.kind == llm.ThinkingPart:
		b.opaque += d.Signature
	case d.Type == "input_json_delta" && b.kind == llm.CallPart:
		b.args = append(b.args, d.JSON...)
	}
	return out, nil
}

// message returns the finished answer.
func (a *answer) message(info llm.Info) (llm.Message, error) {
	usage := a.usage
	out := llm.Message{Role: llm.Assistant, Provider: info.Provider, Model: info.Model, Usage: &usage, Stop: stopReason(a.stop)}
	for i := range a.blocks {
		b := &a.blocks[i]
		p := llm.Part{Kind: b.kind, Text: string(b.text), Opaque: b.opaque}
		switch {
		case b.kind == "", b.kind == llm.TextPart && trimEnd(p.Text) == "":
			continue
		case b.kind == llm.ThinkingPart && p.Text == "" && p.Opaque == "":
			continue
		case b.kind == llm.CallPart:
			args, err := b.arguments()
			if err != nil {
				return out, err
			}
			p = llm.Part{Kind: llm.CallPart, Call: &llm.Call{ID: b.id, Name: b.name, Args: args}}
			if out.Stop == llm.StopEnd {
				out.Stop = llm.StopTools
			}
		}
		out.Parts = append(out.Parts, p)
	}
	return out, nil
}

func (b *block) arguments() (json.RawMessage, error) {
	args := json.RawMessage(b.args)
	if len(args) == 0 {
		args = b.input
	}
	if len(args) == 0 || string(args) == "null" {
		args = json.RawMessage("{}")
	}
	if !llm.IsObject(args) {
		return nil, broken("the arguments of a call of %s are not one JSON object", b.name)
	}
	return args, nil
}

func stopReason(s string) llm.StopReason {
	switch s {
	case "max_tokens", "model_context_window_exceeded":
		return llm.StopLength
	case "tool_use":
		return llm.StopTools
	case "refusal":
		return llm.StopRefused
	}
	return llm.StopEnd
}

// trimEnd drops white space at the end.
func trimEnd(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }

// brokenError is an answer that breaks its own format.
type brokenError string

func (b brokenError) Error() string { return string(b) }

func broken(format string, args ...any) error {
	return brokenError(llm.OneLine(fmt.Sprintf(format, args...)))
}

// eventError is an error event in a stream that began well.
type eventError struct{ body json.RawMessage }

func (e eventError) Error() string { return string(e.body) }
