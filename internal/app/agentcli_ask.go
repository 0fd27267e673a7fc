package app

import (
	"cmp"
	"context"
	"fmt"

	"github.com/iris-operator/iris/internal/approval"
	"github.com/iris-operator/iris/internal/approval/audit"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/turn"
)

// cliAsk puts a question of an agent program to the people of its conversation.
func (s *server) cliAsk(h *house) func(context.Context, agentcli.Query) agentcli.Reply {
	return func(ctx context.Context, q agentcli.Query) agentcli.Reply {
		r, hide := q.Request, s.secrets.redact.String
		ask := approval.LiveRequest{
			Conversation: r.Conversation, Text: hide(q.Text), Command: hide(q.Command), Tool: hide(cmp.Or(q.Tool.Name, string(q.Kind))),
			Many: q.Many, Always: q.Always, Reason: q.Reason, Rule: q.Rule, Span: hide(q.Span), Dir: q.Dir,
			Requester: r.Message.From, Turn: r.ID, Origin: r.Origin,
		}
		for _, o := range q.Options {
			ask.Options = append(ask.Options, turn.Option{Label: hide(o.Label), About: hide(o.About)})
		}
		live, err := h.approvals.Ask(ask)
		if err != nil {
			s.log.Error("an agent's question could not be put", "turn", r.ID, "err", err)
			return agentcli.Reply{Outcome: agentcli.Declined, Words: "nobody could be asked: " + err.Error()}
		}
		if err := q.Emit(turn.Event{Kind: turn.AskFor, Ask: live.Question.Ask()}); err != nil {
			s.log.Warn("a question is not shown in its turn", "turn", r.ID, "question", live.Question.ID, "err", err)
		}
		if r.Origin.Unattended() {
			h.desk.Tell(ctx, waitsUnattended(q.Agent, live.Question))
		}
		o := live.Wait(ctx)
		over := live.Question.Ask()
		over.Outcome, over.By, over.Picked = string(o.State), o.By, o.Picked
		if o.Always {
			over.Picked = "always"
		}
		if err := q.Emit(turn.Event{Kind: turn.AskFor, Ask: over}); err != nil {
			s.log.Warn("the end of a question is not shown in its turn", "turn", r.ID, "question", over.ID, "err", err)
		}
		return agentcli.Reply{Outcome: agentcli.Outcome(o.State), By: o.By, Words: o.Words, Picked: o.Picked, Always: o.Always}
	}
}

// waitsUnattended tells the operator of a program that waits where nobody is.
func waitsUnattended(agent string, q approval.Question) string {
	what := q.Command
	if what == "" {
		what = q.Text
	}
	return fmt.Sprintf("%s waits for an answer in %s until %s: `%s`. Answer with: iris approvals answer %s yes|no",
		agent, q.Channel, q.Until.Format("15:04 MST"), what, approval.Mark(q.ID))
}

// cliAudit records what agent programs ask for beside the commands of Iris's own.
// That something ran is the program's word, so there is no exit code.
func (s *server) cliAudit(h *house) func(agentcli.Asked) {
	rec := s.secrets.veil.Audit(h.audit)
	return func(a agentcli.Asked) {
		e := audit.Entry{
			Channel: a.Conversation.Channel(), Command: a.What, Turn: string(a.Turn), Origin: string(a.Origin), User: a.User,
			Rule: a.Decision.Rule, Sandbox: "agent:" + a.Project, By: a.Decision.By,
		}
		switch a.Decision.Decision {
		case agentcli.Allowed:
			e.Decision = audit.Executed
		case agentcli.Held:
			e.Decision = audit.ConfirmationRequired
		case agentcli.Approved, agentcli.Answered:
			e.Decision = audit.Confirmed
		default:
			e.Decision = audit.Denied
		}
		rec.Append(e)
	}
}
