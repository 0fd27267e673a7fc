package acp

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// An ask is a question that is open. settle is called once with the answer, without
// mu; or with nil when it is withdrawn, and takes no lock then.
type ask struct {
	id     string
	settle func(*agentcli.Answer)
	// key is what an Always remembers; empty: the agent remembers by itself, or
	// nobody does.
	key string
}

// serve answers a request of the agent. What takes time, or a person, is answered
// later.
func (a *Agent) serve(m message) {
	switch m.Method {
	case "session/request_permission":
		var p permission
		if decode(m.Params, &p) != nil || p.Call.ID == "" {
			a.refuse(m.ID, codeParams, "invalid params")
			return
		}
		a.permission(m.ID, p)
	case "fs/read_text_file":
		a.readFile(m)
	case "fs/write_text_file":
		a.writeFile(m)
	case "terminal/create":
		a.createTerminal(m)
	case "terminal/output", "terminal/wait_for_exit", "terminal/kill", "terminal/release":
		a.terminal(m)
	default:
		a.refuse(m.ID, codeMethod, "method not found: "+clip(m.Method, 100))
	}
}

// put opens a question. mu is held.
func (a *Agent) put(q *ask, ev agentcli.Event) {
	a.nextAsk++
	q.id = "ask-" + strconv.Itoa(a.nextAsk)
	a.asks[q.id] = q
	a.tellHeld()
	a.flushText()
	ev.ID = q.id
	a.events.put(ev)
}

// permission puts the agent's question. A session that is not ours, or one that
// is still being loaded, has nobody who could be asked.
func (a *Agent) permission(id json.RawMessage, p permission) {
	a.mu.Lock()
	if p.Session != a.id || a.muted {
		a.mu.Unlock()
		a.choose(id, "")
		return
	}
	if t := a.tools[p.Call.ID]; t == nil || !t.started {
		a.toolCall(p.Call.toolCall, p.Call.Content)
		a.tellHeld()
	}
	t := a.tools[p.Call.ID]
	t.take(p.Call.toolCall, p.Call.Content)
	choice := map[string]string{}
	for _, o := range p.Options {
		if _, had := choice[o.Kind]; !had {
			choice[o.Kind] = o.ID
		}
	}
	q := &ask{}
	call := t.Tool
	call.Always = choice["allow_always"] != ""
	if a.opts.Preset.keeps && call.Always {
		q.key = fmt.Sprintf("call:%s:%s", call.Name, call.Input)
		call.Granted = a.always[q.key]
	}
	q.settle = func(ans *agentcli.Answer) {
		pick := ""
		switch {
		case ans == nil:
		case !ans.Allow:
			pick = choice["reject_once"]
		case ans.Always && q.key == "" && choice["allow_always"] != "":
			pick = choice["allow_always"]
		default:
			pick = choice["allow_once"]
		}
		if ans != nil && ans.Allow && pick != "" {
			a.mu.Lock()
			for _, k := range a.keys(call) {
				a.once[k]++
			}
			a.mu.Unlock()
		}
		a.choose(id, pick)
	}
	ev := agentcli.Event{Kind: agentcli.Permission, Parent: t.parent, Tool: call}
	if t.kind == "switch_mode" || call.Name == "ExitPlanMode" {
		ev.Kind, ev.Text = agentcli.Plan, inputOf(call.Input).Plan
	}
	a.put(q, ev)
	a.mu.Unlock()
}

// choose answers a permission with one of its options, by id; none cancels it.
func (a *Agent) choose(id json.RawMessage, option string) {
	var o outcome
	o.Outcome.Outcome = "cancelled"
	if option != "" {
		o.Outcome.Outcome, o.Outcome.Option = "selected", option
	}
	a.respond(id, o)
}

// Answer implements [agentcli.Agent]. The protocol knows no other input and no
// reason; a reason is told only with what the agent wanted us to do for it.
func (a *Agent) Answer(ctx context.Context, ans agentcli.Answer) error {
	if ans.Allow && ans.Input != nil {
		return fmt.Errorf("other input: %w", agentcli.ErrNotOffered)
	}
	select {
	case <-a.gone:
		return agentcli.ErrGone
	default:
	}
	a.mu.Lock()
	q := a.asks[ans.ID]
	delete(a.asks, ans.ID)
	if q != nil && ans.Allow && ans.Always && q.key != "" {
		a.always[q.key] = true
	}
	if q != nil && !ans.Allow && a.running != nil {
		a.running.refused = true
	}
	a.mu.Unlock()
	if q == nil {
		return nil
	}
	q.settle(&ans)
	if ans.Stop {
		return a.Interrupt(ctx)
	}
	return nil
}

// withdraw ends all questions without an answer. mu is held.
func (a *Agent) withdraw() {
	for id, q := range a.asks {
		delete(a.asks, id)
		a.events.put(agentcli.Event{Kind: agentcli.Withdrawn, ID: id})
		q.settle(nil)
	}
}

// keys are what an allowed call may ask of us, each once: the very command, or
// the very file.
func (a *Agent) keys(t agentcli.Tool) (list []string) {
	if t.What == agentcli.Execute && t.Command != "" {
		list = append(list, "run:"+t.Command)
	}
	for _, p := range t.Paths {
		switch t.What {
		case agentcli.Edit: // editing is reading and writing
			list = append(list, fileKey(agentcli.Edit, p), fileKey(agentcli.Read, p))
		case agentcli.Read:
			list = append(list, fileKey(agentcli.Read, p))
		}
	}
	return list
}
