package claude

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// An Agent is one process of Claude Code.
type Agent struct {
	in  io.Writer
	out io.Reader
	// writing is held by whoever writes a line. It is a channel so that waiting for
	// it ends with a context.
	writing chan struct{}
	// gone is closed by Read when the output has ended, lost when it has said that
	// the session is unknown.
	gone, lost chan struct{}

	// mu guards the fields below. Nothing is written and nobody called while it is
	// held.
	mu      sync.Mutex
	state   *state
	next    int
	pending map[string]chan response
	models  []agentcli.Model
}

func newAgent(s agentcli.Setup, p agentcli.Pipes) *Agent {
	return &Agent{
		in: p.In, out: p.Out, writing: make(chan struct{}, 1),
		gone: make(chan struct{}), lost: make(chan struct{}),
		state: newState(s), pending: map[string]chan response{},
	}
}

// Read implements agentcli.Agent.
func (a *Agent) Read(each func(agentcli.Event)) error {
	told := false
	err := eachLine(a.out, func(line []byte) {
		m, ok := parse(line)
		if !ok {
			return
		}
		a.mu.Lock()
		h := a.state.take(m)
		var waiting chan response
		if h.settled != nil {
			waiting = a.pending[h.settled.RequestID]
			delete(a.pending, h.settled.RequestID)
		}
		a.mu.Unlock()
		if waiting != nil {
			waiting <- *h.settled
		}
		// Written beside: what is printed must be read on, or a process that waits
		// for that would never take what is written. The end of the process ends it.
		if h.refuse != "" {
			go a.reply(context.Background(), h.refuse, "error", "error", "not offered here")
		}
		if h.stop {
			go a.again()
		}
		for _, e := range h.events {
			if e.NoSession && !told {
				told = true
				close(a.lost)
			}
			each(e)
		}
	})
	close(a.gone)
	a.mu.Lock()
	left := a.state.withdrawn()
	a.mu.Unlock()
	for _, e := range left {
		each(e)
	}
	return err
}

// again repeats an interrupt that came before the work had begun. It does not wait.
func (a *Agent) again() {
	_ = a.write(context.Background(), map[string]any{
		"type": "control_request", "request_id": a.id(nil), "request": map[string]any{"subtype": "interrupt"},
	}) // a process that does not listen any more has stopped
}

// write sends a value as one line.
func (a *Agent) write(ctx context.Context, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	select {
	case a.writing <- struct{}{}:
	case <-a.gone:
		return agentcli.ErrGone
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-a.writing }()
	select {
	case <-a.gone: // select picks any case that is ready
		return agentcli.ErrGone
	default:
	}
	if _, err := a.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%w: %w", agentcli.ErrGone, err)
	}
	return nil
}

// reply answers a request of Claude's.
func (a *Agent) reply(ctx context.Context, id, subtype, key string, body any) error {
	return a.write(ctx, map[string]any{
		"type": "control_response", "response": map[string]any{"subtype": subtype, "request_id": id, key: body},
	})
}

// id makes the id of a request of ours; with a channel its answer comes there.
func (a *Agent) id(answer chan response) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	id := "iris-" + strconv.Itoa(a.next)
	if answer != nil {
		a.pending[id] = answer
	}
	return id
}

// control makes a request and waits for its answer.
func (a *Agent) control(ctx context.Context, request map[string]any) (json.RawMessage, error) {
	answer := make(chan response, 1)
	id := a.id(answer)
	defer func() {
		a.mu.Lock()
		delete(a.pending, id)
		a.mu.Unlock()
	}()
	if err := a.write(ctx, map[string]any{"type": "control_request", "request_id": id, "request": request}); err != nil {
		return nil, err
	}
	select {
	case r := <-answer:
		if r.Subtype == "error" {
			return nil, errors.New(sentence(r.Error))
		}
		return r.Response, nil
	case <-a.lost:
		return nil, agentcli.ErrNoSession
	case <-a.gone:
		return nil, agentcli.ErrGone
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Open implements agentcli.Agent. Claude prints nothing before its first prompt
// unless it is asked something, and answers also when its session is unknown.
func (a *Agent) Open(ctx context.Context) error {
	raw, err := a.control(ctx, map[string]any{"subtype": "initialize", "hooks": nil})
	switch {
	case errors.Is(err, agentcli.ErrGone), errors.Is(err, agentcli.ErrNoSession), ctx.Err() != nil:
		return err
	case err != nil:
		return nil // a version that knows no such request works without
	}
	var info struct {
		Models []struct {
			Value string `json:"value"`
			Name  string `json:"displayName"`
		} `json:"models"`
	}
	_ = lenient(json.Unmarshal(raw, &info)) // without a list of models there is none
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range info.Models {
		a.models = append(a.models, agentcli.Model{ID: m.Value, Name: m.Name})
	}
	return nil
}

// Send implements agentcli.Agent. The ID is what Claude knows a message by: it does
// not run the same one twice, not even after a resume.
func (a *Agent) Send(ctx context.Context, p agentcli.Prompt) error {
	a.mu.Lock()
	a.state.sent = append(a.state.sent, p.ID)
	a.mu.Unlock()
	err := a.write(ctx, map[string]any{
		"type": "user", "uuid": p.ID, "message": map[string]any{"role": "user", "content": body(p)},
	})
	if err != nil {
		a.mu.Lock()
		a.state.sent = slices.DeleteFunc(a.state.sent, func(id string) bool { return id == p.ID })
		a.mu.Unlock()
	}
	return err
}

// body is the content of a prompt: a string, or parts if there are images.
func body(p agentcli.Prompt) any {
	text := p.Text
	if strings.TrimSpace(text) == "" {
		text = "Please look at what is attached."
	}
	if len(p.Files) > 0 {
		var list strings.Builder
		list.WriteString("\n\nAttached files:")
		for _, f := range p.Files {
			list.WriteString("\n- " + strings.Map(func(r rune) rune {
				if r < ' ' {
					return ' '
				}
				return r
			}, f))
		}
		text += list.String()
	}
	if len(p.Images) == 0 {
		return text
	}
	var parts []any
	for _, i := range p.Images {
		parts = append(parts, map[string]any{"type": "image", "source": map[string]any{
			"type": "base64", "media_type": i.Mime, "data": base64.StdEncoding.EncodeToString(i.Data),
		}})
	}
	return append(parts, map[string]any{"type": "text", "text": text})
}

// Interrupt implements agentcli.Agent. Work that was sent and has not begun is
// stopped when it begins.
func (a *Agent) Interrupt(ctx context.Context) error {
	a.mu.Lock()
	s := a.state
	s.stop = s.working || len(s.sent) > 0 || len(s.taken) > 0
	a.mu.Unlock()
	_, err := a.control(ctx, map[string]any{"subtype": "interrupt"})
	return err
}

// SetModel implements agentcli.Agent.
func (a *Agent) SetModel(ctx context.Context, model string) error {
	if _, err := a.control(ctx, map[string]any{"subtype": "set_model", "model": model}); err != nil {
		return fmt.Errorf("set the model to %q: %w", model, err)
	}
	a.mu.Lock()
	a.state.model = model
	a.mu.Unlock()
	return nil
}

// Models implements agentcli.Agent.
func (a *Agent) Models(context.Context) (all []agentcli.Model, current string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.models), a.state.model, nil
}

// SetMode implements agentcli.Agent. Claude asks about everything in all of our
// modes; it is told to leave one of its own that it may be in.
func (a *Agent) SetMode(ctx context.Context, _ agentcli.Mode) error {
	if _, err := a.control(ctx, map[string]any{"subtype": "set_permission_mode", "mode": "default"}); err != nil {
		return fmt.Errorf("set the permission mode: %w", err)
	}
	return nil
}
