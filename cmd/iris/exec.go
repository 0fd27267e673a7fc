package main

import (
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
	"github.com/iris-operator/iris/internal/secret"
)

func execServerCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "exec-server",
		Short: "Run commands for an Iris outside: the inside of a microVM",
		Long: "Run commands for an Iris outside: the inside of a microVM.\n" +
			"As the first process of a guest it mounts what is missing, takes its address from guestip= on the kernel's\n" +
			"command line and buries orphans. Whoever reaches the port commands the machine: it is for guests and nothing else.",
		Args: usageArgs(cobra.NoArgs),
	}
	opts := app.ExecOptions{}
	c.Flags().StringVar(&opts.Listen, "listen", "", "`address` and port (default: loopback or guestip=, 8080)")
	c.Flags().StringVar(&opts.Workspace, "workspace", "/workspace", "`directory` in which commands run")
	c.RunE = func(*cobra.Command, []string) error {
		ctx, _, stop := until(endSignals...)
		defer stop()
		opts.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
		opts.Token = secret.New(os.Getenv("IRIS_FIRECRACKER_TOKEN"))
		return app.ExecServer(ctx, opts)
	}
	return c
}
