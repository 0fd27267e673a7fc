// Package engine gives every accepted message exactly one end. It owns the
// lanes (one running turn and a short queue per conversation), the life of a
// turn from Accepted to its terminal event, stop, compaction and reset between
// turns, what watchers see, and the recovery of open turns after a restart. It
// implements [transport.Inbox].
//
// It does not know who answers (package runner and what lies below it), how
// messages travel (transport), what a message means (route decides that) or how
// conversations lie on disk (the Archive, package session). The truth about a
// turn is its records in the journal; everything the engine keeps in memory can
// be made from them again.
//
// Follow one message: [Engine.Submit] → accept → drive → runTurn →
// watchdog.guard → attempt.Emit → settleEnd.
//
// Locks, in the order they may be taken: attempt.mu, lane.order, Engine.mu; and
// lane.archiving, lane.order, Engine.mu. None is held while a runner, a hook, a
// sink or a watcher is called. lane.archiving alone is held while the archive
// is called, so that one conversation's projections happen in order; nobody but
// writers of that conversation ever waits for it.
package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// An Archive keeps conversations at rest, as projections of the journal.
//
// Project brings over one record that is on disk, and before it whatever an
// earlier process left out; for one conversation it is called in the order of
// seq and never concurrently, and it must do nothing when it has that seq
// already. Records that no archive needs (progress) are not offered. CatchUp
// brings over whatever the archive has not seen yet; it is called at recovery
// for conversations with open turns, and after Project has failed.
type Archive interface {
	Project(ctx context.Context, conv chat.Address, seq int64, at time.Time, rec turn.Record) error
	CatchUp(ctx context.Context, conv chat.Address) error
}

// Options of an Engine. Journal is required, the rest has defaults.
type Options struct {
	Journal journal.Journal
	// Archive may be nil: then nothing is projected.
	Archive Archive
	// Runners answer turns, by the name that routing gives.
	Runners map[string]runner.Runner
	// Runner finds those that come and go while the process lives, after
	// Runners. It must be quick. Nil: there are none.
	Runner func(name string) (runner.Runner, bool)
	// Early says of a runner that it may be given a turn while the message is on
	// its way to disk: until it first emits an event that waits for the disk (the
	// start of a tool, a question, the end), all it does can be done again, and
	// shows nowhere but in the journal. The sender's receipt waits for the disk
	// all the same. It must be quick. Nil: nobody is.
	Early func(runner string) bool
	// Snapshot tells routing about an address. It is called on every
	// submission and must be quick. Nil: every conversation is answered by the
	// runner called "native".
	Snapshot func(chat.Address) route.Snapshot
	// Program acts on a command of a conversation with an agent program, Help
	// included, and returns what to show; ok is false where there is none. nil:
	// there is none anywhere.
	Program func(ctx context.Context, c transport.Command) (text string, ok bool, err error)
	// Verbose acts on "verbose on|off|status" and returns the line to show.
	// Nil: the command is refused.
	Verbose func(ctx context.Context, conv chat.Address, argument string) (string, error)
	// Answer settles a question. Nil: there are none, transport.ErrUnknownAsk.
	Answer func(context.Context, transport.Answer) (transport.Reply, error)
	// Settle looks whether what was submitted answers a question that was put in
	// conv. It is asked about what a proven person says there that is no
	// command, once per message, and returns nil if it is no answer. It must be
	// quick. Nil: words answer nothing.
	Settle func(conv chat.Address, s transport.Submission) *Settlement

	// Seal may keep what a submission says elsewhere and change it to what may be
	// known of it. It is called for every submission, before anything of it is
	// kept and before it is routed; a repeat must come out the same. nil: none is
	// changed.
	Seal func(context.Context, *transport.Submission) error

	// Redact returns what the journal may keep of a record, without changing
	// what it was given. It must be quick. Nil: everything.
	Redact func(turn.Record) turn.Record

	// MaxWaiting is how many turns may wait in a lane besides the running one:
	// 5.
	MaxWaiting int
	// MaxAge is how old a message may be to be answered after a restart: 4 h.
	MaxAge time.Duration
	// MaxAttempts is how often a turn is given to a runner when the process
	// ends under it each time: 5. A turn that kills the process would
	// otherwise do so for ever.
	MaxAttempts int
	// Grace is what running turns get to finish when Serve is told to end: 10 s.
	Grace time.Duration
	// SalvageLimit is what they get after that to end with what they have: 5 s.
	SalvageLimit time.Duration
	// StopLimit is how long a stopped runner may take before its turn is ended
	// without it and its lane is freed: 30 s.
	StopLimit time.Duration

	Hooks  Hooks
	Logger *slog.Logger     // nil: slog.DiscardHandler
	Now    func() time.Time // nil: time.Now
}

// Hooks are called beside the work, for metrics. Nil ones are skipped. They
// must be quick and safe for concurrent use.
type Hooks struct {
	// TurnStarted is called when a runner is given a turn.
	TurnStarted func(TurnInfo)
	// TurnEnded is called once per turn, after its terminal event is on disk.
	TurnEnded func(TurnInfo)
	// Cleared is called when the context of a conversation was cleared.
	Cleared func(chat.Address)
	// Panicked is called when a runner panicked, before TurnEnded.
	Panicked func(TurnInfo)
}

// TurnInfo describes a turn for metrics; there is no text of anybody in it.
type TurnInfo struct {
	Turn         turn.ID
	Conversation chat.Address
	Runner       string
	Origin       turn.Origin
	Attempt      int
	// Waited is the time from acceptance to the runner, Ran from there to the
	// end; 0 if the turn never ran.
	Waited, Ran time.Duration
	// Set when the turn has ended. Code is empty for a reply.
	Code    turn.Code
	Stopped bool
	Usage   *turn.Usage
}

// An Engine is safe for concurrent use. Submissions wait until Serve has
// recovered what the last process left open.
type Engine struct {
	// Fixed by New.
	opts    Options
	log     *slog.Logger
	journal journal.Journal

	// ready is closed by Serve after recovery; over when nothing runs any more;
	// leave by Leave; broken by fail.
	ready, over, leave, broken chan struct{}
	// abandoned ends when running turns are given up.
	abandoned context.Context
	abandon   context.CancelFunc

	// drivers counts lane goroutines. Add is called with mu held and closing
	// unset.
	drivers sync.WaitGroup

	// mu guards the fields below and those of lanes and tasks that say so.
	mu      sync.Mutex
	serving bool
	closing bool
	left    bool
	failure error
	lanes   map[chat.Address]*lane
	turns   map[turn.ID]*task // open turns
	// behind holds the conversations whose archive failed.
	behind map[chat.Address]struct{}
}

// New checks opts. It starts nothing: call Serve.
func New(opts Options) (*Engine, error) {
	if opts.Journal == nil {
		return nil, errors.New("engine: a journal is required")
	}
	setDefault(&opts.MaxWaiting, 5)
	setDefault(&opts.MaxAge, 4*time.Hour)
	setDefault(&opts.MaxAttempts, 5)
	setDefault(&opts.Grace, 10*time.Second)
	setDefault(&opts.SalvageLimit, 5*time.Second)
	setDefault(&opts.StopLimit, 30*time.Second)
	if opts.Snapshot == nil {
		opts.Snapshot = func(chat.Address) route.Snapshot { return route.Snapshot{Default: "native"} }
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	abandoned, abandon := context.WithCancel(context.Background())
	return &Engine{
		opts: opts, log: opts.Logger, journal: opts.Journal,
		ready: make(chan struct{}), over: make(chan struct{}), leave: make(chan struct{}),
		broken: make(chan struct{}), abandoned: abandoned, abandon: abandon,
		lanes: map[chat.Address]*lane{}, turns: map[turn.ID]*task{}, behind: map[chat.Address]struct{}{},
	}, nil
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Ready is closed when submissions are taken.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// runner returns who answers under a name, nil if nobody does.
func (e *Engine) runner(name string) runner.Runner {
	if r := e.opts.Runners[name]; r != nil {
		return r
	}
	if e.opts.Runner != nil {
		if r, ok := e.opts.Runner(name); ok {
			return r
		}
	}
	return nil
}

// await returns when the engine takes submissions.
func (e *Engine) await(ctx context.Context) error {
	select {
	case <-e.ready:
		return nil
	default:
	}
	select {
	case <-e.ready:
		return nil
	case <-e.over:
		return transport.ErrClosing
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail remembers that the journal is broken; Serve then returns the error. The
// journal refuses everything from here on, so no promise can be kept.
func (e *Engine) fail(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure == nil {
		e.failure = err
		close(e.broken)
	}
}

var _ transport.Inbox = (*Engine)(nil)
