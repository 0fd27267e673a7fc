package schedule

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/iris-operator/iris/internal/lease"
	"github.com/iris-operator/iris/internal/transport"
)

// The defaults of Options, and what does not change.
const (
	// DefaultGrace is how late an occurrence may run without counting as missed:
	// longer than a restart takes.
	DefaultGrace = 10 * time.Minute
	// DefaultRescan finds what the notifications of the file system left out.
	DefaultRescan = 30 * time.Second
	// settle is how long a file must stay as it is before it is read.
	settle = 100 * time.Millisecond
	// maxTries of reading a file that is broken: its writer may be at it.
	maxTries = 3
	// DefaultTakeOver is how often a process that waits asks for the lease.
	DefaultTakeOver = 5 * time.Second
)

// Options of a Scheduler.
type Options struct {
	Workspace string          // required
	Inbox     transport.Inbox // required
	// Leases decides which of several processes acts. Required.
	Leases lease.Keeper
	// Tell reaches the operator: a file that cannot run, an occurrence that was
	// missed. nil: the log alone.
	Tell func(ctx context.Context, text string)
	// Quiet are the hours in which periodic events wait, "22:00-07:00" by the
	// event's own zone. Empty: none.
	Quiet string
	// Location is the zone of quiet hours of events without one. nil: UTC.
	Location *time.Location
	Grace    time.Duration // 0: DefaultGrace
	Rescan   time.Duration // 0: DefaultRescan
	TakeOver time.Duration // 0: DefaultTakeOver
	Logger   *slog.Logger  // nil: nothing is logged
	// Watch sends when something happened in one of the directories, until ctx
	// ends. nil: the notifications of the file system; a failure leaves the
	// rescan.
	Watch func(ctx context.Context, dirs []string) (<-chan struct{}, error)
}

// A Scheduler submits what is due. Make it with New and run it with Serve.
type Scheduler struct {
	opts   Options
	ledger ledger
	quiet  quiet
}

// New checks opts and makes the directories. It starts nothing.
func New(opts Options) (*Scheduler, error) {
	if opts.Workspace == "" || opts.Inbox == nil || opts.Leases == nil {
		return nil, errors.New("schedule: a workspace, an inbox and leases are required")
	}
	q, err := parseQuiet(opts.Quiet)
	if err != nil {
		return nil, err
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Location == nil {
		opts.Location = time.UTC
	}
	if opts.Grace == 0 {
		opts.Grace = DefaultGrace
	}
	if opts.Rescan == 0 {
		opts.Rescan = DefaultRescan
	}
	if opts.TakeOver == 0 {
		opts.TakeOver = DefaultTakeOver
	}
	if opts.Watch == nil {
		opts.Watch = watch
	}
	s := &Scheduler{opts: opts, quiet: q, ledger: ledger{filepath.Join(opts.Workspace, "state", "schedule")}}
	for _, dir := range Dirs() {
		if err := os.MkdirAll(filepath.Join(opts.Workspace, dir), 0o700); err != nil {
			return nil, fmt.Errorf("make the directory of events: %w", err)
		}
	}
	if err := os.MkdirAll(s.ledger.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of claims: %w", err)
	}
	return s, nil
}

// Serve runs what is due until ctx ends. ready is called when the first look at
// the directories is over, or at once if another process has the lease: then
// Serve waits for it.
func (s *Scheduler) Serve(ctx context.Context, ready func()) error {
	for waiting := false; ; waiting = true {
		held, err := s.opts.Leases.Acquire(ctx, "schedule")
		switch {
		case err == nil:
			err = s.run(ctx, held, ready)
			if releaseErr := held.Release(); err == nil {
				err = releaseErr
			}
			if ctx.Err() != nil || err != nil {
				return err
			}
			s.opts.Logger.Warn("the lease of the schedule is lost; waiting for it")
		case !errors.Is(err, lease.ErrHeld):
			return err
		case !waiting:
			s.opts.Logger.Info("another process runs the schedule", "err", err)
		}
		ready()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.opts.TakeOver):
		}
	}
}

// run acts while the lease is held.
func (s *Scheduler) run(ctx context.Context, held lease.Lease, ready func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var dirs []string
	for _, dir := range Dirs() {
		dirs = append(dirs, filepath.Join(s.opts.Workspace, dir))
	}
	changed, err := s.opts.Watch(ctx, dirs)
	if err != nil {
		s.opts.Logger.Warn("no notifications of event files; looking every now and then", "every", s.opts.Rescan, "err", err)
	}
	t := &table{Scheduler: s, entries: map[string]*entry{}}
	for first := true; ; first = false {
		now := time.Now().Round(0)
		next, err := t.step(ctx, now)
		if err != nil && !errors.Is(err, context.Canceled) {
			s.opts.Logger.Error("the event files", "err", err)
		}
		if first {
			t.sweep()
			ready()
		}
		// The clock may be set: never sleep longer than a rescan.
		timer := time.NewTimer(min(max(next.Sub(now), 0), s.opts.Rescan))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-held.Lost():
			timer.Stop()
			return nil
		case _, ok := <-changed:
			if !ok {
				changed = nil
			}
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (s *Scheduler) tell(ctx context.Context, text string) {
	if s.opts.Tell != nil {
		s.opts.Tell(ctx, text)
	}
}

// missing reports an error that means a file is not there any more.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
