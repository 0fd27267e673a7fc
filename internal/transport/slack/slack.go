// Package slack is the way in and out through Slack: Socket Mode for what people
// say, the Web API for what they see. It owns the connection, what an event of
// Slack means as a message, files on their way, and how a view looks; it is both
// a transport.Transport and a transport.Platform. It does not decide what is
// answered (package route), nor when, how often and in which order something is
// sent (package delivery).
//
// Follow a message: [Slack.Serve] → link.read → intake.envelope → message →
// Inbox.Submit → link.ack. A message is acknowledged when it is on disk, once;
// what is not acknowledged comes again from Slack, and the Inbox knows it by its
// time stamp. What was said while nobody was connected is read from the history
// afterwards.
//
// Package mrkdwn draws Markdown, slacktest is a Slack for tests.
package slack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	slackgo "github.com/slack-go/slack"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport"
)

// Options of a Slack. AppToken, BotToken and Inbox are required.
type Options struct {
	AppToken, BotToken secret.Value
	// API is the base of the Web API with a slash at its end; empty: Slack's.
	API string
	// Inbox may also be given to SetInbox, once, before Serve.
	Inbox transport.Inbox
	// Channels are the only ones that are listened to; empty: all.
	Channels []string
	// Channel says how a channel is used. It must be quick. nil: as a chat.
	Channel func(id string) route.Channel
	// Thread is where a session that the API made is shown; ok is false where
	// that is nowhere. It must be quick. nil: nowhere.
	Thread func(conv chat.Address) (channel, ts string, ok bool)
	// Runner is who answers in the conversation itself; replies of all others go
	// to the thread of the message. Empty: "native".
	Runner string
	// Files keeps what people attach. nil: attachments are only named.
	Files Files
	// State is a directory of its own; empty: nothing is remembered, and what is
	// said while the process is down is not seen.
	State string
	// MaxChars is the longest message, counted after escaping: 4000, which is
	// also the most that Slack lets be edited.
	MaxChars int
	// MaxAge is how old a message may be to be answered: 4 h. One older than
	// LateAfter, 5 min, is marked as late.
	MaxAge, LateAfter time.Duration
	// DownloadLimit bounds one download: 2 min.
	DownloadLimit time.Duration
	// PingEvery is how often the connection is tested, PingLimit how long an
	// answer may take: 15 s and 10 s.
	PingEvery, PingLimit time.Duration
	// Backoff is the first pause after a failed connection: 500 ms. It doubles up
	// to 30 s.
	Backoff time.Duration
	// Workers is how many channels are taken in side by side: 16.
	Workers int
	Logger  *slog.Logger     // nil: slog.DiscardHandler
	Now     func() time.Time // nil: time.Now
}

// A Slack is safe for concurrent use.
type Slack struct {
	// Fixed by New.
	opts Options
	log  *slog.Logger
	api  *slackgo.Client
	http *http.Client

	people    directory
	downloads downloads
	uploads   uploads

	// mu guards the fields below.
	mu    sync.Mutex
	state error // why messages do not flow
	me    identity
	say   func(transport.Place, string) error
	marks marks
	// behind says that a backlog is still to be read, first that there was no
	// connection ever before.
	behind, first bool
}

// An identity is who Iris is in a workspace.
type identity struct{ user, bot, team string }

// Limits that are not worth a setting.
const (
	maxChars     = 4000
	minChars     = 500
	helloLimit   = 15 * time.Second
	callLimit    = 30 * time.Second
	maxBackoff   = 30 * time.Second
	steadyAfter  = time.Minute // a connection this old was a good one
	errorsToTell = 3           // failed attempts before readiness says so
)

// New checks opts. It starts nothing: call Serve.
func New(opts Options) (*Slack, error) {
	switch {
	case opts.AppToken.IsZero():
		return nil, errors.New("slack: an app token is required (IRIS_SLACK_APP_TOKEN)")
	case opts.BotToken.IsZero():
		return nil, errors.New("slack: a bot token is required (IRIS_SLACK_BOT_TOKEN)")
	}
	if opts.API == "" {
		opts.API = slackgo.APIURL
	}
	if opts.Channel == nil {
		opts.Channel = func(string) route.Channel { return route.Channel{Mode: route.Chat} }
	}
	if opts.Runner == "" {
		opts.Runner = "native"
	}
	if opts.MaxChars <= 0 || opts.MaxChars > maxChars {
		opts.MaxChars = maxChars
	}
	opts.MaxChars = max(opts.MaxChars, minChars)
	setDefault(&opts.MaxAge, 4*time.Hour)
	setDefault(&opts.LateAfter, 5*time.Minute)
	setDefault(&opts.DownloadLimit, 2*time.Minute)
	setDefault(&opts.PingEvery, 15*time.Second)
	setDefault(&opts.PingLimit, 10*time.Second)
	setDefault(&opts.Backoff, 500*time.Millisecond)
	if opts.Workers == 0 {
		opts.Workers = 16
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: callLimit,
	}}
	return &Slack{
		opts: opts, log: opts.Logger.With("platform", "slack"), http: client, state: errors.New("starting"), uploads: uploads{path: uploadsFile(opts.State)},
		api: slackgo.New(opts.BotToken.Reveal(), slackgo.OptionAPIURL(opts.API), slackgo.OptionAppLevelToken(opts.AppToken.Reveal()),
			slackgo.OptionHTTPClient(client)),
		say: func(transport.Place, string) error { return errors.New("nothing is delivered") },
	}, nil
}

func setDefault(v *time.Duration, d time.Duration) {
	if *v == 0 {
		*v = d
	}
}

// SetSay gives what sends the line that answers a command. It is called once,
// before Serve.
func (s *Slack) SetSay(say func(transport.Place, string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.say = say
}

// Name implements transport.Transport and transport.Platform.
func (s *Slack) Name() string { return "slack" }

// Ready implements transport.Transport.
func (s *Slack) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *Slack) setState(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = err
}

// Serve implements transport.Transport: one connection at a time, and after it
// the next, until ctx ends. It returns early only for tokens that Slack refuses.
func (s *Slack) Serve(ctx context.Context, ready func()) error {
	defer s.http.CloseIdleConnections()
	defer s.setState(errors.New("stopped"))
	if err := s.loadMarks(); err != nil {
		return err
	}
	s.saveMarks()
	defer s.saveMarks()
	// What goes on beside the connections ends with Serve, and not before its
	// time: a download outlives the connection its message came through.
	life, end := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer end()
	s.downloads.start(life, &tasks)
	tasks.Go(func() { s.keepMarks(life) })
	tasks.Go(func() { s.keepDirectory(life) })
	in := newIntake(s, life, &tasks)
	pause, failures := s.opts.Backoff, 0
	var once sync.Once
	for ctx.Err() == nil {
		began := time.Now()
		up := func() {
			failures = 0
			s.setState(nil)
			once.Do(ready)
			in.catchUp()
		}
		err := s.connect(ctx, in, up)
		if ctx.Err() != nil {
			break
		}
		var refused *tokenError
		if errors.As(err, &refused) {
			return err
		}
		if time.Since(began) > steadyAfter {
			pause = s.opts.Backoff
		}
		if failures++; failures >= errorsToTell || failures > 1 && time.Since(began) < time.Second {
			s.setState(fmt.Errorf("no connection: %w", err))
		}
		s.log.Warn("connect again", "err", err, "pause", pause)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		pause = min(2*pause, maxBackoff)
	}
	return nil
}

// A tokenError says that Slack does not take a token.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return "Slack refuses the token: " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

// who asks Slack who Iris is there.
func (s *Slack) who(ctx context.Context) (identity, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	r, err := s.api.AuthTestContext(ctx)
	if err != nil {
		if sendError(err).Fault == transport.Unauthorized {
			err = &tokenError{fmt.Errorf("IRIS_SLACK_BOT_TOKEN: %w", err)}
		}
		return identity{}, err
	}
	me := identity{user: r.UserID, bot: r.BotID, team: r.TeamID}
	s.mu.Lock()
	s.me = me
	s.mu.Unlock()
	return me, nil
}

func (s *Slack) self() identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.me
}

// tell sends a line, if it can be sent at all.
func (s *Slack) tell(p transport.Place, text string) {
	if text == "" {
		return
	}
	s.mu.Lock()
	say := s.say
	s.mu.Unlock()
	if err := say(p, text); err != nil {
		s.log.Warn("a line is not sent", "channel", p.Chat, "err", err)
	}
}

// listens reports that a channel is one of those that count.
func (s *Slack) listens(channel string) bool {
	if len(s.opts.Channels) == 0 {
		return chat.IsSlackChannel(channel)
	}
	for _, c := range s.opts.Channels {
		if c == channel {
			return chat.IsSlackChannel(channel)
		}
	}
	return false
}

var (
	_ transport.Transport = (*Slack)(nil)
	_ transport.Platform  = (*Slack)(nil)
)
