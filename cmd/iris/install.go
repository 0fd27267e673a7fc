package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func installCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "install [workspace]",
		Short: "Run Iris in the background, from now on and from each login",
		Long:  "Run Iris in the background, from now on and from each login: as a user unit of systemd, or as an agent of launchd.\nAnother install replaces what is installed.",
		Args:  usageArgs(cobra.MaximumNArgs(1)),
	}
	c.ValidArgsFunction = directories
	flags := common(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		cfg, warnings, err := flags.load(first(args))
		for _, w := range warnings {
			fmt.Fprintln(os.Stderr, "iris: warning:", w)
		}
		if err != nil {
			return err
		}
		return behind(func(ctx context.Context, o app.BackgroundOptions) error {
			o.Config, o.Workspace = cfg, first(args)
			return app.Install(ctx, o)
		})
	}
	return c
}

// behind does something about the service in the background.
func behind(f func(context.Context, app.BackgroundOptions) error) error {
	ctx, _, stop := until(endSignals...)
	defer stop()
	out := &output{file: os.Stdout}
	return out.result(f(ctx, app.BackgroundOptions{Environ: os.Environ(), Out: out}))
}

func backgroundCommand(use, short string, f func(context.Context, app.BackgroundOptions) error) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: usageArgs(cobra.NoArgs), RunE: func(*cobra.Command, []string) error { return behind(f) }}
}

func uninstallCommand() *cobra.Command {
	return backgroundCommand("uninstall", "End what install began; the workspace stays", app.Uninstall)
}

func statusCommand() *cobra.Command {
	return backgroundCommand("status", "Say whether Iris runs in the background", app.BackgroundStatus)
}

func serviceCommand() *cobra.Command {
	c := &cobra.Command{Use: "service", Short: "Start or stop what install installed"}
	word := func(use, short string, start bool) *cobra.Command {
		return backgroundCommand(use, short, func(ctx context.Context, o app.BackgroundOptions) error { return app.Background(ctx, o, start) })
	}
	c.AddCommand(word("start", "Start Iris in the background", true), word("stop", "Stop her until the next login", false))
	return c
}
