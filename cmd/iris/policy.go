package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "policy",
		Short: "Ask the shell policy",
	}
	c.AddCommand(policyCheckCommand())
	return c
}

func policyCheckCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check 'command'...",
		Short: "Say what the shell policy makes of commands, and why",
		Long: "Say what the shell policy makes of commands, and why. Nothing is run.\n" +
			"With \"-\", JSON objects with a \"command\" are read, one a line, and written back with verdict, rule, span and reason.\n" +
			"The policy is a seat belt, not a wall: the wall is the sandbox and the uid.",
		Example: "  iris policy check 'rm -rf \"$DIR/\"'\n  iris policy check --json - < commands.jsonl",
		Args:    usageArgs(cobra.MinimumNArgs(1)),
	}
	f := c.Flags()
	opts := app.PolicyCheckOptions{In: os.Stdin, Out: os.Stdout}
	f.BoolVar(&opts.JSON, "json", false, "write JSON, one object a line")
	f.StringVar(&opts.Cwd, "cwd", "", "`directory` the commands run in (default: the workspace)")
	f.StringVar(&opts.Home, "home", "", "home `directory` (default: yours)")
	f.StringVar(&opts.Workspace, "workspace", "", "workspace `directory` (default: --cwd, else the configured one)")
	f.StringArrayVar(&opts.Environ, "env", nil, "a `NAME=value` of the commands' environment; other variables are not set")
	s := settings{}
	s.add(c, "config", "IRIS_CONFIG", "configuration `file`")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if len(args) == 1 && args[0] == "-" {
			args = nil
			if !opts.JSON {
				return errUsage{errors.New("- needs --json")}
			}
		}
		opts.Commands = args
		if opts.Workspace == "" {
			opts.Workspace = opts.Cwd
		}
		cfg, _, err := s.load("")
		if err != nil {
			return err
		}
		opts.Config = cfg
		if opts.Workspace == "" {
			opts.Workspace = cfg.Workspace
		}
		if opts.Home == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return err
			}
			opts.Home = home
		}
		return app.PolicyCheck(opts)
	}
	return c
}
