package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// Open implements [agentcli.Agent]: the handshake, a login where the agent wants
// one that needs no person, and the session.
func (a *Agent) Open(ctx context.Context) error {
	hello := initialize{Version: 1, Info: info{Name: "iris", Version: a.opts.Version}}
	hello.Capabilities.FS.Read, hello.Capabilities.FS.Write, hello.Capabilities.Terminal = true, true, true
	var caps initialized
	if err := a.step(ctx, "initialize", hello, &caps, nil); err != nil {
		return err
	}
	if caps.Version != 1 {
		return fmt.Errorf("the agent speaks version %d of the protocol, not 1", caps.Version)
	}
	a.mu.Lock()
	a.caps = caps
	a.mu.Unlock()
	err := a.openSession(ctx)
	var refused *rpcError
	if errors.As(err, &refused) && refused.Code == codeAuth {
		if err = a.login(ctx); err == nil {
			err = a.openSession(ctx)
		}
	}
	if err != nil {
		return err
	}
	if err := a.settle(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opened = true
	return a.pump()
}

// step is a call that takes no longer than a handshake may.
func (a *Agent) step(ctx context.Context, method string, params, result any, then func()) error {
	late := fmt.Errorf("no answer within %s", a.opts.Handshake)
	ctx, stop := context.WithTimeoutCause(ctx, a.opts.Handshake, late)
	defer stop()
	return a.call(ctx, method, params, result, then)
}

// login takes the first login of the preset that the agent offers.
func (a *Agent) login(ctx context.Context) error {
	var names []string
	for _, want := range a.opts.Preset.auth {
		for _, m := range a.caps.Auth {
			if m.ID == want {
				return a.step(ctx, "authenticate", authenticate{m.ID}, nil, nil)
			}
		}
	}
	for _, m := range a.caps.Auth {
		names = append(names, firstOf(m.Name, m.ID))
	}
	if len(names) == 0 {
		return errors.New("the agent is not logged in; log in with its own program on this machine")
	}
	return fmt.Errorf("the agent is not logged in; log in with its own program on this machine (it offers: %s)", clip(oneLine(strings.Join(names, ", ")), 200))
}

// openSession goes on with the session of the setup, or starts one. What an
// agent tells of the past is not told on.
func (a *Agent) openSession(ctx context.Context) error {
	params := openSession{ID: a.setup.Session, Cwd: a.setup.WorkDir, Servers: []any{}, Meta: a.meta()}
	method := "session/new"
	if params.ID != "" {
		switch {
		case len(a.caps.Capabilities.Session.Resume) > 0 && string(a.caps.Capabilities.Session.Resume) != "null":
			method = "session/resume"
		case a.caps.Capabilities.Load:
			method = "session/load"
		default:
			return fmt.Errorf("%w: it cannot go on with sessions", agentcli.ErrNoSession)
		}
	}
	a.mu.Lock()
	a.id, a.muted = params.ID, true
	a.mu.Unlock()
	var s session
	err := a.step(ctx, method, params, &s, func() {
		if id := firstOf(s.ID, params.ID); id != "" {
			a.begin(id, s)
		}
	})
	var refused *rpcError
	if params.ID != "" && errors.As(err, &refused) && refused.Code != codeAuth {
		return fmt.Errorf("%w: %w", agentcli.ErrNoSession, err)
	}
	if err == nil && firstOf(s.ID, params.ID) == "" {
		return errors.New("session/new: the agent named no session")
	}
	return err
}

// meta is what goes with a session beside the protocol.
func (a *Agent) meta() map[string]any {
	meta := map[string]any{}
	if a.opts.Preset.meta != nil {
		for k, v := range a.opts.Preset.meta(a.setup.Mode == agentcli.Manual) {
			meta[k] = v
		}
	}
	if a.opts.Preset.carrier == carryMeta && a.setup.System != "" {
		meta["systemPrompt"] = map[string]any{"append": a.setup.System}
	}
	return meta
}

// begin is called by the reader when the session is there.
func (a *Agent) begin(id string, s session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.id, a.muted = id, false
	a.told = a.setup.Session != ""
	a.models.take(s)
	a.events.put(agentcli.Event{Kind: agentcli.Session, ID: id})
	if s.Modes != nil {
		a.caps.mode = s.Modes.Current
		for _, m := range s.Modes.All {
			a.caps.modes = append(a.caps.modes, m.ID)
		}
	}
	a.caps.options = s.Options
}

// settle brings the session to where the agent asks, and to the model.
func (a *Agent) settle(ctx context.Context) error {
	a.mu.Lock()
	caps, id := a.caps, a.id
	a.mu.Unlock()
	if want := a.opts.Preset.asking; want != "" && caps.mode != "" && caps.mode != want && contains(caps.modes, want) {
		if err := a.step(ctx, "session/set_mode", setMode{id, want}, nil, nil); err != nil {
			return err
		}
	}
	for _, o := range caps.options {
		if want, ok := a.opts.Preset.off[o.ID]; ok && o.current() != want {
			if err := a.step(ctx, "session/set_config_option", setOption{id, o.ID, want}, nil, nil); err != nil {
				return err
			}
		}
	}
	if a.setup.Model == "" {
		return nil
	}
	err := a.SetModel(ctx, a.setup.Model)
	if errors.Is(err, agentcli.ErrNotOffered) && a.opts.Preset.modelFlag != "" {
		return nil // it was named at the start
	}
	return err
}

// take finds the choice of models in what a session says of itself.
func (m *models) take(s session) {
	if s.Models != nil {
		m.all, m.current, m.option = nil, s.Models.Current, ""
		for _, x := range s.Models.All {
			m.all = append(m.all, agentcli.Model{ID: x.ID, Name: firstOf(x.Name, x.ID)})
		}
	}
	m.takeOptions(s.Options)
}

func (m *models) takeOptions(options []option) {
	for _, o := range options {
		if o.Category != "model" && o.ID != "model" || len(o.Values) == 0 {
			continue
		}
		if m.option == "" && len(m.all) > 0 {
			m.current = firstOf(o.current(), m.current) // the method is there, and is enough
			return
		}
		m.all, m.current, m.option = nil, o.current(), o.ID
		m.add(o.Values)
		return
	}
}

func (m *models) add(values []optionValue) {
	for _, v := range values {
		if v.Value != "" {
			m.all = append(m.all, agentcli.Model{ID: v.Value, Name: firstOf(v.Name, v.Value)})
		}
		m.add(v.Values)
	}
}

// current is the value of an option that holds a text.
func (o option) current() string {
	var s string
	if json.Unmarshal(o.Current, &s) != nil {
		return string(o.Current)
	}
	return s
}
