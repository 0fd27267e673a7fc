package pi

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// modelsWait is how long Models waits for a list that Pi has at hand.
const modelsWait = 5 * time.Second

// keepLine is the size of a line buffer that is kept for the next line.
const keepLine = 1 << 20

// An agent is one Pi.
type agent struct {
	setup agentcli.Setup
	pipes agentcli.Pipes

	// mu guards the fields below. It is not held while a pipe is used or each is
	// called.
	mu      sync.Mutex
	state   *state
	next    int                  // number of a command that somebody waits for
	waits   map[string]chan line // buffered, by the command's id
	queue   [][]byte             // lines for Pi
	broken  error                // why nothing can be written any more
	writing bool                 // somebody writes the queue

	gone chan struct{} // closed when Read is over
}

var _ agentcli.Agent = (*agent)(nil)

func newAgent(s agentcli.Setup, p agentcli.Pipes) *agent {
	return &agent{setup: s, pipes: p, state: newState(), waits: map[string]chan line{}, gone: make(chan struct{})}
}

// Read reads lines until Pi has no more.
func (a *agent) Read(each func(agentcli.Event)) error {
	defer close(a.gone)
	in := bufio.NewReaderSize(a.pipes.Out, 64<<10)
	var buf []byte
	for {
		data, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			buf = append(buf, data...)
			continue
		}
		if len(buf) > 0 {
			data = append(buf, data...)
			buf = data[:0]
		}
		if len(data) > 0 {
			a.line(data, each)
		}
		if cap(buf) > keepLine {
			buf = nil
		}
		if err != nil {
			// A broken pipe is the end of the process as well; what it died of is
			// not in here.
			return nil
		}
	}
}

func (a *agent) line(data []byte, each func(agentcli.Event)) {
	l, err := parse(data)
	if err != nil {
		return // nothing for us, or a print that strayed into the protocol
	}
	a.mu.Lock()
	a.state.hear(l)
	events := a.state.events
	a.state.events = nil
	wait := a.waits[l.ID]
	if l.Type == "response" && wait != nil {
		delete(a.waits, l.ID)
		wait <- l
	}
	a.flush()
	a.mu.Unlock()
	for _, e := range events {
		each(e)
	}
}

// flush has what the state says written. A writer of its own does it: Pi stops
// reading while it cannot write, so whoever reads must not wait for it. The caller
// holds mu.
func (a *agent) flush() {
	for _, c := range a.state.out {
		data, err := json.Marshal(c)
		if err != nil {
			continue
		}
		a.queue = append(a.queue, append(data, '\n'))
	}
	a.state.out = nil
	if a.writing || len(a.queue) == 0 {
		return
	}
	a.writing = true
	go a.write()
}

// write empties the queue and ends.
func (a *agent) write() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.queue) > 0 && a.broken == nil {
		data := a.queue[0]
		a.queue = a.queue[1:]
		a.mu.Unlock()
		_, err := a.pipes.In.Write(data)
		a.mu.Lock()
		if err != nil {
			a.broken = fmt.Errorf("%w: %w", agentcli.ErrGone, err)
		}
	}
	a.queue, a.writing = nil, false
}

// wish changes the state by what somebody wants.
func (a *agent) wish(f func(*state)) error {
	select {
	case <-a.gone:
		return agentcli.ErrGone
	default:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != nil {
		return a.broken
	}
	f(a.state)
	a.flush()
	return nil
}

// call sends a command and waits for its answer.
func (a *agent) call(ctx context.Context, c command) (json.RawMessage, error) {
	wait := make(chan line, 1)
	err := a.wish(func(s *state) {
		a.next++
		c.ID = "iris-" + strconv.Itoa(a.next)
		a.waits[c.ID] = wait
		s.say(c)
	})
	if err != nil {
		return nil, err
	}
	select {
	case l := <-wait:
		if !l.Success {
			return nil, fmt.Errorf("pi, %s: %s", c.Type, brief(l.Error))
		}
		return l.Data, nil
	case <-a.gone:
		return nil, agentcli.ErrGone
	case <-ctx.Done():
		a.mu.Lock()
		delete(a.waits, c.ID)
		a.mu.Unlock()
		return nil, fmt.Errorf("pi, %s: %w", c.Type, ctx.Err())
	}
}

// Open waits until Pi answers, and makes sure that our extension stands at its
// tools and that the session is the right one.
func (a *agent) Open(ctx context.Context) error {
	if _, err := a.call(ctx, command{Type: "get_state"}); err != nil {
		return err
	}
	a.mu.Lock()
	gated, session := a.state.gated, a.state.session
	a.mu.Unlock()
	if !gated {
		return fmt.Errorf("pi runs without the extension that has it ask before it calls tools")
	}
	if a.setup.Session != "" && session != a.setup.Session {
		return fmt.Errorf("pi, session %s: %w", a.setup.Session, agentcli.ErrNoSession)
	}
	return nil
}

// Send hands a prompt over, or keeps it until a tool or the work at hand ends.
func (a *agent) Send(_ context.Context, p agentcli.Prompt) error {
	return a.wish(func(s *state) { s.send(p) })
}

// Answer settles an ask.
func (a *agent) Answer(_ context.Context, w agentcli.Answer) error {
	return a.wish(func(s *state) { s.answer(w) })
}

// Interrupt ends the work at hand. Prompts that Pi has not begun with are next.
func (a *agent) Interrupt(context.Context) error {
	return a.wish(func(s *state) { s.interrupt() })
}

// SetMode: every call is asked about in every mode, so there is nothing to tell.
func (a *agent) SetMode(context.Context, agentcli.Mode) error { return nil }

// SetModel takes "provider/id", or an id alone, which is then looked up.
func (a *agent) SetModel(ctx context.Context, model string) error {
	provider, id, ok := strings.Cut(model, "/")
	if !ok {
		all, _, err := a.Models(ctx)
		if err != nil {
			return err
		}
		for _, m := range all {
			if p, bare, _ := strings.Cut(m.ID, "/"); bare == model {
				provider, id, ok = p, bare, true
				break
			}
		}
	}
	if !ok {
		return fmt.Errorf("pi knows no model %q", model)
	}
	_, err := a.call(ctx, command{Type: "set_model", Provider: provider, ModelID: id})
	return err
}

// Models lists what Pi has keys for, as "provider/id".
func (a *agent) Models(ctx context.Context) (all []agentcli.Model, current string, err error) {
	ctx, cancel := context.WithTimeout(ctx, modelsWait)
	defer cancel()
	type model struct{ Provider, ID, Name string }
	var list struct{ Models []model }
	data, err := a.call(ctx, command{Type: "get_available_models"})
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, "", err
	}
	var now struct{ Model model }
	if data, err = a.call(ctx, command{Type: "get_state"}); err == nil {
		err = json.Unmarshal(data, &now)
	}
	if err != nil {
		return nil, "", err
	}
	for _, m := range list.Models {
		all = append(all, agentcli.Model{ID: m.Provider + "/" + m.ID, Name: m.Name})
	}
	if now.Model.ID != "" {
		current = now.Model.Provider + "/" + now.Model.ID
	}
	return all, current, nil
}
