// Package agent is the tool with which a model asks a sub-agent: it is given a
// name, a question and, to go on with an earlier exchange, the name of a
// conversation. The package owns what the model is told about it; who the agents
// are and how they are asked is the business of its options.
package agent

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

//go:embed agent.md
var description string

// Name is what the model calls the tool.
const Name = "ask_agent"

// maxQuestion bounds what an agent is told: far more than a task needs.
const maxQuestion = 256 << 10

// Options of an Agent. All are required.
type Options struct {
	// Ask asks an agent and returns its reply. progress gets lines of progress.
	// When ctx ends the agent is told to stop. The text of an error is for the
	// model.
	Ask func(ctx context.Context, q Question, progress func(text string)) (string, error)
	// Names lists the agents there are.
	Names func() []string
	// Fit makes a reply as short as a result may be.
	Fit func(conv chat.Address, text string) string
}

// A Question is one call.
type Question struct {
	Agent, Text string
	// Key is the conversation the agent remembers; empty: a new one.
	Key string
	// User is who asks.
	User string
}

// An Agent is the tool.
type Agent struct {
	opts Options

	// mu guards busy: the conversations in which an agent is being asked. A
	// second question there would take the place of the first.
	mu   sync.Mutex
	busy map[string]chan struct{}
}

var _ tool.Tool = (*Agent)(nil)

// New checks opts.
func New(opts Options) (*Agent, error) {
	if opts.Ask == nil || opts.Names == nil || opts.Fit == nil {
		return nil, errors.New("agent: Ask, Names and Fit are required")
	}
	return &Agent{opts: opts, busy: map[string]chan struct{}{}}, nil
}

// Spec implements tool.Tool.
func (a *Agent) Spec() tool.Spec {
	return tool.Spec{Name: Name, Description: strings.TrimSpace(description), Schema: json.RawMessage(`{
  "type": "object",
  "properties": {
    "label": {"type": "string", "description": "What this does, in a few words, shown to the person"},
    "name": {"type": "string", "description": "Name of the agent, without @"},
    "question": {"type": "string", "description": "The task or question, with everything the agent needs to know"},
    "conversation": {"type": "string", "description": "A short name of your choice; the same name again continues that exchange. Leave it out to start a new one"}
  },
  "required": ["label", "name", "question"]
}`)}
}

// Call implements tool.Tool.
func (a *Agent) Call(ctx context.Context, call tool.Call) tool.Result {
	args := tool.ParseArguments(call.Args)
	args.String("label")
	name, question := strings.TrimPrefix(args.String("name"), "@"), args.String("question")
	conversation := args.Optional("conversation")
	if err := args.Err(); err != nil {
		return tool.Fail(err.Error())
	}
	names := a.opts.Names()
	i := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	switch {
	case i < 0 && len(names) == 0:
		return tool.Fail("there are no agents")
	case i < 0:
		return tool.Fail(fmt.Sprintf("there is no agent %.80q; there are %s", name, strings.Join(names, ", ")))
	case len(question) > maxQuestion:
		return tool.Fail(fmt.Sprintf("the question has %d bytes; at most %d", len(question), maxQuestion))
	}
	name = names[i]
	q := Question{Agent: name, Text: question, User: call.Request.Message.From.Name}
	if conversation != "" {
		q.Key = key(call.Request.Conversation, conversation)
		free, err := a.enter(ctx, name+"\x00"+q.Key)
		if err != nil {
			return tool.Fail("the call was aborted before the agent was asked")
		}
		defer free()
	}
	if ctx.Err() != nil {
		return tool.Fail("the call was aborted before the agent was asked")
	}
	reply, err := a.opts.Ask(ctx, q, func(text string) {
		// People see the agent at work; a turn that is over needs no progress.
		_ = call.Emit(turn.Event{Kind: turn.Status, Label: "@" + name + ": " + text})
	})
	switch {
	case err != nil && ctx.Err() != nil:
		return tool.Fail("the call was aborted, and the agent was told to stop")
	case err != nil:
		return tool.Fail(fmt.Sprintf("@%s: %v", name, err))
	}
	return tool.Result{Text: a.opts.Fit(call.Request.Conversation, tool.Valid(reply))}
}

// key names a conversation of the model with an agent: its own for each of our
// conversations, and never that of people who write to the agent themselves.
func key(conv chat.Address, conversation string) string {
	return conv.Channel() + "-ask-" + conversation
}

// enter waits until nobody asks in a conversation.
func (a *Agent) enter(ctx context.Context, key string) (free func(), err error) {
	for {
		a.mu.Lock()
		other := a.busy[key]
		if other == nil {
			mine := make(chan struct{}) // closed when the conversation is free
			a.busy[key] = mine
			a.mu.Unlock()
			return func() {
				a.mu.Lock()
				delete(a.busy, key)
				a.mu.Unlock()
				close(mine)
			}, nil
		}
		a.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
