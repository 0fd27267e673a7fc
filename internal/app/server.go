package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/iris-operator/iris/internal/api"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/delivery"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/lease"
	leasefile "github.com/iris-operator/iris/internal/lease/file"
	"github.com/iris-operator/iris/internal/lifetime"
	"github.com/iris-operator/iris/internal/observe"
	"github.com/iris-operator/iris/internal/process"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/agentcli/tray"
	"github.com/iris-operator/iris/internal/runner/facilitator"
	"github.com/iris-operator/iris/internal/runner/native"
	"github.com/iris-operator/iris/internal/runner/subagent"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/transport/bridge"
	"github.com/iris-operator/iris/internal/transport/slack"
	"github.com/iris-operator/iris/internal/transport/web"
)

// Limits of the listeners. The header time outlasts a bad mobile line, the idle
// time a browser's keep-alive.
const (
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeader         = 64 << 10
	// shutdownHTTP is what requests get to finish when all turns have ended.
	shutdownHTTP = 3 * time.Second
	// workspaceGrace is enough to bring the files of some thousand conversations
	// to disk.
	workspaceGrace = time.Minute
	// cliGrace is enough for programs that only KILL ends.
	cliGrace = 15 * time.Second
)

// server is one running process.
type server struct {
	opts  Options
	log   *slog.Logger
	token secret.Value
	url   string
	// secrets is where they come from.
	secrets *secrets

	gate *gate
	// bridgeDoor is the bridge's listener, nil if there is none.
	bridgeDoor net.Listener
	metrics    *observe.Metrics
	ledger     *ledger
	house      *house
}

// house is what the workspace part opens and everything else lives in.
type house struct {
	lease     lease.Lease
	keeper    lease.Keeper
	engine    *engine.Engine
	tokens    *api.Tokens
	native    *native.Native
	desk      *delivery.Desk
	subagents *subagent.Agents
	rooms     *facilitator.Rooms
	cli       *agentcli.Pool
	inbox     *tray.In // of agent programs
	bridge    *bridge.Server
	api       *api.Server
	site      *web.Site
	drops     *drops
	posts     posts
	// claimed is the chat whose owner is the operator, where nothing else is
	// configured.
	claimed  atomic.Pointer[chat.Address]
	slack    *slack.Slack // nil: not configured
	channels *channelsFile
	threads  threads
	asking   []tool.Tool // with which the model asks agents
	stores
}

// parts lists what lives as long as the process, in the order of starting: the
// listener first, so that the process is alive at once and is the last to go.
func (s *server) parts(ln net.Listener) []lifetime.Part {
	s.metrics = observe.NewMetrics(s.opts.Version)
	s.ledger = newLedger()
	cfg := s.opts.Config
	parts := []lifetime.Part{
		{Name: "listener", Serve: s.serveHTTP(ln, s.gate)},
		{Name: "workspace", Serve: s.serveWorkspace, Grace: workspaceGrace},
		{Name: "journal", Serve: s.serveJournal},
		s.deliveryPart(),
		{Name: "reaper", Serve: func(ctx context.Context, ready func()) error {
			ready()
			return process.Reaper{}.Serve(ctx)
		}},
		s.bridgePart(),
		{Name: "sandbox", Serve: s.serveSandbox},
		{Name: "agent programs", Serve: s.serveCLI, Grace: cliGrace},
		{Name: "commands' door", Serve: s.serveDoor},
		{Name: "engine", Serve: s.serveEngine, Grace: cfg.Turns.Grace.Duration() + 15*time.Second},
		{Name: "approvals", Serve: func(ctx context.Context, ready func()) error {
			ready()
			return s.house.approvals.Serve(ctx)
		}},
		{Name: "schedule", Serve: s.serveSchedule},
		{Name: "routes", Serve: s.serveRoutes},
		s.platformsPart(),
		{Name: "archive", Serve: s.serveArchive},
		{Name: "fleet", Serve: s.serveFleet},
		{Name: "leftovers", Serve: s.serveLeftovers},
	}
	if cfg.Web.Port != 0 {
		parts = append(parts, lifetime.Part{Name: "page listener", Serve: s.servePage})
	}
	return append(parts, supervisor(s.pulse, s.log))
}

// serveHTTP serves h on ln and drains it at the end.
func (s *server) serveHTTP(ln net.Listener, h http.Handler) func(context.Context, func()) error {
	return func(ctx context.Context, ready func()) error {
		srv := httpServer(h, s.log)
		failed := make(chan error, 1)
		go func() { failed <- srv.Serve(ln) }()
		ready()
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
		}
		drain, cancel := context.WithTimeout(context.Background(), shutdownHTTP)
		defer cancel()
		if err := srv.Shutdown(drain); err != nil {
			return srv.Close()
		}
		return nil
	}
}

// serveWorkspace takes the workspace for this process and builds what lives in
// it.
func (s *server) serveWorkspace(ctx context.Context, ready func()) error {
	if err := s.holdWorkspace(ctx, ready); err != nil {
		return &openError{err}
	}
	return nil
}

func (s *server) holdWorkspace(ctx context.Context, ready func()) error {
	ws := s.opts.Config.Workspace
	if err := prepare(ctx, ws, s.log); err != nil {
		return err
	}
	keeper, err := leasefile.New(leasefile.Options{Dir: filepath.Join(ws, "state", "leases")})
	if err != nil {
		return err
	}
	held, err := acquire(ctx, keeper)
	var busy *lease.HeldError
	if errors.As(err, &busy) {
		return fmt.Errorf("the workspace %s is in use by another iris serve (pid %d): end it, or give this one a workspace of its own", ws, busy.PID)
	}
	if err != nil {
		return err
	}
	defer held.Release()
	endLeftovers(ws, s.log)
	h, err := s.build(ctx, keeper)
	if err != nil {
		return err
	}
	defer h.close(s.log)
	h.lease = held
	s.house = h
	ready()
	<-ctx.Done()
	return nil
}

// serveArchive brings the readable files up to what the journal holds. A process
// that was killed may have left out the end of a turn, and nobody may come back
// to that conversation. It works beside the first requests: whoever touches a
// conversation brings it up to date himself. A damaged journal ends the process:
// what it lost would otherwise be missed by nobody for days.
func (s *server) serveArchive(ctx context.Context, ready func()) error {
	ready()
	err := s.house.sessions.CatchUpAll(ctx)
	switch {
	case errors.Is(err, journal.ErrCorrupt):
		return wayOut(err)
	case err != nil && ctx.Err() == nil:
		s.log.Error("bring the archive up to date", "err", err)
	}
	<-ctx.Done()
	return nil
}

func (s *server) serveJournal(ctx context.Context, ready func()) error {
	ready()
	return s.house.journal.Serve(ctx)
}

// serveEngine runs turns. The engine's own end is graceful; Options.Now cuts it
// short.
func (s *server) serveEngine(ctx context.Context, ready func()) error {
	e := s.house.engine
	// Those who wait for a turn have their answer when the engine has ended;
	// what is still open then are event streams.
	defer s.house.site.Close()
	defer s.house.api.Close()
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx) }()
	select {
	case <-e.Ready():
		ready()
	case err := <-done:
		return err
	}
	select {
	case err := <-done:
		return err
	case <-s.opts.Now:
		s.log.Warn("told to end at once: open turns go on at the next start")
		e.Leave()
		return <-done
	}
}

// serveRoutes opens the gate.
func (s *server) serveRoutes(ctx context.Context, ready func()) error {
	h := s.house
	s.secrets.scrub(ctx, s.opts.Environ)
	s.gate.open(s.routes(h.drops.before(h.api.Handler(h.site))))
	ready()
	h.rooms.Wake()
	s.greet()
	if s.opts.started != nil {
		s.opts.started(s)
	}
	<-ctx.Done()
	return nil
}

// routes puts what the process itself answers before rest. It is no ServeMux: that
// would redirect paths such as /sessions/.. to others, in HTML, before rest can
// refuse them.
func (s *server) routes(rest http.Handler) http.Handler {
	metrics := s.operatorOnly(s.metrics.Handler())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			metrics.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// operatorOnly lets the operator's token through.
func (s *server) operatorOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.token.Equal(bearer(r)) {
			writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "unauthorized"})
			return
		}
		h.ServeHTTP(w, r)
	})
}

func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return token
}

// servePage serves the page alone on its own port.
func (s *server) servePage(ctx context.Context, ready func()) error {
	cfg := s.opts.Config.Web
	ln, err := listen(ctx, cfg.Host, cfg.Port, "IRIS_WEBUI_PORT")
	if err != nil {
		return err
	}
	return s.serveHTTP(ln, s.house.drops.before(s.house.site))(ctx, ready)
}

// greet tells the person at the terminal where to go.
func (s *server) greet() {
	cfg := s.opts.Config
	fmt.Fprintf(s.opts.Out, "\nIris is ready: %s%s\n", s.url, s.house.site.LoginLink())
	fmt.Fprintf(s.opts.Out, "The link works once, for ten minutes; a restart prints a new one.\nWorkspace %s, model %s.\n\n", cfg.Workspace, s.thinks(s.house))
	for what, host := range s.outside() {
		s.log.Warn("reachable from outside of this machine: put TLS in front of it, a password on the page and a token on the bridge", "setting", what, "address", host, "password", !cfg.Web.Password.IsZero(), "bridge token", !cfg.Bridge.Token.IsZero())
	}
}

// pulse proves that work still gets through: the journal takes a sync and the
// engine gives an answer.
func (s *server) pulse(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		s.house.engine.Conversations()
		done <- s.house.journal.Sync(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("no answer within the watchdog's time: %w", ctx.Err())
	}
}
