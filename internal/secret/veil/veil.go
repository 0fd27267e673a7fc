// Package veil puts redaction on the ways out: a decorator for each contract
// through which text leaves (tool, model, runner, the record of commands), and
// the cleaning of journal records. It owns no list of values and no search;
// that is package redact. Each decorator does what its contract asks and leaves
// what holds no secret exactly as it was.
package veil

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/approval/audit"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/secret/redact"
	"github.com/iris-operator/iris/internal/tool"
)

// A Veil decorates. It is safe for concurrent use.
type Veil struct{ r *redact.Redactor }

// New returns a Veil over what r knows.
func New(r *redact.Redactor) *Veil { return &Veil{r} }

// Tool returns t with its results redacted. A write or an edit whose text holds
// the mark is refused: the model has read a file with a secret in it and would
// put the mark in the secret's place.
func (v *Veil) Tool(t tool.Tool) tool.Tool { return &veiledTool{t, v.r} }

// Tools decorates a list.
func (v *Veil) Tools(list []tool.Tool) []tool.Tool {
	out := make([]tool.Tool, len(list))
	for i, t := range list {
		out[i] = v.Tool(t)
	}
	return out
}

type veiledTool struct {
	tool.Tool
	r *redact.Redactor
}

// Call calls the tool and redacts what it returns.
func (t *veiledTool) Call(ctx context.Context, call tool.Call) tool.Result {
	if name := t.Spec().Name; (name == "write" || name == "edit") && strings.Contains(string(call.Args), redact.Mark) {
		return tool.Fail("The text holds " + redact.Mark + ", which stands in place of a secret and is not what the file holds. " +
			"Nothing was written. Change the file in a way that leaves that part alone: edit with an oldText that does not reach over it, or use a command.")
	}
	res := t.Tool.Call(ctx, call)
	res.Text, res.Display = t.r.String(res.Text), t.r.String(res.Display)
	return res
}

// Model returns m with its requests redacted: what people wrote and what tools
// returned before a value was known is in the history as it was.
func (v *Veil) Model(m llm.Model) llm.Model { return &veiledModel{m, v.r} }

// Models decorates a list.
func (v *Veil) Models(list []llm.Model) []llm.Model {
	out := make([]llm.Model, len(list))
	for i, m := range list {
		out[i] = v.Model(m)
	}
	return out
}

type veiledModel struct {
	llm.Model
	r *redact.Redactor
}

// Stream asks the model.
func (m *veiledModel) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	req.System = m.r.String(req.System)
	copied := false
	for i, msg := range req.Messages {
		parts, changed := m.parts(msg.Parts)
		if !changed {
			continue
		}
		if !copied {
			req.Messages, copied = slices.Clone(req.Messages), true
		}
		req.Messages[i].Parts = parts
	}
	return m.Model.Stream(ctx, req)
}

// parts returns the parts without values, a copy if there was one.
func (m *veiledModel) parts(parts []llm.Part) (_ []llm.Part, changed bool) {
	for i := range parts {
		clean := m.part(&parts[i])
		if clean == nil {
			continue
		}
		if !changed {
			parts, changed = slices.Clone(parts), true
		}
		parts[i] = *clean
	}
	return parts, changed
}

// part returns a part without values, nil if there was none. Thinking is the
// provider's own text under its signature and goes back as it came.
func (m *veiledModel) part(p *llm.Part) *llm.Part {
	switch {
	case p.Kind == llm.TextPart && m.r.Found(p.Text):
		clean := *p
		clean.Text = m.r.String(p.Text)
		return &clean
	case p.Kind == llm.CallPart && p.Call != nil:
		if args := m.r.JSON(p.Call.Args); string(args) != string(p.Call.Args) {
			clean, call := *p, *p.Call
			call.Args, clean.Call = args, &call
			return &clean
		}
	case p.Kind == llm.ResultPart && p.Result != nil && m.r.Found(p.Result.Text):
		clean, res := *p, *p.Result
		res.Text, clean.Result = m.r.String(res.Text), &res
		return &clean
	}
	return nil
}

// A Recorder keeps what became of a command; *audit.Log is one.
type Recorder interface {
	Append(audit.Entry)
}

// Audit returns rec with commands redacted.
func (v *Veil) Audit(rec Recorder) Recorder { return &veiledAudit{rec, v.r} }

type veiledAudit struct {
	next Recorder
	r    *redact.Redactor
}

// Append redacts an entry.
func (a *veiledAudit) Append(e audit.Entry) {
	e.Command, e.By, e.User = a.r.String(e.Command), a.r.String(e.By), a.r.String(e.User)
	a.next.Append(e)
}
