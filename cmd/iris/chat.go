package main

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

// isName reports whether text may be the name of an agent.
func isName(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

func chatCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "chat [text ...]",
		Short: "Talk to Iris in this terminal",
		Long: "Talk to Iris in this terminal: to the running server, or to one that is started for the time of the talk.\n" +
			"With a text, or - for standard input, it is answered and that is all; else a prompt opens.\n\n" +
			"The exit code is 0 when the turn was answered, 1 when it failed and 130 after Ctrl-C.",
		Example: "  iris chat\n  iris chat \"how full is the disk?\"\n  iris chat @billing how much was it in May\n  git diff | iris chat -",
		Args:    usageArgs(cobra.ArbitraryArgs),
	}
	c.ValidArgsFunction = cobra.NoFileCompletions
	flags := common(c)
	session := c.Flags().String("session", "", "continue the session with this `id`")
	agent := c.Flags().String("agent", "", "`name` of who answers; the default is Iris herself")
	workspace := c.Flags().String("workspace", "", "`directory` of the workspace")
	_ = c.MarkFlagDirname("workspace") // fails only for a flag that does not exist
	c.RunE = func(_ *cobra.Command, args []string) error {
		text := strings.TrimSpace(strings.Join(args, " "))
		if text == "" && len(args) > 0 {
			return errUsage{errors.New("the message is empty")}
		}
		if name, ok := strings.CutPrefix(text, "@"); ok && len(args) == 1 && *agent == "" && *session == "" && isName(name) {
			// "@name" alone opens a prompt with that agent; with a text it is in the
			// message, where the server finds it.
			*agent, text = name, ""
		}
		if *session != "" && *agent != "" {
			return errUsage{errors.New("--agent is for a new conversation: leave it out with --session")}
		}
		cfg, _, err := flags.load(*workspace)
		if err != nil {
			return err
		}
		ctx, _, stop := until(termSignals...)
		defer stop()
		out := &output{file: os.Stdout}
		return out.result(app.Chat(ctx, app.ChatOptions{
			Options: app.Options{Config: cfg, Version: version(), Out: out, Err: os.Stderr, Environ: os.Environ()},
			Session: *session, Runner: *agent, Text: text, In: os.Stdin,
		}))
	}
	return c
}
