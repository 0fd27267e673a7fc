package main

import (
	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func telegramCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "telegram",
		Short: "Check and claim the Telegram bot",
		Long: "Check and claim the Telegram bot. TELEGRAM_BOT_TOKEN, or the secret TELEGRAM-BOT-TOKEN, is its token;\n" +
			"iris serve then takes its messages.",
	}
	check := &cobra.Command{Use: "check", Short: "Ask Telegram whether the token is good, and show who is served", Args: usageArgs(cobra.NoArgs)}
	checkFlags := whichWorkspace(check)
	check.RunE = func(*cobra.Command, []string) error {
		opts, err := plainOptions(checkFlags)
		if err != nil {
			return err
		}
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.CheckTelegram(ctx, opts)
	}
	claim := &cobra.Command{Use: "claim", Short: "Show a link and a QR code that make the bot yours, good for ten minutes", Args: usageArgs(cobra.NoArgs)}
	claimFlags := whichWorkspace(claim)
	release := claim.Flags().Bool("release", false, "give up the chat that the bot serves now")
	claim.RunE = func(*cobra.Command, []string) error {
		opts, err := plainOptions(claimFlags)
		if err != nil {
			return err
		}
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.ClaimTelegram(ctx, opts, *release)
	}
	c.AddCommand(check, claim)
	return c
}
