package app

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/agentcli/acp"
)

// configuredProjects are those of the configuration. Agents, rooms and projects
// have their names from one pool; taken are those that are gone. A program that is
// not there is no error here: its project says so to whoever asks it.
func (s *server) configuredProjects(taken []string) (all []agentcli.Project, err error) {
	programs := append(cliPrograms(), cliProgram{"acp", "", speakACP(acp.Preset{})})
	for _, p := range s.opts.Config.Projects {
		if slices.ContainsFunc(taken, func(name string) bool { return strings.EqualFold(name, p.Name) }) {
			return nil, fmt.Errorf("project %s: an agent, a room or Iris herself has this name; give the project another", p.Name)
		}
		i := slices.IndexFunc(programs, func(c cliProgram) bool { return c.name == p.Agent })
		if i < 0 {
			return nil, fmt.Errorf("project %s: agent %q is not part of this build", p.Name, p.Agent)
		}
		one := agentcli.Project{
			Name: p.Name, Agent: programs[i].about, Bin: p.Bin, WorkDir: p.WorkDir, Mode: agentcli.Mode(p.Mode),
			Model: p.Model, Args: p.Args, PassEnv: p.PassEnv, Readable: s.cliReadable,
		}
		if one.Driver, err = programs[i].driver(s); err != nil {
			return nil, fmt.Errorf("project %s: %w", p.Name, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// cliLimits bounds agent programs and the commands that Iris runs for them.
func (s *server) cliLimits() agentcli.Limits {
	return agentcli.Limits{Memory: uint64(s.opts.Config.MemoryMiB) << 20, Processes: uint64(s.opts.Config.Processes)} //nolint:gosec // checked
}

// cliIdle is how long a program without work is kept.
func (s *server) cliIdle() time.Duration {
	if s.opts.Config.IdleTTL == 0 {
		return -1
	}
	return time.Duration(s.opts.Config.IdleTTL) * time.Minute
}

// chatProjects are the projects as routing knows them, in their order.
func (s *server) chatProjects() (all []route.Project) {
	for _, p := range s.opts.Config.Projects {
		all = append(all, route.Project{Name: p.Name, Channels: p.AllowChannels, Users: p.AllowUsers})
	}
	return all
}

// openProjects has channels that a project lists be used by it, where
// meta/channels.json says nothing else.
func (s *server) openProjects(h *house) {
	h.channels.projects = s.chatProjects()
}

// projectSnapshot adds the projects that a chat may reach, and the one that it has
// been with.
func (s *server) projectSnapshot(h *house, a chat.Address, snap *route.Snapshot) {
	if a.Space != chat.Slack && a.Space != chat.Telegram {
		return
	}
	snap.Projects = s.chatProjects()
	for _, p := range snap.Projects {
		if st, err := h.cli.Runner(p.Name).Status(a); err == nil && st.Session != "" {
			snap.Talks = p.Name
			return
		}
	}
}

// projectOf is the name of a runner that is a project, else empty.
func (s *server) projectOf(name string) string {
	for _, p := range s.opts.Config.Projects {
		if p.Name == name {
			return name
		}
	}
	return ""
}
