package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func approvalsCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "approvals",
		Short: "See and answer the commands that wait for a person",
	}
	list := &cobra.Command{
		Use:   "list",
		Short: "List the commands that wait",
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
		Use:     "answer <id> yes|no",
		Short:   "Let a held command run once, or decline it",
		Example: "  iris approvals answer 3fa2c1d9 yes",
		Args:    usageArgs(cobra.ExactArgs(2)),
	}
	answerFlags := whereServer(answer)
	answer.RunE = func(_ *cobra.Command, args []string) error {
		if args[1] != "yes" && args[1] != "no" {
			return errUsage{fmt.Errorf("%q is no answer: say yes or no", args[1])}
		}
		opts, err := plainOptions(answerFlags)
		if err != nil {
			return err
		}
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.AnswerApproval(ctx, opts, args[0], args[1] == "yes")
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
