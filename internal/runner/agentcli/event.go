package agentcli

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/turn"
)

// event takes what the process says, in its order. What belongs to no turn is work
// that the program does by itself.
func (p *proc) event(ev Event) {
	c := p.c
	c.touch()
	if ev.Kind == Session {
		c.named(ev.ID)
		return
	}
	c.mu.Lock()
	t := c.turn
	if t != nil && t.p != p {
		t = nil
	}
	c.mu.Unlock()
	if t == nil {
		p.alone(ev)
		return
	}
	t.take(p, ev)
}

// take makes events of the turn of one event of the program.
func (t *run) take(p *proc, ev Event) {
	switch ev.Kind {
	case Permission, Question, Plan:
		t.ask(p, ev)
		return
	case Withdrawn:
		t.withdraw(ev.ID)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heard = true
	switch ev.Kind {
	case Delta:
		if ev.Parent == "" && ev.Text != "" {
			t.piece.WriteString(ev.Text)
			_ = t.show(turn.Event{Kind: turn.Text, Text: ev.Text, Partial: true}) // it ends the turn itself
		}
	case Text:
		t.text(ev)
	case Thought:
		if ev.Parent == "" {
			_ = t.show(turn.Event{Kind: turn.Thinking, Text: ev.Text})
		}
	case ToolStart:
		t.toolStart(ev)
	case ToolEnd:
		t.toolEnd(ev)
	case Notice:
		_ = t.show(turn.Event{Kind: turn.Status, Label: clip(oneLine(ev.Text), maxStatus)})
	case Result:
		if len(ev.Prompts) > 0 && !slices.Contains(ev.Prompts, string(t.req.ID)) {
			return // of a prompt that was given up
		}
		t.attach(nil) // what comes now is no part of the turn
		select {
		case t.result <- ev:
		default: // it was answered already
		}
	}
}

// maxStatus bounds a line of progress.
const maxStatus = 200

// text takes a whole text. One of a sub-agent is no part of the reply. mu must be
// held.
func (t *run) text(ev Event) {
	if strings.TrimSpace(ev.Text) == "" {
		if ev.Parent == "" && t.piece.Len() > 0 {
			t.piece.Reset()
			_ = t.show(turn.Event{Kind: turn.Text, Void: true})
		}
		return
	}
	if ev.Parent != "" {
		_ = t.show(turn.Event{Kind: turn.Status, Label: clip("sub-agent: "+oneLine(ev.Text), maxLabel)})
		return
	}
	t.piece.Reset()
	t.said = append(t.said, ev.Text)
	_ = t.show(turn.Event{Kind: turn.Text, Text: ev.Text})
}

func (t *run) toolStart(ev Event) {
	id := cmp.Or(ev.Tool.ID, ev.ID)
	if _, again := t.tools[id]; again {
		return
	}
	tool := turn.Tool{ID: id, Name: ev.Tool.Name, Label: label(ev.Tool, t.c.r.pool.opts.CommandLabel), Args: shownFields(ev.Tool.Input), Phase: turn.Start}
	if ev.Parent != "" {
		tool.Label = "↳ " + tool.Label
	}
	t.tools[id] = started{tool, t.c.r.pool.opts.Now()}
	_ = t.show(turn.Event{Kind: turn.ToolUse, Tool: &tool})
}

func (t *run) toolEnd(ev Event) {
	id := cmp.Or(ev.Tool.ID, ev.ID)
	s, ok := t.tools[id]
	if !ok {
		return
	}
	delete(t.tools, id)
	tool := s.tool
	tool.Phase, tool.Args, tool.IsError = turn.End, nil, ev.Tool.Failed
	tool.Result = clip(strings.ToValidUTF8(ev.Tool.Result, "\uFFFD"), maxResult)
	tool.DurationMS = t.c.r.pool.opts.Now().Sub(s.at).Milliseconds()
	_ = t.show(turn.Event{Kind: turn.ToolUse, Tool: &tool})
}

// maxResult bounds what is shown of a tool's result, maxAlone what is told of work
// that no turn asked for.
const (
	maxResult = 4 << 10
	maxAlone  = 16 << 10
)

// alone takes what a program says without having been asked: a background task
// that has ended, say. Its texts become a notice, its questions are declined.
func (p *proc) alone(ev Event) {
	c := p.c
	switch ev.Kind {
	case Permission, Question, Plan:
		a := Answer{ID: ev.ID, Reason: "Nobody is here to answer. Stop, and wait for the next message."}
		c.r.pool.audit(c, nil, ev, Decision{Decision: Declined, Reason: "no turn"})
		go p.answer(a)
	case Text:
		if ev.Parent == "" {
			c.mu.Lock()
			c.chats = append(c.chats, clip(ev.Text, maxAlone))
			c.chats = c.chats[max(0, len(c.chats)-8):]
			c.mu.Unlock()
		}
	case Result:
		c.mu.Lock()
		texts := c.chats
		c.chats = nil
		c.mu.Unlock()
		if text, silent := reply(texts); !silent && !ev.Interrupted {
			go c.r.pool.tell(context.Background(), c.addr, text)
		}
	}
}

// answer settles an ask. It may wait for the program to read.
func (p *proc) answer(a Answer) {
	if err := p.agent.Answer(context.Background(), a); err != nil && !p.ended() {
		p.c.r.pool.log.Warn("an answer did not reach the agent", "project", p.c.r.project.Name, "conversation", p.c.addr, "instance", p.instance, "err", err)
	}
}
