// Package scripted is a model for tests: it answers from a list of steps, or
// from a function, and remembers what it was asked. It owns no connection and
// no clock, so the same script gives the same events every time.
//
// What it does not do: look at the request by itself (a step or the test does)
// and check histories (llm.Valid does).
package scripted

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/iris-operator/iris/internal/llm"
)

// A Step is one answer. Its fields happen in this order: Gate, Thinking, Text,
// then Hang, Err or the end of the answer. The zero Step is an empty answer.
type Step struct {
	// Gate, when not nil, holds the answer until a value arrives, the channel
	// is closed or ctx ends.
	Gate <-chan struct{}
	// Thinking and Text are yielded as they are, a piece each.
	Thinking []string
	Text     []string
	// Calls are the tool calls of the answer. A call without ID gets
	// "call-<request>-<position>", both from 1.
	Calls []llm.Call
	// Hang waits for ctx after the pieces and ends with its cause.
	Hang bool
	// Err ends the answer after the pieces. An error that does not wrap
	// *llm.Error is wrapped as one of class ClassInvalid.
	Err error
	// Stop is the reason of the end; empty means StopTools with calls and
	// StopEnd without.
	Stop llm.StopReason
	// Usage is what the answer reports; nil reports none.
	Usage *llm.Usage
}

// Text answers with these pieces of text.
func Text(pieces ...string) Step { return Step{Text: pieces} }

// Tools answers with tool calls.
func Tools(calls ...llm.Call) Step { return Step{Calls: calls} }

// Hang yields the pieces and then waits for ctx to end.
func Hang(pieces ...string) Step { return Step{Text: pieces, Hang: true} }

// Fail answers with an error of a class.
func Fail(class llm.Class, text string) Step {
	return Step{Err: &llm.Error{Class: class, Provider: "scripted", Text: text}}
}

// Call is a tool call whose arguments are written as JSON. Arguments that are
// not an object make the answer fail with ClassBroken, as on a real wire.
func Call(name, args string) llm.Call {
	return llm.Call{Name: name, Args: json.RawMessage(args)}
}

// A Model answers from its script. It is safe for concurrent use; which of two
// concurrent requests gets which step is up to the scheduler.
type Model struct {
	info   llm.Info
	answer func(n int, req llm.Request) Step

	// mu guards the fields below.
	mu       sync.Mutex
	requests []llm.Request
}

var _ llm.Model = (*Model)(nil)

// New returns a model that takes one step for each request. A request after the
// last step fails with ClassInvalid. An info without a provider or a model is
// called "scripted".
func New(info llm.Info, steps ...Step) *Model {
	steps = slices.Clone(steps)
	return Func(info, func(n int, _ llm.Request) Step {
		if n > len(steps) {
			return Fail(llm.ClassInvalid, fmt.Sprintf("request %d, but the script has %d steps", n, len(steps)))
		}
		return steps[n-1]
	})
}

// Func returns a model that asks answer for its step. n counts requests from 1.
// answer runs in the goroutine that consumes the stream and may be called
// concurrently.
func Func(info llm.Info, answer func(n int, req llm.Request) Step) *Model {
	if info.Provider == "" {
		info.Provider = "scripted"
	}
	if info.Model == "" {
		info.Model = "scripted"
	}
	return &Model{info: info, answer: answer}
}

// Info returns what New was given.
func (m *Model) Info() llm.Info { return m.info }

// Requests returns what the model was asked so far, oldest first. Messages and
// their parts are copies; what parts point to is shared.
func (m *Model) Requests() []llm.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

func (m *Model) record(req llm.Request) int {
	req.Messages = slices.Clone(req.Messages)
	for i := range req.Messages {
		req.Messages[i].Parts = slices.Clone(req.Messages[i].Parts)
	}
	req.Tools = slices.Clone(req.Tools)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.requests = append(m.requests, req)
	return len(m.requests)
}

// Stream plays the next step. The request counts when the stream is consumed,
// not when Stream is called.
func (m *Model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		if ctx.Err() != nil {
			yield(llm.Event{}, context.Cause(ctx))
			return
		}
		n := m.record(req)
		m.play(ctx, n, m.answer(n, req), yield)
	}
}

func (m *Model) play(ctx context.Context, n int, s Step, yield func(llm.Event, error) bool) {
	if s.Gate != nil {
		select {
		case <-s.Gate:
		case <-ctx.Done():
		}
	}
	for _, e := range events(s) {
		if ctx.Err() != nil {
			yield(llm.Event{}, context.Cause(ctx))
			return
		}
		if !yield(e, nil) {
			return
		}
	}
	if s.Hang {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		yield(llm.Event{}, context.Cause(ctx))
		return
	}
	msg, err := m.message(n, s)
	if err != nil {
		yield(llm.Event{}, err)
		return
	}
	yield(llm.Event{Done: &llm.Done{Message: msg}}, nil)
}

// events lists the pieces of a step; empty pieces say nothing and are left out.
func events(s Step) []llm.Event {
	var all []llm.Event
	for _, t := range s.Thinking {
		if t != "" {
			all = append(all, llm.Event{Thinking: t})
		}
	}
	for _, t := range s.Text {
		if t != "" {
			all = append(all, llm.Event{Text: t})
		}
	}
	return all
}

func (m *Model) message(n int, s Step) (llm.Message, error) {
	if s.Err != nil {
		if llm.ClassOf(s.Err) != "" {
			return llm.Message{}, s.Err
		}
		return llm.Message{}, &llm.Error{Class: llm.ClassInvalid, Provider: m.info.Provider, Text: s.Err.Error(), Err: s.Err}
	}
	msg := llm.Message{Role: llm.Assistant, Provider: m.info.Provider, Model: m.info.Model, Stop: s.Stop}
	if msg.Stop == "" {
		msg.Stop = llm.StopEnd
		if len(s.Calls) > 0 {
			msg.Stop = llm.StopTools
		}
	}
	if s.Usage != nil {
		u := *s.Usage
		msg.Usage = &u
	}
	if t := strings.Join(s.Thinking, ""); t != "" {
		msg.Parts = append(msg.Parts, llm.Part{Kind: llm.ThinkingPart, Text: t})
	}
	if t := strings.Join(s.Text, ""); t != "" {
		msg.Parts = append(msg.Parts, llm.Part{Kind: llm.TextPart, Text: t})
	}
	for i, c := range s.Calls {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(c.Args, &object); err != nil || object == nil {
			return llm.Message{}, &llm.Error{Class: llm.ClassBroken, Provider: m.info.Provider, Err: err,
				Text: fmt.Sprintf("arguments of %s are not a JSON object", c.Name)}
		}
		if c.ID == "" {
			c.ID = fmt.Sprintf("call-%d-%d", n, i+1)
		}
		msg.Parts = append(msg.Parts, llm.Part{Kind: llm.CallPart, Call: &c})
	}
	return msg, nil
}
