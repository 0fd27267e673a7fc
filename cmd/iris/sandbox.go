package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func sandboxCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "sandbox",
		Short: "Try the walls around commands",
	}
	c.AddCommand(sandboxVerifyCommand())
	return c
}

func sandboxVerifyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify [level]",
		Short: "Try to get out of a sandbox, and say what came of each attempt",
		Long: "Try to get out of a sandbox, and say what came of each attempt: the configured level, or the one named.\n" +
			"It fails when a wall that the level promises does not stand. The probes are harmless; two of them are bombs, with a bound.",
		Example: "  iris sandbox verify\n  iris sandbox verify bwrap\n  iris sandbox verify docker:box",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
	}
	s := settings{}
	s.add(c, "config", "IRIS_CONFIG", "configuration `file`")
	s.add(c, "workspace", "IRIS_WORKSPACE", "workspace `directory`")
	c.RunE = func(_ *cobra.Command, args []string) error {
		if level := first(args); level != "" {
			s["IRIS_SANDBOX"] = &level
		}
		cfg, _, err := s.load("")
		if err != nil {
			return err
		}
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.SandboxVerify(ctx, app.VerifyOptions{Config: cfg, Out: os.Stdout, Environ: os.Environ()})
	}
	return c
}
