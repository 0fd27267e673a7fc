package main

import (
	"context"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

// slowPause is long enough to read a line of the play.
const slowPause = 1500 * time.Millisecond

func facilitateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "facilitate",
		Short: "Iris in a group",
		Long: "Iris in a group: she hears the room, has a private line with everybody in it, and what is said there\n" +
			"reaches the room in one way only: as exact words that person said yes to.",
	}
	c.AddCommand(demoCommand())
	return c
}

func demoCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "demo",
		Short: "Play a council of six people, without a key or a network",
		Long: "Play a council of six people in the terminal. The words of the six are written, what Iris does is not:\n" +
			"her rules decide it while the play runs. No key, no network, nothing is kept.",
		Args: usageArgs(cobra.NoArgs),
	}
	slow := c.Flags().Bool("slow", false, "pause between the lines")
	c.RunE = func(*cobra.Command, []string) error {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		opts := app.CouncilDemoOptions{Out: os.Stdout, Environ: os.Environ()}
		if *slow {
			opts.Pause = slowPause
		}
		err := app.CouncilDemo(ctx, opts)
		if ctx.Err() != nil {
			return app.ErrInterrupted
		}
		return err
	}
	return c
}
