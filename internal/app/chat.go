package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport/terminal"
)

// ChatOptions describes a conversation in a terminal.
type ChatOptions struct {
	Options
	Session, Runner, Text string
	In, Terminal          *os.File
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
		In: opts.In, Out: opts.Terminal, Err: os.Stderr,
	})
	if serr := stop(); err == nil {
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

// connect finds the server at the configured address, or starts one.
func connect(ctx context.Context, opts Options) (c *terminal.Client, stop func() error, err error) {
	cfg := opts.Config
	token, err := knownToken(opts)
	if err != nil {
		return nil, nil, err
	}
	c = &terminal.Client{
		URL:   fmt.Sprintf("http://%s:%d", dialHost(cfg.API.Host), cfg.API.Port),
		Token: token,
		HTTP:  &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}},
	}
	alive := c.Alive(ctx)
	if alive == nil {
		return c, func() error { c.HTTP.CloseIdleConnections(); return nil }, nil
	}
	var status *terminal.StatusError
	if errors.As(alive, &status) && status.Status == http.StatusUnauthorized {
		return nil, nil, fmt.Errorf("the server at %s does not know this token: set IRIS_API_TOKEN to the one it was started with", c.URL)
	}
	if errors.As(alive, &status) && status.Status != http.StatusServiceUnavailable {
		return nil, nil, fmt.Errorf("what answers at %s is not Iris: %w", c.URL, alive)
	}
	return embed(ctx, opts)
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

func dialHost(host string) string {
	switch host {
	case "0.0.0.0":
		return "127.0.0.1"
	case "::":
		return "[::1]"
	}
	return host
}

// embed starts a server in this process, on a port of its own, that logs only
// what is wrong.
func embed(ctx context.Context, opts Options) (c *terminal.Client, stop func() error, err error) {
	cfg := *opts.Config
	cfg.Web.Port = 0
	if cfg.Log.Level == "info" {
		cfg.Log.Level = "warn"
	}
	ln, err := listen("127.0.0.1", 0, "IRIS_API_PORT")
	if err != nil {
		return nil, nil, err
	}
	up := make(chan *server, 1)
	ended := make(chan error, 1)
	serveCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	opts.Config, opts.Out, opts.listener = &cfg, io.Discard, ln
	opts.started = func(s *server) { up <- s }
	go func() { ended <- Serve(serveCtx, opts) }()
	select {
	case s := <-up:
		c = &terminal.Client{URL: s.url, Token: s.token, HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}}
		return c, func() error {
			c.HTTP.CloseIdleConnections()
			cancel()
			return <-ended
		}, nil
	case err := <-ended:
		cancel()
		return nil, nil, err
	}
}
