package api

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/iris-operator/iris/internal/approval"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// history is what a page shows when it is opened: all that is kept of a
// conversation, so that tool cards and files survive a reload. A web socket
// opened with since = Seq continues it without a gap, within a running turn too.
type history struct {
	Channel string `json:"channel"`
	Seq     int64  `json:"seq"`
	// Running is the turn whose end is not yet part of the history.
	Running turn.ID `json:"running,omitempty"`
	// Began is when a runner was given it.
	Began *time.Time `json:"began,omitempty"`
	// Items are ordered as things happened.
	Items []shown `json:"items"`
}

// maxLines bounds the log lines that are looked at: more than anybody scrolls
// back to.
const maxLines = 1000

// shown is one thing to show. Type is "message" for what people said, "notice"
// for a line outside of turns, else the kind of a turn.Event.
type shown struct {
	Type string    `json:"type"`
	Seq  int64     `json:"seq,omitempty"`
	Turn turn.ID   `json:"turn,omitempty"`
	At   time.Time `json:"at"`

	// Of a message.
	ID    string      `json:"id,omitempty"`
	From  string      `json:"from,omitempty"`
	Files []chat.File `json:"files,omitempty"`
	// Of a message that began a turn.
	Origin turn.Origin `json:"origin,omitempty"`
	Runner string      `json:"runner,omitempty"`
	// Answers is the id of the question that a message answers.
	Answers string `json:"answers,omitempty"`

	Text     string      `json:"text,omitempty"`
	Partial  bool        `json:"partial,omitempty"` // text that is still growing
	Tool     *turn.Tool  `json:"event,omitempty"`
	Filename string      `json:"filename,omitempty"`
	Title    string      `json:"title,omitempty"`
	URL      string      `json:"url,omitempty"`
	Ask      *turn.Ask   `json:"ask,omitempty"`
	Settled  bool        `json:"settled,omitempty"` // the question waits no longer
	Error    string      `json:"error,omitempty"`
	Code     turn.Code   `json:"code,omitempty"`
	Silent   bool        `json:"silent,omitempty"`
	Stopped  bool        `json:"stopped,omitempty"`
	Began    *time.Time  `json:"began,omitempty"` // of the turn that this ends
	Usage    *turn.Usage `json:"usage,omitempty"`
}

// records yields the conversation's records that exist now.
func (s *Server) records(ctx context.Context, conv chat.Address, since int64) iter.Seq2[transport.Seen, error] {
	return func(yield func(transport.Seen, error) bool) {
		for rec, err := range s.opts.Journal.Read(ctx, conv.Channel(), since) {
			if errors.Is(err, journal.ErrTruncated) {
				continue // what is kept is all that can be shown
			}
			seen := transport.Seen{Seq: rec.Seq, At: rec.Time}
			if err == nil {
				err = json.Unmarshal(rec.Data, &seen.Record)
			}
			if !yield(seen, err) || err != nil {
				return
			}
		}
	}
}

func (s *Server) history(ctx context.Context, conv chat.Address) (history, error) {
	b := build{tools: map[string]int{}, out: history{Channel: conv.Channel(), Items: []shown{}}}
	first := int64(0)
	for seen, err := range s.records(ctx, conv, 0) {
		if err != nil {
			return b.out, err
		}
		if first == 0 {
			first = seen.Seq
		}
		b.add(seen)
	}
	lines, err := s.opts.Sessions.Log(ctx, conv, session.LogOptions{Limit: maxLines})
	if err != nil {
		return b.out, err
	}
	older := []shown{}
	for _, l := range lines {
		if first > 0 && l.Seq >= first {
			break // from here on the journal has it
		}
		older = append(older, lineShown(l))
	}
	b.out.Items = append(older, b.out.Items...)
	s.addAsks(&b.out, conv)
	return b.out, nil
}

// addAsks marks the questions that no longer wait, and adds those that do and
// whose records are no longer kept.
func (s *Server) addAsks(h *history, conv chat.Address) {
	open := map[string]approval.Question{}
	for _, q := range s.waiting(conv) {
		open[q.ID] = q
	}
	last := map[string]int{} // a question may be shown by several turns
	for i, it := range h.Items {
		if it.Ask != nil {
			h.Items[i].Settled = true
			last[it.Ask.ID] = i
		}
	}
	var lost []shown
	for id, q := range open {
		if i, ok := last[id]; ok {
			h.Items[i].Settled = false
			continue
		}
		lost = append(lost, shown{Type: string(turn.AskFor), Turn: q.Turn, At: q.At, Ask: q.Ask()})
	}
	slices.SortFunc(lost, func(x, y shown) int { return x.At.Compare(y.At) })
	h.Items = append(h.Items, lost...)
}

// lineShown shows a log line whose journal records are no longer kept.
func lineShown(l session.Line) shown {
	it := shown{Type: "message", Seq: l.Seq, Turn: turn.ID(l.Turn), At: l.Date, Text: l.Text, Files: l.Attachments}
	switch {
	case l.IsBot && l.Failed != "":
		it.Type, it.Error, it.Code = string(turn.Failed), l.Text, turn.Code(l.Failed)
	case l.IsBot:
		it.Type = string(turn.Final)
	default:
		it.ID, it.From = l.TS, l.User
	}
	return it
}

// build puts records together: a tool call is one item, and so are the pieces of
// a text.
type build struct {
	out   history
	tools map[string]int // turn and call → index of its item
	begun turn.ID        // whose beginning out.Began is
	text  int            // index+1 of the text that is growing; 0: none
}

func (b *build) add(seen transport.Seen) {
	b.out.Seq = max(b.out.Seq, seen.Seq)
	it := shown{Seq: seen.Seq, At: seen.At, Turn: seen.Record.Turn}
	switch r := seen.Record; {
	case r.Accepted != nil:
		it.Origin, it.Runner = r.Accepted.Origin, r.Accepted.Runner
		it.Answers = r.Accepted.Answers
		b.message(it, r.Accepted.Message)
	case r.Heard != nil:
		b.message(it, *r.Heard)
	case r.Notice != nil:
		it.Type, it.Text = "notice", r.Notice.Text
		b.put(it)
	case r.Begun != nil:
		b.out.Running = r.Turn
		b.dropGrowing() // what an earlier attempt had begun to write is written again
	case r.Event != nil:
		b.event(it, *r.Event)
	}
}

func (b *build) put(it shown) { b.out.Items = append(b.out.Items, it) }

func (b *build) message(it shown, m chat.Message) {
	it.Type, it.ID, it.From, it.Text, it.Files = "message", m.ID, m.From.ID, m.Text, m.Files
	b.put(it)
}

func (b *build) event(it shown, e turn.Event) {
	it.Type, it.Text = string(e.Kind), e.Text
	it.Filename, it.Title, it.Ask = e.Filename, e.Title, e.Ask
	it.Error, it.Code, it.Silent, it.Stopped, it.Usage = e.Error, e.Code, e.Silent, e.Stopped, e.Usage
	switch e.Kind {
	case turn.Started:
		if b.begun != it.Turn {
			b.begun, b.out.Began = it.Turn, &it.At
		}
		return
	case turn.Status:
		return // said while it lasts
	case turn.ToolUse:
		b.tool(it, e.Tool)
		return
	case turn.Text:
		b.piece(it, e)
		return
	case turn.FileOut:
		it.Filename = e.ShownName()
		it.URL = fileURL(b.out.Channel, it.Filename, it.Seq)
	}
	if e.Terminal() {
		b.dropGrowing()
		if b.begun == it.Turn {
			it.Began = b.out.Began
		}
		if b.out.Running == it.Turn {
			b.out.Running = ""
		}
		b.begun, b.out.Began = "", nil
	}
	b.put(it)
}

// tool keeps one item per call: the end replaces the start, which it repeats.
func (b *build) tool(it shown, t *turn.Tool) {
	if t == nil {
		return
	}
	it.Text, it.Tool = "", t
	key := string(it.Turn) + "/" + t.ID
	i, started := b.tools[key]
	if t.Phase != turn.End || !started {
		b.tools[key] = len(b.out.Items)
		b.put(it)
		return
	}
	whole, old := *t, b.out.Items[i].Tool
	if whole.Label == "" {
		whole.Label = old.Label
	}
	if whole.Args == nil {
		whole.Args = old.Args
	}
	b.out.Items[i].Tool = &whole
}

// piece adds a piece to the text that grows; a whole text takes its place.
func (b *build) piece(it shown, e turn.Event) {
	if e.Void || !e.Partial {
		b.dropGrowing()
		if !e.Void && e.Text != "" {
			b.put(it)
		}
		return
	}
	if b.text == 0 {
		it.Text, it.Partial = "", true
		b.put(it)
		b.text = len(b.out.Items)
	}
	b.out.Items[b.text-1].Text += e.Text
}

// dropGrowing takes back the pieces of a text that now comes whole, or not at
// all. Items that came after it move up.
func (b *build) dropGrowing() {
	if b.text == 0 {
		return
	}
	i := b.text - 1
	b.text = 0
	b.out.Items = append(b.out.Items[:i], b.out.Items[i+1:]...)
	for k, at := range b.tools {
		if at > i {
			b.tools[k] = at - 1
		}
	}
}
