package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/background"
	"github.com/iris-operator/iris/internal/config"
)

// BackgroundOptions say what is to run in the background, and for whom.
type BackgroundOptions struct {
	// Config is what it will run with; only Install needs it. Workspace is the
	// argument of the command line, empty if there was none.
	Config    *config.Config
	Workspace string
	Environ   []string
	Out       io.Writer
}

// backgroundTime bounds what a service manager gets for one word.
const backgroundTime = 2 * time.Minute

func openBackground(opts BackgroundOptions) (*background.Manager, error) {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return nil, fmt.Errorf("find the program that runs: %w", err)
	}
	args := []string{"serve"}
	if opts.Config != nil && opts.Config.File != "" {
		file, err := filepath.Abs(opts.Config.File)
		if err != nil {
			return nil, err
		}
		args = append(args, "--config", file)
	}
	if opts.Workspace != "" {
		args = append(args, "--", opts.Config.Workspace)
	}
	return background.New(background.Options{
		OS: runtime.GOOS, Home: lookup(opts.Environ, "HOME"), Config: lookup(opts.Environ, "XDG_CONFIG_HOME"), UID: os.Getuid(),
		Program: program, Args: args, Path: lookup(opts.Environ, "PATH"),
		Run: func(ctx context.Context, name string, args ...string) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, backgroundTime)
			defer cancel()
			cmd := exec.CommandContext(ctx, name, args...)
			cmd.WaitDelay = time.Second
			out, err := cmd.CombinedOutput()
			return string(out), err
		},
	})
}

// Install has Iris run in the background of this person, from now on and from each
// login.
func Install(ctx context.Context, opts BackgroundOptions) error {
	m, err := openBackground(opts)
	if err != nil {
		return err
	}
	if err := m.Install(ctx); err != nil {
		return err
	}
	fmt.Fprintf(opts.Out, "Iris runs in the background now, as %s says.\n", m.File())
	for _, f := range checkProjects(opts.Config, opts.Environ) {
		if f.bad {
			fmt.Fprintf(opts.Out, "But: %s: %s; %s.\n", f.what, f.result, f.fix)
		}
	}
	if runtime.GOOS == "linux" {
		fmt.Fprintln(opts.Out, "It ends when you log out, unless you allow it to stay: loginctl enable-linger")
	}
	return nil
}

// Uninstall ends that. What Iris has written stays.
func Uninstall(ctx context.Context, opts BackgroundOptions) error {
	m, err := openBackground(opts)
	if err == nil {
		err = m.Uninstall(ctx)
	}
	if err == nil {
		fmt.Fprintln(opts.Out, "Iris does not run in the background any more. The workspace is as it was.")
	}
	return err
}

// Background starts or stops what is installed.
func Background(ctx context.Context, opts BackgroundOptions, start bool) error {
	m, err := openBackground(opts)
	if err != nil {
		return err
	}
	if start {
		return m.Start(ctx)
	}
	return m.Stop(ctx)
}

// BackgroundStatus prints how it is. It returns ErrTold when Iris does not run.
func BackgroundStatus(ctx context.Context, opts BackgroundOptions) error {
	m, err := openBackground(opts)
	if err != nil {
		return err
	}
	text, running, err := m.Status(ctx)
	if errors.Is(err, background.ErrNotInstalled) {
		fmt.Fprintln(opts.Out, err)
		return ErrTold
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(opts.Out, "%s\n%s\n", m.File(), strings.TrimSpace(text))
	if !running {
		return ErrTold
	}
	return nil
}
