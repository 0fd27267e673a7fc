// Command iris is a self-hosted AI operator and teammate in one binary. Each
// subcommand has a file here that names its flags; the work is done by package
// app and what it wires.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/willabides/kongplete"

	"github.com/iris-operator/iris/internal/app"
	"github.com/iris-operator/iris/internal/config"
)

// cli lists the subcommands.
type cli struct {
	Serve      serveCmd      `cmd:"" help:"Run the server: the API, the page and everything behind them."`
	Chat       chatCmd       `cmd:"" help:"Talk to Iris in this terminal."`
	Doctor     doctorCmd     `cmd:"" help:"Check the installation and say what to do."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Completion completionCmd `cmd:"" help:"Print a completion script for a shell."`
}

// Exit codes.
const (
	exitFailed      = 1   // the work failed, a turn included
	exitUsage       = 2   // the command line is wrong
	exitInterrupted = 130 // Ctrl-C
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) (code int) {
	var c cli
	exited := -1
	parser, err := kong.New(&c,
		kong.Name("iris"),
		kong.Description("A self-hosted AI operator and teammate."),
		kong.UsageOnError(),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Exit(func(code int) { exited = code }),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "iris:", err)
		return exitFailed
	}
	kongplete.Complete(parser)
	k, err := parser.Parse(args)
	if exited >= 0 {
		return exited
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "iris: %v\nSee 'iris --help'.\n", err)
		return exitUsage
	}
	switch err := k.Run(); {
	case err == nil:
		return 0
	case errors.Is(err, app.ErrInterrupted):
		return exitInterrupted
	case errors.Is(err, app.ErrTold):
		return exitFailed
	default:
		fmt.Fprintln(os.Stderr, "iris:", err)
		return exitFailed
	}
}

// common are the flags that several subcommands share. Each wins over its
// environment variable.
type common struct {
	Config   string `placeholder:"FILE" help:"Configuration file."`
	APIHost  string `name:"api-host" placeholder:"ADDRESS" help:"Address of the API and the page."`
	APIPort  string `name:"api-port" placeholder:"PORT" help:"Port of the API and the page."`
	Provider string `placeholder:"NAME" help:"Model provider."`
	Model    string `placeholder:"ID" help:"Model."`
}

func (c common) flags() map[string]string {
	out := map[string]string{}
	for name, v := range map[string]string{
		"IRIS_CONFIG": c.Config, "IRIS_API_HOST": c.APIHost, "IRIS_API_PORT": c.APIPort,
		"IRIS_PROVIDER": c.Provider, "IRIS_MODEL": c.Model,
	} {
		if v != "" {
			out[name] = v
		}
	}
	return out
}

// load reads the configuration and shows its warnings.
func load(flags map[string]string, workspace string, warn io.Writer) (*config.Config, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	cfg, warnings, err := config.Load(config.Source{Flags: flags, Environ: os.Environ(), Dir: dir, Home: home, Workspace: workspace})
	for _, w := range warnings {
		fmt.Fprintln(warn, "iris: warning:", w)
	}
	return cfg, err
}

// untilSignal returns a context that ends with the first SIGINT or SIGTERM. now
// is closed by the second one.
func untilSignal() (ctx context.Context, now <-chan struct{}, stop func()) {
	return until(os.Interrupt, syscall.SIGTERM)
}

// untilTerminated leaves SIGINT to whoever talks to the person.
func untilTerminated() (ctx context.Context, now <-chan struct{}, stop func()) {
	return until(syscall.SIGTERM)
}

func until(signals ...os.Signal) (ctx context.Context, now <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c := make(chan os.Signal, 2)
	signal.Notify(c, signals...)
	second := make(chan struct{})
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			case <-c:
			}
			switch n {
			case 0:
				cancel()
			case 1:
				close(second)
			}
		}
	}()
	return ctx, second, func() {
		signal.Stop(c)
		close(done)
		cancel()
	}
}
