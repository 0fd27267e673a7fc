package docker

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/iris-operator/iris/internal/fleet"
	"github.com/iris-operator/iris/internal/fleet/spawn"
)

// Where things are in the container.
const (
	workspace   = "/workspace"
	credentials = "/run/credentials/iris"
)

// maxProcesses bounds what an agent can start at once.
const maxProcesses = 512

// container is the body of the request that makes an agent's container.
func (d *Driver) container(s spawn.Spec) map[string]any {
	ports := map[string]any{}
	exposed := map[string]any{}
	for _, port := range []int{s.Bridge, s.Bridge + fleet.APIOffset} {
		key := strconv.Itoa(port) + "/tcp"
		exposed[key] = map[string]any{}
		ports[key] = []map[string]string{{"HostIp": "127.0.0.1", "HostPort": strconv.Itoa(port)}}
	}
	return map[string]any{
		"Image":        d.opts.Image,
		"User":         fmt.Sprintf("%d:%d", d.opts.UID, d.opts.GID),
		"WorkingDir":   workspace,
		"Cmd":          []string{"serve", "--sandbox=host", workspace},
		"Env":          d.environ(s),
		"Labels":       map[string]string{label: s.Name},
		"ExposedPorts": exposed,
		"StopTimeout":  stopGrace,
		"HostConfig": map[string]any{
			"Mounts":         d.mounts(s),
			"PortBindings":   ports,
			"RestartPolicy":  map[string]any{"Name": "unless-stopped"},
			"NetworkMode":    Network,
			"ExtraHosts":     []string{HostName + ":host-gateway"},
			"CapDrop":        []string{"ALL"},
			"SecurityOpt":    []string{"no-new-privileges"},
			"ReadonlyRootfs": true,
			"Tmpfs":          map[string]string{"/tmp": "mode=1777"},
			"PidsLimit":      maxProcesses,
			"Init":           true,
			"LogConfig":      map[string]any{"Type": "json-file", "Config": map[string]string{"max-size": "10m", "max-file": "3"}},
		},
	}
}

// environ lists the container's variables. The chat tokens are set and empty
// always: whatever an image, an env file or a .env in the workspace says, the
// container's own settings win.
func (d *Driver) environ(s spawn.Spec) []string {
	vars := s.Environ()
	set := func(name, value string) {
		vars = slices.DeleteFunc(vars, func(v spawn.Variable) bool { return v.Name == name })
		vars = append(vars, spawn.Variable{Name: name, Value: value})
	}
	// Published ports lead to the container's own address, not to its loopback.
	set("IRIS_BRIDGE_HOST", "0.0.0.0")
	set("IRIS_API_HOST", "0.0.0.0")
	set("HOME", workspace)
	set("CREDENTIALS_DIRECTORY", credentials)
	for _, name := range spawn.ChatTokens {
		set(name, "")
	}
	out := make([]string, len(vars))
	for i, v := range vars {
		if v.Name == "IRIS_API_URL" || v.Name == "IRIS_SECRET_BROKER_URL" {
			v.Value = fromInside(v.Value)
		}
		out[i] = v.Name + "=" + v.Value
	}
	return out
}

// fromInside turns a URL on the host's loopback into one the container reaches.
func fromInside(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	switch u.Hostname() {
	case "127.0.0.1", "localhost", "::1":
		u.Host = HostName + ":" + u.Port()
		return u.String()
	}
	return text
}

// mounts are the workspace, the secrets, and the place for escalations.
func (d *Driver) mounts(s spawn.Spec) []map[string]any {
	out := []map[string]any{
		bind(s.Data(), workspace, false),
		bind(d.secrets(s.Name), credentials, true),
	}
	if s.SelfHeal {
		out = append(out, bind(s.Events(), s.Events(), false))
	}
	return out
}

func bind(from, to string, readOnly bool) map[string]any {
	return map[string]any{"Type": "bind", "Source": from, "Target": to, "ReadOnly": readOnly}
}
