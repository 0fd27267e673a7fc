// Package bridge is the door through which another Iris gives this one work:
// POST /bridge is one turn, drawn as a stream of lines or answered as one JSON
// body, and GET /bridge/jobs/<id> reads what became of it when the connection
// did not last. The words of the wire are package bridge below internal; the
// other side is runner/subagent.
//
// A request becomes a turn of the conversation BRIDGE-<id>. The truth about it
// is in the journal; a job is the drawing of one turn's records as numbered
// lines, the same for the stream and for the job log, which is a file that can
// be made from the journal again at any time. So whoever hangs up, stalls or is
// killed changes nothing about the job: the turn runs on, its lines are written,
// and exactly one of them is its end. The package owns jobs, their limits and
// their files. It does not route, run or answer anything.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// Options of a Server. Inbox, Journal and Dir are required. A limit of zero is
// none; the defaults that people expect are those of the configuration.
type Options struct {
	Inbox Inbox
	// Journal is read only.
	Journal journal.Journal
	// Dir keeps the job logs; it is made when needed.
	Dir string
	// Listen opens the listener of Serve. nil: Serve only keeps the jobs, and
	// somebody else serves the Server as a handler.
	Listen func(ctx context.Context) (net.Listener, error)
	// Tokens are what a caller may show as a bearer token. None: whoever
	// reaches the port is let in, and is not taken for anybody who may answer a
	// question.
	Tokens []secret.Value
	// Limits bound a request; Plain is a further ceiling of both for callers
	// that wait for one body.
	Limits wire.Limits
	Plain  time.Duration
	// Heartbeat is the time between two heartbeats of a stream.
	Heartbeat time.Duration
	// Retention is how long a job log is kept after its last line.
	Retention time.Duration
	// Sweep forgets the conversations of old requests and returns how many; it is
	// called whenever job logs are swept. nil: they are kept.
	Sweep  func(ctx context.Context) (int, error)
	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: slog.DiscardHandler
}

// An Inbox is what the engine offers here.
type Inbox interface {
	Submit(ctx context.Context, s transport.Submission) (transport.Receipt, error)
	Command(ctx context.Context, c transport.Command) (transport.Reply, error)
	// Wait returns when the end of a turn is on disk.
	Wait(ctx context.Context, id turn.ID) (turn.Event, error)
}

// Limits of the listener: a request must be there within requestTimeout; a
// connection that is kept alive may idle for keepAlive; a caller that does not
// read for stallTimeout is taken for gone.
const (
	requestTimeout = 60 * time.Second
	keepAlive      = 5 * time.Second
	stallTimeout   = 60 * time.Second
	maxHeader      = 64 << 10
	// drainTimeout is what callers get at the end to take their last lines.
	drainTimeout = 3 * time.Second
)

// sweepPeriod is how often old job logs are looked for.
const sweepPeriod = time.Hour

// A Server is an http.Handler and a transport.Transport. It is safe for
// concurrent use.
type Server struct {
	opts    Options
	log     *slog.Logger
	journal journal.Journal

	// over ends when Serve has been told to; the followers of jobs live in it.
	over context.Context
	end  context.CancelFunc

	// mu guards the fields below.
	mu     sync.Mutex
	jobs   map[string]*job // the jobs that have not ended, by request id
	serves bool
	closed bool
	ready  bool
	// following counts followers. Add is called with mu held and closed unset.
	following sync.WaitGroup

	// locks serialise who makes or removes the log of an id.
	locks [64]sync.Mutex
	seed  maphash.Seed
}

var _ transport.Transport = (*Server)(nil)

// New checks opts. It starts nothing: call Serve.
func New(opts Options) (*Server, error) {
	if opts.Inbox == nil || opts.Journal == nil || opts.Dir == "" {
		return nil, errors.New("bridge: an inbox, a journal and a directory are required")
	}
	for _, t := range opts.Tokens {
		if t.IsZero() {
			return nil, errors.New("bridge: an empty token would let nobody in")
		}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of job logs: %w", err)
	}
	s := &Server{opts: opts, log: opts.Logger, journal: opts.Journal, jobs: map[string]*job{}, seed: maphash.MakeSeed()}
	s.over, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Name implements transport.Transport.
func (s *Server) Name() string { return "bridge" }

// Ready implements transport.Transport.
func (s *Server) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready {
		return errors.New("the bridge does not listen yet")
	}
	return nil
}

// Serve finds the jobs that an earlier process left without an end, listens,
// keeps the jobs and sweeps old logs until ctx ends. It must be called before
// the engine recovers, which ends some of the open turns, and it should outlast
// the engine, so that callers get the ends of the turns that finish meanwhile.
// It can be called once.
func (s *Server) Serve(ctx context.Context, ready func()) error {
	s.mu.Lock()
	if s.serves {
		s.mu.Unlock()
		return errors.New("bridge: served already")
	}
	s.serves = true
	s.mu.Unlock()
	defer s.close()
	open := s.openTurns()
	failed := make(chan error, 1) // one value, when the listener has ended
	var srv *http.Server
	if s.opts.Listen != nil {
		ln, err := s.opts.Listen(ctx)
		if err != nil {
			return err
		}
		srv = s.server()
		go func() { failed <- srv.Serve(ln) }()
		defer s.shut(srv)
	}
	s.mu.Lock()
	s.ready = true
	s.mu.Unlock()
	ready()
	s.recover(open)
	s.sweep(ctx)
	tick := time.NewTicker(sweepPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-failed:
			return err
		case <-tick.C:
			s.sweep(ctx)
		}
	}
}

func (s *Server) server() *http.Server {
	return &http.Server{
		Handler: s, ReadHeaderTimeout: requestTimeout, IdleTimeout: keepAlive, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
}

// shut lets callers take their last lines, then cuts those that do not.
func (s *Server) shut(srv *http.Server) {
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	s.settle(drain)
	// Streams whose job has no end yet do not wait for one: they break off, and
	// the caller asks again after the restart.
	s.end()
	if srv.Shutdown(drain) != nil {
		_ = srv.Close() // all that is left is to cut them off
	}
}

// settle waits until the turns that have ended are drawn to their end.
func (s *Server) settle(ctx context.Context) {
	s.mu.Lock()
	jobs := slices.Collect(maps.Values(s.jobs))
	s.mu.Unlock()
	for _, j := range jobs {
		if _, err := s.opts.Inbox.Wait(ctx, j.turn); err != nil {
			continue
		}
		for ctx.Err() == nil {
			_, done, lost, changed := j.after(0)
			if done || lost {
				break
			}
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
	}
}

func (s *Server) close() {
	s.mu.Lock()
	s.closed, s.ready = true, false
	s.mu.Unlock()
	s.end()
	s.following.Wait()
}

// live returns the job that runs under an id, nil if none does.
func (s *Server) live(id string) *job {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[id]
}

// lock is held by whoever makes, ends or removes the log of an id outside of
// its job.
func (s *Server) lock(id string) *sync.Mutex {
	return &s.locks[maphash.String(s.seed, id)%uint64(len(s.locks))]
}
