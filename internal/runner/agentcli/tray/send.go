package tray

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

// send sends one file. Before it is shown it gets a name that says so, and goes when
// it has been: a file is sent twice only if the process ends in between, and is marked
// then.
func (o *Out) send(ctx context.Context, d *dir, conv chat.Address, name string, deadline time.Time, emit func(turn.Event) error) error {
	f, st, err := o.settled(ctx, d, name, deadline)
	if err != nil {
		return err
	}
	defer f.Close()
	plain, again := strings.CutPrefix(name, leaving)
	title := ""
	if again {
		title = shown(plain) + " (perhaps sent before: Iris was restarted)"
	}
	local, err := o.opts.Keep(ctx, conv, shown(plain), f, o.opts.MaxFile)
	if err != nil {
		return fmt.Errorf("keep a copy: %w", err)
	}
	var after unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &after); err != nil {
		return err
	}
	if !same(st, after) {
		return errMoving // the copy is of something half written
	}
	if !again {
		if err := d.rename(name, leaving+plain, st); err != nil {
			return err
		}
	}
	if err := emit(turn.Event{Kind: turn.FileOut, Filename: shown(plain), Title: title, Local: local}); err != nil {
		if !again {
			_ = d.rename(leaving+plain, name, st) // it was not sent, and else it would look as if
		}
		return &broken{err}
	}
	return d.remove(leaving + plain)
}

// stale is how old an empty file is of which nobody will write more.
const stale = time.Minute

// settled opens a file that does not change any more: it is older than Settle, or
// stayed as it is for so long.
func (o *Out) settled(ctx context.Context, d *dir, name string, deadline time.Time) (*os.File, unix.Stat_t, error) {
	var last unix.Stat_t
	var since time.Time
	for {
		f, st, err := d.open(name, o.opts.MaxFile)
		moving := errors.Is(err, errMoving) && st.Mode&unix.S_IFMT == unix.S_IFREG
		if err != nil && !moving {
			return nil, st, err
		}
		if !same(st, last) {
			last, since = st, time.Now()
		}
		if err == nil {
			age := time.Since(time.Unix(st.Mtim.Unix()))
			switch {
			case st.Size > 0 && (age >= o.opts.Settle || time.Since(since) >= o.opts.Settle):
				return f, st, nil
			case st.Size == 0 && age > stale:
				f.Close()
				return nil, st, &refusal{"it is empty"}
			}
			f.Close()
		}
		if time.Now().After(deadline) {
			return nil, st, errMoving
		}
		pause := time.NewTimer(min(o.opts.Settle, 50*time.Millisecond))
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil, st, context.Cause(ctx)
		case <-pause.C:
		}
	}
}
