// Command iris is a self-hosted AI operator and teammate in one binary. Each
// subcommand has a file here that names its flags; the work is done by package
// app and what it wires.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
	"github.com/iris-operator/iris/internal/config"
)

// Exit codes.
const (
	exitFailed      = 1   // the work failed, a turn included, or the command line is wrong
	exitInterrupted = 130 // Ctrl-C
)

func main() {
	app.KeepFiles()
	os.Exit(run(filepath.Base(os.Args[0]), os.Args[1:]))
}

// errUsage marks an error of the command line.
type errUsage struct{ error }

func run(name string, args []string) (code int) {
	root := called(name)
	if name == "iris-secret" {
		args = append([]string{"secret"}, args...)
	}
	if root.Name() == "iris" && name != "iris-secret" {
		name = "iris"
	}
	root.SetArgs(args)
	at, err := root.ExecuteC()
	var usage errUsage
	switch {
	case err == nil:
		return 0
	case errors.Is(err, app.ErrInterrupted):
		return exitInterrupted
	case errors.Is(err, app.ErrTold):
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "%s: %v\nSee '%s --help'.\n", name, err, at.CommandPath())
	default:
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	return exitFailed
}

// called returns what the binary does under a name: links to it are commands of
// their own.
func called(name string) *cobra.Command {
	var c *cobra.Command
	switch name {
	case "get-secret":
		c = getSecretCommand()
	case "set-secret":
		c = setSecretCommand()
	default:
		return root()
	}
	c.SilenceErrors, c.SilenceUsage, c.Version = true, true, version()
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return errUsage{wrongFlag(c, err)} })
	return c
}

// root lists the subcommands.
func root() *cobra.Command {
	c := &cobra.Command{
		Use:           "iris",
		Short:         "A self-hosted AI operator and teammate",
		Version:       version(),
		Args:          onlyCommands,
		RunE:          help,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error { return errUsage{wrongFlag(c, err)} })
	c.AddCommand(serveCommand(), agentCommand(), chatCommand(), approvalsCommand(), auditCommand(), doctorCommand(), policyCommand(), sandboxCommand(), scheduleCommand(), slackCommand(), telegramCommand(), versionCommand())
	c.AddCommand(secretCommand(), brokerCommand())
	c.AddCommand(initCommand(), configCommand(), installCommand(), uninstallCommand(), statusCommand(), serviceCommand())
	c.AddCommand(execServerCommand())
	c.AddCommand(selfHealCommand(), imageCommand(), facilitateCommand())
	c.InitDefaultCompletionCmd()
	for _, sub := range c.Commands() {
		if sub.HasSubCommands() { // completion, approvals, audit, policy
			sub.Args, sub.RunE = onlyCommands, help
		}
	}
	return c
}

func help(c *cobra.Command, _ []string) error { return c.Help() }

// onlyCommands refuses what is not the name of a subcommand.
func onlyCommands(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return errUsage{unknownCommand(c, args[0])}
	}
	return nil
}

// usageArgs makes wrong arguments an error of the command line.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if check(c, args) != nil {
			return errUsage{wrongArguments(c, check, args)}
		}
		return nil
	}
}

// settings are flags that stand for environment variables and win over them.
type settings map[string]*string

// common adds the flags that several subcommands share.
func common(c *cobra.Command) settings {
	s := settings{}
	s.add(c, "config", "IRIS_CONFIG", "configuration `file`")
	s.add(c, "api-host", "IRIS_API_HOST", "`address` of the API and the page")
	s.add(c, "api-port", "IRIS_API_PORT", "`port` of the API and the page")
	s.add(c, "provider", "IRIS_PROVIDER", "`name` of the model provider")
	s.add(c, "model", "IRIS_MODEL", "`id` of the model")
	return s
}

// add adds a flag; known are the values that a shell completes, files if nil.
func (s settings) add(c *cobra.Command, flag, variable, help string, known ...string) {
	s[variable] = c.Flags().String(flag, "", help+" ("+variable+")")
	if known != nil {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
	}
}

// directories completes an argument with directories.
func directories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// load reads the configuration.
func (s settings) load(workspace string) (cfg *config.Config, warnings []string, err error) {
	src, err := s.source(workspace)
	if err != nil {
		return nil, nil, err
	}
	return config.Load(src)
}

// source is where the configuration is looked for.
func (s settings) source(workspace string) (src config.Source, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return src, err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return src, err
	}
	flags := map[string]string{}
	for name, v := range s {
		if *v != "" {
			flags[name] = *v
		}
	}
	return config.Source{Flags: flags, Environ: os.Environ(), Dir: dir, Home: home, Workspace: workspace}, nil
}

// first returns the only argument, "" if there is none.
func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// until returns a context that ends with the first of the signals. now is closed
// by the second one.
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

// Signals that ask a process to end. A terminal conversation handles SIGINT
// itself.
var (
	endSignals  = []os.Signal{os.Interrupt, syscall.SIGTERM}
	termSignals = []os.Signal{syscall.SIGTERM}
)
