package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/sandbox/host"
)

// box is where commands run.
type box struct {
	sandbox.Sandbox
	// dir is where commands start, as the sandbox calls it.
	dir string
	// dialect is the language its shell speaks; empty is bash.
	dialect policy.Dialect
	// close gives back what the level holds; nil if that is nothing.
	close func() error
}

// openBox makes the configured level. A level that cannot be had is an error that
// says why and what to do; it never falls back to another one.
func openBox(ctx context.Context, cfg *config.Config, log *slog.Logger) (*box, error) {
	level, _ := cfg.Level()
	var b *box
	var err error
	switch level {
	case "host":
		b, err = hostBox(cfg)
	default:
		return nil, fmt.Errorf("IRIS_SANDBOX=%s: this build has no such level", cfg.Sandbox)
	}
	if err != nil {
		return nil, fmt.Errorf("IRIS_SANDBOX=%s: %w", cfg.Sandbox, err)
	}
	return b, nil
}

func hostBox(cfg *config.Config) (*box, error) {
	dir := directory(cfg.Workspace)
	h, err := host.New(host.Options{Workspace: cfg.Workspace, Dir: dir})
	if err != nil {
		return nil, err
	}
	return &box{Sandbox: h, dir: dir}, nil
}

// directory is where commands run on the host: the directory Iris was started
// in, as a shell would. A service that was given none starts in /, where nobody
// works.
func directory(workspace string) string {
	if dir, err := os.Getwd(); err == nil && dir != "/" {
		return dir
	}
	return workspace
}

// policyOptions are the operator's additions to the policy.
func policyOptions(cfg *config.Config, home string, dialect policy.Dialect) policy.Options {
	return policy.Options{
		Workspace: cfg.Workspace, Home: home, Dialect: dialect, InstallRoot: cfg.Policy.InstallRoot,
		SecretNames: cfg.Policy.SecretNames, ProtectedPaths: cfg.Policy.ProtectedPaths, ProtectedBranches: cfg.Policy.ProtectedBranches,
		Deny: rules(cfg.Policy.Deny), Confirm: rules(cfg.Policy.Confirm),
	}
}

func rules(list []string) (out []policy.Match) {
	for _, r := range list {
		words, reason := config.Rule(r)
		out = append(out, policy.Match{Words: words, Reason: reason})
	}
	return out
}
