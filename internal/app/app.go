// Package app is the list of parts and their wiring: the one place that names
// implementations. It decides what exists and in which order it starts; what a
// part does is its own matter. Read [Serve] first, then build in build.go.
package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/lifetime"
	"github.com/iris-operator/iris/internal/observe"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport/terminal"
)

// Options describes a process.
type Options struct {
	Config  *config.Config
	Version string
	// Out takes what a person should read once (the login link), Err the log.
	Out, Err io.Writer
	// Environ is the environment of the process.
	Environ []string
	// Now, when closed, ends a graceful stop at once. nil: never.
	Now <-chan struct{}
	// listener, when set, is used instead of the configured address.
	listener net.Listener
	// platforms are served beside the configured ones.
	platforms []platform
	// programs are agent programs that are known beside the others.
	programs []cliProgram
	// started is called with the running server once it is ready.
	started func(*server)
}

// Results that the binary turns into exit codes.
var (
	// ErrTold: what went wrong has been shown already.
	ErrTold = errors.New("see above")
	// ErrInterrupted: the person pressed Ctrl-C.
	ErrInterrupted = terminal.ErrInterrupted
)

// Serve runs the server until ctx ends, then stops it gracefully.
func Serve(ctx context.Context, opts Options) error {
	redactor := newRedactor(opts.Config)
	log, err := observe.NewLogger(observe.LogOptions{Out: opts.Err, Level: opts.Config.Log.Level, Format: opts.Config.Log.Format, Wrap: redactor.Handler})
	if err != nil {
		return err
	}
	token, err := operatorToken(opts)
	if err != nil {
		return err
	}
	redactor.Keep(token)
	vault, err := openSecrets(opts.Config, redactor, log)
	if err != nil {
		return err
	}
	defer vault.close()
	ln := opts.listener
	if ln == nil {
		if ln, err = listen(ctx, opts.Config.API.Host, opts.Config.API.Port, "IRIS_API_PORT"); err != nil {
			return err
		}
	}
	s := &server{opts: opts, log: log, token: token, secrets: vault, url: baseURL(ln.Addr()), gate: newGate()}
	if err := s.listenBridge(ctx); err != nil {
		return errors.Join(err, ln.Close())
	}
	defer s.closeBridge()
	group := lifetime.New(s.parts(ln)...)
	s.gate.group.Store(group)
	log.Info("starting", "version", opts.Version, "workspace", opts.Config.Workspace, "address", s.url)
	err = group.Run(ctx)
	log.Info("stopped")
	var open *openError
	if errors.As(err, &open) {
		return open.error
	}
	return err
}

// An openError says why the workspace, or what is built in it, could not be
// opened. It names what is wrong itself: the name of the part in front of it
// would mislead.
type openError struct{ error }

func (e *openError) Unwrap() error { return e.error }

func operatorToken(opts Options) (secret.Value, error) {
	if !opts.Config.API.Token.IsZero() {
		return opts.Config.API.Token, nil
	}
	path, err := tokenPath(opts.Environ)
	if err != nil {
		return secret.Value{}, err
	}
	return keepToken(path)
}

func baseURL(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "http://" + addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// httpServer returns a server with the limits every listener of ours has: slow
// headers are cut, bodies and streams have their own limits in the handlers.
func httpServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}
