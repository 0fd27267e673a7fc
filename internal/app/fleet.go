package app

import (
	"github.com/iris-operator/iris/internal/api"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/fleet"
)

// fleetOptions says where the agents of a workspace are registered, and which
// names they cannot have because somebody else answers to them.
func fleetOptions(cfg *config.Config) fleet.Options {
	return fleet.Options{Path: cfg.Agents.Registry, Reserved: []string{nativeRunner}}
}

func (s *server) openFleet(h *house) (err error) {
	opts := fleetOptions(s.opts.Config)
	opts.Logger = s.log
	h.fleet, err = fleet.Open(opts)
	return err
}

// agentOf says whose token a request carries.
func (h *house) agentOf(token string) (string, bool) {
	a, ok := h.fleet.ByToken(token)
	return a.Name, ok
}

// agents lists what the outside may know of the agents.
func (h *house) agents() []api.Agent {
	var all []api.Agent
	for _, a := range h.fleet.List() {
		all = append(all, api.Agent{Name: a.Name, Description: a.Description})
	}
	return all
}
