package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
	"github.com/iris-operator/iris/internal/config"
)

func initCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "init [workspace]",
		Short: "Write a configuration file to begin with",
		Long:  "Write a configuration file to begin with: --config, else iris.config.toml in the workspace.\nOnly you can read it. A file that is there already stays as it is.",
		Args:  usageArgs(cobra.MaximumNArgs(1)),
	}
	c.ValidArgsFunction = directories
	flags := settings{}
	flags.add(c, "config", "IRIS_CONFIG", "configuration `file`")
	c.RunE = func(_ *cobra.Command, args []string) error {
		src, err := flags.source(first(args))
		if err != nil {
			return err
		}
		path, err := config.Init(src)
		if err != nil {
			return err
		}
		out := &output{file: os.Stdout}
		fmt.Fprintf(out, "%s\nSet what you need there; iris config check says whether it is right.\n", path)
		return out.result(nil)
	}
	return c
}

func configCommand() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Check the configuration, or say where it is"}
	c.AddCommand(configCheckCommand(), configPathCommand())
	return c
}

func configCheckCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check [workspace]",
		Short: "Say what the configuration means, and what is wrong with it",
		Args:  usageArgs(cobra.MaximumNArgs(1)),
	}
	c.ValidArgsFunction = directories
	flags := common(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		cfg, warnings, err := flags.load(first(args))
		out := &output{file: os.Stdout}
		return out.result(app.CheckConfig(app.DoctorOptions{Config: cfg, ConfigErr: err, Warnings: warnings, Out: out, Environ: os.Environ()}))
	}
	return c
}

func configPathCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "path [workspace]",
		Short: "Print the file that the configuration is read from",
		Args:  usageArgs(cobra.MaximumNArgs(1)),
	}
	c.ValidArgsFunction = directories
	flags := common(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		src, err := flags.source(first(args))
		if err != nil {
			return err
		}
		path := config.Find(src)
		if path == "" {
			return fmt.Errorf("there is no configuration file: iris init writes one")
		}
		out := &output{file: os.Stdout}
		fmt.Fprintln(out, path)
		return out.result(nil)
	}
	return c
}
