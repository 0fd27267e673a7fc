// Package firecracker is the sandbox of a microVM: commands and files go to the
// exec-server inside (package guest). [Static] is one machine that somebody else
// keeps; [Pool] boots one per conversation and throws it away.
//
// Nothing of the host is shared with a guest. Its workspace is /workspace, which
// is its own: the paths of the host's workspace are translated, the files are
// not there. The file tools move their bytes through the exec-server, so what
// they write and what a command writes is the same file. A Pool brings in the
// files that Options.Share names, in one direction; what is written in its
// machines ends with them.
package firecracker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/sandbox"
	"github.com/iris-operator/iris/internal/sandbox/firecracker/guest"
	"github.com/iris-operator/iris/internal/secret"
)

// Workspace is what a guest calls the workspace.
const Workspace = "/workspace"

// healthTime is what a static machine has to show that it is up.
const healthTime = 5 * time.Second

// Options are the parts of a Static.
type Options struct {
	// Workspace is the host's. Required, absolute.
	Workspace string
	// IP is the guest's address. Required. Port 0 means 8080.
	IP   string
	Port int
	// Inside is what the guest calls the workspace. Empty means Workspace of
	// the package.
	Inside string
	// Token is what the exec-server asks for; empty if nothing.
	Token secret.Value
}

// A Static is the sandbox of one microVM that runs already.
type Static struct {
	paths
	name   string
	client *guest.Client
}

var (
	_ sandbox.Sandbox  = (*Static)(nil)
	_ sandbox.Resolver = (*Static)(nil)
)

// New checks the options; Verify asks the machine.
func New(opts Options) (*Static, error) {
	if net.ParseIP(opts.IP) == nil {
		return nil, fmt.Errorf("firecracker:%s: %q is not an IP address", opts.IP, opts.IP)
	}
	if opts.Port == 0 {
		opts.Port = 8080
	}
	if opts.Port < 0 || opts.Port > 65535 {
		return nil, fmt.Errorf("firecracker:%s: %d is not a port", opts.IP, opts.Port)
	}
	p, err := newPaths(opts.Workspace, opts.Inside)
	if err != nil {
		return nil, err
	}
	return &Static{paths: p, name: "firecracker:" + opts.IP,
		client: guest.NewClient(guest.ClientOptions{Addr: net.JoinHostPort(opts.IP, fmt.Sprint(opts.Port)), Token: opts.Token})}, nil
}

// Verify asks the machine whether it is up, for up to 5 s. Iris refuses to start
// where it is not.
func (s *Static) Verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	if err := s.client.Health(ctx); err != nil {
		return fmt.Errorf("%s is not up: %w", s.name, err)
	}
	return nil
}

// Close drops idle connections. The machine runs on.
func (s *Static) Close() { s.client.Close() }

// Name is "firecracker:" and the address.
func (s *Static) Name() string { return s.name }

// Run runs the command in the machine.
func (s *Static) Run(ctx context.Context, cmd sandbox.Command) (sandbox.Exit, error) {
	return s.client.Run(ctx, cmd)
}

// ReadFile reads a file of the machine.
func (s *Static) ReadFile(ctx context.Context, _ chat.Address, path string, offset, limit int64) ([]byte, int64, error) {
	return s.client.ReadFile(ctx, path, offset, limit)
}

// WriteFile writes a file of the machine.
func (s *Static) WriteFile(ctx context.Context, _ chat.Address, path string, data []byte) error {
	return s.client.WriteFile(ctx, path, data)
}

// Resolve follows links inside the machine.
func (s *Static) Resolve(ctx context.Context, _ chat.Address, path string) (string, error) {
	return s.client.Resolve(ctx, path)
}

// paths translates between the host's workspace and the guest's.
type paths struct{ host, inside string }

func newPaths(host, inside string) (paths, error) {
	if inside == "" {
		inside = Workspace
	}
	if !filepath.IsAbs(host) {
		return paths{}, fmt.Errorf("workspace %q is not an absolute path", host)
	}
	if !path.IsAbs(inside) {
		return paths{}, errors.New("the guest's workspace is not an absolute path")
	}
	return paths{host: filepath.Clean(host), inside: path.Clean(inside)}, nil
}

// Path translates a path of the host's workspace; others stay as they are.
func (p paths) Path(host string) string {
	clean := filepath.Clean(host)
	if rest, ok := below(p.host, clean); ok {
		return path.Join(p.inside, rest)
	}
	return host
}

// Host translates back, and reports false for what is not in the workspace.
func (p paths) Host(there string) (string, bool) {
	if rest, ok := below(p.inside, path.Clean(there)); ok && path.IsAbs(there) {
		return filepath.Join(p.host, rest), true
	}
	return there, false
}

func below(dir, p string) (rest string, ok bool) {
	if p == dir {
		return "", true
	}
	if dir == "/" {
		return p, path.IsAbs(p)
	}
	return strings.CutPrefix(p, dir+"/")
}
