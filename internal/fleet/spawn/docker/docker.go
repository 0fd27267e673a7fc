// Package docker runs agents as containers: iris-<name> from an image that holds
// the binary, on a network of its own, with its bridge and its API published on
// the host's loopback. It owns the container and the directory of its secrets.
// The agent's home stays when the agent is removed.
//
// Secrets are files that are mounted where the binary looks for credentials, so
// that inspecting the container does not show them. Who may speak to the engine
// is root on the machine; that is Docker's rule and not ours to change.
package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/iris-operator/iris/internal/dockerapi"
	"github.com/iris-operator/iris/internal/fleet"
	"github.com/iris-operator/iris/internal/fleet/spawn"
)

// Names that other programs look for.
const (
	DefaultImage = "iris-runtime:local"
	Network      = "iris-internal"
	// HostName is what the container calls the machine it runs on.
	HostName = "iris-host"
)

// label marks the containers that are ours.
const label = "iris.agent"

// Options are what New needs.
type Options struct {
	// Engine is required. The driver does not close it.
	Engine *dockerapi.Client
	// Image is what agents run from. Empty: DefaultImage.
	Image string
	// Credentials is the directory of the agents' secrets. Required.
	Credentials string
	// UID and GID own the workspaces and run the agents. As root they must not
	// be 0; who is not root gives his own.
	UID, GID int
	// Parent is the number of the user that Iris runs as.
	Parent int
}

// Driver makes containers. It is safe for concurrent use.
type Driver struct{ opts Options }

var _ spawn.Driver = (*Driver)(nil)

// New checks the options. It does not connect.
func New(opts Options) (*Driver, error) {
	switch {
	case opts.Engine == nil:
		return nil, errors.New("docker: Engine is required")
	case !filepath.IsAbs(opts.Credentials):
		return nil, errors.New("docker: Credentials must be an absolute path")
	case opts.UID <= 0 || opts.GID <= 0:
		return nil, errors.New("docker: an agent does not run as root, in a container neither")
	}
	if opts.Image == "" {
		opts.Image = DefaultImage
	}
	return &Driver{opts}, nil
}

// Container is the name of an agent's container.
func Container(name string) string { return "iris-" + name }

// path is a path of the engine below an agent's container.
func path(name, rest string) string { return "/containers/" + url.PathEscape(Container(name)) + rest }

// Create implements spawn.Driver. A container that is there already is replaced.
func (d *Driver) Create(ctx context.Context, s spawn.Spec) error {
	if err := s.Check(); err != nil {
		return err
	}
	if err := d.Remove(ctx, s.Name); err != nil {
		return err
	}
	if err := d.prepare(ctx, s); err != nil {
		return err
	}
	err := d.opts.Engine.Do(ctx, "POST", "/containers/create?name="+url.QueryEscape(Container(s.Name)), d.container(s), nil)
	switch {
	case dockerapi.Is(err, http.StatusNotFound):
		return fmt.Errorf("there is no image %s; make it with iris image build: %w", d.opts.Image, err)
	case dockerapi.Is(err, http.StatusConflict):
		return fmt.Errorf("a container called %s is there already and is no agent: %w", Container(s.Name), err)
	case err != nil:
		return err
	}
	return d.opts.Engine.Do(ctx, "POST", path(s.Name, "/start"), nil, nil)
}

// prepare makes what the container needs outside of it.
func (d *Driver) prepare(ctx context.Context, s spawn.Spec) error {
	if os.Geteuid() == 0 {
		if err := spawn.Give(s.Home, d.opts.UID, d.opts.GID, d.opts.Parent); err != nil {
			return err
		}
	}
	if err := d.writeSecrets(s); err != nil {
		return err
	}
	err := d.opts.Engine.Do(ctx, "GET", "/networks/"+Network, nil, nil)
	if !dockerapi.Is(err, http.StatusNotFound) {
		return err
	}
	err = d.opts.Engine.Do(ctx, "POST", "/networks/create", map[string]any{"Name": Network, "Driver": "bridge"}, nil)
	if dockerapi.Is(err, http.StatusConflict) { // somebody else made it just now
		return nil
	}
	return err
}

func (d *Driver) secrets(name string) string { return filepath.Join(d.opts.Credentials, name) }

// writeSecrets makes the directory hold exactly the spec's secrets.
func (d *Driver) writeSecrets(s spawn.Spec) error {
	dir := d.secrets(s.Name)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, v := range s.Secrets {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(v.Reveal()), 0o400); err != nil {
			return err
		}
		if err := d.own(file); err != nil {
			return err
		}
	}
	return d.own(dir)
}

func (d *Driver) own(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, d.opts.UID, d.opts.GID)
}

// ours returns the container of an agent, or ErrUnknown. One that is called so
// and is not ours is unknown as well.
func (d *Driver) ours(ctx context.Context, name string) (inspected, error) {
	if err := fleet.CheckName(name); err != nil {
		return inspected{}, err
	}
	var c inspected
	err := d.opts.Engine.Do(ctx, "GET", path(name, "/json"), nil, &c)
	if dockerapi.Is(err, http.StatusNotFound) || err == nil && c.Config.Labels[label] != name {
		return c, fmt.Errorf("%s: %w", name, spawn.ErrUnknown)
	}
	return c, err
}

// inspected is what is read of a container.
type inspected struct {
	RestartCount int
	Config       struct{ Labels map[string]string }
	State        struct {
		Status, Error string
		ExitCode      int
		OOMKilled     bool
		StartedAt     time.Time
		FinishedAt    time.Time
	}
}

// stopGrace is what an agent gets to end its turns, in seconds.
const stopGrace = 40

// Stop implements spawn.Driver.
func (d *Driver) Stop(ctx context.Context, name string) error { return d.act(ctx, name, "stop") }

// Restart implements spawn.Driver.
func (d *Driver) Restart(ctx context.Context, name string) error { return d.act(ctx, name, "restart") }

func (d *Driver) act(ctx context.Context, name, verb string) error {
	if _, err := d.ours(ctx, name); err != nil {
		return err
	}
	return d.opts.Engine.Do(ctx, "POST", path(name, "/"+verb+"?t="+strconv.Itoa(stopGrace)), nil, nil)
}

// Remove implements spawn.Driver.
func (d *Driver) Remove(ctx context.Context, name string) error {
	_, err := d.ours(ctx, name)
	if errors.Is(err, spawn.ErrUnknown) {
		return os.RemoveAll(d.secrets(name))
	}
	if err != nil {
		return err
	}
	if err := d.opts.Engine.Do(ctx, "POST", path(name, "/stop?t="+strconv.Itoa(stopGrace)), nil, nil); err != nil {
		return err
	}
	if err := d.opts.Engine.Do(ctx, "DELETE", path(name, "?force=1&v=1"), nil, nil); err != nil && !dockerapi.Is(err, http.StatusNotFound) {
		return err
	}
	return os.RemoveAll(d.secrets(name))
}

// Status implements spawn.Driver.
func (d *Driver) Status(ctx context.Context, name string) (spawn.Status, error) {
	c, err := d.ours(ctx, name)
	if errors.Is(err, spawn.ErrUnknown) {
		return spawn.Status{State: spawn.Missing}, nil
	}
	if err != nil {
		return spawn.Status{}, err
	}
	st := spawn.Status{Restarts: c.RestartCount, Since: c.State.StartedAt, Detail: c.State.Status}
	switch c.State.Status {
	case "running", "paused":
		st.State = spawn.Running
		st.Memory, err = d.memory(ctx, name)
	case "restarting":
		st.State = spawn.Waiting
	case "created":
		st.State = spawn.Stopped
	case "exited":
		st.State, st.Since = spawn.Stopped, c.State.FinishedAt
	default:
		st.State, st.Since = spawn.Failed, c.State.FinishedAt
	}
	if c.State.Error != "" {
		st.Detail += ": " + c.State.Error
	}
	if c.State.OOMKilled {
		st.Detail += ": out of memory"
	}
	return st, err
}

func (d *Driver) memory(ctx context.Context, name string) (int64, error) {
	var stats struct {
		Memory struct {
			Usage int64 `json:"usage"`
		} `json:"memory_stats"`
	}
	err := d.opts.Engine.Do(ctx, "GET", path(name, "/stats?stream=false&one-shot=true"), nil, &stats)
	return stats.Memory.Usage, err
}

// Logs implements spawn.Driver.
func (d *Driver) Logs(ctx context.Context, name string, w io.Writer, opts spawn.LogOptions) error {
	if _, err := d.ours(ctx, name); err != nil {
		return err
	}
	lines := opts.Lines
	if lines <= 0 {
		lines = 100
	}
	q := url.Values{"stdout": {"1"}, "stderr": {"1"}, "tail": {strconv.Itoa(lines)}}
	if opts.Follow {
		q.Set("follow", "1")
	}
	body, err := d.opts.Engine.Stream(ctx, "GET", path(name, "/logs?"+q.Encode()), "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	err = dockerapi.Demux(body, w, w)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
