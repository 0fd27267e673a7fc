// Package api is the HTTP API for programs and the data of the web page: the
// routes of the specification, server-sent events, and the OpenAPI document
// that describes them. It is a plain http.Handler; who listens, and on what, is
// up to its user.
//
// It owns the route table ([Server.Routes]), who may call which route, and the
// words of every refusal. It does not own conversations: turns belong to the
// [Engine], what is at rest to [Sessions]. Login, cookies and the web socket are
// package transport/web, which mounts [Server.Page] behind its checks.
//
// Every route refuses who is not named in its row. Who calls is decided by the
// token alone, never by a header or a body.
package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/approval"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// The defaults of Options.
const (
	// DefaultTimeout is how long a message waits for its reply.
	DefaultTimeout = 600 * time.Second
	// MaxBody bounds a JSON body, MaxUpload an attachment.
	MaxBody   = 10 << 20
	MaxUpload = 25 << 20
	// maxStreams bounds the open event streams of one session.
	maxStreams = 8
	// heartbeat is shorter than the idle limits of common proxies (30 to 60 s).
	heartbeat = 15 * time.Second
	// bodyTimeout ends the reading of a body that does not come.
	bodyTimeout = 30 * time.Second
	// writeTimeout frees the slot of a stream whose reader is gone without
	// having said so.
	writeTimeout = 30 * time.Second
)

// Options are what New needs.
type Options struct {
	Engine   Engine        // required
	Sessions Sessions      // required
	Files    Files         // required
	Journal  Records       // required
	Token    secret.Value  // the operator's token, required
	Tokens   *Tokens       // turn tokens; nil: none are accepted
	Logger   *slog.Logger  // nil: slog.Default
	Timeout  time.Duration // of a waiting message; 0: DefaultTimeout

	// Agent returns the name of the agent a token belongs to. It compares in
	// constant time and reads the registry anew each time. nil: no agents.
	Agent func(token string) (name string, ok bool)
	// Agents lists the agents. nil: none.
	Agents func() []Agent
	// Parent passes an escalation on to who this process works for and returns
	// how it got there. nil: it works for nobody, and deals with it itself.
	Parent func(ctx context.Context, e Escalation) (string, error)
	// Status is what the process tells the operator, and a sub-agent its parent,
	// of itself. nil: nothing.
	Status func() any
	// Runners lists who may answer a session. nil or an empty list: names are
	// not checked here.
	Runners func() []string
	// Approvals lists the commands that wait for a person; *approval.Book does.
	// Answers go to the Engine. nil: none wait.
	Approvals Approvals
	// Secrets are where secrets come from and go to. nil: there is no place.
	Secrets secret.Source
	// Allowed says whether a secret is on the list of an agent, whichever way
	// its name is spelled. nil: no agent gets any.
	Allowed func(agent, name string) bool
	// Drops makes links for handing secrets over. nil: there are none.
	Drops Drops
	// Schedules are what wakes conversations later. nil: nothing is planned, and
	// nothing can be.
	Schedules Schedules
	// Zone is the IANA name that times of schedules are meant in when they say
	// none. Empty: UTC.
	Zone string
	// Rooms are the facilitated rooms. nil: there are none.
	Rooms Rooms
	// MCP is the answer of GET /mcp/status. nil: no servers.
	MCP func(ctx context.Context) (any, error)
	// Post puts a text into a chat channel and returns the thread it started.
	// nil: no chat transport runs.
	Post func(ctx context.Context, channel, text string) (thread string, err error)
	// Ready lists what must work for the process to be useful. nil: nothing.
	Ready func(ctx context.Context) []Check
	// About names the model and version the page shows. nil: nothing known.
	About func() About
	// Observe is told of every answer by the pattern of its route. nil: nobody.
	Observe func(route string, status int, took time.Duration)

	// Heartbeat, BodyTimeout, WriteTimeout and Now are changed by tests. Zero:
	// 15 s, 30 s, 30 s and time.Now.
	Heartbeat, BodyTimeout, WriteTimeout time.Duration
	Now                                  func() time.Time
}

// An Engine runs turns; *engine.Engine is one.
//
// Watch must take its position when it is called, not when its sequence is
// read, so that what is submitted after the call is seen.
type Engine interface {
	transport.Inbox
	Wait(ctx context.Context, id turn.ID) (turn.Event, error)
	Turn(ctx context.Context, id turn.ID) (engine.State, error)
	// Conversations lists those in which something runs or waits.
	Conversations() []engine.Conversation
	Hear(ctx context.Context, conv chat.Address, m chat.Message) (seq int64, err error)
	// Line acts on a text as a command of an agent program; ok is false if it is none.
	Line(ctx context.Context, conv chat.Address, from chat.Person, text string) (reply transport.Reply, ok bool, err error)
}

// Sessions keeps conversations at rest; *session.Store is one.
type Sessions interface {
	Create(ctx context.Context, s session.Session) (session.Session, error)
	Get(ctx context.Context, id string) (session.Session, error)
	List(ctx context.Context) ([]session.Session, error)
	Patch(ctx context.Context, id string, metadata map[string]any, integrations json.RawMessage, runner *string) (session.Session, error)
	FindByEmail(ctx context.Context, email string) (session.Session, error)
	Log(ctx context.Context, conv chat.Address, opts session.LogOptions) ([]session.Line, error)
	Threads(ctx context.Context) ([]session.Thread, error)
	// Conversations lists those of a space that have a directory.
	Conversations(ctx context.Context, space chat.Space) ([]chat.Address, error)
}

// Files keeps attachments and gives out what the workspace holds;
// *session.Store does.
type Files interface {
	// AddFile stores an upload under an id of its own and keeps nothing when
	// content ends with an error.
	AddFile(ctx context.Context, conv chat.Address, name string, content io.Reader, limit int64) (chat.File, error)
	// CheckFiles turns handles into files, or says which may not be used with a
	// session.ErrBadFile.
	CheckFiles(conv chat.Address, locals []string) ([]chat.File, error)
	// OpenFile opens a file below the workspace, never one of Iris's own state.
	OpenFile(local string) (*os.File, error)
}

// Approvals lists the questions that wait for an answer, oldest first; those of
// one conversation unless conv is zero.
type Approvals interface {
	List(conv chat.Address) []approval.Question
}

// Records reads the turn journal. A journal.Journal is one.
type Records interface {
	Read(ctx context.Context, stream string, since int64) iter.Seq2[journal.Record, error]
	Last(stream string) int64
}

// An Agent is what the outside may know of an entry of agents.json.
type Agent struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Health is how it is, as far as somebody looks. nil: nobody does.
	Health any `json:"health,omitempty"`
}

// A Check is one condition of readiness.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
}

// About is what the page says about the process.
type About struct {
	Version  string `json:"version,omitempty"`
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model,omitempty"`
}

// A Server answers the API's requests. It is safe for concurrent use.
type Server struct {
	opts Options
	log  *slog.Logger
	mux  *http.ServeMux

	// leaving ends when Close is called; streams end with it.
	leaving context.Context
	leave   context.CancelFunc

	stamps transport.Stamps

	// mu guards the fields below.
	mu      sync.Mutex
	streams map[chat.Address]int

	known known
}

// New checks the options and builds the routes. It starts nothing.
func New(opts Options) (*Server, error) {
	switch {
	case opts.Engine == nil:
		return nil, errors.New("api: Engine is required")
	case opts.Sessions == nil:
		return nil, errors.New("api: Sessions is required")
	case opts.Files == nil:
		return nil, errors.New("api: Files is required")
	case opts.Journal == nil:
		return nil, errors.New("api: Journal is required")
	case opts.Token.IsZero():
		return nil, errors.New("api: Token is required: there is no unauthenticated mode")
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.Timeout = orElse(opts.Timeout, DefaultTimeout)
	opts.Heartbeat = orElse(opts.Heartbeat, heartbeat)
	opts.BodyTimeout = orElse(opts.BodyTimeout, bodyTimeout)
	opts.WriteTimeout = orElse(opts.WriteTimeout, writeTimeout)
	s := &Server{opts: opts, log: opts.Logger, streams: map[chat.Address]int{}}
	s.leaving, s.leave = context.WithCancel(context.Background())
	s.mux = s.routes()
	return s, nil
}

func orElse(d, fallback time.Duration) time.Duration {
	if d == 0 {
		return fallback
	}
	return d
}

// Close ends the open event streams and the waiting of messages, so that
// http.Server.Shutdown need not wait for them. Turns go on.
func (s *Server) Close() { s.leave() }
