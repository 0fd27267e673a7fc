package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func secretCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "secret",
		Short: "Keep credentials in an encrypted store",
		Long: "Keep credentials in an encrypted store, or at the broker where IRIS_SECRET_BROKER_URL is set.\n" +
			"A value is read from standard input, or typed without being shown; it is never an argument.",
	}
	set := secretSub("set <name>", "Store a secret", cobra.ExactArgs(1))
	proxyOnly := set.Flags().Bool("proxy-only", false, "nobody may read it back: the broker puts it into requests")
	private := set.Flags().Bool("not-for-agents", false, "for Iris's own use: the API does not give it out")
	set.Example = "  iris secret set GITHUB-TOKEN\n  pass show github | iris secret set GITHUB-TOKEN"
	secretRun(set, func(ctx context.Context, o app.SecretOptions, args []string) error {
		return app.SetSecret(ctx, o, args[0], app.SecretFlags(set.Flags().Changed("proxy-only"), *proxyOnly, set.Flags().Changed("not-for-agents"), *private))
	})
	importEnv := secretSub("import-env <file>", "Move the keys of a .env file into the store", cobra.ExactArgs(1))
	prune := importEnv.Flags().Bool("prune", false, "remove them from the file")
	secretRun(importEnv, func(ctx context.Context, o app.SecretOptions, args []string) error {
		return app.ImportEnv(ctx, o, args[0], *prune)
	})
	export := secretSub("export", "Write all secrets to standard output, encrypted with age", cobra.NoArgs)
	recipients := export.Flags().StringArray("recipient", nil, "age `key` to encrypt for; without one a passphrase is asked for")
	export.Example = "  iris secret export --recipient age1… > secrets.age"
	secretRun(export, func(ctx context.Context, o app.SecretOptions, _ []string) error {
		return app.ExportSecrets(ctx, o, *recipients)
	})
	load := secretSub("import <file>", "Store what an export holds", cobra.ExactArgs(1))
	identity := load.Flags().String("identity", "", "`file` of age keys; without one the passphrase is asked for")
	secretRun(load, func(ctx context.Context, o app.SecretOptions, args []string) error {
		return app.ImportSecrets(ctx, o, args[0], *identity)
	})
	c.AddCommand(
		secretRun(secretSub("init", "Make the key of the store", cobra.NoArgs), func(_ context.Context, o app.SecretOptions, _ []string) error { return app.InitSecrets(o) }),
		set,
		secretRun(secretSub("get <name>", "Print a secret", cobra.ExactArgs(1)), func(ctx context.Context, o app.SecretOptions, args []string) error {
			return app.GetSecret(ctx, o, args[0])
		}),
		secretRun(secretSub("list", "List names and flags", cobra.NoArgs), func(ctx context.Context, o app.SecretOptions, _ []string) error { return app.ListSecrets(ctx, o) }),
		secretRun(secretSub("rm <name>", "Remove a secret", cobra.ExactArgs(1)), func(ctx context.Context, o app.SecretOptions, args []string) error {
			return app.RemoveSecret(ctx, o, args[0])
		}),
		importEnv, requestCommand("request <name>"), export, load,
	)
	return c
}

func secretSub(use, short string, args cobra.PositionalArgs) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: usageArgs(args)}
}

// secretRun gives a subcommand its work; Ctrl-C ends it with 130.
func secretRun(c *cobra.Command, work func(context.Context, app.SecretOptions, []string) error) *cobra.Command {
	s := settings{}
	s.add(c, "config", "IRIS_CONFIG", "configuration `file`")
	c.RunE = func(_ *cobra.Command, args []string) error {
		opts, err := plainOptions(s)
		if err != nil {
			return err
		}
		return interruptible(func(ctx context.Context) error {
			return work(ctx, app.SecretOptions{Options: opts, In: os.Stdin}, args)
		})
	}
	return c
}

func interruptible(work func(context.Context) error) error {
	ctx, _, stop := until(endSignals...)
	defer stop()
	err := work(ctx)
	if err != nil && ctx.Err() != nil {
		return app.ErrInterrupted
	}
	return err
}

// agentSecret speaks to the API, as commands of a turn do.
func agentSecret() app.AgentSecret {
	return app.AgentSecret{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Environ: os.Environ()}
}

func requestCommand(use string) *cobra.Command {
	c := secretSub(use, "Print a link over which a person hands a secret over", cobra.ExactArgs(1))
	channel := c.Flags().String("channel", "", "`id` of the conversation that is told when the secret has come")
	ttl := c.Flags().Int("ttl", 900, "`seconds` the link is good for, 60 to 86400")
	c.RunE = func(_ *cobra.Command, args []string) error {
		return interruptible(func(ctx context.Context) error {
			return agentSecret().Request(ctx, args[0], *channel, time.Duration(*ttl)*time.Second)
		})
	}
	return c
}

// getSecretCommand is the binary under the name get-secret.
func getSecretCommand() *cobra.Command {
	c := secretSub("get-secret <name>", "Print a secret that agents may read", cobra.ExactArgs(1))
	c.RunE = func(_ *cobra.Command, args []string) error {
		return interruptible(func(ctx context.Context) error { return agentSecret().Get(ctx, args[0]) })
	}
	return c
}

// setSecretCommand is the binary under the name set-secret.
func setSecretCommand() *cobra.Command {
	c := secretSub("set-secret <name>", "Store a secret from standard input, or ask a person for one", cobra.ExactArgs(1))
	proxyOnly := c.Flags().Bool("proxy-only", false, "nobody may read it back: the broker puts it into requests")
	c.RunE = func(_ *cobra.Command, args []string) error {
		return interruptible(func(ctx context.Context) error { return agentSecret().Set(ctx, args[0], *proxyOnly) })
	}
	c.AddCommand(requestCommand("request <name>"))
	return c
}

func brokerCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "broker",
		Short: "Serve secrets from under another user, and put them into requests",
		Args:  usageArgs(cobra.NoArgs),
	}
	s := settings{}
	s.add(c, "config", "IRIS_CONFIG", "configuration `file`")
	s.add(c, "host", "IRIS_BROKER_HOST", "`address` to listen on")
	s.add(c, "port", "IRIS_BROKER_PORT", "`port` to listen on")
	c.RunE = func(*cobra.Command, []string) error {
		opts, err := plainOptions(s)
		if err != nil {
			return err
		}
		ctx, _, stop := until(endSignals...)
		defer stop()
		return app.Broker(ctx, opts)
	}
	return c
}
