package openai

import (
	"strings"

	"github.com/iris-operator/iris/internal/llm"
)

// chatWire is Chat Completions.
type chatWire struct {
	Options
	// mistral marks the one known host with rules of its own: ids of nine
	// characters, names on results, no user right after a result, and no
	// stream_options (it reports usage anyway).
	mistral bool
}

func (chatWire) path() string { return "chat/completions" }

// thoughtField marks, in Part.Opaque, reasoning that came in that field. The
// servers that use it want it back while the model works through its calls.
const thoughtField = "reasoning_content"

func (w chatWire) encode(req llm.Request) []byte {
	e := chatEncoder{encoder: encoder{info: w.Info, dst: make([]byte, 0, size(req)), id: wireID}, mistral: w.mistral}
	if w.mistral {
		e.id = nineID
	}
	e.raw(`{"model":`).text(w.Info.Model).raw(`,"stream":true`)
	if !w.mistral {
		e.raw(`,"stream_options":{"include_usage":true}`)
	}
	w.limit(&e, req)
	if w.Compat.Store {
		e.raw(`,"store":false`)
	}
	if req.Thinking > 0 && w.Info.Thinking && w.Compat.ReasoningEffort {
		e.raw(`,"reasoning_effort":`).text(effort(req.Thinking))
	}
	if len(req.Tools) > 0 {
		e.raw(`,"tools":[`)
		for _, t := range req.Tools {
			e.comma().raw(`{"type":"function","function":{"name":`).text(wireName(t.Name))
			if t.Description != "" {
				e.raw(`,"description":`).text(t.Description)
			}
			e.raw(`,"parameters":`).parameters(t).raw(`}}`)
		}
		e.raw(`]`)
	}
	e.raw(`,"messages":[`)
	if req.System != "" {
		role := "system"
		if w.Compat.DeveloperRole && w.Info.Thinking {
			role = "developer"
		}
		e.raw(`{"role":"` + role + `","content":`).text(req.System).raw(`}`)
	}
	e.history(req.Messages)
	return e.raw(`]}`).dst
}

// limit bounds the answer. OpenAI gives a model's maximum by itself; others
// default to little, so they are told where it is known.
func (w chatWire) limit(e *chatEncoder, req llm.Request) {
	field, n := `,"max_tokens":`, req.MaxTokens
	if w.Compat.DeveloperRole {
		field = `,"max_completion_tokens":`
	} else if n <= 0 {
		n = w.Info.MaxOutput
	}
	if n > 0 {
		e.raw(field).number(n)
	}
}

type chatEncoder struct {
	encoder
	mistral bool
}

// history appends the messages. Neighbours of one side become one message.
func (e *chatEncoder) history(messages []llm.Message) {
	asked := lastAsked(messages)
	for from := 0; from < len(messages); {
		to := from + 1
		for to < len(messages) && messages[to].Role == messages[from].Role {
			to++
		}
		if messages[from].Role == llm.Assistant {
			e.assistant(messages[from:to], from > asked)
		} else {
			e.user(messages[from:to])
		}
		from = to
	}
}

// lastAsked is the index of the last user message that says something; what
// comes after it is the model at work.
func lastAsked(messages []llm.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role != llm.User {
			continue
		}
		for j := range messages[i].Parts {
			if messages[i].Parts[j].Kind != llm.ResultPart {
				return i
			}
		}
	}
	return -1
}

func (e *chatEncoder) assistant(run []llm.Message, working bool) {
	e.ids = e.ids[:0]
	var texts, thoughts []string
	calls := 0
	for i := range run {
		for j := range run[i].Parts {
			switch p := &run[i].Parts[j]; p.Kind {
			case llm.TextPart:
				texts = append(texts, p.Text)
			case llm.CallPart:
				calls++
			case llm.ThinkingPart:
				if working && p.Opaque == thoughtField && p.Text != "" && e.mine(&run[i]) {
					thoughts = append(thoughts, p.Text)
				}
			}
		}
	}
	e.comma().raw(`{"role":"assistant","content":`)
	if len(texts) > 0 || calls == 0 {
		e.text(strings.Join(texts, "\n"))
	} else {
		e.raw(`null`)
	}
	if calls > 0 && len(thoughts) > 0 {
		e.raw(`,"` + thoughtField + `":`).text(strings.Join(thoughts, "\n"))
	}
	if calls > 0 {
		e.raw(`,"tool_calls":[`)
		for i := range run {
			for j := range run[i].Parts {
				if p := &run[i].Parts[j]; p.Kind == llm.CallPart && p.Call != nil {
					e.comma().raw(`{"id":`).text(e.callID(p.Call.ID))
					e.raw(`,"type":"function","function":{"name":`).text(wireName(p.Call.Name))
					e.raw(`,"arguments":`).text(string(llm.AppendRaw(nil, p.Call.Args))).raw(`}}`)
				}
			}
		}
		e.raw(`]`)
	}
	e.raw(`}`)
}

// user appends what a user's messages hold: results as messages of their own,
// then the rest as one message. Pictures in results follow as the user's,
// because results are text on this wire.
func (e *chatEncoder) user(run []llm.Message) {
	var said, pictures []llm.Part
	answered := false
	for i := range run {
		for j := range run[i].Parts {
			p := &run[i].Parts[j]
			if p.Kind != llm.ResultPart || p.Result == nil {
				said = append(said, *p)
				continue
			}
			answered = true
			e.comma().raw(`{"role":"tool","tool_call_id":`).text(e.resultID(p.Result.ID))
			if e.mistral && p.Result.Name != "" {
				e.raw(`,"name":`).text(wireName(p.Result.Name))
			}
			e.raw(`,"content":`).text(e.resultText(p.Result)).raw(`}`)
			if e.info.Images && len(p.Result.Images) > 0 {
				pictures = append(pictures, llm.Part{Kind: llm.TextPart, Text: "(images from the result of " + p.Result.Name + ")"})
				pictures = append(pictures, p.Result.Images...)
			}
		}
	}
	said = append(pictures, said...)
	if len(said) == 0 {
		return
	}
	if answered && e.mistral {
		e.comma().raw(`{"role":"assistant","content":"(continuing)"}`)
	}
	e.comma().raw(`{"role":"user","content":`)
	e.content(said)
	e.raw(`}`)
}

// content is one string where there are no pictures: some servers take nothing
// else.
func (e *chatEncoder) content(parts []llm.Part) {
	var texts []string
	pictures := false
	for i := range parts {
		switch p := &parts[i]; {
		case p.Kind == llm.TextPart:
			texts = append(texts, p.Text)
		case p.Kind == llm.ImagePart && e.info.Images:
			pictures = true
		case p.Kind == llm.ImagePart:
			texts = append(texts, unseen)
		}
	}
	if !pictures {
		e.text(strings.Join(texts, "\n"))
		return
	}
	e.raw(`[`)
	for i := range parts {
		switch p := &parts[i]; p.Kind {
		case llm.TextPart:
			e.comma().raw(`{"type":"text","text":`).text(p.Text).raw(`}`)
		case llm.ImagePart:
			e.comma().raw(`{"type":"image_url","image_url":{"url":`).dataURL(p).raw(`}}`)
		}
	}
	e.raw(`]`)
}
