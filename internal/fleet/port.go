package fleet

import (
	"fmt"
	"net/url"
	"strconv"
)

// BasePort is where the search for a bridge's port begins.
const BasePort = 4200

// APIOffset is how far an agent's API is above its bridge.
const APIOffset = 100

const maxPort = 65535

// NextPort returns the first port from base on at which a new agent's bridge and,
// [APIOffset] above it, its API are clear of every agent's. It holds no lock
// after it returns: use Reserve to have the port as well. base 0: BasePort.
func (r *Registry) NextPort(base int) (int, error) { return nextPort(r.List(), base, nil) }

func nextPort(all []Agent, base int, free func(port int) bool) (int, error) {
	if base == 0 {
		base = BasePort
	}
	if base < 1 || base > maxPort {
		return 0, fmt.Errorf("%d is not a port", base)
	}
	used := map[int]bool{}
	for _, a := range all {
		if port, err := portOf(a.BridgeURL); err == nil {
			used[port], used[port+APIOffset] = true, true
		}
	}
	clear := func(port int) bool { return !used[port] && (free == nil || free(port)) }
	for port := base; port+APIOffset <= maxPort; port++ {
		if clear(port) && clear(port+APIOffset) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port from %d on", base)
}

// portOf returns the port of a bridge's URL.
func portOf(bridge string) (int, error) {
	u, err := url.Parse(bridge)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return 0, fmt.Errorf("%q is not the http(s) URL of a bridge", bridge)
	}
	switch {
	case u.Port() != "":
		port, err := strconv.Atoi(u.Port())
		if err != nil || port < 1 || port > maxPort {
			return 0, fmt.Errorf("%q has no valid port", bridge)
		}
		return port, nil
	case u.Scheme == "https":
		return 443, nil
	}
	return 80, nil
}

// Port returns the port of the agent's bridge, 0 if it has none.
func (a Agent) Port() int {
	port, err := portOf(a.BridgeURL)
	if err != nil {
		return 0
	}
	return port
}
