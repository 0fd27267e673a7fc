package delivery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/lease"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// CourierOptions are the settings of a Courier. Platform, Journal and Outbox
// are required.
type CourierOptions struct {
	Platform transport.Platform
	// Journal is where the turns are, Outbox a journal of the courier's own. Its
	// keys must last as long as the records of Journal do.
	Journal, Outbox journal.Journal
	// Open opens a file of the workspace. nil: files cannot be sent, and a line
	// says so.
	Open func(local string) (content io.ReadCloser, size int64, err error)
	// Speaker names who answers a turn if it is not Iris herself ("@billing").
	// nil: always Iris.
	Speaker func(*turn.Accepted) string
	// Verbose reports whether people asked to see the tool calls of a
	// conversation. nil: nobody has.
	Verbose func(chat.Address) bool
	// Outcome tells how a question ended, if that is known: a word as in
	// turn.Ask. nil: it is never known.
	Outcome func(ask string) string
	// Tell tells the operator; Operator is where, so that what cannot be told
	// there is not told there. nil: the log alone.
	Tell     func(ctx context.Context, text string)
	Operator chat.Address
	// OperatorNow, when set, is asked instead of Operator: it may change.
	OperatorNow func() chat.Address
	// Lease, when set, is taken before anything is sent and held while it is:
	// one courier at a time per platform.
	Lease lease.Keeper

	// StatusEvery is the least time between two edits of a placeholder: 3 s.
	StatusEvery time.Duration
	// MaxAge is how long something is tried: 24 h.
	MaxAge time.Duration
	// SendLimit bounds one call of the platform: 30 s, and four times that for a
	// file.
	SendLimit time.Duration
	// MaxCalls is how many calls run at the same time: 64.
	MaxCalls int
	// MaxOpen is how many things may wait to be sent. When there are more the
	// courier reads on in the journal only as they leave: 50,000.
	MaxOpen int
	// Grace is what deliveries under way get when Serve is told to end: 5 s.
	Grace time.Duration

	Hooks  CourierHooks
	Logger *slog.Logger // nil: slog.DiscardHandler
}

// CourierHooks are called beside the work, for metrics. Nil ones are skipped.
// They must be quick, safe for concurrent use, and not call the courier.
type CourierHooks struct {
	// Delivered is called when something has arrived whole: what ("turn",
	// "file", "ask", "notice", "detail", "say"), and how long after it happened.
	Delivered func(what string, took time.Duration)
	// Failed is called for every failed call.
	Failed func(transport.Fault)
	// Lost is called when something was given up.
	Lost func(what string)
}

// A Courier shows conversations on one platform: it follows the journal from
// where it has come to, and what is to be sent lies in the outbox before it is
// sent, with the platform's id after. It is safe for concurrent use.
type Courier struct {
	// Fixed by NewCourier.
	opts     CourierOptions
	platform transport.Platform
	traits   transport.Traits
	out      outbox
	log      *slog.Logger

	// mu guards the fields below, and the chats, lanes and items. It is never
	// held while the platform is called, but for its Pace, or a journal.
	mu    sync.Mutex
	run   *run // nil while not serving
	state error
}

// NewCourier checks opts. It starts nothing: call Serve.
func NewCourier(opts CourierOptions) (*Courier, error) {
	if opts.Platform == nil || opts.Journal == nil || opts.Outbox == nil {
		return nil, errors.New("delivery: a platform, the journal and an outbox are required")
	}
	setDefault(&opts.StatusEvery, 3*time.Second)
	setDefault(&opts.MaxAge, 24*time.Hour)
	setDefault(&opts.SendLimit, 30*time.Second)
	setDefault(&opts.MaxCalls, 64)
	setDefault(&opts.MaxOpen, 50_000)
	setDefault(&opts.Grace, 5*time.Second)
	if opts.Speaker == nil {
		opts.Speaker = func(*turn.Accepted) string { return "" }
	}
	if opts.Verbose == nil {
		opts.Verbose = func(chat.Address) bool { return false }
	}
	if opts.OperatorNow == nil {
		opts.OperatorNow = func() chat.Address { return opts.Operator }
	}
	if opts.Outcome == nil {
		opts.Outcome = func(string) string { return "" }
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	traits := opts.Platform.Traits()
	if traits.Pace == nil {
		traits.Pace = func(transport.Place) transport.Pace { return transport.DefaultPace }
	}
	setDefault(&traits.MaxChars, 4000)
	setDefault(&traits.PerSecond, 20)
	return &Courier{
		opts: opts, platform: opts.Platform, traits: traits, out: outbox{opts.Outbox},
		log: opts.Logger.With("platform", opts.Platform.Name()), state: errors.New("starting"),
	}, nil
}

func setDefault[T int | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// Name is the platform's.
func (c *Courier) Name() string { return c.platform.Name() }

// Serve delivers until ctx ends; then what can still go out gets Grace. ready is
// called once, when everything that happens from then on will be shown. It
// returns nil when ctx has ended, else why a journal is broken.
func (c *Courier) Serve(ctx context.Context, ready func()) error {
	var once sync.Once
	for {
		serve := func(lease context.Context) error { return c.serve(ctx, lease, func() { once.Do(ready) }) }
		var err error
		if c.opts.Lease == nil {
			err = serve(ctx)
		} else {
			c.say(errors.New("waiting for the lease: another process delivers"))
			err = lease.While(ctx, c.opts.Lease, "delivery-"+c.Name(), serve)
		}
		c.say(errors.New("stopped"))
		if err != nil && ctx.Err() == nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		c.log.Warn("the lease was lost; waiting for it again")
	}
}

// serve is one life of the courier's memory. Without the lease it ends at once.
func (c *Courier) serve(ctx, lease context.Context, ready func()) error {
	// What is under way outlives ctx for the time of the grace.
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	r := newRun(c, life, end)
	since, err := r.recover()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.run = r
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.run = nil
		c.mu.Unlock()
		end(nil)
		r.stop()
	}()
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer end(nil)
	tasks.Go(func() { r.follow(since, ready) })
	tasks.Go(r.tick)
	tasks.Go(r.tell)
	r.begin()
	select {
	case <-lease.Done():
		if ctx.Err() == nil {
			break // lost
		}
		grace := time.NewTimer(c.opts.Grace)
		defer grace.Stop()
		select {
		case <-r.drain():
		case <-grace.C:
		case <-life.Done():
		}
	case <-life.Done():
	}
	if cause := context.Cause(life); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// say sets what Ready answers.
func (c *Courier) say(state error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = state
}

// Ready returns nil when messages go out, else why not in one sentence.
func (c *Courier) Ready() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return c.state
	}
	return c.run.trouble()
}

// Open is how many things are under way: turns that run, messages that wait,
// questions nobody has answered.
func (c *Courier) Open() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return 0
	}
	return c.run.open
}

// maxSaid bounds the lines of Say that wait in one chat.
const maxSaid = 16

// ErrNotSaid reports that a line of Say was not taken: too many wait already,
// or the courier does not serve.
var ErrNotSaid = errors.New("the line is not sent")

// Say sends one line of Markdown, such as the answer to a command, in its turn
// with everything else that chat gets. It returns at once; the line is not kept
// on disk, and is dropped when it cannot be sent within five minutes.
func (c *Courier) Say(p transport.Place, text string) error {
	bodies := c.render(transport.View{Show: transport.ShowNotice, Text: text})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == nil {
		return fmt.Errorf("%w: not serving", ErrNotSaid)
	}
	return c.run.say(p, bodies)
}

// render guards against a renderer that panics over what a model wrote: the text
// then goes out as it is.
func (c *Courier) render(v transport.View) (bodies []transport.Body) {
	defer func() {
		if r := recover(); r != nil {
			c.log.Error("a renderer panicked", "panic", r, "show", v.Show, "length", len(v.Text))
			bodies = []transport.Body{{Text: v.Text + "\n" + v.Note, Source: v.Text, Note: v.Note}}
		}
	}()
	if bodies = c.platform.Render(v); len(bodies) == 0 {
		c.log.Error("a renderer returned nothing", "show", v.Show, "length", len(v.Text))
		bodies = []transport.Body{{Text: v.Text + "\n" + v.Note, Source: v.Text, Note: v.Note}}
	}
	return bodies
}
