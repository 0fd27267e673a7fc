package app

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/iris-operator/iris/internal/dockerapi"
	"github.com/iris-operator/iris/internal/fleet"
	"github.com/iris-operator/iris/internal/fleet/spawn"
	"github.com/iris-operator/iris/internal/fleet/spawn/docker"
	"github.com/iris-operator/iris/internal/fleet/spawn/systemd"
)

// The ways an agent can live. They are the words of --mode and of the registry.
const (
	serviceMode = "service"
	dockerMode  = "docker"
)

// containerUser runs the agents in containers when root spawns them: nobody on
// the machine, and the user of images without a shell.
const containerUser = 65532

// driver makes the driver of a mode. close gives back what it holds.
func driver(opts Options, mode string) (d spawn.Driver, close func(), err error) {
	switch mode {
	case serviceMode:
		d, err = serviceDriver(opts)
		return d, func() {}, err
	case dockerMode:
		engine, err := dockerapi.New(dockerapi.Options{Host: lookup(opts.Environ, "DOCKER_HOST")})
		if err != nil {
			return nil, nil, err
		}
		secrets, err := credentialsDir(opts)
		if err != nil {
			return nil, nil, err
		}
		uid, gid := os.Geteuid(), os.Getegid()
		if uid == 0 {
			uid, gid = containerUser, containerUser
		}
		d, err := docker.New(docker.Options{Engine: engine, Credentials: secrets, UID: uid, GID: gid, Parent: parentUser(opts)})
		return d, engine.Close, err
	}
	return nil, nil, fmt.Errorf("there is no mode %q; use service or docker", mode)
}

// driverOf is the driver of an agent that is there. A service of the system is
// looked after through the system's manager, also by an Iris that is not root:
// she may ask how it is, and is told if she may not do more.
func driverOf(opts Options, a fleet.Agent) (d spawn.Driver, close func(), err error) {
	if a.Mode != serviceMode || os.Geteuid() == 0 {
		return driver(opts, a.Mode)
	}
	if _, err := os.Stat(filepath.Join("/etc/systemd/system", systemd.Unit(a.Name))); err != nil {
		return driver(opts, a.Mode)
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	d, err = systemd.New(systemd.Options{Binary: binary})
	return d, func() {}, err
}

// serviceDriver runs services of the system as root, of the user else.
func serviceDriver(opts Options) (spawn.Driver, error) {
	if _, err := exec.LookPath("systemctl"); err != nil {
		return nil, errors.New("there is no systemd here; use --mode docker, or start the agent yourself and register it (agents/README.md)")
	}
	binary, err := os.Executable()
	if err == nil {
		binary, err = filepath.EvalSymlinks(binary)
	}
	if err != nil {
		return nil, err
	}
	so := systemd.Options{Binary: binary}
	if os.Geteuid() == 0 {
		so.Dedicated, so.Parent = true, parentUser(opts)
		so.Hidden = hidden(opts)
		return systemd.New(so)
	}
	so.User = true
	home := lookup(opts.Environ, "HOME")
	config := lookup(opts.Environ, "XDG_CONFIG_HOME")
	if config == "" {
		config = filepath.Join(home, ".config")
	}
	so.Units = filepath.Join(config, "systemd", "user")
	if so.Credentials, err = credentialsDir(opts); err != nil {
		return nil, err
	}
	return systemd.New(so)
}

// credentialsDir is where the agents' secrets lie, outside of every workspace.
func credentialsDir(opts Options) (string, error) {
	if os.Geteuid() == 0 {
		return "/etc/iris/agents", nil
	}
	path, err := tokenPath(opts.Environ)
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(path), "agents"), nil
}

// hidden are the parent's files that no agent needs to see. They are protected
// by their owner already; this is the second lock.
func hidden(opts Options) []string {
	out := []string{"/iris/.env", "/iris/secret.key", "/iris/secrets.json.enc", "/etc/iris"}
	if ws := opts.Config.Workspace; !within(opts.Config.Agents.Dir, ws) {
		out = append(out, ws)
	}
	return out
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// parentUser is who owns the workspace, which is who Iris runs as.
func parentUser(opts Options) int {
	if info, err := os.Stat(opts.Config.Workspace); err == nil {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			return int(st.Uid)
		}
	}
	return os.Geteuid()
}
