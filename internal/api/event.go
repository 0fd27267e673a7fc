package api

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

func (s *Server) event(w http.ResponseWriter, r *http.Request, c caller) error {
	b, err := decode[struct {
		ChannelID string `json:"channelId"`
		Text      string `json:"text"`
		User      string `json:"user"`
	}](s, w, r)
	if err != nil {
		return err
	}
	if err := required("channelId", b.ChannelID, "text", b.Text); err != nil {
		return err
	}
	conv, err := chat.Parse(b.ChannelID)
	if err != nil {
		return bad("channelId: %v", err)
	}
	if !s.owns(r.Context(), c, conv) {
		return &problem{Status: http.StatusForbidden, Text: "this token may post events to its own conversation only"}
	}
	from := chat.Person{ID: "api"}
	switch {
	case c.kind == agent:
		from = chat.Person{ID: c.name, Bot: true}
	case c.kind == turnToken:
		from = chat.Person{ID: "api", Bot: true}
	case b.User != "":
		from.ID = b.User
	}
	id, err := s.wake(r.Context(), conv, b.Text, from, turn.FromEvent)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"ok": true, "eventId": id})
	return nil
}

// owns reports whether a caller may post events to a conversation. An agent's
// own are the escalations about it and the sessions it answers.
func (s *Server) owns(ctx context.Context, c caller, conv chat.Address) bool {
	switch c.kind {
	case operator:
		return true
	case turnToken:
		return conv == c.conv
	case agent:
		if conv.Space == chat.Session {
			found, err := s.opts.Sessions.Get(ctx, conv.ID)
			return err == nil && found.Runner == c.name
		}
		return (conv.Space == chat.Escalate || conv.Space == chat.SelfHeal) && conv.ID == c.name
	}
	return false
}

// wake submits a message that nobody waits for. Its turn's id names it.
func (s *Server) wake(ctx context.Context, conv chat.Address, text string, from chat.Person, origin turn.Origin) (turn.ID, error) {
	id := turn.NewID()
	_, err := s.opts.Engine.Submit(context.WithoutCancel(ctx), transport.Submission{
		Address: conv,
		Message: chat.Message{ID: string(id), At: s.opts.Now(), Text: text, From: from},
		Origin:  origin, Turn: id, Direct: true,
	})
	return id, err
}

// severities are the ones there are, with their signs.
var severities = map[string]string{"critical": "🔴", "warning": "🟡", "error": "🟠", "info": "🟠"}

func (s *Server) escalate(w http.ResponseWriter, r *http.Request, c caller) error {
	b, err := decode[Escalation](s, w, r)
	if err != nil {
		return err
	}
	if c.kind == agent {
		if b.Agent != "" && b.Agent != c.name {
			return &problem{Status: http.StatusForbidden, Text: "an agent escalates for itself only"}
		}
		b.Agent = c.name
	}
	if err := b.Check(); err != nil {
		return err
	}
	conv := chat.Address{Space: chat.Escalate, ID: b.Agent}
	if s.opts.Parent != nil {
		id, err := s.opts.Parent(r.Context(), b)
		if err != nil {
			return &problem{Status: http.StatusBadGateway, Text: err.Error()}
		}
		answer(w, http.StatusOK, map[string]any{"ok": true, "eventId": id, "channelId": conv.Channel()})
		return nil
	}
	id, err := s.wake(r.Context(), conv, b.Text(s.opts.Now()), chat.Person{ID: b.Agent, Bot: true}, turn.FromEscalation)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"ok": true, "eventId": id, "channelId": conv.Channel()})
	return nil
}

// An Escalation is trouble that somebody reports.
type Escalation struct {
	Agent       string `json:"agent"`
	Issue       string `json:"issue"`
	Context     string `json:"context,omitempty"`
	Severity    string `json:"severity,omitempty"`
	Environment string `json:"environment,omitempty"`
}

// maxEnvironment bounds a label that is put into a heading.
const maxEnvironment = 64

// Check fills in what is not given and refuses what cannot be meant.
func (e *Escalation) Check() error {
	if err := required("agent", e.Agent, "issue", e.Issue); err != nil {
		return err
	}
	if err := chat.CheckID(e.Agent); err != nil {
		return bad("agent %v", err)
	}
	if e.Severity == "" {
		e.Severity = "error"
	}
	if severities[e.Severity] == "" {
		return bad("severity must be critical, error, warning or info")
	}
	if e.Environment == "" {
		e.Environment = "prod"
	}
	if len(e.Environment) > maxEnvironment || chat.CheckID(strings.ReplaceAll(e.Environment, ".", "-")) != nil {
		return bad("environment must be 1 to %d characters of A-Z, a-z, 0-9, ., _ and -", maxEnvironment)
	}
	return nil
}

// Text is the message an escalation becomes.
func (e *Escalation) Text(at time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s **Escalation from @%s** [%s/%s]: %s", severities[e.Severity], e.Agent, e.Severity, e.Environment, e.Issue)
	if e.Context != "" {
		b.WriteString("\n\nContext:\n" + e.Context)
	}
	b.WriteString("\n\n_Received via internal API at " + at.UTC().Format("2006-01-02T15:04:05.000Z") + "_")
	return b.String()
}

func (s *Server) health(w http.ResponseWriter, r *http.Request, _ caller) error {
	answer(w, http.StatusOK, map[string]any{"ok": true, "channels": s.countKnown(r.Context())})
	return nil
}

// ready tells everybody whether the process is useful, and the operator why not.
func (s *Server) ready(w http.ResponseWriter, r *http.Request, c caller) error {
	var checks []Check
	if s.opts.Ready != nil {
		checks = s.opts.Ready(r.Context())
	}
	ok := !slices.ContainsFunc(checks, func(c Check) bool { return !c.OK })
	out := map[string]any{"ok": ok}
	if c.kind == operator {
		out["checks"] = orEmpty(checks)
	}
	status := http.StatusOK
	if !ok {
		status = http.StatusServiceUnavailable
		out["error"] = "not ready"
	}
	answer(w, status, out)
	return nil
}

func (s *Server) mcpStatus(w http.ResponseWriter, r *http.Request, _ caller) error {
	var out any = map[string]any{"servers": []any{}, "configErrors": []any{}, "configHash": ""}
	if s.opts.MCP != nil {
		status, err := s.opts.MCP(r.Context())
		if err != nil {
			return err
		}
		out = status
	}
	answer(w, http.StatusOK, out)
	return nil
}

// status is what a parent asks of its agents.
func (s *Server) status(w http.ResponseWriter, _ *http.Request, _ caller) error {
	var out any = map[string]any{}
	if s.opts.Status != nil {
		out = s.opts.Status()
	}
	answer(w, http.StatusOK, out)
	return nil
}

func (s *Server) agents(w http.ResponseWriter, _ *http.Request, _ caller) error {
	var all []Agent
	if s.opts.Agents != nil {
		all = s.opts.Agents()
	}
	answer(w, http.StatusOK, map[string]any{"agents": orEmpty(all)})
	return nil
}

// known remembers how many conversations there are, because health is asked
// often and counting them reads directories.
type known struct {
	// mu guards the fields below.
	mu    sync.Mutex
	until time.Time
	count int
}

// knownFor is how long a count is good enough.
const knownFor = 5 * time.Second

// everywhere are the spaces whose conversations are listed.
var everywhere = []chat.Space{chat.Slack, chat.Telegram, chat.Web, chat.Session, chat.Bridge, chat.Escalate, chat.SelfHeal}

// conversations lists those at rest and those that run, by channel id; true
// means running.
func (s *Server) conversations(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	for _, space := range everywhere {
		kept, err := s.opts.Sessions.Conversations(ctx, space)
		if err != nil {
			return nil, err
		}
		for _, a := range kept {
			all[a.Channel()] = false
		}
	}
	for _, c := range s.opts.Engine.Conversations() {
		all[c.Address.Channel()] = c.Running
	}
	return all, nil
}

func (s *Server) countKnown(ctx context.Context) int {
	k := &s.known
	k.mu.Lock()
	defer k.mu.Unlock()
	now := s.opts.Now()
	if now.Before(k.until) {
		return k.count
	}
	all, err := s.conversations(ctx)
	if err != nil {
		s.log.WarnContext(ctx, "count conversations", "error", err)
		return k.count
	}
	k.count, k.until = len(all), now.Add(knownFor)
	return k.count
}

func (s *Server) channels(w http.ResponseWriter, r *http.Request, _ caller) error {
	type channel struct {
		ID      string `json:"id"`
		Running bool   `json:"running"`
	}
	found, err := s.conversations(r.Context())
	if err != nil {
		return err
	}
	all := []channel{}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		all = append(all, channel{id, found[id]})
	}
	answer(w, http.StatusOK, map[string]any{"channels": all})
	return nil
}
