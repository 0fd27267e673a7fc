package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/approval"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/delivery"
	"github.com/iris-operator/iris/internal/journal"
	journalfile "github.com/iris-operator/iris/internal/journal/file"
	"github.com/iris-operator/iris/internal/lease"
	"github.com/iris-operator/iris/internal/lifetime"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A platform is a chat service: its way in and its way out, which may be one
// value. lines sends the line that answers a command; it is called once, before
// in serves.
type platform struct {
	in    transport.Transport
	out   transport.Platform
	lines func(say func(transport.Place, string) error)
}

// platforms lists the chat services that are configured.
func (s *server) platforms(h *house) ([]platform, error) {
	all := s.opts.platforms
	if p, err := s.telegram(h); err != nil {
		return nil, err
	} else if p != nil {
		all = append(all[:len(all):len(all)], *p)
	}
	if p, err := s.openSlack(h); err != nil {
		return nil, err
	} else if p != nil {
		all = append(all[:len(all):len(all)], *p)
	}
	return all, nil
}

// errStarting is the state of a way in that has not said otherwise.
var errStarting = errors.New("starting")

// A post is a platform with what delivers to it.
type post struct {
	platform
	courier *delivery.Courier
	outbox  *journalfile.Journal

	// mu guards err: why the way in does not work.
	mu  sync.Mutex
	err error
}

// posts are all platforms.
type posts []*post

// openPosts makes what delivers to each of the platforms.
func (s *server) openPosts(h *house) error {
	all, err := s.platforms(h)
	if err != nil {
		return err
	}
	for _, p := range all {
		x := &post{platform: p, err: errStarting}
		if err := s.openPost(h, x); err != nil {
			return fmt.Errorf("%s: %w", p.out.Name(), err)
		}
		h.posts = append(h.posts, x)
	}
	return nil
}

func (s *server) openPost(h *house, p *post) (err error) {
	cfg, name := s.opts.Config, p.out.Name()
	keep := cfg.Delivery.Keep.Duration()
	p.outbox, err = journalfile.New(journalfile.Options{
		Dir: filepath.Join(cfg.Workspace, "state", "outbox", name),
		// What was delivered must be known as long as the journal tells of it.
		KeyAge: max(keep, 2*cfg.Journal.MaxAge.Duration()), MaxAge: keep, MaxBytes: -1, SegmentBytes: 4 << 20, RecentBytes: 1 << 20,
		Log: s.log,
	})
	if err != nil {
		return err
	}
	p.courier, err = delivery.NewCourier(delivery.CourierOptions{
		Platform: p.out, Journal: h.journal, Outbox: p.outbox, Lease: h.keeper,
		Open: func(local string) (io.ReadCloser, int64, error) {
			f, err := h.sessions.OpenFile(local)
			if err != nil {
				return nil, 0, err
			}
			info, err := f.Stat()
			if err != nil {
				f.Close()
				return nil, 0, err
			}
			return f, info.Size(), nil
		},
		Speaker: h.speaker,
		Verbose: s.verboseIn(h),
		Outcome: h.outcome,
		Tell:    h.desk.Tell, OperatorNow: h.desk.Operator,
		StatusEvery: cfg.Delivery.StatusEvery.Duration(), MaxAge: cfg.Delivery.MaxAge.Duration(),
		Hooks: delivery.CourierHooks{
			Delivered: func(what string, took time.Duration) { s.metrics.Delivered(name, what, took) },
			Failed:    func(f transport.Fault) { s.metrics.DeliveryFailed(name, string(f)) },
			Lost:      func(what string) { s.metrics.DeliveryLost(name, what) },
		},
		Logger: s.log,
	})
	if err != nil {
		return errors.Join(err, p.outbox.Close())
	}
	s.metrics.DeliveryOpen(name, func() float64 { return float64(p.courier.Open()) })
	if p.lines != nil {
		p.lines(p.courier.Say)
	}
	return nil
}

// outcome is how a question ended. An answer is on disk a moment before the
// question knows of it.
func (h *house) outcome(ask string) string {
	for i := 0; ; i++ {
		state, _ := h.approvals.State(ask)
		if state != approval.Pending || i == outcomeTries {
			return string(state)
		}
		time.Sleep(outcomePause)
	}
}

// How long an answer that is on disk may take to be known.
const (
	outcomeTries = 20
	outcomePause = 5 * time.Millisecond
)

// speaker names the sub-agent that answers a turn.
func (h *house) speaker(a *turn.Accepted) string {
	for _, known := range h.fleet.List() {
		if known.Name == a.Runner {
			return "@" + a.Runner
		}
	}
	return ""
}

// verboseIn reports whether people asked to see tool calls.
func (s *server) verboseIn(h *house) func(chat.Address) bool {
	return func(conv chat.Address) bool {
		set, err := h.sessions.Settings(context.Background(), conv)
		if err == nil && set.VerboseTools != nil {
			return *set.VerboseTools
		}
		return s.opts.Config.Turns.VerboseTools
	}
}

func (ps posts) close() error {
	var errs []error
	for _, p := range ps {
		errs = append(errs, p.outbox.Close())
	}
	return errors.Join(errs...)
}

// repairPause is how long a part that failed waits for better times, such as
// room on the disk, before it is started again.
const repairPause = 5 * time.Second

// deliveryPart shows conversations on the platforms. It starts before the engine
// and so ends after it, when the last replies are written.
func (s *server) deliveryPart() lifetime.Part {
	return lifetime.Part{Name: "delivery", Grace: 10 * time.Second,
		Check: func() error {
			var errs []error
			for _, p := range s.house.posts {
				if err := p.courier.Ready(); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", p.courier.Name(), err))
				}
			}
			return errors.Join(errs...)
		},
		Serve: func(ctx context.Context, ready func()) error {
			var all, begun sync.WaitGroup
			for _, p := range s.house.posts {
				begun.Add(1)
				var once sync.Once
				started := func() { once.Do(begun.Done) }
				all.Go(func() {
					defer started()
					again(ctx, func() {
						if err := p.courier.Serve(ctx, started); err != nil && !errors.Is(err, journal.ErrClosed) {
							s.log.Error("deliver", "platform", p.courier.Name(), "err", err)
						}
					})
				})
				all.Go(func() {
					if err := p.outbox.Serve(ctx); err != nil {
						s.log.Error("keep the outbox small", "platform", p.courier.Name(), "err", err)
					}
				})
			}
			begun.Wait()
			ready()
			<-ctx.Done()
			all.Wait()
			return nil
		}}
}

// again calls f, which returns when it has failed, until ctx ends.
func again(ctx context.Context, f func()) {
	for ctx.Err() == nil {
		f()
		select {
		case <-ctx.Done():
		case <-time.After(repairPause):
		}
	}
}

// platformsPart takes what people say on the platforms. A platform that cannot
// be reached keeps nobody else from starting, and is tried again.
func (s *server) platformsPart() lifetime.Part {
	return lifetime.Part{Name: "platforms",
		Check: func() error {
			var errs []error
			for _, p := range s.house.posts {
				p.mu.Lock()
				err := p.err
				p.mu.Unlock()
				if err == nil || err == errStarting {
					if why := p.in.Ready(); why != nil || err == nil {
						err = why // more than that it starts
					}
				}
				if err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", p.in.Name(), err))
				}
			}
			return errors.Join(errs...)
		},
		Serve: func(ctx context.Context, ready func()) error {
			var all sync.WaitGroup
			for _, p := range s.house.posts {
				all.Go(func() {
					again(ctx, func() {
						err := lease.While(ctx, s.house.keeper, "transport-"+p.in.Name(), func(ctx context.Context) error {
							return p.in.Serve(ctx, func() { p.state(nil) })
						})
						if ctx.Err() != nil {
							return
						}
						if err == nil {
							err = errors.New("it ended, and is started again")
						}
						p.state(err)
						s.log.Error("a platform", "platform", p.in.Name(), "err", err)
					})
				})
			}
			ready()
			<-ctx.Done()
			all.Wait()
			return nil
		}}
}

func (p *post) state(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}
