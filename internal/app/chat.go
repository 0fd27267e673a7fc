package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport/terminal"
)

// ChatOptions describes a conversation in a terminal. Replies go to Out, if that
// is a terminal everything else too; else progress and errors go to Err.
type ChatOptions struct {
	Options
	// Session, Runner and Text are those of terminal.Options.
	Session, Runner, Text string
	In                    *os.File
}

// Chat talks to the running server, or to one it starts for the time of the
// conversation.
func Chat(ctx context.Context, opts ChatOptions) error {
	client, stop, err := connect(ctx, opts.Options)
	if err != nil {
		return err
	}
	err = terminal.Run(ctx, terminal.Options{
		Client: client, Session: opts.Session, Runner: opts.Runner, Text: opts.Text, User: userName(opts.Environ),
		In: opts.In, Out: opts.Out, Err: opts.Err,
		NoColor: lookup(opts.Environ, "NO_COLOR") != "", Dumb: lookup(opts.Environ, "TERM") == "dumb",
	})
	if ctx.Err() != nil {
		err = ErrInterrupted
	}
	if serr := stop(errors.Is(err, ErrInterrupted)); err == nil {
		err = serr
	}
	if errors.Is(err, terminal.ErrTurnFailed) {
		return ErrTold
	}
	return err
}

// userName is who the log says was speaking.
func userName(environ []string) string {
	for _, name := range []string{"USER", "LOGNAME"} {
		if u := lookup(environ, name); u != "" {
			return u
		}
	}
	return "terminal"
}

// startingPause is how often a server that says it is starting is asked again,
// and startingTries how many times. It has let the request wait before.
const (
	startingPause = 500 * time.Millisecond
	startingTries = 5
)

// connect finds the server at the configured address, or starts one. stop must
// be called; at once leaves running turns to the next start.
func connect(ctx context.Context, opts Options) (c *terminal.Client, stop func(atOnce bool) error, err error) {
	token, err := knownToken(opts)
	if err != nil {
		return nil, nil, err
	}
	c = newClient(serverURL(opts.Config.API.Host, opts.Config.API.Port), token)
	for tries := 0; ; tries++ {
		err := c.Probe(ctx)
		var refused *terminal.StatusError
		errors.As(err, &refused)
		switch {
		case err == nil:
			return c, func(bool) error { c.HTTP.CloseIdleConnections(); return nil }, nil
		case ctx.Err() != nil:
			return nil, nil, ErrInterrupted
		case errors.Is(err, terminal.ErrNobody), errors.Is(err, terminal.ErrNotIris):
			c.HTTP.CloseIdleConnections()
			return embed(ctx, opts)
		case refused != nil && refused.Status == http.StatusUnauthorized:
			return nil, nil, fmt.Errorf("the server at %s does not know this token: set IRIS_API_TOKEN to the one it was started with", c.URL)
		case refused == nil || refused.Status != http.StatusServiceUnavailable || tries == startingTries:
			return nil, nil, fmt.Errorf("the server at %s: %w", c.URL, err)
		}
		select {
		case <-time.After(startingPause):
		case <-ctx.Done():
			return nil, nil, ErrInterrupted
		}
	}
}

func newClient(url string, token secret.Value) *terminal.Client {
	return &terminal.Client{URL: url, Token: token, HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
}

// knownToken is the operator's token, empty if none has been made yet.
func knownToken(opts Options) (secret.Value, error) {
	if !opts.Config.API.Token.IsZero() {
		return opts.Config.API.Token, nil
	}
	path, err := tokenPath(opts.Environ)
	if err != nil {
		return secret.Value{}, err
	}
	v, err := readToken(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return v, err
}

// serverURL is where a server that listens on host and port is reached from the
// same machine.
func serverURL(host string, port int) string {
	switch host {
	case "0.0.0.0":
		host = "127.0.0.1"
	case "::":
		host = "::1"
	}
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// embed starts a server in this process, on a port of its own, that logs only
// what is wrong with itself.
func embed(ctx context.Context, opts Options) (c *terminal.Client, stop func(atOnce bool) error, err error) {
	cfg := *opts.Config
	cfg.Web.Port = 0
	if cfg.Log.Level == "info" {
		cfg.Log.Level = "error" // the person sees how the turn goes
	}
	ln, err := listen(ctx, "127.0.0.1", 0, "IRIS_API_PORT")
	if err != nil {
		return nil, nil, err
	}
	up := make(chan *server, 1)
	ended := make(chan error, 1)
	now := make(chan struct{})
	// The server outlives ctx: its turns end before it does.
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	opts.Config, opts.Out, opts.listener, opts.Now = &cfg, io.Discard, ln, now
	opts.started = func(s *server) { up <- s }
	go func() { ended <- Serve(serving, opts) }()
	end := func(atOnce bool) error {
		if atOnce {
			close(now)
		}
		cancel()
		return <-ended
	}
	select {
	case s := <-up:
		c = newClient(s.url, s.token)
		return c, func(atOnce bool) error {
			c.HTTP.CloseIdleConnections()
			return end(atOnce)
		}, nil
	case err := <-ended:
		cancel()
		return nil, nil, err
	case <-ctx.Done():
		return nil, nil, errors.Join(ErrInterrupted, end(true))
	}
}
