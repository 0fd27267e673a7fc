package claude

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// A state is what is known of a process from the lines so far. It does no I/O and is
// not safe for concurrent use; package-wide, Agent guards it.
type state struct {
	work     string
	readable []string
	// resumed says that the process was to go on with a session.
	resumed bool

	session string
	model   string

	// sent are prompts that were written and not taken up yet, taken those that
	// were since the last result, both in order.
	sent, taken []string
	// working is true from the init line of a turn to its result; told says that a
	// background task reported since the last one, which starts a turn by itself.
	working, told bool
	// stop says that the work at hand is to end, on our word.
	stop bool

	// pieces says, for the agent itself ("") and each sub-agent, whether pieces have
	// come that no whole text has followed yet.
	pieces map[string]*pieces
	// calls are the tool calls that began; the value says that the call is shown.
	calls map[string]bool
	// tasks are sub-agents and the calls that started them.
	tasks map[string]string
	// open are the questions that wait, granted what was allowed for the session.
	open    map[string]ask
	granted map[string]bool

	totals totals
}

type pieces struct{ text, thought bool }

// An ask is a can_use_tool that waits for an answer.
type ask struct {
	kind agentcli.Kind
	tool agentcli.Tool
}

func newState(s agentcli.Setup) *state {
	return &state{
		work: s.WorkDir, readable: append([]string{s.Scratch}, s.Readable...), resumed: s.Session != "",
		pieces: map[string]*pieces{}, calls: map[string]bool{}, tasks: map[string]string{},
		open: map[string]ask{}, granted: map[string]bool{}, totals: totals{},
	}
}

// A heard is what a line means: events for the consumer, a request that nobody here
// can answer, an answer to a request of ours, and whether the work that begins is to
// be stopped at once.
type heard struct {
	events  []agentcli.Event
	refuse  string
	settled *response
	stop    bool
}

// take understands one message.
func (s *state) take(m message) (h heard) {
	switch m.Type {
	case "system":
		return s.system(m)
	case "assistant":
		h.events = s.assistant(m)
	case "stream_event":
		h.events = s.piece(m)
	case "user":
		h.events = s.user(m)
	case "control_request":
		return s.asked(m)
	case "control_cancel_request":
		if _, ok := s.open[m.RequestID]; ok {
			delete(s.open, m.RequestID)
			h.events = append(h.events, agentcli.Event{Kind: agentcli.Withdrawn, ID: m.RequestID})
		}
	case "control_response":
		h.settled = &m.Response
	case "result":
		h.events = s.result(m)
	}
	return h
}

func (s *state) system(m message) (h heard) {
	note := func(text string) {
		h.events = append(h.events, agentcli.Event{Kind: agentcli.Notice, Text: text})
	}
	switch m.Subtype {
	case "init":
		s.working = true
		h.stop = s.stop
		if m.Model != "" {
			s.model = m.Model
		}
		if m.SessionID != "" && m.SessionID != s.session {
			s.session = m.SessionID
			h.events = append(h.events, agentcli.Event{Kind: agentcli.Session, ID: m.SessionID})
		}
	case "api_retry":
		note(retrying(m))
	case "status":
		switch {
		case m.Status == "compacting":
			note("Claude is summarising the conversation to make room.")
		case m.Compacted == "failed":
			note("The conversation could not be summarised: " + sentence(m.CompactErr))
		}
	case "compact_boundary":
		note(compacted(m.Compact))
	case "task_started":
		if m.TaskID != "" {
			s.tasks[m.TaskID] = m.ToolUseID
		}
	case "task_notification":
		delete(s.tasks, m.TaskID)
		s.told = true
	}
	return h
}

// at returns what is known of the pieces of an agent.
func (s *state) at(parent string) *pieces {
	p := s.pieces[parent]
	if p == nil {
		p = &pieces{}
		s.pieces[parent] = p
	}
	return p
}

func (s *state) piece(m message) (events []agentcli.Event) {
	p := s.at(m.Parent)
	switch m.Event.Type {
	case "message_start":
		if p.text {
			events = append(events, agentcli.Event{Kind: agentcli.Text, Parent: m.Parent})
		}
		*p = pieces{}
	case "content_block_delta":
		switch d := m.Event.Delta; {
		case d.Type == "text_delta" && d.Text != "":
			p.text = true
			events = append(events, agentcli.Event{Kind: agentcli.Delta, Text: d.Text, Parent: m.Parent})
		case d.Type == "thinking_delta" && d.Thinking != "":
			p.thought = true
			events = append(events, agentcli.Event{Kind: agentcli.Thought, Text: d.Thinking, Parent: m.Parent})
		}
	}
	return events
}

func (s *state) assistant(m message) (events []agentcli.Event) {
	p := s.at(m.Parent)
	for _, block := range m.Message.Content {
		switch block.Type {
		case "text":
			p.text = false
			// A line that stands for an error is no answer; the result tells it.
			if m.Error == "" && block.Text != "" {
				events = append(events, agentcli.Event{Kind: agentcli.Text, Text: block.Text, Parent: m.Parent})
			}
		case "thinking":
			if !p.thought && block.Thinking != "" {
				events = append(events, agentcli.Event{Kind: agentcli.Thought, Text: block.Thinking, Parent: m.Parent})
			}
			p.thought = false
		case "tool_use":
			if _, again := s.calls[block.ID]; again || block.ID == "" {
				continue
			}
			shown := block.Name != askTool && block.Name != planTool
			s.calls[block.ID] = shown
			if shown {
				events = append(events, agentcli.Event{Kind: agentcli.ToolStart, ID: block.ID, Parent: m.Parent, Tool: s.tool(block.ID, block.Name, block.Input)})
			}
		}
	}
	return events
}

// tool describes a call, with what only the process knows of it.
func (s *state) tool(id, name string, input json.RawMessage) agentcli.Tool {
	t := describe(id, name, input)
	t.Outside = agentcli.Outside(t, s.work, s.readable)
	return t
}

func (s *state) user(m message) (events []agentcli.Event) {
	if m.Replay {
		return s.replayed(m)
	}
	for _, block := range m.Message.Content {
		if block.Type != "tool_result" {
			continue
		}
		shown, began := s.calls[block.ToolUseID]
		if !began || !shown {
			continue
		}
		s.calls[block.ToolUseID] = false // once
		events = append(events, agentcli.Event{Kind: agentcli.ToolEnd, ID: block.ToolUseID, Parent: m.Parent, Tool: agentcli.Tool{
			ID: block.ToolUseID, Result: block.Content.text(), Failed: block.IsError,
		}})
	}
	return events
}

// replayed notes that a prompt of ours was taken up. Claude repeats also what is none
// (the output of a command of its own); a prompt it has had before it repeats at once
// and leaves at that.
func (s *state) replayed(m message) (events []agentcli.Event) {
	i := slices.Index(s.sent, m.UUID)
	if i < 0 {
		return nil
	}
	s.sent = slices.Delete(s.sent, i, i+1)
	s.taken = append(s.taken, m.UUID)
	events = append(events, agentcli.Event{Kind: agentcli.TakenUp, ID: m.UUID})
	if m.Timestamp == "" && !s.working && len(s.sent) == 0 {
		events = append(events, agentcli.Event{
			Kind: agentcli.Result, Prompts: s.taken, Reason: "duplicate",
			Failure: "Claude has had this message before and does not answer it twice.",
		})
		s.taken = nil
	}
	return events
}

func (s *state) asked(m message) (h heard) {
	r := m.Request
	if r.Subtype != "can_use_tool" || m.RequestID == "" {
		h.refuse = m.RequestID
		return h
	}
	t := s.tool(r.ToolUseID, r.Tool, r.Input)
	e := agentcli.Event{Kind: agentcli.Permission, ID: m.RequestID, Parent: s.tasks[r.AgentID]}
	switch r.Tool {
	case askTool:
		e.Kind = agentcli.Question
		e.Choices = choices(t.Input)
	case planTool:
		e.Kind = agentcli.Plan
		e.Text = planned(t.Input)
	default:
		t.Outside = t.Outside || r.ReasonType == "workingDir" || r.ReasonType == "safetyCheck" ||
			strings.Contains(r.Reason, "outside allowed working directories")
		t.Always = like(t) != ""
		t.Granted = t.Always && s.granted[like(t)]
	}
	e.Tool = t
	s.open[m.RequestID] = ask{kind: e.Kind, tool: t}
	h.events = append(h.events, e)
	return h
}

// withdrawn ends every question that waits.
func (s *state) withdrawn() (events []agentcli.Event) {
	ids := make([]string, 0, len(s.open))
	for id := range s.open {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		events = append(events, agentcli.Event{Kind: agentcli.Withdrawn, ID: id})
	}
	clear(s.open)
	return events
}

func (s *state) result(m message) []agentcli.Event {
	events := s.withdrawn()
	e := agentcli.Event{Kind: agentcli.Result, Reason: reason(m), Usage: s.totals.since(m, s.model)}
	lost := s.resumed && !s.working && unknownSession(m)
	switch {
	case lost:
		e.NoSession = true
		e.Prompts = append(s.taken, s.sent...)
		s.sent = nil
	case len(s.taken) > 0:
		e.Prompts = s.taken
	case s.told && m.Turns > 0:
		// A background task reported and Claude took a turn to think about it.
		e.Prompts = []string{agentcli.Unasked}
	case len(s.sent) > 0: // a command of its own, which it does not repeat
		e.Prompts = s.sent[:1:1]
		s.sent = slices.Clone(s.sent[1:])
	}
	if m.IsError {
		e.Interrupted = s.stop && !lost
		switch {
		case lost:
			e.Failure = forgotten
		case !e.Interrupted:
			e.Failure = failure(m)
		}
	}
	s.taken, s.working, s.told, s.stop = nil, false, false, false
	clear(s.calls)
	clear(s.pieces)
	return append(events, e)
}
