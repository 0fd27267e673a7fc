package api

import (
	"net/http"
	"time"

	"github.com/iris-operator/iris/internal/approval"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// waiting is a question as callers see it.
type waiting struct {
	ID        string      `json:"id"`
	Channel   string      `json:"channel"`
	Text      string      `json:"text"`
	Command   string      `json:"command"`
	Reason    string      `json:"reason"`
	Rule      string      `json:"rule,omitempty"`
	Span      string      `json:"span,omitempty"`
	Dir       string      `json:"cwd,omitempty"`
	Requester string      `json:"requester,omitempty"`
	Turn      turn.ID     `json:"turn,omitempty"`
	Origin    turn.Origin `json:"origin,omitempty"`
	At        time.Time   `json:"at"`
	Until     time.Time   `json:"until"`
	// What belongs to a question whose asker waits for the answer.
	Waits   bool          `json:"waits,omitempty"`
	Tool    string        `json:"tool,omitempty"`
	Options []turn.Option `json:"options,omitempty"`
	Many    bool          `json:"many,omitempty"`
	Always  bool          `json:"always,omitempty"`
}

// approvals lists the commands that wait for a person, oldest first; with the
// query parameter channel those of one conversation.
func (s *Server) approvals(w http.ResponseWriter, r *http.Request, _ caller) error {
	var conv chat.Address
	if name := r.URL.Query().Get("channel"); name != "" {
		var err error
		if conv, err = chat.Parse(name); err != nil {
			return bad("channel: %v", err)
		}
	}
	all := []waiting{}
	for _, q := range s.waiting(conv) {
		all = append(all, waiting{q.ID, q.Channel, q.Text, q.Command, q.Reason, q.Rule, q.Span, q.Dir, q.Requester.ID, q.Turn, q.Origin, q.At, q.Until,
			q.Waits, q.Tool, q.Options, q.Many, q.Always})
	}
	answer(w, http.StatusOK, map[string]any{"approvals": all})
	return nil
}

func (s *Server) waiting(conv chat.Address) []approval.Question {
	if s.opts.Approvals == nil {
		return nil
	}
	return s.opts.Approvals.List(conv)
}

// approve answers one question. Who answers is whose token it is, never what a
// body says.
func (s *Server) approve(w http.ResponseWriter, r *http.Request, c caller) error {
	b, err := decode[struct {
		Answer string `json:"answer"`
		Choice string `json:"choice"`
	}](s, w, r)
	if err != nil {
		return err
	}
	if b.Answer == "" && b.Choice != "" {
		b.Answer = "yes"
	}
	if b.Answer != "yes" && b.Answer != "no" {
		return bad("answer must be yes or no")
	}
	id := r.PathValue("id")
	from := chat.Person{ID: "api"}
	if c.kind == page {
		from = chat.Person{ID: "web", Name: "web"}
	}
	reply, err := s.opts.Engine.Answer(r.Context(), transport.Answer{
		Ask: id, From: from, Yes: b.Answer == "yes", Choice: b.Choice, At: s.opts.Now(),
	})
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"id": id, "answer": b.Answer, "turn": reply.Turn})
	return nil
}
