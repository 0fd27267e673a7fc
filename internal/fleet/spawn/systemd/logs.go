package systemd

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/iris-operator/iris/internal/fleet/spawn"
)

// Logs implements spawn.Driver: tail(1) of the file that the unit appends to.
func (d *Driver) Logs(ctx context.Context, name string, w io.Writer, opts spawn.LogOptions) error {
	if err := d.known(name); err != nil {
		return err
	}
	file, err := d.logFile(name)
	if err != nil {
		return err
	}
	lines := opts.Lines
	if lines <= 0 {
		lines = 100
	}
	args := []string{"-n", strconv.Itoa(lines)}
	if opts.Follow {
		args = append(args, "-F")
	}
	cmd := exec.CommandContext(ctx, "tail", append(args, "--", file)...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.WaitDelay = waitDelay
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// logFile reads where the unit writes to.
func (d *Driver) logFile(name string) (string, error) {
	text, err := os.ReadFile(d.unitPath(name))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "StandardOutput=append:"); ok {
			return strings.ReplaceAll(path, "%%", "%"), nil
		}
	}
	return "", errors.New("the unit of " + name + " writes no log")
}
