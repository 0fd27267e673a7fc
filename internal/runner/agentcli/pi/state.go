package pi

import (
	"encoding/json"
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

func (s *state) say(c any) { s.out = append(s.out, c) }

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

// compactPrompt is the prompt that has Pi summarise what was said; Pi has a command
// for it.
const compactPrompt = "/compact"

// no is the word that refuses a confirmation.
const no = "No"
