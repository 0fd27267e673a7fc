package app

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/sandbox/bwrap"
	"github.com/iris-operator/iris/internal/sandbox/docker"
	"github.com/iris-operator/iris/internal/sandbox/escape"
	"github.com/iris-operator/iris/internal/sandbox/host"
)

// box is where commands run.
type box struct {
	sandbox.Sandbox
	// dir is where commands start, as the sandbox calls it.
	dir string
	// dialect is the language its shell speaks; empty is bash.
	dialect policy.Dialect
	// promised names the walls that the level claims; nil means none.
	promised func(wall string) bool
	// door is the socket at which Iris answers commands that have no network, and
	// inside what they call it; empty if there is none.
	door, inside string
	// close gives back what the level holds; nil if that is nothing.
	close func() error
	// serve does what the level has to do all the time, until its context ends;
	// nil if that is nothing.
	serve func(context.Context) error
	// cleared is told of a conversation whose context was cleared; nil if the
	// level keeps nothing per conversation.
	cleared func(chat.Address)
	// environ makes the environment of commands out of that of the host; nil
	// leaves it as it is.
	environ func([]string) []string
}

// openBox makes the configured level. A level that cannot be had is an error that
// says why and what to do; it never falls back to another one.
func openBox(ctx context.Context, cfg *config.Config, environ []string, log *slog.Logger) (*box, error) {
	level, _ := cfg.Level()
	var b *box
	var err error
	switch level {
	case "host":
		b, err = hostBox(cfg)
	case "bwrap":
		b, err = bwrapBox(ctx, cfg, environ)
	case "docker":
		b, err = dockerBox(ctx, cfg, environ)
	case "firecracker":
		b, err = microVMBox(ctx, cfg)
	case "firecracker-pool":
		b, err = poolBox(cfg, log)
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

func bwrapBox(ctx context.Context, cfg *config.Config, environ []string) (*box, error) {
	is := cfg.Isolation
	network := is.Network == "host"
	door, inside := "", ""
	if !network {
		door, inside = filepath.Join(cfg.Workspace, "state", doorName), bwrap.SocketPath
	}
	read := slices.Clone(is.Read)
	if self, err := os.Executable(); err == nil {
		read = append(read, self) // get-secret and its like
	}
	b, err := bwrap.New(ctx, bwrap.Options{
		Workspace: cfg.Workspace, Home: lookup(environ, "HOME"), Network: network, Read: read, Socket: door,
		Hide: secretPlaces(cfg, environ), ReadOnly: []string{cfg.Bash.AuditFile},
		Processes: is.Processes, Memory: is.MemoryMiB << 20, File: is.FileMiB << 20, Tmp: is.TmpMiB << 20, KeepFree: is.DiskMiB << 20,
	})
	if err != nil {
		return nil, err
	}
	return &box{Sandbox: b, dir: cfg.Workspace, door: door, inside: inside, close: b.Close, promised: func(wall string) bool {
		return !network || wall != escape.Loopback && wall != escape.Metadata && wall != escape.Abstract
	}}, nil
}

// dockerBox promises what the check of the container has seen and what engines do
// by default. Limits, the network and set-user-id programs are up to whoever
// started the container.
func dockerBox(ctx context.Context, cfg *config.Config, environ []string) (*box, error) {
	_, name := cfg.Level()
	d, err := docker.New(ctx, docker.Options{Container: name, Host: lookup(environ, "DOCKER_HOST"), Workspace: cfg.Workspace, Hide: secretPlaces(cfg, environ)})
	if err != nil {
		return nil, err
	}
	dialect := policy.Posix
	if d.Bash() {
		dialect = policy.Bash
	}
	open := []string{escape.ForkBomb, escape.DiskFill, escape.OwnMemory, escape.Metadata, escape.Privileges}
	return &box{Sandbox: d, dir: docker.Workspace, dialect: dialect, close: d.Close,
		promised: func(wall string) bool { return !slices.Contains(open, wall) }}, nil
}

// secretPlaces are the files and directories of this machine that commands in a
// sandbox must not see, wherever the workspace and readable paths lie.
func secretPlaces(cfg *config.Config, environ []string) []string {
	home := lookup(environ, "HOME")
	places := []string{filepath.Join(home, ".config", "iris"), filepath.Join(home, ".iris-slack"), filepath.Join(home, ".ssh"), filepath.Join(home, ".aws"), filepath.Join(home, ".gnupg")}
	if token, err := tokenPath(environ); err == nil {
		places = append(places, filepath.Dir(token))
	}
	if cfg.File != "" {
		places = append(places, cfg.File)
	}
	for _, name := range append([]string{".env", "secret.key", "secrets.json.enc", "agents.json", config.FileName}, cfg.Policy.SecretNames...) {
		places = append(places, filepath.Join(cfg.Workspace, name))
	}
	return places
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
	var keys []string
	for _, f := range []string{cfg.Secrets.KeyFile, cfg.Secrets.StoreFile, cfg.Agents.Registry} {
		if filepath.IsAbs(f) {
			keys = append(keys, f)
		}
	}
	protected := slices.Clone(cfg.Policy.ProtectedPaths)
	if filepath.IsAbs(cfg.Bash.AuditFile) {
		protected = append(protected, cfg.Bash.AuditFile)
	}
	return policy.Options{
		Keys:      keys,
		Workspace: cfg.Workspace, Home: home, Dialect: dialect, InstallRoot: cfg.Policy.InstallRoot,
		SecretNames: cfg.Policy.SecretNames, ProtectedPaths: protected, ProtectedBranches: cfg.Policy.ProtectedBranches,
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
