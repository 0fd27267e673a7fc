// Package subagent answers turns by asking another Iris behind the bridge. It
// owns the client's side of that wire: the request, the stream with its idle
// limit, the recovery of a reply whose connection was lost (also by a restart of
// this process), the throttle of forwarded progress, and stop. The words of the
// wire are package bridge, the other side is transport/bridge.
//
// The package does not know where agents are registered: [Options.Find] does.
package subagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/turn"
)

// A Target is where an agent is reached.
type Target struct {
	// URL is the address of its bridge, with or without /bridge at the end.
	URL string
	// Token is shown to it; empty: none.
	Token secret.Value
}

// Options of Agents. Find is required.
type Options struct {
	// Find returns where an agent is. It is called for every request and must
	// be quick.
	Find func(name string) (Target, bool)
	// Timeout bounds a request in all: 600 s. Negative: no limit.
	Timeout time.Duration
	// Silence is how long a stream may bring nothing, heartbeats included: 60 s.
	// Negative: no limit.
	Silence time.Duration
	// Idle is how long the recovery of a lost connection goes on without a new
	// line of the job: 180 s. Negative: no limit but Timeout.
	Idle time.Duration
	// Poll is the time between two questions of a recovery: 2 s. A server that
	// can answers as soon as there is something to say.
	Poll time.Duration
	// Gap is the least time between two lines of progress: 3 s. Negative: none.
	Gap time.Duration
	// Plain asks for one JSON body instead of a stream.
	Plain  bool
	Logger *slog.Logger // nil: slog.DiscardHandler
}

// Times of the client that nobody needs to change.
const (
	dialTimeout = 10 * time.Second
	// keepIdle is less than the 5 s after which servers close a connection.
	keepIdle = 3 * time.Second
	// stopTimeout is what telling an agent to stop may take: the person who
	// said stop waits for it.
	stopTimeout = 2 * time.Second
	// maxPosts is how often one turn is posted: once, and again when the agent
	// does not know it.
	maxPosts = 3
)

// Agents are all agents there are. It is safe for concurrent use.
type Agents struct {
	opts Options
	log  *slog.Logger
	http *http.Client
}

// New checks opts.
func New(opts Options) (*Agents, error) {
	if opts.Find == nil {
		return nil, errors.New("subagent: Find is required")
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&opts.Timeout, 600 * time.Second}, {&opts.Silence, 60 * time.Second}, {&opts.Idle, 180 * time.Second}, {&opts.Poll, 2 * time.Second}, {&opts.Gap, 3 * time.Second}} {
		if *d.v == 0 {
			*d.v = d.d
		}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &Agents{opts: opts, log: opts.Logger, http: &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: 4, IdleConnTimeout: keepIdle, DisableCompression: true,
		},
		// A token goes to the address that was registered and to no other.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close gives connections back. No call may run any more.
func (a *Agents) Close() { a.http.CloseIdleConnections() }

// Runner returns the runner that asks the agent of that name, if there is one.
func (a *Agents) Runner(name string) (runner.Runner, bool) {
	if _, ok := a.opts.Find(name); !ok {
		return nil, false
	}
	return agent{a, name}, true
}

// A Question is what an agent is asked outside of a turn of its own.
type Question struct {
	// Key is the conversation that the agent remembers; the same key continues
	// it, and takes the place of what still runs under it. Empty: a new one.
	Key  string
	User string // who asks; empty: bridge.DefaultUser
	Text string
}

// Ask asks an agent and returns its reply. progress, when not nil, gets lines of
// progress, thinned out, one at a time. When ctx ends the agent is told to stop.
// An error is a *runner.Error, or the cause of ctx.
func (a *Agents) Ask(ctx context.Context, name string, q Question, progress func(text string)) (string, error) {
	target, ok := a.opts.Find(name)
	if !ok {
		return "", unknown(name)
	}
	c := a.newCall(name, target, bridge.Request{
		Text: q.Text, User: q.User, RequestID: bridge.CleanID(q.Key), Turn: string(turn.NewID()),
	})
	c.show = func(text string, _ int64) error {
		if progress != nil {
			progress(text)
		}
		return nil
	}
	return c.run(ctx, false)
}

func unknown(name string) error {
	return &runner.Error{Code: turn.CodeFailed, Text: fmt.Sprintf("There is no agent %q", name)}
}

// agent is one of them as a runner.
type agent struct {
	a    *Agents
	name string
}

// A state is what a restart needs to find the reply: it is saved before the
// request is sent, and with each line of progress that is shown.
type state struct {
	Agent     string `json:"agent"`
	URL       string `json:"url"`
	RequestID string `json:"requestId"`
	Turn      string `json:"turn"`
	Seq       int64  `json:"seq"`
}

// Run implements runner.Runner. A turn that was cut off by a restart asks for
// the job of its request before anything else, so that the request is not made
// twice.
func (g agent) Run(ctx context.Context, req turn.Request, sink turn.Sink) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	target, ok := g.a.opts.Find(g.name)
	if !ok {
		return unknown(g.name)
	}
	st := state{Agent: g.name, URL: target.URL, RequestID: bridge.Key(req.Conversation, req.Message.Thread), Turn: string(turn.NewID())}
	resumed := len(req.Resume) > 0
	if resumed {
		st = state{}
		if err := json.Unmarshal(req.Resume[len(req.Resume)-1], &st); err != nil || st.Turn == "" || st.Agent != g.name {
			return fmt.Errorf("a saved state of @%s cannot be read: %w", g.name, runner.ErrInterrupted)
		}
	} else if err := sink.Checkpoint(ctx, st); err != nil {
		return err
	}
	c := g.a.newCall(g.name, target, bridge.Request{Text: text(req), User: user(req), RequestID: st.RequestID, Turn: st.Turn})
	c.seq.Store(st.Seq)
	c.show = func(text string, seq int64) error {
		st.Seq = seq
		// A crash between the two costs a line of progress; the other way
		// around it would be shown twice.
		if err := sink.Checkpoint(ctx, st); err != nil {
			return err
		}
		return sink.Emit(turn.Event{Kind: turn.Status, Label: text})
	}
	reply, err := c.run(ctx, resumed)
	if err != nil {
		if errors.Is(err, runner.ErrLeaving) {
			st.Seq = c.seq.Load()
			if serr := sink.Checkpoint(context.WithoutCancel(ctx), st); serr != nil {
				g.a.log.Debug("the place in a job is not saved", "turn", req.ID, "err", serr)
			}
		}
		return err
	}
	return sink.Emit(turn.Event{Kind: turn.Final, Text: reply})
}

// text is what the agent is told.
func text(req turn.Request) string {
	text := req.Message.Prompt
	if text == "" {
		text = req.Message.Text
	}
	var names []string
	for _, f := range req.Message.Files {
		names = append(names, f.Original)
	}
	if len(names) > 0 {
		// The bridge carries text alone, and the agent should know.
		text = strings.TrimSpace(fmt.Sprintf("%s\n\n(Files that came with this and stayed behind: %s)", text, strings.Join(names, ", ")))
	}
	return text
}

func user(req turn.Request) string {
	from := req.Message.From
	for _, u := range []string{from.Name, from.ID} {
		if u != "" && len(u) <= bridge.MaxUser {
			return u
		}
	}
	return bridge.DefaultUser
}

func (a *Agents) newCall(name string, t Target, req bridge.Request) *call {
	base := strings.TrimSuffix(strings.TrimRight(t.URL, "/"), bridge.Path)
	return &call{a: a, name: name, token: t.Token, req: req, post: base + bridge.Path, jobs: base + bridge.JobsPath + url.PathEscape(req.RequestID)}
}

// A call is one request until it has an answer.
type call struct {
	a          *Agents
	name       string
	token      secret.Value
	req        bridge.Request
	post, jobs string
	show       func(text string, seq int64) error

	posts  int
	seq    atomic.Int64 // the last line that was taken
	turns  bool         // the server knows turns, so that posting again is safe
	shower *shower
}
