package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/iris-operator/iris/internal/runner/agentcli"
)

// An Agent is one process. Three goroutines work for it while Read runs: one
// reads and understands, in the order of the lines; one writes; the caller's own
// hands out the events. Commands that run for the agent have theirs as well.
type Agent struct {
	opts   Options
	setup  agentcli.Setup
	pipes  agentcli.Pipes
	out    *outbox
	events *events
	gone   chan struct{} // closed when the output has ended
	work   *tasks

	// mu guards the fields below. It is never held while something is read,
	// written, run or told. Lock order: mu, then those of events and outbox.
	mu     sync.Mutex
	nextID int64
	// calls are our requests that have no response yet. What they hold is called
	// by the reader.
	calls map[int64]func(message)
	caps  initialized
	// id is the session's; muted says that what comes is history; opened that
	// prompts may go out.
	id            string
	muted, opened bool
	mode          agentcli.Mode
	models        models
	// told says that the system prompt went out with a prompt.
	told    bool
	queue   []agentcli.Prompt
	running *running

	nextAsk int
	asks    map[string]*ask
	// once are grants for what an allowed tool call asks of us afterwards, by its
	// id and key; always are keys that hold for the session.
	once   map[string]int
	always map[string]bool

	tools map[string]*tool
	held  *tool // announced, and not told yet because its input is still missing
	text  strings.Builder
	said  string // the agent's id of the message that text belongs to

	total  usage // of the session so far, as the agent counts it
	cost   float64
	spent  float64
	window int64

	nextTerminal int
	terminals    map[string]*terminal
}

var _ agentcli.Agent = (*Agent)(nil)

// A running is the prompt that the agent works on.
type running struct {
	id                     string
	interrupted            bool
	spoke, refused, worked bool
	fault                  string // why there is no answer, as the agent says it
}

// models are what an agent offers to choose from; option is the session's option
// that holds the choice, empty where there is a method for it.
type models struct {
	all     []agentcli.Model
	current string
	option  string
}

// Read implements [agentcli.Agent].
func (a *Agent) Read(each func(agentcli.Event)) error {
	go a.out.write(a.pipes.In) // ends with the pipe, which the supervisor closes
	ended := make(chan error, 1)
	go func() {
		err := lines(a.pipes.Out, func(line []byte) {
			if m, ok := parse(line); ok {
				a.events.wait()
				a.receive(m)
			}
		})
		a.out.close()
		close(a.gone)
		a.endTerminals()
		a.work.Wait()
		a.events.close()
		ended <- err
	}()
	a.events.drain(each)
	if err := <-ended; err != nil {
		return fmt.Errorf("read from the agent: %w", err)
	}
	return nil
}

// receive understands one message.
func (a *Agent) receive(m message) {
	switch {
	case m.Method == "":
		var id int64
		var done func(message)
		a.mu.Lock()
		if json.Unmarshal(m.ID, &id) == nil { // ours are numbers
			done = a.calls[id]
			delete(a.calls, id)
		}
		a.mu.Unlock()
		if done != nil {
			done(m)
		}
	case m.ID == nil:
		if m.Method == "session/update" {
			var n notification
			if decode(m.Params, &n) == nil {
				a.mu.Lock()
				a.update(n)
				a.mu.Unlock()
			}
		}
	default:
		a.serve(m)
	}
}

// request sends one; done is called by the reader with the response, and not
// at all if there is none.
func (a *Agent) request(method string, params any, done func(message)) (id int64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requestLocked(method, params, done)
}

func (a *Agent) requestLocked(method string, params any, done func(message)) (id int64, err error) {
	a.nextID++
	id = a.nextID
	a.calls[id] = done
	if err := a.out.put(request{Version: "2.0", ID: &id, Method: method, Params: params}); err != nil {
		delete(a.calls, id)
		return 0, err
	}
	return id, nil
}

// call sends a request and waits for its response. then, if not nil, is called
// by the reader when result has been read, before it looks at what follows.
func (a *Agent) call(ctx context.Context, method string, params, result any, then func()) error {
	done := make(chan error, 1)
	id, err := a.request(method, params, func(m message) {
		var err error
		switch {
		case m.Error != nil:
			err = m.Error
		case result != nil && decode(m.Result, result) != nil:
			err = errors.New("its answer cannot be read")
		case then != nil:
			then()
		}
		done <- err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case err = <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-a.gone:
		select {
		case err = <-done:
		default:
			err = agentcli.ErrGone
		}
	}
	if err != nil {
		a.mu.Lock()
		delete(a.calls, id)
		a.mu.Unlock()
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

func (a *Agent) notify(method string, params any) error {
	return a.out.put(request{Version: "2.0", Method: method, Params: params})
}

func (a *Agent) respond(id json.RawMessage, result any) {
	_ = a.out.put(response{Version: "2.0", ID: id, Result: result}) // gone: nobody waits any more
}

func (a *Agent) refuse(id json.RawMessage, code int64, text string) {
	_ = a.out.put(response{Version: "2.0", ID: id, Error: &rpcError{Code: code, Message: text}})
}

// tasks are the goroutines that work for an agent. One may be begun at any time,
// also while they are waited for.
type tasks struct {
	mu   sync.Mutex
	n    int
	idle *sync.Cond
}

func newTasks() *tasks {
	t := &tasks{}
	t.idle = sync.NewCond(&t.mu)
	return t
}

// Go runs f beside the caller.
func (t *tasks) Go(f func()) {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
	go func() {
		defer func() {
			t.mu.Lock()
			t.n--
			t.idle.Broadcast()
			t.mu.Unlock()
		}()
		f()
	}()
}

// Wait returns when nothing runs.
func (t *tasks) Wait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.n > 0 {
		t.idle.Wait()
	}
}
