package pi

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// Ids of commands that nobody waits for.
const (
	idAbort  = "iris-abort"
	idSettle = "iris-settle" // is it at rest after an agent_end?
	idProbe  = "iris-probe"  // has a command of an extension begun any work?
)

// A phase is what Pi is doing.
type phase string

const (
	idle     phase = "idle"
	running  phase = "running"  // a prompt is on its way, or agent_start was
	settling phase = "settling" // agent_end was; a retry or a compaction may follow
	waiting  phase = "waiting"  // it does
)

// state is the conversation with one Pi: lines and wishes in, events and commands
// out. It does no I/O and is not safe for concurrent use.
type state struct {
	now    func() time.Time
	events []agentcli.Event // to be told, in order
	out    []any            // commands to be written, in order

	session string
	gated   bool // the extension runs
	window  int64

	phase        phase
	begun        bool // agent_start was
	retrying     bool
	compacting   bool
	unresolved   bool // an agent_end still wants its Result
	interrupting bool

	held  []agentcli.Prompt // wait here
	sent  []agentcli.Prompt // handed over and not taken up, in order
	taken []string          // taken up, without Result

	running map[string]agentcli.Tool // tool calls
	passed  map[string]bool          // those that are as good as over
	asks    map[string]ask

	texts   int  // text parts of the answer at hand that were told whole
	pieces  bool // pieces were told after them
	stop    string
	failure string
	usage   agentcli.Usage
	started time.Time
}

// An ask is a question of Pi that is open.
type ask struct {
	method   string
	question string // of an extension; empty: a tool call
	call     string
}

func newState() *state {
	return &state{now: time.Now, phase: idle, running: map[string]agentcli.Tool{}, passed: map[string]bool{}, asks: map[string]ask{}}
}

func (s *state) tell(e agentcli.Event) { s.events = append(s.events, e) }

// A command goes to Pi.
type command struct {
	ID        string  `json:"id,omitempty"`
	Type      string  `json:"type"`
	Message   string  `json:"message,omitempty"`
	Images    []image `json:"images,omitempty"`
	Streaming string  `json:"streamingBehavior,omitempty"`
	Provider  string  `json:"provider,omitempty"`
	ModelID   string  `json:"modelId,omitempty"`
}

type image struct {
	Type string `json:"type"`
	Data []byte `json:"data"`
	Mime string `json:"mimeType"`
}

// A uiAnswer answers an extension.
type uiAnswer struct {
	Type      string  `json:"type"`
	ID        string  `json:"id"`
	Value     *string `json:"value,omitempty"`
	Confirmed *bool   `json:"confirmed,omitempty"`
	Cancelled bool    `json:"cancelled,omitempty"`
}

func (s *state) say(c any) { s.out = append(s.out, c) }

func (s *state) reply(id, value string) {
	s.say(uiAnswer{Type: "extension_ui_response", ID: id, Value: &value})
}

// send gives Pi a prompt, or keeps it until Pi can take it.
func (s *state) send(p agentcli.Prompt) {
	if s.phase != idle || s.compacting {
		s.held = append(s.held, p)
		return
	}
	s.prompt(p)
}

// prompt hands over. "steer" matters only if Pi works; it is what makes Pi take it
// in any case.
func (s *state) prompt(p agentcli.Prompt) {
	text := p.Text
	if len(p.Files) > 0 {
		text = strings.TrimSpace(text + "\n\nAttached files:\n" + strings.Join(p.Files, "\n"))
	}
	c := command{ID: p.ID, Type: "prompt", Message: text, Streaming: "steer"}
	if s.phase == idle && text == compactPrompt {
		s.phase, s.begun, s.started = running, true, s.now()
		s.taken = append(s.taken, p.ID)
		s.tell(agentcli.Event{Kind: agentcli.TakenUp, ID: p.ID})
		s.say(command{ID: p.ID, Type: "compact"})
		return
	}
	for _, i := range p.Images {
		c.Images = append(c.Images, image{"image", i.Data, i.Mime})
	}
	if s.phase == idle {
		s.phase, s.begun = running, false
	}
	s.sent = append(s.sent, p)
	s.say(c)
}

// steer hands over what waits, if no tool is at work any more: Pi looks for it
// right then.
func (s *state) steer() {
	if s.interrupting {
		return
	}
	for id := range s.running {
		if !s.passed[id] {
			return
		}
	}
	for _, p := range s.held {
		s.prompt(p)
	}
	s.held = nil
}

// interrupt ends the work at hand.
func (s *state) interrupt() {
	if s.phase == idle {
		return
	}
	s.interrupting = true
	s.withdraw()
	// What was handed over and is not taken up would come back later, so it is
	// given the moment it needs; agent_start is waited for, since before it an
	// abort does nothing.
	if s.phase != running || s.begun && len(s.sent) == 0 {
		s.say(command{ID: idAbort, Type: "abort"})
	}
}

// withdraw ends what is asked: an abort of Pi would not.
func (s *state) withdraw() {
	for id := range s.asks {
		s.say(uiAnswer{Type: "extension_ui_response", ID: id, Cancelled: true})
		s.tell(agentcli.Event{Kind: agentcli.Withdrawn, ID: id})
	}
	clear(s.asks)
}

// answer settles an ask; one that is over is none.
func (s *state) answer(a agentcli.Answer) {
	q, open := s.asks[a.ID]
	if !open {
		return
	}
	delete(s.asks, a.ID)
	switch {
	case q.question == "":
		if !a.Allow {
			s.passed[q.call] = true
			s.steer()
		}
		word, _ := json.Marshal(map[string]any{"allow": a.Allow, "reason": a.Reason, "input": a.Input})
		s.reply(a.ID, string(word))
	case q.method == "confirm":
		yes := a.Allow && a.Picked[q.question] != no
		s.say(uiAnswer{Type: "extension_ui_response", ID: a.ID, Confirmed: &yes})
	case a.Allow && a.Picked[q.question] != "":
		s.reply(a.ID, a.Picked[q.question])
	default:
		s.say(uiAnswer{Type: "extension_ui_response", ID: a.ID, Cancelled: true})
	}
	if a.Stop {
		s.interrupt()
	}
}

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

func (s *state) state(l line) {
	var d struct {
		SessionID   string `json:"sessionId"`
		IsStreaming bool   `json:"isStreaming"`
		Model       struct {
			Window int64 `json:"contextWindow"`
		} `json:"model"`
	}
	if json.Unmarshal(l.Data, &d) != nil {
		return
	}
	s.window = d.Model.Window
	if d.SessionID != "" && d.SessionID != s.session {
		s.session = d.SessionID
		s.tell(agentcli.Event{Kind: agentcli.Session, ID: d.SessionID})
	}
	switch {
	case l.ID == idSettle && s.phase == settling && (s.retrying || s.compacting):
		s.phase = waiting
	case l.ID == idSettle && s.phase == settling,
		l.ID == idProbe && s.phase == running && !s.begun && !d.IsStreaming:
		s.unresolved = s.unresolved || l.ID == idProbe
		s.rest()
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

// compactPrompt is the prompt that has Pi summarise what was said; Pi has a command
// for it.
const compactPrompt = "/compact"

// no is the word that refuses a confirmation.
const no = "No"

// asked takes a question of an extension, ours first.
func (s *state) asked(l line) {
	q := ask{method: l.Method, question: strings.TrimSpace(l.Title + "\n" + l.Ask)}
	choices := agentcli.Choices{Question: q.question}
	switch {
	case l.Method == "setStatus" && l.StatusKey == "iris-gate":
		s.gated = true
		return
	case l.Method == "input" && l.Title == "iris-next":
		s.passed[l.Placeholder] = true
		s.steer()
		s.reply(l.ID, "")
		return
	case l.Method == "input" && l.Title == "iris-gate":
		s.gate(l)
		return
	case l.Method == "notify":
		s.tell(agentcli.Event{Kind: agentcli.Notice, Text: l.Ask})
		return
	case l.Method == "confirm":
		choices.Options = []agentcli.Option{{Label: "Yes"}, {Label: no}}
	case l.Method == "select":
		for _, o := range l.Options {
			choices.Options = append(choices.Options, agentcli.Option{Label: o})
		}
	case l.Method == "input", l.Method == "editor":
	default:
		return // nothing waits for an answer
	}
	s.asks[l.ID] = q
	s.tell(agentcli.Event{Kind: agentcli.Question, ID: l.ID, Choices: []agentcli.Choices{choices}})
}

// gate takes the question for a tool call.
func (s *state) gate(l line) {
	var call struct {
		ID    string          `json:"id"`
		Tool  string          `json:"tool"`
		Input json.RawMessage `json:"input"`
	}
	if s.interrupting || json.Unmarshal([]byte(l.Placeholder), &call) != nil || call.Tool == "" {
		s.say(uiAnswer{Type: "extension_ui_response", ID: l.ID, Cancelled: true})
		return
	}
	s.asks[l.ID] = ask{method: l.Method, call: call.ID}
	s.tell(agentcli.Event{Kind: agentcli.Permission, ID: l.ID, Tool: tool(call.ID, call.Tool, call.Input)})
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
