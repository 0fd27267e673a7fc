package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/iris-operator/iris/internal/lease"
)

// held is a keeper of one lease that is its own.
type held struct {
	mu       sync.Mutex
	err      error // guarded by mu
	lost     chan struct{}
	released int
}

func (h *held) Acquire(context.Context, string) (lease.Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil {
		return nil, h.err
	}
	return h, nil
}

func (h *held) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

func (h *held) Fence() int64          { return 1 }
func (h *held) Lost() <-chan struct{} { return h.lost }
func (h *held) Release() error        { h.released++; return nil }

func TestWhile(t *testing.T) {
	broken, done := errors.New("disk full"), errors.New("done")
	for name, c := range map[string]struct {
		before func(h *held, cancel func())
		f      func(ctx context.Context, h *held) error
		want   error
		ran    bool
	}{
		"held at once":     {func(*held, func()) {}, func(context.Context, *held) error { return done }, done, true},
		"held by others":   {func(h *held, _ func()) { h.fail(&lease.HeldError{}); time.Sleep(time.Minute); h.fail(nil) }, func(context.Context, *held) error { return nil }, nil, true},
		"lost":             {func(*held, func()) {}, func(ctx context.Context, h *held) error { close(h.lost); <-ctx.Done(); return done }, done, true},
		"a broken keeper":  {func(h *held, _ func()) { h.fail(broken) }, nil, broken, false},
		"ended in waiting": {func(h *held, cancel func()) { h.fail(&lease.HeldError{}); time.Sleep(time.Minute); cancel() }, nil, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				h := &held{lost: make(chan struct{})}
				ready := make(chan struct{})
				go func() {
					defer close(ready)
					c.before(h, cancel)
				}()
				synctest.Wait()
				ran := false
				err := lease.While(ctx, h, "x", func(ctx context.Context) error {
					ran = true
					return c.f(ctx, h)
				})
				<-ready
				if !errors.Is(err, c.want) || ran != c.ran || ran && h.released != 1 {
					t.Errorf("While = %v, ran %v, released %d times; want %v, %v", err, ran, h.released, c.want, c.ran)
				}
			})
		})
	}
}
