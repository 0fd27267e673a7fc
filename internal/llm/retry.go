package llm

import (
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"time"
)

// retryCap is the longest pause before another attempt, also when the provider
// asks for more: a person is waiting, and a minute outlasts the per-minute
// windows that providers count in.
const retryCap = time.Minute

// RetryOptions says how WithRetry retries.
type RetryOptions struct {
	// Max is the number of attempts in all; 0 means 3.
	Max int
	// Base is the pause before the second attempt; before every later one it
	// is twice as long. Both vary by half. 0 means 500 ms.
	Base time.Duration
	// Rand returns numbers in [0,1) for the variation; nil means math/rand.
	// It is called from every stream, so it must be safe for concurrent use.
	Rand func() float64
	// Sleep waits for d or until ctx ends, and then returns an error; nil
	// means a timer.
	Sleep func(ctx context.Context, d time.Duration) error
}

// WithRetry returns a model that sends a request again when an attempt fails in
// a way that may pass: every class that is Temporary, and ClassBroken. It
// yields a Retry event before each pause; the pieces yielded before it are void.
//
// What the provider asks for in RetryAfter wins over our own pause, but never
// more than a minute. When ctx ends during a pause, the stream ends at once with
// the cause of ctx.
func WithRetry(m Model, opts RetryOptions) Model {
	if opts.Max == 0 {
		opts.Max = 3
	}
	if opts.Base == 0 {
		opts.Base = 500 * time.Millisecond
	}
	if opts.Rand == nil {
		opts.Rand = rand.Float64
	}
	if opts.Sleep == nil {
		opts.Sleep = sleep
	}
	return &retrying{Model: m, opts: opts}
}

type retrying struct {
	Model
	opts RetryOptions
}

func (r *retrying) Stream(ctx context.Context, req Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for attempt := 1; ; attempt++ {
			err, more := r.attempt(ctx, req, yield)
			if !more {
				return
			}
			if attempt >= r.opts.Max || !r.again(ctx, err) {
				yield(Event{}, err)
				return
			}
			wait := r.pause(attempt, err)
			if !yield(Event{Retry: &Retry{Attempt: attempt, Max: r.opts.Max, Wait: wait, Err: err}}, nil) {
				return
			}
			if err := r.opts.Sleep(ctx, wait); err != nil {
				if ctx.Err() != nil {
					err = context.Cause(ctx)
				}
				yield(Event{}, err)
				return
			}
		}
	}
}

// attempt passes one stream on. more is false when there is nothing left to
// say: the answer is complete or the consumer has stopped.
func (r *retrying) attempt(ctx context.Context, req Request, yield func(Event, error) bool) (failed error, more bool) {
	for ev, err := range r.Model.Stream(ctx, req) {
		if err != nil {
			return err, true
		}
		if !yield(ev, nil) || ev.Done != nil {
			return nil, false
		}
	}
	return &Error{Class: ClassCut, Provider: r.Info().Provider, Text: "the answer ended without its end"}, true
}

func (r *retrying) again(ctx context.Context, err error) bool {
	class := ClassOf(err)
	return ctx.Err() == nil && (class.Temporary() || class == ClassBroken)
}

func (r *retrying) pause(attempt int, err error) time.Duration {
	var e *Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		return min(e.RetryAfter, retryCap)
	}
	d := r.opts.Base
	if attempt > 1 {
		d *= 2
	}
	return min(time.Duration(float64(d)*(0.5+r.opts.Rand())), retryCap)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
