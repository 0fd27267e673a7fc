package app

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/iris-operator/iris/internal/api"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/fleet"
	"github.com/iris-operator/iris/internal/fleet/health"
	"github.com/iris-operator/iris/internal/runner/facilitator"
)

// fleetOptions says where the agents of a workspace are registered, and which
// names they cannot have because somebody else answers to them.
func fleetOptions(cfg *config.Config) fleet.Options {
	reserved := []string{nativeRunner}
	for _, p := range cfg.Projects {
		reserved = append(reserved, p.Name)
	}
	return fleet.Options{
		Path: cfg.Agents.Registry, Reserved: reserved,
		Others: func() ([]string, error) { return facilitator.Names(roomsDir(cfg)) },
	}
}

// roomsDir is where the rooms of a workspace are.
func roomsDir(cfg *config.Config) string { return filepath.Join(cfg.Workspace, "state", "rooms") }

func (s *server) openFleet(h *house) (err error) {
	opts := fleetOptions(s.opts.Config)
	opts.Logger = s.log
	if h.fleet, err = fleet.Open(opts); err != nil {
		return err
	}
	h.monitor, err = health.New(health.Options{
		Agents: h.fleet.List,
		Tell:   func(ctx context.Context, text string) { h.desk.Tell(ctx, text) },
		Unit:   s.unitOf, Restart: s.restartAgent, Logger: s.log,
	})
	return err
}

// serveFleet asks the agents how they are.
func (s *server) serveFleet(ctx context.Context, ready func()) error {
	ready()
	return s.house.monitor.Serve(ctx)
}

// unitOf asks who runs an agent. Of one that was not spawned nothing is known.
func (s *server) unitOf(ctx context.Context, a fleet.Agent) (health.Unit, error) {
	return unitOf(ctx, s.opts, a)
}

func unitOf(ctx context.Context, opts Options, a fleet.Agent) (health.Unit, error) {
	if a.Mode == "" {
		return health.Unit{}, nil
	}
	d, done, err := driverOf(opts, a)
	if err != nil {
		return health.Unit{}, err
	}
	defer done()
	st, err := d.Status(ctx, a.Name)
	if err != nil {
		return health.Unit{}, err
	}
	return health.Unit{State: string(st.State), Detail: st.Detail, Restarts: st.Restarts, Memory: st.Memory}, nil
}

// restartAgent starts an agent again that hangs. It needs the rights of who
// spawned it; without them a person is told.
func (s *server) restartAgent(ctx context.Context, a fleet.Agent) error {
	if a.Mode == "" {
		return fmt.Errorf("it was not spawned here; whoever runs it must start it")
	}
	d, done, err := driverOf(s.opts, a)
	if err != nil {
		return err
	}
	defer done()
	return d.Restart(ctx, a.Name)
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
		one := api.Agent{Name: a.Name, Description: a.Description}
		if v, ok := h.monitor.View(a.Name); ok {
			one.Health = v
		}
		all = append(all, one)
	}
	return all
}
