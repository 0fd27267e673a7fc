// Package systemd runs agents as services: a unit iris-agent-<name>.service for
// each, started again when it ends and at boot. It owns the unit, the directory
// of the service's credentials and, as root, a user of the agent's own. The
// agent's home and its log in it stay when the agent is removed.
//
// Keys and tokens are credentials (LoadCredential=): files that only root can
// read, which systemd hands to that one service. They are never in the unit,
// which everybody may read.
package systemd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/fleet"
	"github.com/iris-operator/iris/internal/fleet/spawn"
)

// Options are what New needs.
type Options struct {
	// Binary is the absolute path of iris. Required.
	Binary string
	// User runs the services under the user's own service manager. It is meant
	// for who is not root; the agent then has no user of its own and the wall
	// between it and its parent is thin.
	User bool
	// Units is the directory of unit files, Credentials that of the agents'
	// secrets. Empty: /etc/systemd/system and /etc/iris/agents; both are
	// required with User.
	Units, Credentials string
	// Systemctl and Sysusers are programs. Empty: those on PATH.
	Systemctl, Sysusers string
	// Dedicated gives each agent a user of its own. It needs root.
	Dedicated bool
	// Parent is the number of the user that Iris runs as. With Dedicated it may
	// read what agents leave in their events/.
	Parent int
	// Hidden are paths of the parent that agents must not see: its .env, its
	// keys.
	Hidden []string
}

// Driver makes services. It holds nothing and need not be closed.
type Driver struct{ opts Options }

var _ spawn.Driver = (*Driver)(nil)

// New checks the options. It touches nothing.
func New(opts Options) (*Driver, error) {
	if !filepath.IsAbs(opts.Binary) {
		return nil, fmt.Errorf("systemd: the path of the binary %q is not absolute", opts.Binary)
	}
	if opts.User && (opts.Units == "" || opts.Credentials == "") {
		return nil, errors.New("systemd: User needs Units and Credentials")
	}
	if opts.User && opts.Dedicated {
		return nil, errors.New("systemd: a user's service manager cannot give agents users of their own")
	}
	def(&opts.Units, "/etc/systemd/system")
	def(&opts.Credentials, "/etc/iris/agents")
	def(&opts.Systemctl, "systemctl")
	def(&opts.Sysusers, "systemd-sysusers")
	return &Driver{opts}, nil
}

func def(v *string, d string) {
	if *v == "" {
		*v = d
	}
}

// Unit is the name of an agent's unit.
func Unit(name string) string { return "iris-agent-" + name + ".service" }

func (d *Driver) unitPath(name string) string { return filepath.Join(d.opts.Units, Unit(name)) }

func (d *Driver) credentials(name string) string { return filepath.Join(d.opts.Credentials, name) }

// known says whether there is a unit of this name, and refuses what cannot be a
// name before it becomes a path.
func (d *Driver) known(name string) error {
	if err := fleet.CheckName(name); err != nil {
		return err
	}
	if _, err := os.Lstat(d.unitPath(name)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", name, spawn.ErrUnknown)
	} else if err != nil {
		return err
	}
	return nil
}

// Create implements spawn.Driver.
func (d *Driver) Create(ctx context.Context, s spawn.Spec) error {
	if err := s.Check(); err != nil {
		return err
	}
	account := ""
	if d.opts.Dedicated {
		account = accountOf(s.Name)
	}
	text, err := d.text(s, account)
	if err != nil {
		return err
	}
	if account != "" {
		if err := d.dedicate(ctx, account, s); err != nil {
			return err
		}
	}
	if err := d.writeCredentials(s); err != nil {
		return err
	}
	if err := os.MkdirAll(d.opts.Units, 0o755); err != nil {
		return err
	}
	if err := durable.Replace(d.unitPath(s.Name), text, durable.Exactly(0o644)); err != nil {
		return err
	}
	if err := d.systemctl(ctx, "daemon-reload"); err != nil {
		return err
	}
	if err := d.systemctl(ctx, "enable", Unit(s.Name)); err != nil {
		return err
	}
	return d.systemctl(ctx, "restart", Unit(s.Name))
}

// dedicate makes the agent's user and gives it the home.
func (d *Driver) dedicate(ctx context.Context, account string, s spawn.Spec) error {
	line := fmt.Sprintf("u %s - %q %s", account, "Iris agent "+s.Name, s.Home)
	if err := run(ctx, d.opts.Sysusers, "--inline", line); err != nil {
		return err
	}
	u, err := user.Lookup(account)
	if err != nil {
		return err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return err
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return err
	}
	if err := spawn.Give(s.Home, uid, gid, d.opts.Parent); err != nil {
		return err
	}
	// Made here, so that it is not made for everybody to read.
	f, err := os.OpenFile(s.LogFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// writeCredentials makes the directory hold exactly the spec's secrets.
func (d *Driver) writeCredentials(s spawn.Spec) error {
	dir := d.credentials(s.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, ok := s.Secrets[e.Name()]; !ok {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	for name, v := range s.Secrets {
		if err := durable.Replace(filepath.Join(dir, name), []byte(v.Reveal()), durable.Exactly(0o600)); err != nil {
			return err
		}
	}
	return nil
}

// Stop implements spawn.Driver.
func (d *Driver) Stop(ctx context.Context, name string) error {
	if err := d.known(name); err != nil {
		return err
	}
	return d.systemctl(ctx, "disable", "--now", Unit(name))
}

// Restart implements spawn.Driver.
func (d *Driver) Restart(ctx context.Context, name string) error {
	if err := d.known(name); err != nil {
		return err
	}
	if err := d.systemctl(ctx, "enable", Unit(name)); err != nil {
		return err
	}
	return d.systemctl(ctx, "restart", Unit(name))
}

// Remove implements spawn.Driver. The agent's user stays for as long as there
// are files of its own: a number that is given away again would own them.
func (d *Driver) Remove(ctx context.Context, name string) error {
	err := d.known(name)
	if errors.Is(err, spawn.ErrUnknown) {
		return os.RemoveAll(d.credentials(name))
	}
	if err != nil {
		return err
	}
	if err := d.systemctl(ctx, "disable", "--now", Unit(name)); err != nil {
		return err
	}
	if err := os.Remove(d.unitPath(name)); err != nil {
		return err
	}
	if err := os.RemoveAll(d.credentials(name)); err != nil {
		return err
	}
	return d.systemctl(ctx, "daemon-reload")
}

// states translates systemd's words.
var states = map[string]spawn.State{
	"active": spawn.Running, "reloading": spawn.Running, "activating": spawn.Waiting,
	"deactivating": spawn.Stopped, "inactive": spawn.Stopped, "failed": spawn.Failed,
}

// Status implements spawn.Driver.
func (d *Driver) Status(ctx context.Context, name string) (spawn.Status, error) {
	err := d.known(name)
	if errors.Is(err, spawn.ErrUnknown) {
		return spawn.Status{State: spawn.Missing}, nil
	}
	if err != nil {
		return spawn.Status{}, err
	}
	out, err := d.output(ctx, "show", "--timestamp=unix", "--property=ActiveState,SubState,NRestarts,MemoryCurrent,StateChangeTimestamp", Unit(name))
	if err != nil {
		return spawn.Status{}, err
	}
	return parseShow(out), nil
}

// parseShow reads the answer of systemctl show.
func parseShow(text []byte) spawn.Status {
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			fields[k] = v
		}
	}
	st := spawn.Status{State: states[fields["ActiveState"]], Detail: fields["ActiveState"] + " (" + fields["SubState"] + ")"}
	if st.State == "" {
		st.State = spawn.Failed
	}
	st.Restarts, _ = strconv.Atoi(fields["NRestarts"])
	if n, err := strconv.ParseUint(fields["MemoryCurrent"], 10, 63); err == nil { // "[not set]" and the largest number mean unknown
		st.Memory = int64(n)
	}
	if n, err := strconv.ParseInt(strings.TrimPrefix(fields["StateChangeTimestamp"], "@"), 10, 64); err == nil && n > 0 {
		st.Since = time.Unix(n, 0)
	}
	return st
}

func (d *Driver) systemctl(ctx context.Context, args ...string) error {
	_, err := d.output(ctx, args...)
	return err
}

func (d *Driver) output(ctx context.Context, args ...string) ([]byte, error) {
	if d.opts.User {
		args = slices.Insert(args, 0, "--user")
	}
	return output(ctx, d.opts.Systemctl, args...)
}

func run(ctx context.Context, program string, args ...string) error {
	_, err := output(ctx, program, args...)
	return err
}

// waitDelay is what a program gets to end when the caller gives up.
const waitDelay = 5 * time.Second

func output(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	cmd.WaitDelay = waitDelay
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", filepath.Base(program), strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out, nil
}
