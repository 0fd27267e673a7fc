// Package leasetest is the suite that every implementation of lease.Keeper
// passes. What happens when a holder's process dies is tested beside the
// implementation.
package leasetest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/iris-operator/iris/internal/lease"
)

// Run runs the suite. keepers returns a function that opens one store of
// leases, empty at first; every call is a keeper of its own, as another process
// would have it.
func Run(t *testing.T, keepers func(t *testing.T) func() lease.Keeper) {
	t.Run("one holder at a time", func(t *testing.T) {
		open := keepers(t)
		k := open()
		l := acquire(t, k, "slack")
		for name, other := range map[string]lease.Keeper{"same keeper": k, "another keeper": open()} {
			_, err := other.Acquire(t.Context(), "slack")
			var held *lease.HeldError
			if !errors.As(err, &held) || !errors.Is(err, lease.ErrHeld) || held.Name != "slack" {
				t.Errorf("%s: acquire of a held lease = %v, want a HeldError of slack", name, err)
			}
		}
		release(t, acquire(t, k, "telegram")) // another name is free
		select {
		case <-l.Lost():
			t.Error("a held lease says that it is lost")
		default:
		}
		release(t, l)
		release(t, l) // again: nothing
		release(t, acquire(t, open(), "slack"))
	})
	t.Run("a second release does not free the next holder", func(t *testing.T) {
		k := keepers(t)()
		first := acquire(t, k, "a")
		release(t, first)
		second := acquire(t, k, "a")
		first.Release()
		if _, err := k.Acquire(t.Context(), "a"); !errors.Is(err, lease.ErrHeld) {
			t.Errorf("acquire = %v, want ErrHeld", err)
		}
		release(t, second)
	})
	t.Run("fences rise", func(t *testing.T) {
		open := keepers(t)
		last := int64(0)
		for range 20 {
			l := acquire(t, open(), "a")
			if l.Fence() <= last {
				t.Errorf("fence %d after %d", l.Fence(), last)
			}
			last = l.Fence()
			release(t, l)
		}
	})
	t.Run("names are data", func(t *testing.T) {
		k := keepers(t)()
		names := []string{".", "..", "a/b", "a b", "a%2Fb", "../x", "ü", "A", "a", "cron/daily 9:00", "x.lease"}
		for _, name := range names {
			l, err := k.Acquire(t.Context(), name)
			if err != nil {
				t.Errorf("acquire %q while others are held: %v", name, err)
				continue
			}
			defer release(t, l)
		}
		if l, err := k.Acquire(t.Context(), ""); err == nil {
			release(t, l)
			t.Error("a lease without a name was handed out")
		}
	})
	t.Run("many want one", func(t *testing.T) {
		open := keepers(t)
		var inside, turns atomic.Int64
		var mu sync.Mutex
		fences := map[int64]bool{}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				k := open()
				for got := 0; got < 10; {
					l, err := k.Acquire(context.Background(), "a")
					if errors.Is(err, lease.ErrHeld) {
						continue
					}
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d holders at a time", n)
					}
					mu.Lock()
					if fences[l.Fence()] {
						t.Errorf("fence %d was handed out twice", l.Fence())
					}
					fences[l.Fence()] = true
					mu.Unlock()
					got++
					turns.Add(1)
					inside.Add(-1)
					release(t, l)
				}
			})
		}
		wg.Wait()
		if turns.Load() != 80 {
			t.Errorf("%d turns, want 80", turns.Load())
		}
	})
	t.Run("a context that ended", func(t *testing.T) {
		k := keepers(t)()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := k.Acquire(ctx, "a"); !errors.Is(err, context.Canceled) {
			t.Errorf("acquire = %v, want context.Canceled", err)
		}
		release(t, acquire(t, k, "a"))
	})
}

func acquire(t *testing.T, k lease.Keeper, name string) lease.Lease {
	t.Helper()
	l, err := k.Acquire(t.Context(), name)
	if err != nil {
		t.Fatalf("acquire %s: %v", name, err)
	}
	return l
}

func release(t *testing.T, l lease.Lease) {
	t.Helper()
	if err := l.Release(); err != nil {
		t.Errorf("release: %v", err)
	}
}
