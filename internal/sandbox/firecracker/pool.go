package firecracker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/sandbox/firecracker/guest"
	"github.com/iris-operator/iris/internal/secret"
)

// A VM is a machine as a Pool sees it; *microvm.VM is one.
type VM interface {
	Addr() string
	Token() secret.Value
	// Done is closed when the machine has ended.
	Done() <-chan struct{}
	// Close ends the machine and removes it.
	Close() error
}

// PoolOptions are the parts of a Pool.
type PoolOptions struct {
	// Workspace is the host's. Required, absolute.
	Workspace string
	// Boot starts a machine and returns when it is up. Required. It is called
	// for several conversations at once.
	Boot func(ctx context.Context) (VM, error)
	// Inside is what guests call the workspace. Empty means Workspace of the
	// package.
	Inside string
	// Grace is how long after the timeout of a command its end may come, in which
	// the guest ends what the command started. 0 means 5 s.
	Grace time.Duration
	// Idle is how long a machine stays without a command. 0 means 30 min.
	Idle time.Duration
	// Share lists files and directories of the host's workspace that a
	// conversation's machine gets before a command, as far as they are new or
	// changed. nil means none. Symbolic links are not followed.
	Share func(conv chat.Address) []string
	// Now is the clock by which machines are idle, nil: time.Now.
	Now func() time.Time
	// Tick says when to look for idle machines. nil means every 5 min.
	Tick   <-chan time.Time
	Logger *slog.Logger // nil: none
}

// checkEvery is how often a Pool looks for idle machines.
const checkEvery = 5 * time.Minute

// ErrClosed says that the pool is closed: the process is ending.
var ErrClosed = errors.New("the pool of microVMs is closed")

// A Pool is the sandbox that boots a fresh machine for a conversation at its
// first command or file. Serve ends idle ones; Close ends all.
type Pool struct {
	paths
	opts PoolOptions

	mu     sync.Mutex // guards the fields below; held for moments only
	closed bool
	places map[chat.Address]*place
	ending sync.WaitGroup // machines that are being closed
}

// A place is a conversation's machine, now or soon.
type place struct {
	// ready is closed when the boot has ended; vm, client and err are set then.
	ready  chan struct{}
	cancel context.CancelFunc // of the boot
	vm     VM
	client *guest.Client
	err    error

	// The rest is guarded by the pool's mu.
	users int
	used  time.Time
	gone  bool // out of the map and ending

	share shared // guards itself
}

var (
	_ sandbox.Sandbox  = (*Pool)(nil)
	_ sandbox.Resolver = (*Pool)(nil)
)

// NewPool checks the options. It boots nothing.
func NewPool(opts PoolOptions) (*Pool, error) {
	p, err := newPaths(opts.Workspace, opts.Inside)
	if err != nil {
		return nil, err
	}
	if opts.Boot == nil {
		return nil, errors.New("a pool of microVMs needs a way to boot one")
	}
	if opts.Idle <= 0 {
		opts.Idle = 30 * time.Minute
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Pool{paths: p, opts: opts, places: map[chat.Address]*place{}}, nil
}

// Name is "firecracker-pool".
func (p *Pool) Name() string { return "firecracker-pool" }

// Serve ends idle machines until ctx ends, then all of them, and returns what
// Close does.
func (p *Pool) Serve(ctx context.Context) error {
	tick := p.opts.Tick
	if tick == nil {
		t := time.NewTicker(checkEvery)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case <-ctx.Done():
			return p.Close()
		case <-tick:
			p.sweep()
		}
	}
}

// Reset ends the conversation's machine, and a boot that is under way. A command
// that runs there is cut off. It does not wait.
func (p *Pool) Reset(conv chat.Address) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pl := p.places[conv]; pl != nil {
		p.drop(conv, pl)
	}
}

// Close ends all machines and waits until they are gone. Nothing can be run
// after it.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	for conv, pl := range p.places {
		p.drop(conv, pl)
	}
	p.mu.Unlock()
	p.ending.Wait()
	return nil
}

// sweep ends the machines nobody has used for long.
func (p *Pool) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.opts.Now()
	for conv, pl := range p.places {
		if pl.users == 0 && now.Sub(pl.used) >= p.opts.Idle {
			p.opts.Logger.Info("microVM ends after a time without a command", "channel", conv.Channel())
			p.drop(conv, pl)
		}
	}
}

// drop takes a place out of the map and ends its machine in the background,
// whoever uses it. The caller holds mu.
func (p *Pool) drop(conv chat.Address, pl *place) {
	if p.places[conv] == pl {
		delete(p.places, conv)
	}
	if pl.gone {
		return
	}
	pl.gone = true
	pl.cancel()
	p.ending.Go(func() {
		<-pl.ready
		if pl.err != nil {
			return
		}
		pl.client.Close()
		if err := pl.vm.Close(); err != nil {
			p.opts.Logger.Error("a microVM could not be removed", "address", pl.vm.Addr(), "err", err)
		}
	})
}

// acquire returns the conversation's machine, booting one if there is none or
// if the one there was has ended. The caller gives it back with done.
func (p *Pool) acquire(ctx context.Context, conv chat.Address) (pl *place, done func(), err error) {
	p.mu.Lock()
	pl = p.places[conv]
	if pl != nil && pl.over() {
		p.opts.Logger.Warn("a microVM has ended by itself; the next one starts empty", "channel", conv.Channel())
		p.drop(conv, pl)
		pl = nil
	}
	if p.closed {
		p.mu.Unlock()
		return nil, nil, ErrClosed
	}
	if pl == nil {
		pl = p.boot(conv)
	}
	pl.users++
	p.mu.Unlock()
	done = func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		pl.users--
		pl.used = p.opts.Now()
	}
	select {
	case <-pl.ready:
	case <-ctx.Done(): // the machine goes on booting for the next command
		done()
		return nil, nil, ctx.Err()
	}
	if pl.err != nil {
		done()
		return nil, nil, pl.err
	}
	return pl, done, nil
}

// dead reports whether the guest does not answer any more.
func (pl *place) dead() bool {
	ctx, cancel := context.WithTimeout(context.Background(), healthTime)
	defer cancel()
	return pl.client.Health(ctx) != nil
}

// over reports whether the machine has come and gone.
func (pl *place) over() bool {
	select {
	case <-pl.ready:
	default:
		return false
	}
	if pl.err != nil {
		return true
	}
	select {
	case <-pl.vm.Done():
		return true
	default:
		return false
	}
}

// boot begins to start a machine for the conversation. The boot belongs to the
// pool and not to the command that asked first: that one may be stopped. The
// caller holds mu.
func (p *Pool) boot(conv chat.Address) *place {
	ctx, cancel := context.WithCancel(context.Background())
	pl := &place{ready: make(chan struct{}), cancel: cancel, used: p.opts.Now()}
	p.places[conv] = pl
	p.ending.Go(func() {
		defer close(pl.ready)
		pl.vm, pl.err = p.opts.Boot(ctx)
		if pl.err != nil {
			pl.err = fmt.Errorf("no microVM for this conversation: %w", pl.err)
			p.mu.Lock()
			p.drop(conv, pl)
			p.mu.Unlock()
			return
		}
		pl.client = guest.NewClient(guest.ClientOptions{Addr: pl.vm.Addr(), Token: pl.vm.Token(), Grace: p.opts.Grace})
	})
	return pl
}

// with does something in the conversation's machine. One that can no longer be
// reached is given up, so that the next call gets a new one; nothing is done
// twice by itself.
func (p *Pool) with(ctx context.Context, conv chat.Address, do func(*guest.Client) error) error {
	pl, done, err := p.acquire(ctx, conv)
	if err != nil {
		return err
	}
	defer done()
	err = p.bring(ctx, conv, pl)
	if err == nil {
		err = do(pl.client)
	}
	if errors.Is(err, guest.ErrUnreachable) || errors.Is(err, guest.ErrBroken) && pl.dead() {
		p.mu.Lock()
		p.drop(conv, pl)
		p.mu.Unlock()
		return fmt.Errorf("the microVM of this conversation is gone, with what was in it; the next command gets a new one: %w", err)
	}
	return err
}

// Run runs the command in the conversation's machine.
func (p *Pool) Run(ctx context.Context, cmd sandbox.Command) (exit sandbox.Exit, err error) {
	if ctx.Err() != nil {
		return aborted, nil
	}
	err = p.with(ctx, cmd.Conversation, func(c *guest.Client) (err error) {
		exit, err = c.Run(ctx, cmd)
		return err
	})
	if err != nil && ctx.Err() != nil && exit == (sandbox.Exit{}) && errors.Is(err, ctx.Err()) {
		return aborted, nil // before it began
	}
	return exit, err
}

// aborted is the exit of a command that was ended before it began.
var aborted = sandbox.Exit{Code: 143, Aborted: true}

// ReadFile reads a file of the conversation's machine.
func (p *Pool) ReadFile(ctx context.Context, conv chat.Address, path string, offset, limit int64) (data []byte, size int64, err error) {
	err = p.with(ctx, conv, func(c *guest.Client) (err error) {
		data, size, err = c.ReadFile(ctx, path, offset, limit)
		return err
	})
	return data, size, err
}

// WriteFile writes a file of the conversation's machine.
func (p *Pool) WriteFile(ctx context.Context, conv chat.Address, path string, data []byte) error {
	return p.with(ctx, conv, func(c *guest.Client) error { return c.WriteFile(ctx, path, data) })
}

// Resolve follows links inside the conversation's machine.
func (p *Pool) Resolve(ctx context.Context, conv chat.Address, path string) (to string, err error) {
	err = p.with(ctx, conv, func(c *guest.Client) (err error) {
		to, err = c.Resolve(ctx, path)
		return err
	})
	return to, err
}
