package terminal

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/iris-operator/iris/internal/turn"
)

// say sends one message and draws its turn to the end.
func (t *talk) say(ctx context.Context, text string) error {
	t.screen.begin()
	defer t.screen.rest()
	return t.watch(ctx, func(ctx context.Context) (turn.ID, bool, error) {
		sent, err := t.opts.Client.Send(ctx, t.session, t.opts.User, text)
		if err == nil && sent.Turn == "" {
			t.screen.answer(sent.Text)
			return "", false, nil
		}
		return sent.Turn, true, err
	})
}

// join draws the turn that runs already, if there is one, from its start.
func (t *talk) join(ctx context.Context) error {
	defer t.screen.rest()
	return t.watch(ctx, func(ctx context.Context) (turn.ID, bool, error) {
		id, err := t.opts.Client.Running(ctx, t.session)
		if id != "" {
			t.screen.note("(a turn is running; Ctrl-C stops it)")
			t.screen.begin()
		}
		return id, id != "", err
	})
}

// watch opens the event stream, calls submit and draws the turn it returns. more
// is false when there is none.
func (t *talk) watch(ctx context.Context, submit func(context.Context) (id turn.ID, more bool, err error)) error {
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	events := make(chan turn.Event, 64)
	opened := make(chan struct{})
	broken := make(chan error, 1)
	running.Go(func() {
		broken <- t.opts.Client.Follow(ctx, Watch{
			Session: t.session,
			Opened:  func() { close(opened) },
			Broken:  t.broken(),
			See: func(e turn.Event) bool {
				select {
				case events <- e:
					return true
				case <-ctx.Done():
					return false
				}
			},
		})
	})
	select {
	case <-opened:
	case err := <-broken:
		return t.lost(outer, err)
	}
	id, more, err := submit(ctx)
	if err != nil || !more {
		if outer.Err() != nil {
			return context.Cause(outer)
		}
		return err
	}
	t.begin(id)
	defer t.end()
	if t.listening {
		running.Go(func() {
			if err := t.listen(ctx); err != nil {
				t.screen.trouble(err)
			}
		})
	}
	return t.drawTurn(outer, id, events, broken)
}

// broken tells once per turn that the connection is gone.
func (t *talk) broken() func(error) {
	told := false
	return func(err error) {
		if !told {
			t.screen.note("(" + err.Error() + ": trying again)")
		}
		told = true
	}
}

func (t *talk) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err == nil {
		err = errors.New("the event stream ended")
	}
	return fmt.Errorf("watch session %s: %w", t.session, err)
}

func (t *talk) drawTurn(ctx context.Context, id turn.ID, events <-chan turn.Event, broken <-chan error) error {
	told := false
	for {
		var e turn.Event
		select {
		case e = <-events:
		case err := <-broken:
			return t.lost(ctx, err)
		}
		if e.Turn != id {
			if !told && e.Turn != t.ended && !e.Terminal() && t.screen.live {
				t.screen.note("(another turn runs before this one)")
				told = true
			}
			continue
		}
		if !t.screen.draw(e) {
			t.ended = id
			return failing(e)
		}
	}
}
