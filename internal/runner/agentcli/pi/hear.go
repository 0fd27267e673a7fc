package pi

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// hear takes what Pi says.
func (s *state) hear(l line) {
	switch l.Type {
	case "response":
		s.response(l)
	case "agent_start":
		s.agentStart()
	case "agent_end":
		s.agentEnd()
	case "message_start":
		s.messageStart(l.Message)
	case "message_update":
		s.piece(l.Piece)
	case "message_end":
		s.messageEnd(l.Message)
	case "tool_execution_start":
		t := tool(l.CallID, l.ToolName, l.Args)
		s.running[t.ID] = t
		s.tell(agentcli.Event{Kind: agentcli.ToolStart, ID: t.ID, Tool: t})
	case "tool_execution_end":
		s.toolEnd(l)
	case "extension_ui_request":
		s.asked(l)
	case "extension_error":
		s.tell(agentcli.Event{Kind: agentcli.Notice, Text: "An extension of Pi failed: " + l.Error})
	default:
		s.repair(l)
	}
}

func (s *state) agentStart() {
	if s.phase == idle || !s.begun {
		s.started = s.now()
	}
	s.phase, s.begun, s.retrying = running, true, false
	if s.interrupting && len(s.sent) == 0 {
		s.say(command{ID: idAbort, Type: "abort"})
	}
}

// agentEnd: a good end is told at once. A bad one may be followed by another try,
// which is known once Pi answers the next question.
func (s *state) agentEnd() {
	s.phase = settling
	s.withdraw()
	s.unresolved = true
	if s.stop != "error" {
		s.resolve()
	}
	s.say(command{ID: idSettle, Type: "get_state"})
}

// resolve tells the Result of what was taken up.
func (s *state) resolve() {
	e := agentcli.Event{Kind: agentcli.Result, Prompts: s.taken, Reason: s.stop, Interrupted: s.interrupting}
	// Handed over and not taken up at the end: nobody takes it up any more.
	for _, p := range s.sent {
		e.Prompts = append(e.Prompts, p.ID)
	}
	switch {
	case s.interrupting:
	case s.stop == "error":
		e.Failure = failure(s.failure)
	case s.stop == "aborted":
		e.Failure = failure("the work was stopped")
	}
	if s.usage.Input+s.usage.Output+s.usage.CacheRead+s.usage.CacheWrite > 0 {
		u := s.usage
		u.Took, u.Window = s.now().Sub(s.started), s.window
		e.Usage = &u
	}
	s.tell(e)
	s.taken, s.sent, s.usage = nil, nil, agentcli.Usage{}
	s.unresolved, s.interrupting, s.stop, s.failure = false, false, "", ""
	clear(s.running)
	clear(s.passed)
}

// rest is reached: the Result is told if it was not, and what waited goes on.
func (s *state) rest() {
	if s.unresolved {
		s.resolve()
	}
	s.phase, s.begun, s.interrupting = idle, false, false
	s.next()
}

// next hands over the first of what waits, once Pi is at rest.
func (s *state) next() {
	if s.phase != idle || s.compacting || len(s.held) == 0 {
		return
	}
	p := s.held[0]
	s.held = s.held[1:]
	s.prompt(p)
}

func (s *state) response(l line) {
	switch {
	case l.Command == "get_state" && l.Success:
		s.state(l)
	case l.Command == "compact":
		if s.stop = "stop"; !l.Success {
			s.stop, s.failure = "error", l.Error
		}
		s.unresolved = true
		s.rest()
	case l.Command == "prompt" && !l.Success:
		s.refused(l)
	case l.Command == "prompt":
		// A word that an extension takes as its command begins no work.
		for _, p := range s.sent {
			if p.ID == l.ID && strings.HasPrefix(p.Text, "/") && !s.begun {
				s.say(command{ID: idProbe, Type: "get_state"})
			}
		}
	}
}

// refused: a prompt was not taken.
func (s *state) refused(l line) {
	for i, p := range s.sent {
		if p.ID != l.ID {
			continue
		}
		s.sent = append(s.sent[:i:i], s.sent[i+1:]...)
		s.tell(agentcli.Event{Kind: agentcli.Result, Prompts: []string{p.ID}, Failure: failure(l.Error), Reason: "refused", Interrupted: s.interrupting})
		if s.phase == running && !s.begun && len(s.sent) == 0 {
			s.rest()
		}
		return
	}
}

func (s *state) messageStart(m message) {
	s.texts, s.pieces = 0, false
	if m.Role != "user" || len(s.sent) == 0 {
		return
	}
	p := s.sent[0]
	s.sent = s.sent[1:]
	s.taken = append(s.taken, p.ID)
	s.tell(agentcli.Event{Kind: agentcli.TakenUp, ID: p.ID})
	if s.interrupting && len(s.sent) == 0 {
		s.say(command{ID: idAbort, Type: "abort"})
	}
}

func (s *state) piece(p piece) {
	switch p.Type {
	case "text_delta":
		s.pieces = true
		s.tell(agentcli.Event{Kind: agentcli.Delta, Text: p.Delta})
	case "thinking_delta":
		s.tell(agentcli.Event{Kind: agentcli.Thought, Text: p.Delta})
	case "text_end":
		s.texts, s.pieces = s.texts+1, false
		s.tell(agentcli.Event{Kind: agentcli.Text, Text: p.Content})
	}
}

func (s *state) messageEnd(m message) {
	if m.Role != "assistant" {
		return
	}
	s.stop, s.failure = m.StopReason, m.ErrorMessage
	s.usage.Model = m.Model
	if m.Provider != "" {
		s.usage.Model = m.Provider + "/" + m.Model
	}
	s.usage.Input += m.Usage.Input
	s.usage.Output += m.Usage.Output
	s.usage.CacheRead += m.Usage.CacheRead
	s.usage.CacheWrite += m.Usage.CacheWrite
	s.usage.Cost += m.Usage.Cost.Total
	if m.StopReason == "error" {
		if s.pieces {
			s.tell(agentcli.Event{Kind: agentcli.Text}) // they do not count
		}
		return
	}
	told := 0
	for _, p := range m.Content {
		if p.Type != "text" || p.Text == "" {
			continue
		}
		if told++; told > s.texts {
			s.tell(agentcli.Event{Kind: agentcli.Text, Text: p.Text})
		}
	}
}

func (s *state) toolEnd(l line) {
	t, ok := s.running[l.CallID]
	if !ok {
		return
	}
	delete(s.running, l.CallID)
	delete(s.passed, l.CallID)
	for id, q := range s.asks {
		if q.question == "" && q.call == l.CallID {
			delete(s.asks, id)
			s.tell(agentcli.Event{Kind: agentcli.Withdrawn, ID: id})
		}
	}
	t.Result, t.Failed = outcome(l.Result), l.IsError
	s.tell(agentcli.Event{Kind: agentcli.ToolEnd, ID: t.ID, Tool: t})
}

// repair is what Pi does about a failure.
func (s *state) repair(l line) {
	switch l.Type {
	case "auto_retry_start":
		s.retrying = true
		s.tell(agentcli.Event{Kind: agentcli.Notice, Text: fmt.Sprintf("The model's provider failed (%s); trying again in %s, %d of %d.",
			brief(l.ErrorMessage), time.Duration(l.DelayMs)*time.Millisecond, l.Attempt, l.MaxAttempts)})
	case "auto_retry_end":
		s.retrying = false
		if l.FinalError != "" && s.failure == "" {
			s.failure = l.FinalError
		}
		if s.phase == waiting && !l.Success && !s.compacting {
			s.rest()
		}
	case "compaction_start":
		s.compacting = true
		s.tell(agentcli.Event{Kind: agentcli.Notice, Text: "Pi is summarising what was said so far."})
	case "compaction_end":
		s.compacting = false
		switch {
		case s.phase == waiting && !l.WillRetry:
			s.rest()
		case s.phase == idle:
			s.next()
		}
	}
}

// failure is one sentence about an error of Pi.
func failure(why string) string {
	if why = brief(why); why == "" {
		return "Pi ended without an answer."
	}
	return "Pi reports: " + why
}

// brief takes the words out of an error of an API, which is a status and JSON.
func brief(why string) string {
	status, rest, ok := strings.Cut(why, " ")
	var e struct {
		Error struct{ Type, Message string }
	}
	if ok && json.Unmarshal([]byte(rest), &e) == nil && e.Error.Message != "" {
		why = fmt.Sprintf("%s %s (%s)", status, e.Error.Message, e.Error.Type)
	}
	if line, _, more := strings.Cut(strings.TrimSpace(why), "\n"); more {
		why = line
	}
	if runes := []rune(why); len(runes) > 300 {
		why = string(runes[:300]) + "…"
	}
	return why
}
