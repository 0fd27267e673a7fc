package acp

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// Send implements [agentcli.Agent]. Prompts go out one after the other: an agent
// that is given one while it works may queue it, refuse it or mix the two.
func (a *Agent) Send(_ context.Context, p agentcli.Prompt) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.gone:
		return agentcli.ErrGone
	default:
	}
	a.queue = append(a.queue, p)
	return a.pump()
}

// pump sends the next prompt if the agent is idle. mu is held.
func (a *Agent) pump() error {
	if !a.opened || a.running != nil || len(a.queue) == 0 {
		return nil
	}
	p := a.queue[0]
	r := &running{id: p.ID}
	_, err := a.requestLocked("session/prompt", prompt{ID: a.id, Blocks: a.blocks(p)}, func(m message) { a.finish(r, m) })
	if err != nil {
		return err
	}
	a.queue, a.running, a.told = a.queue[1:], r, true
	a.events.put(agentcli.Event{Kind: agentcli.TakenUp, ID: p.ID})
	return nil
}

// blocks is a prompt in the protocol's words. mu is held.
func (a *Agent) blocks(p agentcli.Prompt) (list []block) {
	if a.opts.Preset.carrier == carryPrompt && !a.told && a.setup.System != "" {
		list = append(list, textBlock(a.setup.System))
	}
	unseen := 0
	for _, img := range p.Images {
		if !a.caps.Capabilities.Prompt.Image {
			unseen++
			continue
		}
		list = append(list, block{Type: "image", Data: img.Data, Mime: img.Mime})
	}
	list = append(list, textBlock(p.Text))
	if unseen > 0 {
		list = append(list, textBlock(fmt.Sprintf("(%d attached image(s) are left out: this agent takes none.)", unseen)))
	}
	for _, f := range p.Files {
		u := url.URL{Scheme: "file", Path: f}
		list = append(list, block{Type: "resource_link", URI: u.String(), Name: filepath.Base(f)})
	}
	return list
}

// finish is called by the reader with the end of a prompt.
func (a *Agent) finish(r *running, m message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flushTurn()
	ev := agentcli.Event{Kind: agentcli.Result, Prompts: []string{r.id}}
	var p prompted
	if m.Error == nil && decode(m.Result, &p) != nil {
		m.Error = &rpcError{Code: codeInternal, Message: "its answer cannot be read"}
	}
	ev.Reason = p.Stop
	switch {
	case m.Error != nil:
		ev.Interrupted = r.interrupted
		ev.Reason, ev.Failure = fmt.Sprint(m.Error.Code), oneLine(m.Error.Error())
		if m.Error.Code == codeAuth {
			ev.Failure = "the agent is not logged in: " + ev.Failure
		}
	case p.Stop == "cancelled":
		ev.Interrupted = r.interrupted
		if !r.interrupted {
			ev.Failure = "the agent broke off by itself"
		}
	case p.Stop == "max_tokens":
		ev.Failure = "the model reached the most it may write in one turn"
	case p.Stop == "max_turn_requests":
		ev.Failure = "the agent reached the most requests it may make in one turn"
	case p.Stop == "refusal":
		ev.Failure = "the model refused to go on"
	case r.fault != "":
		ev.Failure = r.fault
	case !r.spoke && !r.refused && !r.worked:
		ev.Failure = firstOf(a.opts.Preset.silence, "the agent ended its turn without a word")
	}
	ev.Usage = a.usage(p.Usage)
	a.events.put(ev)
	if a.running == r {
		a.running = nil
	}
	_ = a.pump() // an agent that is gone ends Read
}

// usage turns running totals into what was added. mu is held.
func (a *Agent) usage(now *usage) *agentcli.Usage {
	if now == nil && a.window == 0 && a.cost == a.spent {
		return nil
	}
	u := &agentcli.Usage{Model: a.models.current, Window: a.window, Cost: max(a.cost-a.spent, 0)}
	a.spent = a.cost
	if now == nil {
		return u
	}
	was := a.total
	if now.Input < was.Input || now.Output < was.Output {
		was = usage{} // it counts from the start again
	}
	u.Input, u.Output = now.Input-was.Input, now.Output-was.Output
	u.CacheRead, u.CacheWrite = max(now.CacheRead-was.CacheRead, 0), max(now.CacheWrite-was.CacheWrite, 0)
	a.total = *now
	return u
}

// Interrupt implements [agentcli.Agent]. Commands that run for the agent end with
// it.
func (a *Agent) Interrupt(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.opened {
		for _, p := range a.queue {
			a.events.put(agentcli.Event{Kind: agentcli.Result, Prompts: []string{p.ID}, Interrupted: true, Reason: "cancelled"})
		}
		a.queue = nil
		return nil
	}
	if a.running == nil {
		return nil
	}
	a.running.interrupted = true
	if err := a.notify("session/cancel", cancel{a.id}); err != nil {
		return err
	}
	a.withdraw()
	for _, t := range a.terminals {
		t.stop()
	}
	return nil
}

// SetModel implements [agentcli.Agent].
func (a *Agent) SetModel(ctx context.Context, model string) error {
	a.mu.Lock()
	m, id := a.models, a.id
	a.mu.Unlock()
	if len(m.all) == 0 {
		return fmt.Errorf("models: %w", agentcli.ErrNotOffered)
	}
	found := false
	for _, x := range m.all {
		found = found || x.ID == model
	}
	if !found {
		return fmt.Errorf("there is no model %q; there are: %s", model, m.names())
	}
	var err error
	if m.option != "" {
		err = a.step(ctx, "session/set_config_option", setOption{id, m.option, model}, nil, nil)
	} else {
		err = a.step(ctx, "session/set_model", setModel{id, model}, nil, nil)
	}
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.models.current = model
	return nil
}

func (m models) names() (s string) {
	for i, x := range m.all {
		if i > 0 {
			s += ", "
		}
		s += x.ID
	}
	return clip(s, 400)
}

// Models implements [agentcli.Agent].
func (a *Agent) Models(context.Context) (all []agentcli.Model, current string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]agentcli.Model(nil), a.models.all...), a.models.current, nil
}

// SetMode implements [agentcli.Agent]. The agent asks in every mode, so there is
// nothing that it has to be told.
func (a *Agent) SetMode(_ context.Context, m agentcli.Mode) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mode = m
	return nil
}
