package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func agentCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "agent",
		Short: "Spawn, register and look after sub-agents",
	}
	c.AddCommand(agentSpawnCommand(), agentListCommand(), agentShowCommand(), agentLogsCommand(),
		agentControlCommand("stop", "End an agent and keep it from starting"),
		agentControlCommand("restart", "Start an agent again"),
		agentControlCommand("remove", "End an agent and take it out of the registry; its files stay"),
		agentRegisterCommand(), agentReserveCommand(), agentPortCommand())
	return c
}

// whichRegistry adds the flags that say which registry is meant.
func whichRegistry(c *cobra.Command) settings {
	s := settings{}
	s.add(c, "config", "IRIS_CONFIG", "configuration `file`")
	s.add(c, "workspace", "IRIS_WORKSPACE", "`directory` of the workspace")
	s.add(c, "registry", "IRIS_AGENTS_REGISTRY", "`file` in which agents are registered")
	return s
}

// names splits a list with commas; nothing is no list.
func names(csv string) []string {
	return strings.FieldsFunc(csv, func(c rune) bool { return c == ',' || c == ' ' })
}

func agentRegisterCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "register <name> <bridge-url> <description>",
		Short: "Add an agent to the registry, or change its entry",
		Long: "Add an agent to the registry, or change its entry. What is empty stays as it was, and so does everything else in the file.\n" +
			"A token is read from standard input or made here, and is never an argument: arguments can be seen by everybody on the machine.",
		Example: "  iris agent register billing http://127.0.0.1:4200 'Invoices and reminders' --secrets STRIPE-KEY --new-token",
		Args:    usageArgs(cobra.ExactArgs(3)),
	}
	var csv string
	var fromStdin bool
	var ro app.RegisterOptions
	c.Flags().StringVar(&csv, "secrets", "", "`names` of the secrets it may read, with commas between them")
	c.Flags().BoolVar(&fromStdin, "token-stdin", false, "read its token from standard input")
	c.Flags().BoolVar(&ro.NewToken, "new-token", false, "make a token and print it")
	flags := whichRegistry(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		if fromStdin && ro.NewToken {
			return errUsage{errors.New("--token-stdin and --new-token exclude each other")}
		}
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		ro.Name, ro.URL, ro.Description, ro.Secrets = args[0], args[1], args[2], names(csv)
		if fromStdin {
			ro.TokenFrom = os.Stdin
		}
		return app.RegisterAgent(opts, ro)
	}
	return c
}

func agentReserveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "reserve <name> <description>",
		Short: "Register an agent at the next free port and print the port",
		Args:  usageArgs(cobra.ExactArgs(2)),
	}
	base := c.Flags().Int("base", 0, "first `port` to try (default 4200)")
	flags := whichRegistry(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		return app.ReserveAgent(opts, app.RegisterOptions{Name: args[0], Description: args[1]}, *base)
	}
	return c
}

func agentShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "show <name>",
		Short: "Show an agent's entry, without its token",
		Args:  usageArgs(cobra.ExactArgs(1)),
	}
	asJSON := c.Flags().Bool("json", false, "write JSON")
	flags := whichRegistry(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		return app.ShowAgent(opts, args[0], *asJSON)
	}
	return c
}

func agentPortCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "next-port [base]",
		Short: "Print the first port that is clear of every agent's",
		Long: "Print the first port from base (4200) on at which a bridge and, 100 above it, an API are clear of every agent's.\n" +
			"Nothing holds the port afterwards: reserve takes it as well, and so does spawn.",
		Args: usageArgs(cobra.MaximumNArgs(1)),
	}
	flags := whichRegistry(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		base := 0
		if len(args) > 0 {
			var err error
			if base, err = strconv.Atoi(args[0]); err != nil {
				return errUsage{fmt.Errorf("%q is not a port", args[0])}
			}
		}
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		return app.NextPort(opts, base)
	}
	return c
}

func agentListCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "list",
		Short: "List the agents and how they are",
		Args:  usageArgs(cobra.NoArgs),
	}
	asJSON := c.Flags().Bool("json", false, "write JSON")
	flags := whichRegistry(c)
	c.RunE = func(*cobra.Command, []string) error {
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.ListAgents(ctx, opts, *asJSON)
	}
	return c
}

func agentControlCommand(verb, short string) *cobra.Command {
	c := &cobra.Command{
		Use:   verb + " <name>",
		Short: short,
		Args:  usageArgs(cobra.ExactArgs(1)),
	}
	flags := whichRegistry(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.ControlAgent(ctx, opts, args[0], verb)
	}
	return c
}

func agentLogsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "logs <name>",
		Short: "Show what an agent printed",
		Args:  usageArgs(cobra.ExactArgs(1)),
	}
	lines := c.Flags().IntP("lines", "n", 100, "the last so many `lines`")
	follow := c.Flags().BoolP("follow", "f", false, "go on with what comes")
	flags := whichRegistry(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.AgentLogs(ctx, opts, args[0], *lines, *follow)
	}
	return c
}

func agentSpawnCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "spawn <name> <purpose>",
		Short: "Make a sub-agent: home, port, token, service or container, registration",
		Long: "Make a sub-agent: its home, its port and token, its service or container, its place in the registry, so that @name works at once.\n" +
			"Spawning one that is there brings it up to date and keeps its port, token and memory.\n" +
			"As root a service gets a user of its own and a wall around it; else it runs under your own service manager.",
		Example: "  sudo iris agent spawn billing 'Invoices and reminders' --with-skill stripe --with-self-heal --workspace /iris/data",
		Args:    usageArgs(cobra.ExactArgs(2)),
	}
	var so app.SpawnOptions
	f := c.Flags()
	f.StringVar(&so.Mode, "mode", "", "service or docker (default: as it was, else service)")
	f.StringArrayVar(&so.Skills, "with-skill", nil, "a skill it gets, with the secrets the skill needs; can be given again")
	f.BoolVar(&so.SelfHeal, "with-self-heal", false, "let it escalate to Iris")
	f.BoolVar(&so.Constitution, "full-constitution", false, "give it the whole constitution")
	f.StringVar(&so.Provider, "provider", "", "`name` of its model provider (default: yours)")
	f.StringVar(&so.Model, "model", "", "`id` of its model (default: yours)")
	f.StringVar(&so.Secrets, "secrets", "", "env hands it the model's key, store nothing but its own token (default env)")
	f.IntVar(&so.Base, "base-port", 0, "first `port` to try (default 4200)")
	f.DurationVar(&so.Wait, "wait", 0, "how long it may take to answer (default 30s)")
	flags := whichRegistry(c)
	flags.add(c, "agents-dir", "IRIS_AGENTS_DIR", "`directory` in which agents live")
	flags.add(c, "api-host", "IRIS_API_HOST", "`address` of Iris's API")
	flags.add(c, "api-port", "IRIS_API_PORT", "`port` of Iris's API")
	c.RunE = func(_ *cobra.Command, args []string) error {
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		so.Name, so.Purpose = args[0], args[1]
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.SpawnAgent(ctx, opts, so)
	}
	return c
}
