package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func approvalsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "approvals",
		Short: "See and answer what waits for a person",
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the commands and questions that wait",
		Args:  usageArgs(cobra.NoArgs),
	}
	listFlags := whereServer(list)
	list.RunE = func(*cobra.Command, []string) error {
		opts, err := plainOptions(listFlags)
		if err != nil {
			return err
		}
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.ListApprovals(ctx, opts)
	}
	answer := &cobra.Command{
		Use:   "answer <id> yes|no|always|<number>|<words>",
		Short: "Let a held command run once or decline it, or answer a question",
		Long: "Let a held command run once or decline it, or answer the question of an agent program: by the number of an answer, or in\n" +
			"your own words. always, where it is offered, also allows the like for the rest of the agent's session.",
		Example: "  iris approvals answer 3fa2c1d9 yes\n  iris approvals answer 3fa2c1d9 2",
		Args:    usageArgs(cobra.MinimumNArgs(2)),
	}
	answerFlags := whereServer(answer)
	answer.RunE = func(_ *cobra.Command, args []string) error {
		opts, err := plainOptions(answerFlags)
		if err != nil {
			return err
		}
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.AnswerApproval(ctx, opts, args[0], strings.Join(args[1:], " "))
	}
	c.AddCommand(list, answer)
	return c
}

// whereServer adds the flags that say where the running server is.
func whereServer(c *cobra.Command) settings {
	s := settings{}
	s.add(c, "config", "IRIS_CONFIG", "configuration `file`")
	s.add(c, "api-host", "IRIS_API_HOST", "`address` of the API")
	s.add(c, "api-port", "IRIS_API_PORT", "`port` of the API")
	return s
}

// plainOptions are those of a subcommand that prints to standard output.
func plainOptions(flags settings) (app.Options, error) {
	cfg, _, err := flags.load("")
	return app.Options{Config: cfg, Version: version(), Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()}, err
}
