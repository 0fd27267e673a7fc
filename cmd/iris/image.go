package main

import (
	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func imageCommand() *cobra.Command {
	c := &cobra.Command{Use: "image", Short: "The image that agents in containers run from"}
	build := &cobra.Command{
		Use:   "build",
		Short: "Make the image from this binary",
		Long: "Make the image from this binary and the machine's certificate authorities, with the Docker engine. Built on nothing it has\n" +
			"no shell: its agents answer and run no commands. --from gives them one.",
		Example: "  iris image build --from debian:stable-slim",
		Args:    usageArgs(cobra.NoArgs),
	}
	var io app.ImageOptions
	build.Flags().StringVar(&io.From, "from", "", "`image` to build on (default: nothing)")
	build.Flags().StringVar(&io.Tag, "tag", "", "`name` of the image (default iris-runtime:local)")
	flags := settings{}
	flags.add(build, "config", "IRIS_CONFIG", "configuration `file`")
	build.RunE = func(*cobra.Command, []string) error {
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.BuildImage(ctx, opts, io)
	}
	c.AddCommand(build)
	return c
}
