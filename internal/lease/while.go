package lease

import (
	"context"
	"errors"
	"time"
)

// retry is how often a lease that somebody else holds is asked for again: a
// holder that dies leaves a pause of at most this.
const retry = 2 * time.Second

// While waits for the lease, runs f under it and gives it back. The context of
// f ends with ctx, and when the lease is lost; the error is that of f, which is
// not called at all when ctx ends before. Errors of the keeper other than
// ErrHeld are returned.
func While(ctx context.Context, k Keeper, name string, f func(ctx context.Context) error) error {
	for {
		held, err := k.Acquire(ctx, name)
		if err == nil {
			return under(ctx, held, f)
		}
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, ErrHeld) {
			return err
		}
		select {
		case <-time.After(retry):
		case <-ctx.Done():
			return nil
		}
	}
}

func under(ctx context.Context, held Lease, f func(context.Context) error) error {
	defer held.Release()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		select {
		case <-held.Lost():
			cancel()
		case <-stop:
		}
	}()
	err := f(ctx)
	close(stop)
	<-watching
	return err
}
