package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

// slackCommand helps to set up the app at Slack.
func slackCommand() *cobra.Command {
	c := &cobra.Command{Use: "slack", Short: "Set up Slack"}
	c.AddCommand(slackManifestCommand(), slackCheckCommand())
	return c
}

func slackManifestCommand() *cobra.Command {
	c := &cobra.Command{Use: "manifest", Short: "Print the app manifest for api.slack.com", Args: usageArgs(cobra.NoArgs), ValidArgsFunction: cobra.NoFileCompletions}
	name := c.Flags().String("name", "Iris", "`name` of the app and its bot")
	c.RunE = func(c *cobra.Command, _ []string) error { return app.SlackManifest(c.OutOrStdout(), *name) }
	return c
}

func slackCheckCommand() *cobra.Command {
	c := &cobra.Command{Use: "check", Short: "Try the tokens and say what is missing", Args: usageArgs(cobra.NoArgs), ValidArgsFunction: cobra.NoFileCompletions}
	flags := settings{}
	flags.add(c, "config", "IRIS_CONFIG", "configuration `file`")
	c.RunE = func(*cobra.Command, []string) error {
		cfg, warnings, err := flags.load("")
		if err != nil {
			return err
		}
		for _, w := range warnings {
			fmt.Fprintln(os.Stderr, "iris:", w)
		}
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return app.SlackCheck(ctx, app.Options{Config: cfg, Version: version(), Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()})
	}
	return c
}
