package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/iris-operator/iris/internal/config"
)

// unknownCommand names the subcommand that was probably meant.
func unknownCommand(c *cobra.Command, name string) error {
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	return fmt.Errorf("unknown command %q; the nearest is %q", name, config.Nearest(name, known))
}

// unknownFlag adds the flag that was probably meant to the error about one that
// does not exist.
func unknownFlag(c *cobra.Command, err error) error {
	_, rest, ok := strings.Cut(err.Error(), "unknown flag: --")
	if !ok {
		return err
	}
	name, _, _ := strings.Cut(rest, "=")
	var known []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			known = append(known, f.Name)
		}
	})
	return fmt.Errorf("unknown flag --%s; the nearest is --%s", name, config.Nearest(name, known))
}
