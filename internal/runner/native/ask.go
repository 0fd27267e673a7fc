package native

import (
	"errors"
	"fmt"
	"strings"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/turn"
)

// ask gets the next answer: from the model being asked, or from one after it in
// the list. A model that failed is not asked again in this turn.
func (r *run) ask() (llm.Message, error) {
	var reasons []string
	for {
		if err := r.afford(); err != nil {
			return llm.Message{}, err
		}
		r.h.check()
		model := r.models[r.at]
		m, err := r.listen(model, r.request(model.Info()))
		if err == nil {
			r.answered(model.Info(), &m)
			return m, nil
		}
		var sink errSink
		if r.ctx.Err() != nil || errors.As(err, &sink) {
			return llm.Message{}, err
		}
		class := llm.ClassOf(err)
		r.n.opts.Logger.Warn("model failed", "turn", r.req.ID, "model", model.Info().Model, "class", class, "err", err)
		if class == llm.ClassTooLong && r.shrink() {
			if err := r.void(); err != nil {
				return llm.Message{}, err
			}
			continue
		}
		reasons = append(reasons, reason(err))
		if r.at+1 == len(r.models) || !elsewhere(class) {
			return llm.Message{}, refusal(err, reasons)
		}
		if err := r.void(); err != nil {
			return llm.Message{}, err
		}
		r.at++
		if err := r.status("%s did not answer, asking %s", title(model.Info()), title(r.info())); err != nil {
			return llm.Message{}, err
		}
	}
}

// request is what the model gets. The messages are those of the history itself.
func (r *run) request(info llm.Info) llm.Request {
	req := llm.Request{
		System:   r.system,
		Messages: r.h.msgs[:len(r.h.msgs):len(r.h.msgs)],
		Tools:    r.specs,
		CacheKey: r.req.Conversation.Channel(),
	}
	if info.Thinking {
		req.Thinking = r.n.opts.Thinking
	}
	if r.h.images > 0 && !info.Images {
		req.Messages = blind(req.Messages)
	}
	return req
}

// blind returns a history without pictures, for a model that takes none.
func blind(messages []llm.Message) []llm.Message {
	out := make([]llm.Message, len(messages))
	for i, m := range messages {
		parts := make([]llm.Part, len(m.Parts))
		for k, p := range m.Parts {
			switch {
			case p.Kind == llm.ImagePart:
				p = llm.Part{Kind: llm.TextPart, Text: "[an image that this model cannot see]"}
			case p.Result != nil && len(p.Result.Images) > 0:
				res := *p.Result
				res.Images = nil
				res.Text = strings.TrimSpace(res.Text + "\n[images that this model cannot see]")
				p.Result = &res
			}
			parts[k] = p
		}
		m.Parts = parts
		out[i] = m
	}
	return out
}

// answered accounts for an answer.
func (r *run) answered(info llm.Info, m *llm.Message) {
	if m.Role == "" {
		m.Role = llm.Assistant
	}
	var u llm.Usage
	if m.Usage != nil {
		u = *m.Usage
	}
	r.spent(info, u)
}

// shrink compacts a context that a model found too long. Once per turn: what
// does not fit then will not fit.
func (r *run) shrink() bool {
	if r.compacted {
		return false
	}
	r.compacted = true
	if err := r.save(r.ctx); err != nil {
		return false
	}
	return r.compactNow("Compacting context...")
}

// elsewhere reports whether another model may do better. A request that is
// wrong in itself is not shown around.
func elsewhere(c llm.Class) bool { return c != llm.ClassInvalid && c != "" }

// refusal is the end of a turn that no model answered.
func refusal(err error, reasons []string) error {
	e := &runner.Error{Code: turn.CodeModel, Err: err, Text: "The model did not answer: " + strings.Join(reasons, "; ")}
	switch llm.ClassOf(err) {
	case llm.ClassSilence:
		e.Code = turn.CodeTimeout
	case llm.ClassTooLong:
		e.Text = "The conversation is too long for the model (" + strings.Join(reasons, "; ") + "). Clear the context to go on."
	}
	return e
}

// reason is what people are told of a failure.
func reason(err error) string {
	var e *llm.Error
	if !errors.As(err, &e) {
		return "internal error"
	}
	text := oneLine(e.Text)
	switch {
	case text == "" && e.Status != 0:
		text = fmt.Sprintf("HTTP %d", e.Status)
	case text == "":
		text = string(e.Class)
	case e.Status != 0:
		text = fmt.Sprintf("HTTP %d: %s", e.Status, text)
	}
	if e.Provider == "" {
		return text
	}
	return e.Provider + ": " + text
}

func title(i llm.Info) string {
	if i.Provider == "" || i.Provider == i.Model {
		return i.Model
	}
	return i.Provider + "/" + i.Model
}
