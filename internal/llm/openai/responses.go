package openai

import (
	"strings"

	"github.com/iris-operator/iris/internal/llm"
)

// responsesWire is the Responses API, used without its memory: every request
// carries the whole history.
type responsesWire struct{ Options }

func (responsesWire) path() string { return "responses" }

// minOutput is the smallest bound the API takes.
const minOutput = 16

func (w responsesWire) encode(req llm.Request) []byte {
	e := responsesEncoder{encoder{info: w.Info, dst: make([]byte, 0, size(req)), id: wireID}}
	e.raw(`{"model":`).text(w.Info.Model).raw(`,"stream":true`)
	if w.Compat.Store {
		e.raw(`,"store":false`)
	}
	if req.MaxTokens > 0 {
		e.raw(`,"max_output_tokens":`).number(max(req.MaxTokens, minOutput))
	}
	if req.CacheKey != "" {
		e.raw(`,"prompt_cache_key":`).text(cacheKey(req.CacheKey))
	}
	if w.Info.Thinking {
		// A model that reasons does so asked or not, and wants to see it again.
		e.raw(`,"include":["reasoning.encrypted_content"]`)
		if req.Thinking > 0 {
			e.raw(`,"reasoning":{"effort":`).text(effort(req.Thinking)).raw(`,"summary":"auto"}`)
		}
	}
	if len(req.Tools) > 0 {
		e.raw(`,"tools":[`)
		for _, t := range req.Tools {
			e.comma().raw(`{"type":"function","name":`).text(wireName(t.Name))
			if t.Description != "" {
				e.raw(`,"description":`).text(t.Description)
			}
			e.raw(`,"parameters":`).parameters(t).raw(`,"strict":false}`)
		}
		e.raw(`]`)
	}
	if req.System != "" {
		e.raw(`,"instructions":`).text(req.System)
	}
	e.raw(`,"input":[`)
	for i := range req.Messages {
		if m := &req.Messages[i]; m.Role == llm.Assistant {
			e.assistant(m)
		} else {
			e.user(m)
		}
	}
	return e.raw(`]}`).dst
}

type responsesEncoder struct{ encoder }

func (e *responsesEncoder) assistant(m *llm.Message) {
	e.ids = e.ids[:0]
	solid := -1 // the last part that reasoning can belong to
	for i := range m.Parts {
		if k := m.Parts[i].Kind; k == llm.TextPart || k == llm.CallPart {
			solid = i
		}
	}
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Kind {
		case llm.TextPart:
			e.comma().raw(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":`).text(p.Text).raw(`}]}`)
		case llm.ThinkingPart:
			if i < solid && e.mine(m) {
				e.thought(p)
			}
		case llm.CallPart:
			if p.Call != nil {
				e.comma().raw(`{"type":"function_call","call_id":`).text(e.callID(p.Call.ID))
				e.raw(`,"name":`).text(wireName(p.Call.Name))
				e.raw(`,"arguments":`).text(string(llm.AppendRaw(nil, p.Call.Args))).raw(`}`)
			}
		}
	}
}

// thought gives reasoning back as it came, where it came with what the API
// needs to take it back.
func (e *responsesEncoder) thought(p *llm.Part) {
	id, encrypted, ok := strings.Cut(p.Opaque, ":")
	if !ok || !strings.HasPrefix(id, "rs") || encrypted == "" {
		return
	}
	e.comma().raw(`{"type":"reasoning","id":`).text(id).raw(`,"summary":[`)
	if p.Text != "" {
		e.raw(`{"type":"summary_text","text":`).text(p.Text).raw(`}`)
	}
	e.raw(`],"encrypted_content":`).text(encrypted).raw(`}`)
}

// user appends results first, as the API wants them right after the calls.
func (e *responsesEncoder) user(m *llm.Message) {
	said := false
	for i := range m.Parts {
		if p := &m.Parts[i]; p.Kind == llm.ResultPart && p.Result != nil {
			e.result(p.Result)
		} else {
			said = true
		}
	}
	if !said {
		return
	}
	e.comma().raw(`{"type":"message","role":"user","content":[`)
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Kind {
		case llm.TextPart:
			e.comma().raw(`{"type":"input_text","text":`).text(p.Text).raw(`}`)
		case llm.ImagePart:
			e.image(p)
		}
	}
	e.raw(`]}`)
}

func (e *responsesEncoder) result(r *llm.Result) {
	e.comma().raw(`{"type":"function_call_output","call_id":`).text(e.resultID(r.ID)).raw(`,"output":`)
	if len(r.Images) == 0 || !e.info.Images {
		e.text(e.resultText(r)).raw(`}`)
		return
	}
	e.raw(`[`)
	if strings.TrimSpace(r.Text) != "" {
		e.raw(`{"type":"input_text","text":`).text(r.Text).raw(`}`)
	}
	for i := range r.Images {
		e.image(&r.Images[i])
	}
	e.raw(`]}`)
}

// image appends a picture, or says that there is one the model cannot see.
func (e *responsesEncoder) image(p *llm.Part) {
	if !e.info.Images {
		e.comma().raw(`{"type":"input_text","text":`).text(unseen).raw(`}`)
		return
	}
	e.comma().raw(`{"type":"input_image","image_url":`).dataURL(p).raw(`}`)
}
