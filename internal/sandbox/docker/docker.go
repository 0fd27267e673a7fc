// Package docker is the sandbox of a container that runs already: commands are
// executed in it through the API of its engine, never through the docker program.
// It owns the start check, the mark by which it finds and ends what a command
// started (children that left by setsid included), and the translation of the
// workspace's path to /workspace. It does not create, start or stop containers.
//
// How high the wall is, is up to whoever started the container: New refuses one
// that is privileged or in which the engine's socket can be seen, and one whose
// /workspace is not the workspace. The engine itself is as mighty as root.
package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/dockerapi"
	"github.com/iris-operator/iris/internal/sandbox"
)

// Workspace is where the container must have the workspace.
const Workspace = "/workspace"

// DefaultHost is where an engine listens unless told otherwise.
const DefaultHost = "unix://" + dockerapi.DefaultSocket

// callTime bounds a call of the engine that starts or asks something. Starting a
// process in a container takes a tenth of a second, ten times that on a busy
// machine; an engine that takes longer hangs.
const callTime = 15 * time.Second

// Options are the parts of a Docker.
type Options struct {
	// Container is the name or id of a running container. Required.
	Container string
	// Host is the socket of the engine ("unix:///path"): the workspace is shared
	// with it, so it is on this machine. Empty means DefaultHost.
	Host string
	// Workspace is the workspace as the host calls it. Required, absolute.
	Workspace string
	// Hide are files and directories of the workspace, as the host calls them, that
	// commands must not see. Only whoever starts the container can cover them, so
	// New and Run refuse while one can be seen.
	Hide []string
	// KillDelay and Linger are as on the host. 0 means sandbox.KillDelay and
	// 200 ms.
	KillDelay, Linger time.Duration
	// CallTime bounds a call of the engine. 0 means 15 seconds.
	CallTime time.Duration
}

// A Docker runs commands in one container.
type Docker struct {
	opts   Options
	engine *dockerapi.Client
	shell  []string // the words before a script
	files  sandbox.ShellFiles
	guard  guard
}

var (
	_ sandbox.Sandbox  = (*Docker)(nil)
	_ sandbox.Resolver = (*Docker)(nil)
)

// New connects to the engine and looks at the container. The error says what is
// missing and how to get it. Close gives the connections back.
func New(ctx context.Context, opts Options) (_ *Docker, err error) {
	if opts.Container == "" {
		return nil, errors.New("no container is named")
	}
	if !filepath.IsAbs(opts.Workspace) {
		return nil, fmt.Errorf("workspace %q is not an absolute path", opts.Workspace)
	}
	opts.Workspace = filepath.Clean(opts.Workspace)
	if opts.Host == "" {
		opts.Host = DefaultHost
	}
	if opts.KillDelay <= 0 {
		opts.KillDelay = sandbox.KillDelay
	}
	if opts.Linger <= 0 {
		opts.Linger = 200 * time.Millisecond
	}
	if opts.CallTime <= 0 {
		opts.CallTime = callTime
	}
	engine, err := dockerapi.New(dockerapi.Options{Host: opts.Host})
	if err != nil {
		return nil, fmt.Errorf("the address of the engine in DOCKER_HOST: %w", err)
	}
	d := &Docker{opts: opts, engine: engine}
	d.files = sandbox.ShellFiles{Run: d.Run}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if err := d.inspect(ctx); err != nil {
		return nil, err
	}
	if err := d.lookInside(ctx); err != nil {
		return nil, err
	}
	if err := d.covered(ctx); err != nil {
		return nil, err
	}
	return d, nil
}

// inspect asks the engine about the container.
func (d *Docker) inspect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.opts.CallTime)
	defer cancel()
	if err := d.engine.Do(ctx, http.MethodGet, "/_ping", nil, nil); err != nil {
		return fmt.Errorf("no engine answers at %s: start it, or name it with DOCKER_HOST: %w", d.opts.Host, err)
	}
	var c struct {
		HostConfig *struct{ Privileged bool }
		State      *struct{ Running, Paused bool }
	}
	if err := d.engine.Do(ctx, http.MethodGet, d.path("/json"), nil, &c); err != nil {
		return fmt.Errorf("look for the container %s: %w: %s", d.opts.Container, err, d.advice())
	}
	switch {
	case c.HostConfig == nil || c.State == nil:
		return fmt.Errorf("look for the container %s: the engine does not tell its state", d.opts.Container)
	case c.HostConfig.Privileged:
		return fmt.Errorf("the container %s is privileged, which is no wall: %s", d.opts.Container, d.advice())
	case !c.State.Running:
		return fmt.Errorf("the container %s does not run: docker start %s", d.opts.Container, d.opts.Container)
	case c.State.Paused:
		return fmt.Errorf("the container %s is paused: docker unpause %s", d.opts.Container, d.opts.Container)
	}
	return nil
}

// path is that of a request about the container.
func (d *Docker) path(rest string) string {
	return "/containers/" + url.PathEscape(d.opts.Container) + rest
}

// advice is how to start a container that fits.
func (d *Docker) advice() string {
	return fmt.Sprintf("docker run -d --init --name %s -v %s:%s --tmpfs %s/state <image> sleep infinity", d.opts.Container, d.opts.Workspace, Workspace, Workspace)
}

// lookInside finds out what shell there is, and whether /workspace is what it
// should be.
func (d *Docker) lookInside(ctx context.Context) error {
	d.shell = []string{"sh"}
	probe, err := os.CreateTemp(d.opts.Workspace, ".iris-probe-*")
	if err != nil {
		return fmt.Errorf("workspace: %w", err)
	}
	defer os.Remove(probe.Name())
	if err := probe.Close(); err != nil {
		return err
	}
	var out strings.Builder
	exit, err := d.run(ctx, sandbox.Command{
		Script: `command -v bash >/dev/null && echo bash
[ -e ` + sandbox.Quote(path.Join(Workspace, filepath.Base(probe.Name()))) + ` ] && echo workspace
[ -S /var/run/docker.sock ] || [ -S /run/docker.sock ] && echo socket
[ -r /proc/self/limits ] && echo proc
exit 0`,
		Dir: "/", Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, Stdout: &out, Timeout: d.opts.CallTime,
	})
	if err != nil || exit.Code != 0 {
		return fmt.Errorf("run a first command in %s, which needs env and sh: %w", d.opts.Container, errors.Join(err, exitError(exit)))
	}
	found := strings.Fields(out.String())
	has := map[string]bool{}
	for _, f := range found {
		has[f] = true
	}
	switch {
	case !has["proc"]:
		return fmt.Errorf("the container %s has no /proc, by which commands are found and ended", d.opts.Container)
	case !has["workspace"]:
		return fmt.Errorf("%s in the container %s is not %s: %s", Workspace, d.opts.Container, d.opts.Workspace, d.advice())
	case has["socket"]:
		return fmt.Errorf("the container %s has the socket of the engine, with which a command could do everything: start it without", d.opts.Container)
	}
	if has["bash"] {
		d.shell = []string{"bash", "--noprofile", "--norc"}
	}
	return nil
}

func exitError(exit sandbox.Exit) error {
	if exit.Code == 0 {
		return nil
	}
	return fmt.Errorf("it ended with %d", exit.Code)
}

// Close gives the connections back. Commands that still run go on.
func (d *Docker) Close() error {
	d.engine.Close()
	return nil
}

// Name is "docker:" and the container's name.
func (d *Docker) Name() string { return "docker:" + d.opts.Container }

// Bash reports whether commands run in bash; else they run in sh.
func (d *Docker) Bash() bool { return d.shell[0] == "bash" }

// ReadFile reads as a command would.
func (d *Docker) ReadFile(ctx context.Context, conv chat.Address, name string, offset, limit int64) ([]byte, int64, error) {
	return d.files.ReadFile(ctx, conv, abs(name), offset, limit)
}

// WriteFile writes as a command would.
func (d *Docker) WriteFile(ctx context.Context, conv chat.Address, name string, data []byte) error {
	return d.files.WriteFile(ctx, conv, abs(name), data)
}

// Resolve follows the links of the container.
func (d *Docker) Resolve(ctx context.Context, conv chat.Address, name string) (string, error) {
	return d.files.Resolve(ctx, conv, abs(name))
}

func abs(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(Workspace, name)
}

// Path puts the workspace at /workspace; other paths stay.
func (d *Docker) Path(host string) string {
	if rest, ok := strings.CutPrefix(filepath.Clean(host), d.opts.Workspace); ok && (rest == "" || rest[0] == '/') {
		return Workspace + rest
	}
	return host
}

// Host puts /workspace back.
func (d *Docker) Host(name string) (string, bool) {
	clean := path.Clean(name)
	if rest, ok := strings.CutPrefix(clean, Workspace); ok && (rest == "" || rest[0] == '/') {
		return d.opts.Workspace + rest, true
	}
	return name, false
}

func random() string {
	var b [16]byte
	rand.Read(b[:]) // never fails, see crypto/rand
	return hex.EncodeToString(b[:])
}
