package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/iris-operator/iris/internal/process"
	"github.com/iris-operator/iris/internal/sandbox/firecracker/guest"
	"github.com/iris-operator/iris/internal/sandbox/host"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/tool/bash"
)

// ExecOptions are the parts of an exec-server.
type ExecOptions struct {
	// Listen is host and port; empty means the guest's address from the
	// kernel's command line for a first process, else loopback, port 8080.
	Listen string
	// Workspace is where commands run; it is made if it is not there.
	Workspace string
	Token     secret.Value
	Log       *slog.Logger
}

// reapEvery is how often the first process of a guest buries orphans: nobody
// else does, and a guest has few process ids.
const reapEvery = time.Second

// endCommands is what commands get to end with the exec-server: TERM, KILL after
// two seconds, and a look after that.
const endCommands = 10 * time.Second

// ExecServer serves commands to whoever reaches the address, until ctx ends. As
// the first process of a machine it makes a machine of a bare kernel before, and
// ends it after.
func ExecServer(ctx context.Context, opts ExecOptions) error {
	if os.Getpid() == 1 {
		err := firstProcess(ctx, opts)
		opts.Log.Error("the exec-server ends, and the machine with it", "err", err)
		return errors.Join(err, guest.PowerOff())
	}
	if opts.Listen == "" {
		opts.Listen = "127.0.0.1:8080"
	}
	return serveExec(ctx, opts)
}

// firstProcess is the exec-server as init.
func firstProcess(ctx context.Context, opts ExecOptions) error {
	boot, err := guest.Prepare()
	if err != nil {
		return err
	}
	if opts.Listen == "" {
		opts.Listen = net.JoinHostPort("0.0.0.0", "8080")
		if boot.Guest.IsValid() {
			opts.Listen = net.JoinHostPort(boot.Guest.String(), "8080")
		}
	}
	if os.Getenv("PATH") == "" { // a kernel gives its first process none
		if err := os.Setenv("PATH", bash.DefaultPath); err != nil {
			return err
		}
	}
	if boot.Token != "" {
		opts.Token = secret.New(boot.Token)
	}
	ctx, cancel := context.WithCancel(ctx)
	reaped := make(chan error, 1)
	go func() { reaped <- process.Reaper{Every: reapEvery}.Serve(ctx) }()
	err = serveExec(ctx, opts)
	cancel()
	return errors.Join(err, <-reaped)
}

// serveExec listens and serves.
func serveExec(ctx context.Context, opts ExecOptions) error {
	if err := os.MkdirAll(opts.Workspace, 0o755); err != nil {
		return err
	}
	box, err := host.New(host.Options{Workspace: opts.Workspace})
	if err != nil {
		return err
	}
	handler, err := guest.New(guest.Options{Box: box, Token: opts.Token, Logger: opts.Log,
		Env: guestEnviron(bash.Environ(os.Environ()))})
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", opts.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", opts.Listen, err)
	}
	opts.Log.Info("exec-server is up", "address", ln.Addr().String(), "workspace", opts.Workspace, "token", !opts.Token.IsZero())
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(opts.Log.Handler(), slog.LevelInfo),
		// The end of ctx is the end of every command.
		BaseContext: func(net.Listener) context.Context { return ctx }}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.Background(), endCommands)
	defer cancel()
	if err = srv.Shutdown(drain); err != nil {
		err = errors.Join(err, srv.Close())
	}
	if failure := <-failed; !errors.Is(failure, http.ErrServerClosed) {
		err = errors.Join(err, failure)
	}
	return err
}
