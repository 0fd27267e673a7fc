package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/approval"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/delivery"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/tool/bash"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// openApprovals reads the questions that wait for people. h.engine and h.desk are
// there before anybody is asked.
func (s *server) openApprovals(h *house) (err error) {
	cfg := s.opts.Config
	h.approvals, err = approval.New(approval.Options{
		Dir:     filepath.Join(cfg.Workspace, "state", "approvals"),
		Allowed: s.mayAnswer(h),
		Expired: func(ctx context.Context, q approval.Question) error { return tellExpired(ctx, h, q) },
		Logger:  s.log,
	})
	return err
}

// mayApprove lets people answer who may talk to Iris there, which the transports
// have decided, or those of a list.
func mayApprove(approvers []string) func(chat.Address, chat.Person) bool {
	return func(_ chat.Address, p chat.Person) bool {
		return !p.Bot && (len(approvers) == 0 || slices.Contains(approvers, p.ID))
	}
}

// hold takes a held command to the people.
func (s *server) hold(h *house, environ []string, dir string) func(context.Context, tool.Call, string, policy.Verdict) bash.Answer {
	return func(ctx context.Context, call tool.Call, command string, v policy.Verdict) bash.Answer {
		r := call.Request
		if s.secrets.redact.Found(command) {
			// A question is kept and shown as it is.
			return bash.Answer{Text: "Command held by bash policy: " + v.Reason + ". It was not run and nobody was asked, because it holds the value of a secret. Write $(get-secret NAME) in its place."}
		}
		held, err := h.approvals.Hold(approval.Request{
			Conversation: r.Conversation, Command: command, Reason: v.Reason, Rule: v.Rule, Span: v.Span,
			Dir: dir, Env: environ, Host: seen(h.box, s.opts.Config.Workspace), Requester: r.Message.From, Turn: r.ID, Origin: r.Origin,
		})
		switch {
		case err != nil:
			s.log.Error("a held command could not be asked about", "turn", r.ID, "err", err)
			return bash.Answer{Text: fmt.Sprintf("Command held by bash policy: %s. It needs the approval of a person, and asking failed: %v. It was not run.", v.Reason, err)}
		case held.Granted:
			return bash.Answer{Allowed: true, By: held.By}
		}
		if err := call.Emit(turn.Event{Kind: turn.AskFor, Ask: held.Question.Ask()}); err != nil {
			s.log.Warn("a question is not shown in its turn", "turn", r.ID, "question", held.Question.ID, "err", err)
		}
		if held.Fresh && r.Origin.Unattended() {
			h.desk.Tell(ctx, parked(held.Question))
		}
		return bash.Answer{Text: held.Text}
	}
}

// seen translates a path of a command for those who look at it from here, nil
// where commands have this machine's own paths.
func seen(b *box, workspace string) func(string) (string, bool) {
	if b.Path(workspace) == workspace {
		return nil
	}
	return b.Host
}

// parked tells the operator of a command that nobody was there to answer for.
func parked(q approval.Question) string {
	return fmt.Sprintf("A command waits for approval in %s until %s: `%s` (%s). Answer with: iris approvals answer %s yes|no",
		q.Channel, q.Until.Format("2006-01-02 15:04 MST"), q.Command, q.Reason, approval.Mark(q.ID))
}

// tellExpired says once that nobody has answered in time.
func tellExpired(ctx context.Context, h *house, q approval.Question) error {
	conv, err := q.Conversation()
	if err != nil {
		return err
	}
	text := fmt.Sprintf("_Nobody answered in time; this command was not run: `%s`_", q.Command)
	if err := h.engine.NoticeOnce(ctx, conv, "expired:"+q.ID, text); err != nil {
		return err
	}
	if q.Origin.Unattended() {
		h.desk.Tell(ctx, fmt.Sprintf("Nobody approved this command in time, in %s; it was not run: `%s`", q.Channel, q.Command))
	}
	return nil
}

// settle looks whether words answer a question.
func (s *server) settle(h *house) func(chat.Address, transport.Submission) *engine.Settlement {
	return func(conv chat.Address, said transport.Submission) *engine.Settlement {
		m := said.Message
		if said.Origin == turn.FromAPI {
			m.From = apiPerson(m.From)
		}
		found, err := h.approvals.Word(conv, m)
		switch {
		case errors.Is(err, transport.ErrNotAllowed):
			return &engine.Settlement{Refusal: "_You may not approve this command; it still waits for somebody who may._"}
		case err != nil:
			s.log.Error("words about a held command", "conversation", conv, "message", m.ID, "err", err)
			return nil
		case found == nil:
			return nil
		}
		return settlement(found)
	}
}

// apiPerson is who speaks through the API: the token proves the program, and for
// whom it speaks is its own word.
func apiPerson(p chat.Person) chat.Person {
	api := chat.Person{ID: "api", Bot: p.Bot}
	if p.ID != api.ID {
		api.Name = p.ID
	}
	return api
}

func settlement(s *approval.Settlement) *engine.Settlement {
	return &engine.Settlement{Question: s.Question.ID, Prompt: s.Prompt, Live: s.Question.Waits, Loose: s.Loose, Done: s.Done}
}

// answer settles a question by a button or a call of the API.
func answer(h *house) func(context.Context, transport.Answer) (transport.Reply, error) {
	return func(ctx context.Context, a transport.Answer) (transport.Reply, error) {
		found, err := h.approvals.Choose(a.Ask, a.Conversation, a.From, approval.Choice{Yes: a.Yes, Words: a.Choice})
		if err != nil {
			return transport.Reply{}, err
		}
		q := found.Question
		conv, err := q.Conversation()
		if err != nil {
			found.Done(false)
			return transport.Reply{}, err
		}
		text := answerText(q, a)
		m := chat.Message{ID: approval.AnswerID(q.ID), From: a.From, Text: text, At: a.At, Thread: a.Thread}
		receipt, err := h.engine.Settled(context.WithoutCancel(ctx), conv, m, settlement(found))
		if q.Waits {
			receipt.Turn = q.Turn // which goes on
		}
		return transport.Reply{Turn: receipt.Turn}, err
	}
}

// answerText is the message that stands for a button in the log.
func answerText(q approval.Question, a transport.Answer) string {
	what := q.Command
	if what == "" {
		what, _, _ = strings.Cut(q.Text, "\n")
	}
	switch {
	case !a.Yes:
		return "Declined: `" + what + "`"
	case len(q.Options) > 0:
		return a.Choice
	case q.Always && strings.EqualFold(a.Choice, "always"):
		return "Approved, for the session: `" + what + "`"
	}
	return "Approved, once: `" + what + "`"
}

// openDesk makes the place from which Iris speaks to the operator.
func (s *server) openDesk(h *house) (err error) {
	opts := delivery.Options{Noticer: h.engine, Default: h.owner, Logger: s.log}
	if c := s.opts.Config.OperatorChannel; c != "" {
		if opts.Operator, err = chat.Parse(c); err != nil {
			return fmt.Errorf("IRIS_STATUS_CHANNEL: %w", err)
		}
	}
	h.desk, err = delivery.New(opts)
	return err
}
