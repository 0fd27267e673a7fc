package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/iris-operator/iris/internal/config"
)

// kind says in plain words what a type of flag takes.
func kind(flag string) string {
	switch flag {
	case "int":
		return "a whole number"
	case "bool":
		return "true or false"
	case "duration":
		return "a time such as 90s"
	}
	return "valid"
}

// wrongArguments says of arguments that a subcommand does not take whether some
// are missing or too many, and how it is written.
func wrongArguments(c *cobra.Command, check cobra.PositionalArgs, args []string) error {
	what := "too many arguments"
	for more := args; len(more) < len(args)+2; {
		if more = append(more[:len(more):len(more)], "x"); check(c, more) == nil {
			what = "an argument is missing"
		}
	}
	return fmt.Errorf("%s; it is written: %s", what, c.UseLine())
}

// unknownCommand names the subcommand that was probably meant.
func unknownCommand(c *cobra.Command, name string) error {
	var known []string
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			known = append(known, sub.Name())
		}
	}
	if near := config.Near(name, known); near != "" {
		return fmt.Errorf("unknown command %q; the nearest is %q", name, near)
	}
	return fmt.Errorf("unknown command %q", name)
}

// wrongFlag says what is wrong with a flag: which one was probably meant, or what
// its value must be.
func wrongFlag(c *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		f := invalid.GetFlag()
		return fmt.Errorf("--%s=%q is not %s", f.Name, invalid.GetValue(), kind(f.Value.Type()))
	}
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
	if near := config.Near(name, known); near != "" {
		return fmt.Errorf("unknown flag --%s; the nearest is --%s", name, near)
	}
	return fmt.Errorf("unknown flag --%s", name)
}
