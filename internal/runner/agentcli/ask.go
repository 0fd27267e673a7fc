package agentcli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

// A Query is a question for people, put by a program that waits for its answer.
type Query struct {
	Request turn.Request
	// Project and Agent name who asks, Instance its process, ID the ask in it.
	Project, Agent, Instance, ID string
	// Kind is Permission, Question or Plan.
	Kind Kind
	// Tool is the call that waits. Text is what people are asked; Command is what
	// would be run, or a path, or what else names the call.
	Tool    Tool
	Text    string
	Command string
	// Reason, Rule and Span are the policy's, if it is the policy that holds it.
	Reason, Rule, Span string
	Dir                string
	Options            []turn.Option
	Many, Always       bool
	// Emit shows an event in the turn. The first AskFor must be among the first
	// things that Ask does: what the program says meanwhile waits for it.
	Emit func(turn.Event) error
}

// An Outcome says what became of a Query.
type Outcome string

// The outcomes.
const (
	Approved  Outcome = "approved"
	Declined  Outcome = "declined"
	Answered  Outcome = "answered"
	Expired   Outcome = "expired"
	TakenBack Outcome = "withdrawn"
)

// A Reply is what became of a Query.
type Reply struct {
	Outcome Outcome
	// By names the person, Words is what they said beside yes or no, Picked their
	// answer to a Question. Always: yes, and to the like of it too.
	By, Words, Picked string
	Always            bool
}

// Asked is something that a program asked for, and what was decided.
type Asked struct {
	Conversation chat.Address
	Turn         turn.ID
	Origin       turn.Origin
	User         string
	Project      string
	Tool         Tool
	// What names it in one line: the command, or the tool and what it touches.
	What     string
	Decision Decision
}

// A Decision is for the record of what was asked for.
type Decision struct {
	// Decision is "allowed" (by mode and policy), "held" (people are asked), or the
	// outcome of the question.
	Decision Outcome
	Rule     string
	Reason   string
	By       string
}

// What no person decided.
const (
	Allowed Outcome = "allowed"
	Held    Outcome = "held"
	Refused Outcome = "refused"
)

// asking is an ask that is open.
type asking struct{ cancel context.CancelFunc }

// ask decides about something the program wants, or puts it to people. It returns
// when the question is shown; the answer comes by itself.
func (t *run) ask(p *proc, ev Event) {
	ctx, cancel := context.WithCancel(context.Background())
	t.mu.Lock()
	if t.over || t.err != nil {
		t.mu.Unlock()
		cancel()
		go p.answer(Answer{ID: ev.ID, Reason: "The turn has ended."})
		return
	}
	t.heard = true
	if t.asks[ev.ID] != nil { // asked again under the same id: there will be one answer
		t.mu.Unlock()
		cancel()
		return
	}
	t.asks[ev.ID] = &asking{cancel}
	t.mu.Unlock()
	shown := make(chan struct{})
	t.wait.Go(func() {
		defer cancel()
		a, over := t.decide(ctx, p, ev, shown)
		t.mu.Lock()
		delete(t.asks, ev.ID)
		t.mu.Unlock()
		if !over {
			p.answer(a)
		}
	})
	<-shown
}

// withdraw ends an ask that the program has taken back.
func (t *run) withdraw(id string) {
	t.mu.Lock()
	a := t.asks[id]
	t.mu.Unlock()
	if a != nil {
		a.cancel()
	}
}

// withdrawAll ends all asks and returns when people have been told.
func (t *run) withdrawAll() {
	t.mu.Lock()
	for _, a := range t.asks {
		a.cancel()
	}
	t.mu.Unlock()
	t.wait.Wait()
}

// decide finds the answer to an ask; over says that there is nobody left to
// answer. shown is closed when people see the question, or will not.
func (t *run) decide(ctx context.Context, p *proc, ev Event, shown chan struct{}) (a Answer, over bool) {
	closed := false
	show := func() {
		if !closed {
			closed = true
			close(shown)
		}
	}
	defer show()
	put := func(q Query) Reply {
		q.Emit = func(e turn.Event) error {
			defer show()
			return t.put(ctx, e)
		}
		return t.c.r.pool.opts.Ask(ctx, q)
	}
	if ev.Kind == Question {
		return t.question(p, ev, put)
	}
	return t.permission(p, ev, put)
}

// put shows a question or its end, and saves that it is open or not: saved before
// it is shown, and over after its end was.
func (t *run) put(ctx context.Context, e turn.Event) error {
	save := func(s state) error { return t.sink.Checkpoint(context.WithoutCancel(ctx), s) }
	if e.Kind != turn.AskFor || e.Ask == nil {
		return t.emit(e)
	}
	if e.Ask.Outcome == "" {
		if err := save(state{Asked: e.Ask.ID}); err != nil {
			return err
		}
		return t.emit(e)
	}
	if err := t.emit(e); err != nil {
		return err
	}
	return save(state{Over: e.Ask.ID})
}

// permission decides about a tool call or a plan.
func (t *run) permission(p *proc, ev Event, put func(Query) Reply) (a Answer, over bool) {
	pool, tool := t.c.r.pool, ev.Tool
	a = Answer{ID: ev.ID}
	q := t.query(p, ev)
	r := ruling{verdict: ask}
	if ev.Kind == Permission {
		r = rule(pool.opts.Judge, t.scene(p), tool)
	}
	switch r.verdict {
	case allow:
		pool.audit(t.c, t, ev, Decision{Decision: Allowed})
		a.Allow = true
		return a, false
	case refuse:
		pool.audit(t.c, t, ev, Decision{Decision: Refused, Rule: r.rule, Reason: r.reason})
		a.Reason = "Refused by the policy of this machine: " + r.reason + ". Do not try it another way; tell the person what you could not do and why."
		return a, false
	}
	q.Reason, q.Rule, q.Span = r.reason, r.rule, r.span
	q.Always = tool.Always && r.reason == "" && ev.Kind == Permission
	q.Text = wording(t.agent(), ev, r.reason)
	pool.audit(t.c, t, ev, Decision{Decision: Held, Rule: r.rule, Reason: r.reason})
	reply := put(q)
	pool.audit(t.c, t, ev, Decision{Decision: reply.Outcome, Rule: r.rule, Reason: r.reason, By: reply.By})
	switch reply.Outcome {
	case Approved:
		a.Allow, a.Always = true, reply.Always && q.Always
	case TakenBack:
		return a, true
	case Expired:
		a.Reason = "Nobody answered in time, so it was not allowed. Stop, and wait for the person's instructions."
	default:
		a.Reason = "The person did not allow it. Stop, and wait for their instructions."
		if words := strings.TrimSpace(reply.Words); words != "" {
			a.Reason = "The person did not allow it. Their words: " + words
		}
	}
	return a, false
}

// question puts the groups of a question to people, one after the other.
func (t *run) question(p *proc, ev Event, put func(Query) Reply) (a Answer, over bool) {
	a = Answer{ID: ev.ID, Picked: map[string]string{}}
	for _, c := range ev.Choices {
		q := t.query(p, ev)
		q.Text, q.Many = c.Question, c.Many
		if c.Header != "" && !strings.EqualFold(c.Header, c.Question) {
			q.Text = c.Header + ": " + c.Question
		}
		for _, o := range c.Options {
			q.Options = append(q.Options, turn.Option{Label: o.Label, About: o.About})
		}
		reply := put(q)
		t.c.r.pool.audit(t.c, t, ev, Decision{Decision: reply.Outcome, By: reply.By})
		switch reply.Outcome {
		case Answered, Approved:
			a.Picked[c.Question] = cmp.Or(reply.Picked, reply.Words)
		case TakenBack:
			return a, true
		case Expired:
			a.Picked, a.Reason = nil, "Nobody answered in time. Stop, and wait for the person's instructions."
			return a, false
		default:
			a.Picked, a.Reason = nil, "The person does not want to answer this. Stop, and wait for their instructions."
			return a, false
		}
	}
	a.Allow = len(a.Picked) > 0
	return a, false
}

func (t *run) query(p *proc, ev Event) Query {
	return Query{
		Request: t.req, Project: t.c.r.project.Name, Agent: t.agent(), Instance: p.instance, ID: ev.ID, Kind: ev.Kind,
		Tool: ev.Tool, Command: subject(ev), Dir: cmp.Or(ev.Tool.Dir, p.setup.WorkDir),
	}
}

func (t *run) scene(p *proc) scene {
	rec, _ := t.c.view() // it was read before
	return scene{mode: t.c.mode(rec), dir: p.setup.WorkDir, readable: p.setup.Readable, env: p.env}
}

// subject is what a call is about, as people judge it: the whole command, the
// paths, else the fields that are shown.
func subject(ev Event) string {
	t := ev.Tool
	switch {
	case ev.Kind != Permission:
		return ""
	case t.Command != "":
		return t.Command
	case len(t.Paths) > 0:
		return t.Name + " " + strings.Join(t.Paths, ", ")
	}
	if fields := shownFields(t.Input); fields != nil {
		return clip(t.Name+" "+string(fields), maxSubject)
	}
	return t.Name
}

// maxSubject bounds what is shown of an input, maxPlan what is shown of a plan.
const (
	maxSubject = 400
	maxPlan    = 3000
)

// wording is the question in words.
func wording(agent string, ev Event, held string) string {
	who := agent
	if ev.Parent != "" {
		who = "A sub-agent of " + agent
	}
	if ev.Kind == Plan {
		return fmt.Sprintf("%s has a plan. May it go ahead?\n\n%s", who, clip(strings.TrimSpace(ev.Text), maxPlan))
	}
	what := map[Deed]string{Execute: "run this command", Read: "read this", Edit: "change this", Fetch: "fetch this"}[ev.Tool.What]
	if what == "" {
		what = "use " + clip(oneLine(ev.Tool.Name), 60)
	}
	text := fmt.Sprintf("%s wants to %s.", who, what)
	if ev.Tool.Outside {
		text += " It lies outside of its directories."
	}
	if held != "" {
		text += " The policy holds it: " + held + "."
	}
	return text
}

// questionText is what a question or a plan says.
func questionText(ev Event) string {
	if len(ev.Choices) > 0 {
		return ev.Choices[0].Question
	}
	return ev.Text
}

// audit records what was asked for.
func (p *Pool) audit(c *conversation, t *run, ev Event, d Decision) {
	a := Asked{Conversation: c.addr, Project: c.r.project.Name, Tool: ev.Tool, What: subject(ev), Decision: d}
	if a.What == "" {
		a.What = string(ev.Kind) + ": " + clip(oneLine(questionText(ev)), maxSubject)
	}
	if t != nil {
		a.Turn, a.Origin, a.User = t.req.ID, t.req.Origin, cmp.Or(t.req.Message.From.Name, t.req.Message.From.ID)
	}
	p.opts.Audit(a)
}

func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}
