package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func doctorCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "doctor [workspace]",
		Short: "Check the installation and say what to do",
		Args:  usageArgs(cobra.MaximumNArgs(1)),
	}
	c.ValidArgsFunction = directories
	flags := common(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		cfg, warnings, err := flags.load(first(args))
		ctx, _, stop := until(endSignals...)
		defer stop()
		out := &output{file: os.Stdout}
		return out.result(app.Doctor(ctx, app.DoctorOptions{
			Config: cfg, ConfigErr: err, Warnings: warnings, Version: version(), Out: out, Environ: os.Environ(),
		}))
	}
	return c
}
