package app

import (
	"context"
	"net"
	"path/filepath"
	"time"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/lifetime"
	"github.com/iris-operator/iris/internal/runner/native"
	"github.com/iris-operator/iris/internal/runner/subagent"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/tool/agent"
	"github.com/iris-operator/iris/internal/transport/bridge"
)

// openAgents makes the client for the agents of the registry.
func (s *server) openAgents(h *house) (err error) {
	cfg := s.opts.Config.Bridge
	h.subagents, err = subagent.New(subagent.Options{
		Find: func(name string) (subagent.Target, bool) {
			a, ok := h.fleet.Get(name)
			if !ok || a.BridgeURL == "" {
				return subagent.Target{}, false
			}
			t := subagent.Target{URL: a.BridgeURL, Token: a.Token}
			if t.Token.IsZero() {
				t.Token = cfg.Token
			}
			return t, true
		},
		Timeout: noneIfZero(cfg.Max), Idle: noneIfZero(cfg.Idle), Poll: cfg.Poll.Duration(), Gap: noneIfZero(cfg.Throttle),
		Logger: s.log,
	})
	return err
}

// noneIfZero is a limit for options in which zero means the default.
func noneIfZero(l config.Limit) time.Duration {
	if l == 0 {
		return -1
	}
	return l.Duration()
}

// askAgent is the tool with which the model asks the agents.
func (s *server) askAgent(h *house, outputs *tool.Outputs) ([]tool.Tool, error) {
	ask, err := agent.New(agent.Options{
		Ask: func(ctx context.Context, q agent.Question, progress func(string)) (string, error) {
			return h.subagents.Ask(ctx, q.Agent, subagent.Question{Key: q.Key, User: q.User, Text: q.Text}, progress)
		},
		Names: h.agentNames, Fit: outputs.Fit,
	})
	if err != nil {
		return nil, err
	}
	return s.secrets.veil.Tools([]tool.Tool{ask}), nil
}

// moreTools are the tools that are offered while there is use for them: agents
// come and go.
func (h *house) moreTools(context.Context, chat.Address) []tool.Tool {
	if len(h.agentNames()) == 0 {
		return nil
	}
	return h.asking
}

// agentNames are the names that "@name" may call.
func (h *house) agentNames() []string {
	var names []string
	for _, a := range h.fleet.List() {
		if a.BridgeURL != "" {
			names = append(names, a.Name)
		}
	}
	return names
}

// runnerNames are all who may answer a session.
func (h *house) runnerNames() []string {
	names := append([]string{nativeRunner}, h.agentNames()...)
	for _, r := range h.rooms.List() {
		names = append(names, r.ID)
	}
	return append(names, h.cli.Names()...)
}

// agentInfos is what the prompt says of the agents.
func (h *house) agentInfos() []native.AgentInfo {
	var all []native.AgentInfo
	for _, a := range h.fleet.List() {
		if a.BridgeURL != "" {
			all = append(all, native.AgentInfo{Name: a.Name, Description: a.Description, URL: a.BridgeURL})
		}
	}
	return all
}

// openBridge makes the door for other Irises. It keeps jobs also when it does not
// listen: the port may have been taken away under open ones.
func (s *server) openBridge(h *house) (err error) {
	cfg := s.opts.Config.Bridge
	opts := bridge.Options{
		Inbox: h.engine, Journal: h.journal, Dir: filepath.Join(s.opts.Config.Workspace, "bridge-jobs"),
		Tokens: s.bridgeTokens(),
		Limits: wire.Limits{Idle: cfg.Idle.Duration(), Max: cfg.Max.Duration()}, Plain: cfg.Plain.Duration(),
		Heartbeat: cfg.Heartbeat.Duration(), Retention: cfg.Retention.Duration(), Sweep: h.sessions.Sweep, Logger: s.log,
	}
	if s.bridgeDoor != nil {
		opts.Listen = func(context.Context) (net.Listener, error) { return s.bridgeDoor, nil }
	}
	h.bridge, err = bridge.New(opts)
	return err
}

// listenBridge opens the port at once: whoever connects while the server starts
// waits for it instead of being refused.
func (s *server) listenBridge(ctx context.Context) (err error) {
	if cfg := s.opts.Config.Bridge; cfg.Port != 0 {
		s.bridgeDoor, err = listen(ctx, cfg.Host, cfg.Port, "IRIS_BRIDGE_PORT")
	}
	return err
}

func (s *server) closeBridge() {
	if s.bridgeDoor != nil {
		_ = s.bridgeDoor.Close() // it is closed already if the bridge was served
	}
}

// bridgeTokens are what callers may show, once a token is configured: it, and
// what this Iris proves herself with, which who registered her knows.
func (s *server) bridgeTokens() []secret.Value {
	cfg := s.opts.Config
	if cfg.Bridge.Token.IsZero() {
		return nil
	}
	tokens := []secret.Value{cfg.Bridge.Token}
	if own, ok := cfg.Lookup("IRIS_SECRET_BROKER_TOKEN"); ok {
		tokens = append(tokens, own)
	}
	return tokens
}

// bridgePart starts before the engine, which ends some of the turns that were
// open, and outlasts it.
func (s *server) bridgePart() lifetime.Part {
	return lifetime.Part{
		Name:  "bridge",
		Serve: func(ctx context.Context, ready func()) error { return s.house.bridge.Serve(ctx, ready) },
		Check: func() error { return s.house.bridge.Ready() },
	}
}

// outside lists the listeners' hosts that reach beyond this machine, by setting.
func (s *server) outside() map[string]string {
	cfg := s.opts.Config
	hosts := map[string]string{"IRIS_API_HOST": cfg.API.Host, "IRIS_WEBUI_HOST": cfg.Web.Host}
	if cfg.Bridge.Port != 0 {
		hosts["IRIS_BRIDGE_HOST"] = cfg.Bridge.Host
	}
	for what, host := range hosts {
		if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
			delete(hosts, what)
		}
	}
	return hosts
}
