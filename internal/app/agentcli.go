package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/picture"
	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/agentcli/acp"
	"github.com/iris-operator/iris/internal/runner/agentcli/claude"
	"github.com/iris-operator/iris/internal/runner/agentcli/pi"
	"github.com/iris-operator/iris/internal/runner/agentcli/tray"
	"github.com/iris-operator/iris/internal/sandbox/host"
	"github.com/iris-operator/iris/internal/turn"
)

// A cliProgram is an agent program that Iris knows.
type cliProgram struct {
	name, about string
	driver      func(s *server) (agentcli.Driver, error)
}

// cliPrograms lists them in the order in which one becomes the default. The name
// is also that of the program, and of the project that there is without any
// configuration.
func cliPrograms() []cliProgram {
	return []cliProgram{
		{"claude", "Claude Code", func(*server) (agentcli.Driver, error) { return claude.New(claude.Options{}) }},
		{"copilot", "GitHub Copilot", speakACP(acp.Copilot())},
		{"pi", "Pi", func(s *server) (agentcli.Driver, error) {
			// One place for all conversations, so that one can resume what another began.
			return pi.New(pi.Options{Sessions: filepath.Join(s.opts.Config.Workspace, "state", "pi")}), nil
		}},
		{"hermes", "Hermes", speakACP(acp.Hermes())},
		{"gemini", "Gemini CLI", speakACP(acp.Gemini())},
	}
}

// speakACP makes the driver of an agent that speaks the Agent Client Protocol.
func speakACP(preset acp.Preset) func(*server) (agentcli.Driver, error) {
	return func(s *server) (agentcli.Driver, error) {
		return acp.New(acp.Options{
			Preset: preset, Env: agentcli.Environ(s.opts.Environ), Owner: host.Owner(s.opts.Config.Workspace),
			Home: lookup(s.opts.Environ, "HOME"), Version: s.opts.Version, Prepare: func(pid int) { s.cliLimits().Prepare(pid, s.log) },
		})
	}
}

// cliProjects are the projects of this process: one for every program on PATH whose
// name nobody else has. They work in the workspace, and only the operator reaches
// them: through the page, the API and the terminal.
func (s *server) cliProjects(taken []string) (all []agentcli.Project, err error) {
	configured, err := s.configuredProjects(taken)
	if err != nil {
		return nil, err
	}
	for _, p := range configured {
		taken = append(taken, p.Name)
	}
	for _, p := range append(cliPrograms(), s.opts.programs...) {
		path := programPath(s.opts.Environ, p.name)
		if path == "" || slices.Contains(taken, p.name) {
			continue
		}
		one := agentcli.Project{Name: p.name, Agent: p.about, Bin: path, WorkDir: s.opts.Config.Workspace}
		if one.Driver, err = p.driver(s); err != nil {
			return nil, fmt.Errorf("%s: %w", p.about, err)
		}
		one.Readable = s.cliReadable
		all = append(all, one)
	}
	return append(all, configured...), nil
}

// openCLI makes the runners of agent programs.
func (s *server) openCLI(h *house, pictures *picture.Reducer) error {
	cfg := s.opts.Config
	taken := append([]string{nativeRunner}, h.agentNames()...)
	for _, r := range h.rooms.List() {
		taken = append(taken, r.ID)
	}
	projects, err := s.cliProjects(taken)
	if err != nil {
		return err
	}
	judge, err := policy.New(policyOptions(cfg, lookup(s.opts.Environ, "HOME"), policy.Bash))
	if err != nil {
		return err
	}
	box, err := s.openTrays(h)
	if err != nil {
		return err
	}
	opts := agentcli.Options{
		Outbox: box, Dir: filepath.Join(cfg.Workspace, "state", "agentcli"), Projects: projects, Environ: s.opts.Environ,
		Owner: host.Owner(cfg.Workspace), Judge: judge,
		Notice: func(ctx context.Context, conv chat.Address, text string) error {
			return h.engine.Notice(context.WithoutCancel(ctx), conv, text)
		},
		Attach: func(ctx context.Context, req turn.Request) ([]agentcli.Image, []string, error) {
			return s.cliAttach(ctx, h, pictures, req)
		},
		Hidden: cliHidden, Ask: s.cliAsk(h), Audit: s.cliAudit(h), Idle: s.cliIdle(), CommandLabel: cfg.Progress, Limits: s.cliLimits(), Logger: s.log,
	}
	if cfg.Bash.Policy == "off" {
		opts.Judge = nil
	}
	h.cli, err = agentcli.New(opts)
	return err
}

// cliRunners adds the projects to those who answer.
func (h *house) cliRunners(all map[string]runner.Runner) {
	for _, name := range h.cli.Names() {
		all[name] = h.cli.Runner(name)
	}
}

// cliSnapshot lets the operator's own conversations reach the projects, and gives
// them one as the default where there is no model.
func (s *server) cliSnapshot(h *house, a chat.Address, snap *route.Snapshot) {
	snap.Programs = h.cli.Names()
	if a.Space != chat.Web && a.Space != chat.Session {
		return
	}
	if _, _, thread := chat.ThreadOf(a); thread {
		return
	}
	snap.Agents = append(snap.Agents[:len(snap.Agents):len(snap.Agents)], h.cli.Names()...)
	if name := s.cliDefault(h); name != "" {
		snap.Default = name
	}
}

// cliDefault is the project that answers where no model is configured, empty if
// there is a model, or no program.
func (s *server) cliDefault(h *house) string {
	names := h.cli.Names()
	if provider, _ := h.models.chosen(); provider != "" || len(names) == 0 {
		return ""
	}
	return names[0]
}

// thinks names who answers by default, for a person.
func (s *server) thinks(h *house) string {
	if name := s.cliDefault(h); name != "" {
		return h.cli.Runner(name).Project().Agent + " (an agent program on PATH)"
	}
	return h.models.describe()
}

// serveCLI keeps the processes, and ends them when the engine has ended.
func (s *server) serveCLI(ctx context.Context, ready func()) error {
	ready()
	return s.house.cli.Serve(ctx)
}

const (
	// maxCLIImage bounds a picture that goes into a prompt, maxCLIFile what is read
	// to make one.
	maxCLIImage = 3584 << 10
	maxCLIFile  = 64 << 20
)

// cliAttach brings the files of a message to a program: pictures go into the
// prompt, of the others it gets the paths. One that did not arrive is named.
func (s *server) cliAttach(ctx context.Context, h *house, pictures *picture.Reducer, req turn.Request) (images []agentcli.Image, files []string, err error) {
	wait, cancel := context.WithTimeout(ctx, s.opts.Config.Turns.Attachments.Duration())
	defer cancel()
	var others []tray.File
	var missed []string
	for _, f := range req.Message.Files {
		if f.Missing == "" {
			if err := h.awaitFile(wait, f.Local); err != nil {
				f.Missing = err.Error()
			}
		}
		if f.Missing != "" {
			missed = append(missed, f.Original+" did not arrive: "+f.Missing)
			continue
		}
		if img, ok := s.cliImage(ctx, h, pictures, f.Local); ok {
			images = append(images, img)
			continue
		}
		others = append(others, tray.File{Name: f.Original, Open: func() (io.ReadCloser, error) { return h.sessions.OpenFile(f.Local) }})
	}
	files, err = s.place(ctx, h, req, others, missed)
	return images, files, err
}

func (s *server) cliImage(ctx context.Context, h *house, pictures *picture.Reducer, local string) (img agentcli.Image, ok bool) {
	f, err := h.sessions.OpenFile(local)
	if err != nil {
		return img, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxCLIFile+1))
	if err != nil || len(data) > maxCLIFile || !strings.HasPrefix(http.DetectContentType(data), "image/") {
		return img, false
	}
	p, err := pictures.Reduce(ctx, data)
	if err != nil || len(p.Data) > maxCLIImage {
		return img, false
	}
	return agentcli.Image{Mime: p.Mime, Data: p.Data}, true
}

// programPath finds a program as a project does, "" if it is not there.
func programPath(environ []string, name string) string {
	path, err := agentcli.Find(name, lookup(environ, "PATH"))
	if err != nil {
		return ""
	}
	return path
}
