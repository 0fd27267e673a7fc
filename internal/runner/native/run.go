package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

// silent begins an answer that is not to be posted.
const silent = "[SILENT]"

// A run is one turn on its way. It lives in one goroutine; only emit is also
// called by others.
type run struct {
	n      *Native
	ctx    context.Context
	req    turn.Request
	sink   turn.Sink
	h      *history
	models []llm.Model
	at     int // the model being asked; never goes back

	system string
	offered

	said      []string // intermediate texts
	stream    stream   // the answer that is coming in
	usage     turn.Usage
	compacted bool // a request was too long once already
}

func (n *Native) newRun(ctx context.Context, req turn.Request, sink turn.Sink, models []llm.Model, h *history) *run {
	r := &run{n: n, ctx: ctx, req: req, sink: sink, models: models, h: h}
	if req.Text != "" {
		r.said = append(r.said, req.Text)
	}
	return r
}

// turn runs the loop and gives a failure its shape.
func (r *run) turn() error {
	err := r.prepare()
	if err == nil {
		err = r.loop()
	}
	if err == nil {
		return nil
	}
	return r.end(err)
}

// prepare makes everything ready for the first request: prompt, tools, history
// with the message of the turn.
func (r *run) prepare() error {
	var notes Notes
	if r.n.opts.Notes != nil {
		var err error
		if notes, err = r.n.opts.Notes(r.ctx, r.req.Conversation); err != nil {
			r.n.opts.Logger.Warn("notes not read", "turn", r.req.ID, "err", err)
		}
	}
	var err error
	if r.system, err = r.n.system(r.ctx, r.req.Conversation, notes); err != nil {
		return err
	}
	r.offer()
	lost := r.h.settle()
	if r.h.said == string(r.req.ID) {
		return r.resume(lost)
	}
	msg := r.n.userMessage(r.ctx, r.req, notes, r.info())
	later, err := r.sync()
	if err != nil {
		return err
	}
	if err := r.compactBefore(messageBytes(msg)); err != nil {
		return err
	}
	if later != nil {
		later()
	}
	return r.add(msg, r.req.Message.ID)
}

// offer lists the tools: those of every conversation, and more in this one.
func (r *run) offer() {
	r.offered = r.n.tools
	if r.n.opts.MoreTools == nil {
		return
	}
	if more := r.n.opts.MoreTools(r.ctx, r.req.Conversation); len(more) > 0 {
		r.offered = offer(slices.Concat(r.n.opts.Tools, more))
	}
}

// offered is tools by name, and what the model is told of them. It is shared
// between turns and does not change.
type offered struct {
	tools map[string]tool.Tool
	specs []llm.ToolSpec
}

// offer lists tools; of two with the same name the first counts.
func offer(tools []tool.Tool) offered {
	o := offered{tools: make(map[string]tool.Tool, len(tools))}
	for _, t := range tools {
		s := t.Spec()
		if _, twice := o.tools[s.Name]; twice {
			continue
		}
		o.tools[s.Name] = t
		o.specs = append(o.specs, llm.ToolSpec{Name: s.Name, Description: s.Description, Schema: s.Schema})
	}
	return o
}

// sync finds what was said since the last turn and in no turn of ours. The
// function it returns adds that to the history; nil: there is nothing.
func (r *run) sync() (func(), error) {
	skip := func(id string) bool {
		switch {
		case id == "":
			return false
		case id == string(r.req.ID):
			return true
		case r.n.opts.Waiting != nil:
			return r.n.opts.Waiting(r.req.Conversation, turn.ID(id))
		}
		return id > string(r.req.ID)
	}
	lines, err := r.n.opts.Archive.Unseen(r.ctx, r.req.Conversation, r.h.seen, skip)
	if err != nil {
		return nil, fmt.Errorf("what was said meanwhile: %w", err)
	}
	lines = slices.DeleteFunc(lines, func(l session.Line) bool { return l.TS == r.req.Message.ID })
	if len(lines) == 0 {
		return nil, nil
	}
	msg, ids := r.n.heard(r.req.Conversation, lines)
	return func() { r.h.unsaved = append(r.h.unsaved, r.enter(msg, "", ids...)) }, nil
}

// resume goes on with a turn that an earlier process began.
func (r *run) resume(lost []llm.Call) error {
	for _, c := range lost {
		r.n.opts.Logger.Info("call interrupted by a restart", "turn", r.req.ID, "tool", c.Name)
		err := r.emit(turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: c.ID, Name: c.Name, Label: label(c), Result: "interrupted by a restart", IsError: true, Phase: turn.End}})
		if err != nil {
			return err
		}
	}
	for i := len(r.h.msgs) - 1; i >= 0 && r.h.meta[i].turn == string(r.req.ID); i-- {
		m := r.h.msgs[i]
		if m.Role == llm.Assistant && m.Usage != nil {
			r.count(llm.Info{Provider: m.Provider, Model: m.Model, Price: r.info().Price}, *m.Usage)
		}
	}
	return nil
}

// loop asks and calls until there is a final text.
func (r *run) loop() error {
	if m := r.h.msgs[len(r.h.msgs)-1]; m.Role == llm.Assistant {
		return r.deliver(m) // the process died between the answer and its delivery
	}
	for {
		m, err := r.ask()
		if err != nil {
			return err
		}
		calls := distinct(&m)
		if len(calls) == 0 {
			return r.final(m)
		}
		if err := r.keep(m); err != nil {
			return err
		}
		if text := textOf(m); strings.TrimSpace(text) != "" && !isSilent(text) {
			r.said = append(r.said, text)
			if err := r.emit(turn.Event{Kind: turn.Text, Text: text}); err != nil {
				return err
			}
		}
		if err := r.call(calls, m.Stop == llm.StopLength); err != nil {
			return err
		}
	}
}

// final keeps the last answer, makes room for the next turn and delivers.
func (r *run) final(m llm.Message) error {
	if err := sayable(m); err != nil {
		return err
	}
	if err := r.keep(m); err != nil {
		return err
	}
	r.compactAfter()
	return r.deliver(m)
}

// keep saves an answer. From here on it is no longer the partial text of a turn
// that ends early.
func (r *run) keep(m llm.Message) error {
	if err := r.add(m); err != nil {
		return err
	}
	r.stream.reset()
	return r.save(r.ctx)
}

// deliver ends the turn with an answer that is saved.
func (r *run) deliver(m llm.Message) error {
	text := textOf(m)
	ev := turn.Event{Kind: turn.Final, Text: text, Usage: r.total()}
	switch {
	case m.Stop == llm.StopAborted:
		ev.Stopped, ev.Text = true, r.soFar(text)
	case isSilent(text):
		ev.Silent, ev.Text = true, ""
	case m.Stop == llm.StopLength:
		ev.Text += "\n\n[The answer ends here because it reached the longest output of the model.]"
	}
	return r.emit(ev)
}

// sayable refuses an answer without words.
func sayable(m llm.Message) error {
	if strings.TrimSpace(textOf(m)) != "" {
		return nil
	}
	say := "The model gave an empty answer."
	switch m.Stop {
	case llm.StopLength:
		say = "The model reached its longest output before it said anything."
	case llm.StopRefused:
		say = "The model declined to answer."
	}
	return &runner.Error{Code: turn.CodeModel, Text: say}
}

// end gives a turn that did not come to its answer its end: what was said until
// then is kept in the history first.
func (r *run) end(err error) error {
	cause := context.Cause(r.ctx)
	if r.ctx.Err() != nil && errors.Is(cause, runner.ErrLeaving) {
		return runner.ErrLeaving // given back after the restart, from what is saved
	}
	partial := r.stream.text()
	if strings.TrimSpace(partial) != "" && r.h.said == string(r.req.ID) && !r.h.broken {
		info := r.info()
		m := llm.Message{Role: llm.Assistant, Parts: []llm.Part{{Kind: llm.TextPart, Text: partial}}, Provider: info.Provider, Model: info.Model, Stop: llm.StopAborted}
		r.h.settle()
		if e := r.add(m); e != nil {
			r.n.opts.Logger.Warn("partial answer not kept", "turn", r.req.ID, "err", e)
		}
	}
	if e := r.save(context.WithoutCancel(r.ctx)); e != nil {
		r.n.opts.Logger.Warn("turn not kept", "turn", r.req.ID, "err", e)
	}
	if r.ctx.Err() == nil {
		return err
	}
	if errors.Is(cause, runner.ErrStopped) {
		return r.emit(turn.Event{Kind: turn.Final, Stopped: true, Text: r.soFar(partial), Usage: r.total()})
	}
	return cause
}

// ended is end for a turn that has not begun.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// soFar is what a stopped turn had said.
func (r *run) soFar(partial string) string {
	said := slices.Clone(r.said)
	if strings.TrimSpace(partial) != "" && !isSilent(partial) {
		said = append(said, partial)
	}
	return strings.Join(said, "\n")
}

// add puts a message at the end of the history, to be saved with the next save.
func (r *run) add(m llm.Message, ids ...string) error {
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "" })
	e := r.enter(m, string(r.req.ID), ids...)
	if e.Body == nil {
		return errors.New("message cannot be encoded")
	}
	r.h.unsaved = append(r.h.unsaved, e)
	return nil
}

// enter makes the entry of a message and adds it to the history in memory.
func (r *run) enter(m llm.Message, of string, ids ...string) session.Entry {
	e := session.Entry{ID: uuid.Must(uuid.NewV7()).String(), At: r.n.opts.Now(), Turn: of, Type: session.Said, Messages: ids}
	body, err := json.Marshal(m)
	if err != nil {
		return e
	}
	e.Body = body
	r.h.note(e)
	if of != "" {
		r.h.said = of
	}
	r.h.add(e, m)
	return e
}

// save writes what was added since the last save as one checkpoint.
func (r *run) save(ctx context.Context) error {
	if len(r.h.unsaved) == 0 {
		return nil
	}
	if err := r.sink.Checkpoint(ctx, session.Saved{Entries: r.h.unsaved}); err != nil {
		r.h.broken = true
		return fmt.Errorf("keep the turn: %w", err)
	}
	r.h.unsaved = nil
	return nil
}

func (r *run) emit(e turn.Event) error { return r.sink.Emit(e) }

func (r *run) status(format string, args ...any) error {
	return r.emit(turn.Event{Kind: turn.Status, Label: fmt.Sprintf(format, args...)})
}

func (r *run) info() llm.Info { return r.models[min(r.at, len(r.models)-1)].Info() }

// count adds the cost of an answer to the turn.
func (r *run) count(m llm.Info, u llm.Usage) {
	r.usage.Calls++
	r.usage.Provider, r.usage.Model = m.Provider, m.Model
	r.usage.Input += u.Input
	r.usage.Output += u.Output
	r.usage.CacheRead += u.CacheRead
	r.usage.CacheWrite += u.CacheWrite
	r.usage.Cost += m.Price.Of(u)
}

// spent counts an answer in the turn and in the ledger.
func (r *run) spent(m llm.Info, u llm.Usage) {
	r.count(m, u)
	r.n.spend(r.req.Conversation, r.req.ID, m, u)
}

// total is the usage of the turn with the fill of the context.
func (r *run) total() *turn.Usage {
	u := r.usage
	u.Context, u.Window = r.h.used, r.info().Window
	return &u
}

// distinct returns the calls of an answer, after it has given those without an
// id of their own one.
func distinct(m *llm.Message) []llm.Call {
	var calls []llm.Call
	for i := range m.Parts {
		c := m.Parts[i].Call
		if m.Parts[i].Kind != llm.CallPart || c == nil {
			continue
		}
		if c.ID == "" || slices.ContainsFunc(calls, func(d llm.Call) bool { return d.ID == c.ID }) {
			own := *c
			own.ID = fmt.Sprintf("call-%d-%s", i, uuid.NewString())
			m.Parts[i].Call = &own
			c = &own
		}
		calls = append(calls, *c)
	}
	return calls
}

// textOf joins the text parts of a message.
func textOf(m llm.Message) string {
	var texts []string
	for _, p := range m.Parts {
		if p.Kind == llm.TextPart {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func isSilent(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), silent) }

func messageBytes(m llm.Message) (n int64) {
	for _, p := range m.Parts {
		n += partBytes(p)
	}
	return n
}

// since is a duration in milliseconds for events.
func since(start, end time.Time) int64 { return max(0, end.Sub(start).Milliseconds()) }
