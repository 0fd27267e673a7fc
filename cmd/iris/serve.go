package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func serveCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "serve [workspace]",
		Aliases: []string{"start"},
		Short:   "Run the server: the API, the page and everything behind them",
		Long:    "Run the server: the API, the page and everything behind them.\nThe workspace is the directory in which everything durable lives, ~/.iris by default.",
		Args:    usageArgs(cobra.MaximumNArgs(1)),
	}
	c.ValidArgsFunction = directories
	flags := common(c)
	flags.add(c, "sandbox", "IRIS_SANDBOX", "where commands run: host, bwrap or another `level`", "host", "bwrap", "docker:", "firecracker:", "firecracker-pool")
	flags.add(c, "environment", "IRIS_ENV", "`label` for logs: prod or preview", "prod", "preview")
	c.RunE = func(_ *cobra.Command, args []string) error {
		cfg, warnings, err := flags.load(first(args))
		for _, w := range warnings {
			fmt.Fprintln(os.Stderr, "iris: warning:", w)
		}
		if err != nil {
			return err
		}
		ctx, now, stop := until(endSignals...)
		defer stop()
		return app.Serve(ctx, app.Options{Config: cfg, Version: version(), Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Now: now})
	}
	return c
}
