package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// attemptLimit ends an attempt that keeps talking: longer than the longest
// answers with reasoning, short enough that a lane is not held for good.
const attemptLimit = 30 * time.Minute

// WithSilence returns a model whose streams fail with an *Error of class
// ClassSilence when no event has come for d, or when an answer is not complete
// after 30 minutes. Keep-alives of a wire are not events: adapters do not yield
// them. The time the consumer takes over an event does not count as silence.
//
// The stream below is cancelled and has released everything before the error is
// yielded. d ≤ 0 returns m itself.
func WithSilence(m Model, d time.Duration) Model {
	if d <= 0 {
		return m
	}
	return &watched{Model: m, quiet: d}
}

type watched struct {
	Model
	quiet time.Duration
}

func (w *watched) Stream(parent context.Context, req Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancelCause(parent)
		defer cancel(nil)
		silent := w.timeout(fmt.Sprintf("LLM response timeout after %s", seconds(w.quiet)))
		endless := w.timeout(fmt.Sprintf("LLM response not complete after %s", seconds(attemptLimit)))
		quiet := time.AfterFunc(w.quiet, func() { cancel(silent) })
		defer quiet.Stop()
		total := time.AfterFunc(attemptLimit, func() { cancel(endless) })
		defer total.Stop()
		var failed error
		for ev, err := range w.Model.Stream(ctx, req) {
			quiet.Stop()
			if err != nil {
				failed = err
				break
			}
			if !yield(ev, nil) || ev.Done != nil {
				return
			}
			quiet.Reset(w.quiet)
		}
		cause := context.Cause(ctx)
		switch {
		case parent.Err() == nil && (cause == silent || cause == endless):
			failed = cause
		case failed == nil:
			failed = &Error{Class: ClassCut, Provider: w.Info().Provider, Text: "the answer ended without its end"}
		}
		yield(Event{}, failed)
	}
}

func (w *watched) timeout(text string) error {
	return &Error{Class: ClassSilence, Provider: w.Info().Provider, Text: text, Err: context.DeadlineExceeded}
}

// seconds shows a duration the way the settings name it.
func seconds(d time.Duration) string {
	return fmt.Sprintf("%gs", d.Seconds())
}

// errNoEnd is what Collect returns for a stream that breaks the contract.
var errNoEnd = errors.New("the stream ended without Done and without an error")

// Collect reads a stream to its end and returns the whole answer.
func Collect(stream iter.Seq2[Event, error]) (Message, error) {
	for ev, err := range stream {
		if err != nil {
			return Message{}, err
		}
		if ev.Done != nil {
			return ev.Done.Message, nil
		}
	}
	return Message{}, errNoEnd
}
