package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func auditCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "audit",
		Short: "Read and check the record of commands",
	}
	verify := &cobra.Command{
		Use:   "verify",
		Short: "Check that no line was changed or removed",
		Long: "Check that no line of the record was changed, put in or removed. Lines cut off its end do not show:\n" +
			"against that, keep the file outside of what Iris may write and make it append-only (chattr +a).",
		Args: usageArgs(cobra.NoArgs),
	}
	verifyFlags := whichRecord(verify)
	verify.RunE = func(*cobra.Command, []string) error {
		opts, err := plainOptions(verifyFlags)
		if err != nil {
			return err
		}
		return app.VerifyAudit(opts)
	}
	c.AddCommand(verify, showAuditCommand("tail", "Show the newest entries", 20), showAuditCommand("search <text ...>", "Find entries by command, person or rule", 0))
	return c
}

// whichRecord adds the flags that say which record is meant.
func whichRecord(c *cobra.Command) settings {
	s := settings{}
	s.add(c, "config", "IRIS_CONFIG", "configuration `file`")
	s.add(c, "workspace", "IRIS_WORKSPACE", "`directory` of the workspace")
	s.add(c, "file", "IRIS_BASH_AUDIT_FILE", "`path` of the record")
	return s
}

// showAuditCommand is tail, or search when it takes words.
func showAuditCommand(use, short string, lines int) *cobra.Command {
	words := cobra.NoArgs
	if strings.Contains(use, "<") {
		words = cobra.ArbitraryArgs
	}
	c := &cobra.Command{Use: use, Short: short, Args: usageArgs(words)}
	flags := whichRecord(c)
	n := c.Flags().IntP("lines", "n", lines, "show at most so `many` entries, the newest; 0 is all")
	channel := c.Flags().String("channel", "", "only those of this conversation, by its channel `id`")
	decision := c.Flags().String("decision", "", "only those of this `kind`: executed, denied, confirmed, confirmation-required")
	asJSON := c.Flags().Bool("json", false, "print the lines as they are in the record")
	c.RunE = func(_ *cobra.Command, args []string) error {
		filter, err := app.AuditFilter(strings.Join(args, " "), *channel, *decision)
		if err != nil {
			return errUsage{err}
		}
		if *n < 0 {
			return errUsage{errors.New("--lines must not be negative")}
		}
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		return app.ShowAudit(opts, filter, *n, *asJSON)
	}
	return c
}
