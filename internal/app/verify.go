package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/sandbox/escape"
)

// VerifyOptions says which level to try.
type VerifyOptions struct {
	Config  *config.Config
	Out     io.Writer
	Environ []string
}

// SandboxVerify tries to get out of the configured level and prints what came of
// each attempt. When a wall that the level promises does not stand, or the level
// cannot be had, the error says so; it is ErrTold when the table has told already.
func SandboxVerify(ctx context.Context, opts VerifyOptions) error {
	cfg := *opts.Config
	if _, err := os.Stat(cfg.Workspace); errors.Is(err, os.ErrNotExist) {
		ws, err := os.MkdirTemp("", "iris-verify-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(ws)
		fmt.Fprintf(opts.Out, "The workspace %s is not there yet; an empty one takes its place.\n", cfg.Workspace)
		cfg.Workspace = ws
	}
	b, err := openBox(ctx, &cfg, opts.Environ, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if b.close != nil {
		defer b.close()
	}
	results, err := b.tryOut(ctx, &cfg, opts.Environ, false)
	if err != nil {
		return err
	}
	return tell(opts.Out, cfg.Sandbox, results)
}

// tell prints the table.
func tell(out io.Writer, level string, results []escape.Result) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "PROBE\tATTEMPT\tWANTED\tSEEN\tOK\n")
	var missing, broken []string
	for _, r := range results {
		wanted, seen, ok := "no", "no", "ok"
		if r.Open {
			seen = "YES"
		}
		if r.Seen != "" {
			seen += ": " + r.Seen
		}
		switch {
		case r.Bad():
			ok = "FAIL"
			broken = append(broken, r.Name)
		case !r.Promised:
			wanted = "not walled"
			if r.Open {
				ok = "-"
				missing = append(missing, r.Name)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.Name, r.What, wanted, seen, ok)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(missing) > 0 {
		fmt.Fprintf(out, "\n%s has no wall against: %s.\n", level, strings.Join(missing, ", "))
	}
	if len(broken) > 0 {
		fmt.Fprintf(out, "\n%s is broken: %d of %d probes got through a wall it promises (%s).\n", level, len(broken), len(results), strings.Join(broken, ", "))
		return ErrTold
	}
	fmt.Fprintf(out, "\nEvery wall that %s promises stands.\n", level)
	return nil
}

// onHost are the walls that even the host has.
func onHost(wall string) bool {
	return wall == escape.Survivor || wall == escape.Environment || wall == escape.Terminal || wall == escape.Descriptors
}

// tryOut runs the probes in a level.
func (b *box) tryOut(ctx context.Context, cfg *config.Config, environ []string, quick bool) ([]escape.Result, error) {
	home := lookup(environ, "HOME")
	if info, err := os.Stat(home); err != nil || !info.IsDir() || probeWrite(home) != nil {
		home = os.TempDir()
	}
	promised := b.promised
	if promised == nil {
		promised = onHost
	}
	return escape.Run(ctx, escape.Options{
		Sandbox: b.Sandbox, Workspace: cfg.Workspace, Home: home, Quick: quick, Promised: promised,
		Processes: cfg.Isolation.Processes, FileMiB: cfg.Isolation.FileMiB,
	})
}

// openProven makes the configured level and refuses it when a first look shows
// that a wall it promises does not stand.
func openProven(ctx context.Context, cfg *config.Config, environ []string, log *slog.Logger) (*box, error) {
	b, err := openBox(ctx, cfg, environ, log)
	if err != nil || b.promised == nil {
		return b, err
	}
	if err := b.prove(ctx, cfg, environ); err != nil {
		if b.close != nil {
			err = errors.Join(err, b.close())
		}
		return nil, err
	}
	log.Info("commands run in a sandbox", "level", cfg.Sandbox)
	return b, nil
}

func (b *box) prove(ctx context.Context, cfg *config.Config, environ []string) error {
	results, err := b.tryOut(ctx, cfg, environ, true)
	if err != nil {
		return fmt.Errorf("IRIS_SANDBOX=%s cannot be proven: %w", cfg.Sandbox, err)
	}
	var broken []string
	for _, r := range results {
		if r.Bad() {
			broken = append(broken, strings.TrimSuffix(r.Name+" ("+r.Seen, " (")+")")
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("IRIS_SANDBOX=%s does not hold: %s; see iris sandbox verify, or choose another level", cfg.Sandbox, strings.Join(broken, ", "))
	}
	return nil
}

// examineSandbox says where commands run, and whether that can be had.
func examineSandbox(ctx context.Context, opts DoctorOptions) finding {
	cfg := *opts.Config
	f := finding{what: "sandbox", result: cfg.Sandbox}
	if level, _ := cfg.Level(); level == "host" {
		f.result = "host: no wall, commands can do what this user can"
		return f
	}
	if _, err := os.Stat(cfg.Workspace); err != nil {
		f.result += " (not tried: there is no workspace yet)"
		return f
	}
	b, err := openProven(ctx, &cfg, opts.Environ, slog.New(slog.DiscardHandler))
	if err != nil {
		f.result, f.bad, f.fix = err.Error(), true, "see docs/operations.md, Sandboxes"
		return f
	}
	if b.close != nil {
		_ = b.close() // nothing depends on it any more
	}
	f.result += ": a first look found no way out; iris sandbox verify tries all"
	return f
}
