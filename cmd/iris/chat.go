package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func chatCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "chat [text]",
		Short: "Talk to Iris in this terminal",
		Long: "Talk to Iris in this terminal: to the running server, or to one that is started for the time of the talk.\n" +
			"With a text, or - for standard input, it is answered and that is all; else a prompt opens.",
		Args: usageArgs(cobra.MaximumNArgs(1)),
	}
	flags := common(c)
	session := c.Flags().String("session", "", "continue the session with this `id`")
	agent := c.Flags().String("agent", "", "`name` of who answers; the default is Iris herself")
	workspace := c.Flags().String("workspace", "", "`directory` of the workspace")
	c.RunE = func(_ *cobra.Command, args []string) error {
		cfg, err := flags.load(*workspace, io.Discard)
		if err != nil {
			return err
		}
		ctx, _, stop := until(termSignals...)
		defer stop()
		return app.Chat(ctx, app.ChatOptions{
			Options: app.Options{Config: cfg, Version: version(), Out: io.Discard, Err: os.Stderr, Environ: os.Environ()},
			Session: *session, Runner: *agent, Text: first(args), In: os.Stdin, Terminal: os.Stdout,
		})
	}
	return c
}
