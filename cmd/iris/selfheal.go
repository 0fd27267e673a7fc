package main

import (
	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func selfHealCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "self-heal --reason text",
		Short: "Report an agent's trouble to Iris",
		Long: "Report an agent's trouble to the Iris it works for: over IRIS_API_URL, else as a file in IRIS_EVENTS_DIR, which is read when\n" +
			"Iris is back. A warning is a note, an error is to be diagnosed and fixed, critical is a page to a person.",
		Example: "  iris self-heal --reason 'the ledger does not parse' --severity error \\\n    --context \"$(tail -5 run.log)\"",
		Args:    usageArgs(cobra.NoArgs),
	}
	var so app.SelfHealOptions
	f := c.Flags()
	f.StringVar(&so.Reason, "reason", "", "what is wrong")
	f.StringVar(&so.Agent, "agent", "", "`name` of the agent (default: AGENT_NAME)")
	f.StringVar(&so.Context, "context", "", "what helps to find the cause")
	f.StringVar(&so.Severity, "severity", "error", "warning, error or critical")
	f.BoolVar(&so.Email, "email", false, "mail the report to IRIS_EMAIL_TO as well")
	f.BoolVar(&so.Restart, "restart", false, "restart the agent's service afterwards; needs the rights for it")
	flags := settings{}
	flags.add(c, "config", "IRIS_CONFIG", "configuration `file`")
	c.RunE = func(*cobra.Command, []string) error {
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.SelfHeal(ctx, opts, so)
	}
	return c
}
