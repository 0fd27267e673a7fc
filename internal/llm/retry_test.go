package llm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A play is a model made of one function per attempt; the last one repeats.
type play struct {
	attempts []func(ctx context.Context, yield func(Event, error) bool)
	begun    int
	released int
}

func (p *play) Info() Info { return Info{Provider: "play", Model: "p"} }

func (p *play) Stream(ctx context.Context, _ Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := p.attempts[min(p.begun, len(p.attempts)-1)]
		p.begun++
		defer func() { p.released++ }()
		f(ctx, yield)
	}
}

func says(texts ...string) func(context.Context, func(Event, error) bool) {
	return func(_ context.Context, yield func(Event, error) bool) {
		whole := ""
		for _, s := range texts {
			if whole += s; !yield(Event{Text: s}, nil) {
				return
			}
		}
		yield(Event{Done: &Done{Message: assistant(text(whole))}}, nil)
	}
}

func failsWith(err error, texts ...string) func(context.Context, func(Event, error) bool) {
	return func(_ context.Context, yield func(Event, error) bool) {
		for _, s := range texts {
			if !yield(Event{Text: s}, nil) {
				return
			}
		}
		yield(Event{}, err)
	}
}

// stalls says its texts with a pause before each, then nothing until it is
// cancelled.
func stalls(pause time.Duration, texts ...string) func(context.Context, func(Event, error) bool) {
	return func(ctx context.Context, yield func(Event, error) bool) {
		for _, s := range texts {
			if sleep(ctx, pause) != nil {
				break
			}
			if !yield(Event{Text: s}, nil) {
				return
			}
		}
		<-ctx.Done()
		yield(Event{}, context.Cause(ctx))
	}
}

// transcript shows a stream as lines.
func transcript(stream iter.Seq2[Event, error]) (out []string) {
	for ev, err := range stream {
		switch {
		case err != nil:
			out = append(out, "error "+err.Error())
		case ev.Retry != nil:
			out = append(out, fmt.Sprintf("retry %d/%d %v %v", ev.Retry.Attempt, ev.Retry.Max, ev.Retry.Wait, ev.Retry.Err))
		case ev.Done != nil:
			out = append(out, "done "+ev.Done.Message.Parts[0].Text)
		default:
			out = append(out, ev.Text+ev.Thinking)
		}
	}
	return out
}

func failure(c Class, after time.Duration) error {
	return fmt.Errorf("wrapped: %w", &Error{Class: c, Provider: "p", Text: "no", RetryAfter: after})
}

func TestRetryByClass(t *testing.T) {
	for class, want := range map[Class]int{
		ClassRateLimit: 3, ClassOverloaded: 3, ClassServer: 3, ClassNetwork: 3, ClassCut: 3, ClassSilence: 3, ClassBroken: 3,
		ClassInvalid: 1, ClassTooLong: 1, ClassAuth: 1, ClassQuota: 1, "": 1,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &play{attempts: []func(context.Context, func(Event, error) bool){failsWith(failure(class, 0))}}
			_, err := Collect(WithRetry(p, RetryOptions{}).Stream(t.Context(), Request{}))
			if p.begun != want || ClassOf(err) != class {
				t.Errorf("%q: %d attempts, %v; want %d", class, p.begun, err, want)
			}
		})
	}
	p := &play{attempts: []func(context.Context, func(Event, error) bool){failsWith(errors.New("plain"))}}
	if _, err := Collect(WithRetry(p, RetryOptions{}).Stream(t.Context(), Request{})); p.begun != 1 || err == nil {
		t.Errorf("an unknown error: %d attempts, %v", p.begun, err)
	}
}

func TestRetryPausesAndEvents(t *testing.T) {
	play := &play{attempts: []func(context.Context, func(Event, error) bool){
		failsWith(failure(ClassCut, 0), "half"), failsWith(failure(ClassServer, 0)), failsWith(failure(ClassRateLimit, 9*time.Second)), failsWith(failure(ClassOverloaded, time.Hour)),
		says("a", "b"),
	}}
	var slept []time.Duration
	m := WithRetry(play, RetryOptions{Max: 5, Rand: func() float64 { return 0.5 }, Sleep: func(_ context.Context, d time.Duration) error {
		slept = append(slept, d)
		return nil
	}})
	want := []string{"half", "retry 1/5 500ms wrapped: p: no", "retry 2/5 1s wrapped: p: no", "retry 3/5 9s wrapped: p: no", "retry 4/5 1m0s wrapped: p: no", "a", "b", "done ab"}
	if diff := cmp.Diff(want, transcript(m.Stream(t.Context(), Request{}))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]time.Duration{500 * time.Millisecond, time.Second, 9 * time.Second, time.Minute}, slept); diff != "" {
		t.Error(diff)
	}
}

func TestRetryPauseVariesByHalf(t *testing.T) {
	for r, want := range map[float64]time.Duration{0: 250 * time.Millisecond, 0.999999: 749999 * time.Microsecond} {
		m := WithRetry(&play{}, RetryOptions{Rand: func() float64 { return r }}).(*retrying)
		if got := m.pause(1, failure(ClassCut, 0)).Truncate(time.Microsecond); got != want {
			t.Errorf("pause with Rand %v = %v, want %v", r, got, want)
		}
	}
}

func TestStopDuringRetryPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		p := &play{attempts: []func(context.Context, func(Event, error) bool){failsWith(failure(ClassRateLimit, time.Minute))}}
		time.AfterFunc(time.Second, func() { cancel(stop) })
		start := time.Now()
		_, err := Collect(WithRetry(p, RetryOptions{}).Stream(ctx, Request{}))
		if err != stop || time.Since(start) != time.Second || p.begun != 1 {
			t.Errorf("Stream = %v after %v and %d attempts, want %v at once", err, time.Since(start), p.begun, stop)
		}
	})
}

func TestRetryWhenTheConsumerStops(t *testing.T) {
	p := &play{attempts: []func(context.Context, func(Event, error) bool){failsWith(failure(ClassCut, 0), "a")}}
	m := WithRetry(p, RetryOptions{})
	for ev := range m.Stream(t.Context(), Request{}) {
		if ev.Text == "a" {
			break
		}
	}
	for ev := range m.Stream(t.Context(), Request{}) {
		if ev.Retry != nil {
			break
		}
	}
	if p.begun != 2 || p.released != 2 {
		t.Errorf("%d attempts, %d released, want 2 and 2", p.begun, p.released)
	}
}

func TestStreamWithoutEnd(t *testing.T) {
	silent := &play{attempts: []func(context.Context, func(Event, error) bool){func(context.Context, func(Event, error) bool) {}}}
	noSleep := func(context.Context, time.Duration) error { return nil }
	for name, m := range map[string]Model{"retry": WithRetry(silent, RetryOptions{Sleep: noSleep}), "silence": WithSilence(silent, time.Minute)} {
		if _, err := Collect(m.Stream(t.Context(), Request{})); ClassOf(err) != ClassCut {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Collect(silent.Stream(t.Context(), Request{})); err != errNoEnd {
		t.Errorf("Collect = %v", err)
	}
}

func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{attempts: []func(context.Context, func(Event, error) bool){stalls(80*time.Second, "a", "b", "c")}}
		m := WithSilence(p, 90*time.Second)
		start := time.Now()
		got := transcript(m.Stream(t.Context(), Request{}))
		if diff := cmp.Diff([]string{"a", "b", "c", "error play: LLM response timeout after 90s"}, got); diff != "" {
			t.Error(diff)
		}
		if d := time.Since(start); d != 3*80*time.Second+90*time.Second || p.released != 1 {
			t.Errorf("ended after %v, released %d", d, p.released)
		}
		_, err := Collect(m.Stream(t.Context(), Request{}))
		if ClassOf(err) != ClassSilence || !errors.Is(err, context.DeadlineExceeded) || !ClassOf(err).Temporary() {
			t.Errorf("error = %v of class %s", err, ClassOf(err))
		}
	})
}

// The limit counts model time only: what the consumer does with an event, such
// as running a tool, is not silence.
func TestSilenceLeavesOutTheConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{attempts: []func(context.Context, func(Event, error) bool){says("a", "b")}}
		for ev, err := range WithSilence(p, time.Second).Stream(t.Context(), Request{}) {
			if err != nil {
				t.Fatalf("after %+v: %v", ev, err)
			}
			_ = sleep(t.Context(), 10*time.Second)
		}
	})
}

func TestAttemptLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &play{attempts: []func(context.Context, func(Event, error) bool){func(ctx context.Context, yield func(Event, error) bool) {
			for sleep(ctx, 7*time.Second) == nil && yield(Event{Text: "x"}, nil) {
			}
			yield(Event{}, context.Cause(ctx))
		}}}
		start := time.Now()
		_, err := Collect(WithSilence(p, time.Minute).Stream(t.Context(), Request{}))
		if time.Since(start) != 30*time.Minute || ClassOf(err) != ClassSilence {
			t.Errorf("Stream = %v after %v", err, time.Since(start))
		}
	})
}

func TestSilencePassesOtherEndsOn(t *testing.T) {
	p := &play{attempts: []func(context.Context, func(Event, error) bool){failsWith(failure(ClassAuth, 0), "a")}}
	if _, err := Collect(WithSilence(p, time.Minute).Stream(t.Context(), Request{})); ClassOf(err) != ClassAuth {
		t.Errorf("Stream = %v", err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	p = &play{attempts: []func(context.Context, func(Event, error) bool){stalls(0)}}
	if _, err := Collect(WithSilence(p, time.Minute).Stream(ctx, Request{})); err != stop {
		t.Errorf("Stream = %v, want the cause of ctx", err)
	}
	if m := WithSilence(p, 0); m != Model(p) {
		t.Error("WithSilence(0) wraps the model")
	}
	p = &play{attempts: []func(context.Context, func(Event, error) bool){says("a", "b")}}
	for range WithSilence(p, time.Minute).Stream(t.Context(), Request{}) {
		break
	}
	if p.released != 1 {
		t.Error("the stream below was not released")
	}
}

func TestNumbers(t *testing.T) {
	u := Usage{Input: 1000, Output: 200, CacheRead: 30, CacheWrite: 4}
	if got := u.Add(u); got != (Usage{2000, 400, 60, 8}) || u.Total() != 1234 {
		t.Errorf("Add = %+v, Total = %d", got, u.Total())
	}
	if got := (Price{Input: 3, Output: 15, CacheRead: 0.3, CacheWrite: 3.75}).Of(Usage{1e6, 1e6, 1e6, 1e6}); got != 22.05 {
		t.Errorf("Of = %v", got)
	}
	e := &Error{Provider: "p", Status: 429, Text: "slow down", Err: context.Canceled}
	if e.Error() != "p: HTTP 429: slow down" || !errors.Is(e, context.Canceled) || ClassOf(nil) != "" {
		t.Errorf("Error = %v", e)
	}
}
