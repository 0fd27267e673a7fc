package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/fleet"
	"github.com/iris-operator/iris/internal/fleet/health"
	"github.com/iris-operator/iris/internal/fleet/spawn"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/skill"
)

// SpawnOptions say what agent is wanted.
type SpawnOptions struct {
	Name, Purpose string
	// Mode is service or docker. Empty: what the registry says of an agent that
	// exists, else service.
	Mode string
	// Skills are names of skills that are copied to it; their secrets are added
	// to its allow-list.
	Skills []string
	// SelfHeal lets it escalate: it learns where its parent is, and gets a place
	// for escalations while the parent is down.
	SelfHeal bool
	// Provider and Model; empty: the parent's.
	Provider, Model string
	// Constitution gives it the parent's whole constitution instead of a page.
	Constitution bool
	// Secrets is how it gets its keys: "env" hands it the model's key, "store"
	// nothing but its own token and where to ask. Empty: env.
	Secrets string
	// Base is the first port to try. 0: fleet.BasePort.
	Base int
	// Wait is how long it may take to answer. 0: 30 s.
	Wait time.Duration
}

const spawnWait = 30 * time.Second

// providerKeys are the variables that hold the key of a provider.
var providerKeys = map[string][]string{
	"anthropic": {"ANTHROPIC_API_KEY"}, "openai": {"OPENAI_API_KEY"}, "azure-foundry": {"AZURE_FOUNDRY_KEY"},
	"deepseek": {"DEEPSEEK_API_KEY"}, "mistral": {"MISTRAL_API_KEY"}, "custom": {"CUSTOM_API_KEY"},
	"amazon-bedrock": {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"},
}

// SpawnAgent makes an agent: its home, its place in the registry, its service or
// container; then it waits until the agent answers. Spawning an agent that is
// there brings it up to date and keeps its port, its token and its memory.
func SpawnAgent(ctx context.Context, opts Options, so SpawnOptions) error {
	reg, err := registry(opts)
	if err != nil {
		return err
	}
	if so.Mode == "" {
		so.Mode = serviceMode
		if a, ok := reg.Get(so.Name); ok && a.Mode != "" {
			so.Mode = a.Mode
		}
	}
	d, closeDriver, err := driver(opts, so.Mode)
	if err != nil {
		return err
	}
	defer closeDriver()
	s := spawner{opts: opts, so: so, registry: reg, driver: d}
	return s.run(ctx)
}

// spawner is one run of SpawnAgent.
type spawner struct {
	opts     Options
	so       SpawnOptions
	registry *fleet.Registry
	driver   spawn.Driver
}

func (s *spawner) say(format string, args ...any) {
	fmt.Fprintf(s.opts.Out, format+"\n", args...)
}

func (s *spawner) run(ctx context.Context) error {
	so := s.so
	if err := fleet.CheckName(so.Name); err != nil {
		return err
	}
	if strings.TrimSpace(so.Purpose) == "" {
		return errors.New("an agent needs a purpose: what is it for?")
	}
	if so.Secrets != "" && so.Secrets != "env" && so.Secrets != "store" {
		return fmt.Errorf("--secrets is env or store, not %q", so.Secrets)
	}
	skills, err := s.skills()
	if err != nil {
		return err
	}
	env, keys, err := s.variables()
	if err != nil {
		return err
	}
	home := filepath.Join(s.opts.Config.Agents.Dir, so.Name)
	seed := spawn.Seed{Name: so.Name, Purpose: so.Purpose, Models: s.models(env["IRIS_PROVIDER"])}
	var allow []string
	for _, k := range skills {
		seed.Skills = append(seed.Skills, k.Dir)
		allow = append(allow, k.Secrets...)
	}
	if so.Secrets == "store" {
		for _, v := range providerKeys[env["IRIS_PROVIDER"]] {
			allow = append(allow, strings.ReplaceAll(v, "_", "-"))
		}
	}
	if constitution := filepath.Join(s.opts.Config.Workspace, "CONSTITUTION.md"); so.Constitution {
		seed.Constitution = constitution
	}
	if err := s.makeParent(home); err != nil {
		return err
	}
	if err := spawn.Scaffold(home, seed); err != nil {
		return err
	}
	s.say("home       %s", home)
	s.commit(ctx)
	a, isNew, err := s.reserve(allow)
	if err != nil {
		return err
	}
	s.say("registered @%s at %s, secrets: %s", a.Name, a.BridgeURL, orNone(strings.Join(a.Secrets, ", ")))
	// One token: the agent's own API and bridge take it, and it is what the agent
	// proves itself with here.
	keys["IRIS_API_TOKEN"], keys["IRIS_BRIDGE_TOKEN"] = a.Token, a.Token
	if so.SelfHeal || so.Secrets == "store" {
		env["IRIS_API_URL"] = serverURL(s.opts.Config.API.Host, s.opts.Config.API.Port)
		keys["IRIS_SECRET_BROKER_TOKEN"] = a.Token
	}
	if so.Secrets == "store" {
		env["IRIS_SECRET_BROKER_URL"] = env["IRIS_API_URL"]
	}
	spec := spawn.Spec{Name: a.Name, Purpose: so.Purpose, Home: home, Bridge: a.Port(), SelfHeal: so.SelfHeal, Env: env, Secrets: keys}
	if err := s.driver.Create(ctx, spec); err != nil {
		if isNew {
			if _, undo := s.registry.Remove(a.Name); undo != nil {
				err = errors.Join(err, undo)
			}
		}
		return fmt.Errorf("create %s: %w", a.Name, err)
	}
	return s.verify(ctx, a)
}

// makeParent makes the directory of all homes enterable: each home has a wall of
// its own.
func (s *spawner) makeParent(home string) error {
	dir := filepath.Dir(home)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755)
}

// skills finds the skills that were asked for: in the workspace, then in the
// repository.
func (s *spawner) skills() ([]skill.Skill, error) {
	if len(s.so.Skills) == 0 {
		return nil, nil
	}
	found := map[string]skill.Skill{}
	for _, root := range []string{s.opts.Config.Agents.Repo, s.opts.Config.Workspace} {
		if root == "" {
			continue
		}
		lib, err := skill.New(skill.Options{Workspace: root, SessionHidden: []string{}})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all, err := lib.Skills(chat.Address{})
		if err = errors.Join(err, lib.Close()); err != nil {
			return nil, err
		}
		for _, k := range all {
			found[k.Name] = k
		}
	}
	var out []skill.Skill
	for _, name := range s.so.Skills {
		k, ok := found[name]
		if !ok {
			return nil, fmt.Errorf("there is no skill %q in %s/skills", name, s.opts.Config.Workspace)
		}
		out = append(out, k)
	}
	return out, nil
}

// variables are the plain variables of the agent, and the secret ones: which
// model it has, and the model's key.
func (s *spawner) variables() (env map[string]string, keys map[string]secret.Value, err error) {
	cfg := s.opts.Config
	vault, err := openSecrets(cfg, newRedactor(cfg), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, err
	}
	defer vault.close()
	provider, model := s.so.Provider, s.so.Model
	if provider == "" {
		provider = cfg.Model.Provider
		if model == "" {
			model = cfg.Model.Name
		}
	}
	if provider == "" {
		for _, p := range []string{"anthropic", "openai"} {
			if _, ok := vault.lookup(providerKeys[p][0]); ok {
				provider = p
				break
			}
		}
	}
	env, keys = map[string]string{}, map[string]secret.Value{}
	if provider != "" {
		env["IRIS_PROVIDER"] = provider
	}
	if model != "" {
		env["IRIS_MODEL"] = model
	}
	if s.so.Secrets == "store" {
		return env, keys, nil
	}
	for _, name := range providerKeys[provider] {
		v, ok := vault.lookup(name)
		if !ok {
			s.say("warning: %s is not set; @%s cannot reach %s until it is", name, s.so.Name, provider)
			continue
		}
		keys[name] = v
	}
	return env, keys, nil
}

// reserve registers the agent: the port, the token and the entry under one lock.
// The allow-list grows and never shrinks here.
func (s *spawner) reserve(allow []string) (a fleet.Agent, isNew bool, err error) {
	old, exists := s.registry.Get(s.so.Name)
	token := old.Token
	if token.IsZero() {
		token = newToken()
	}
	allow = append(slices.Clone(old.Secrets), allow...)
	slices.Sort(allow)
	a, err = s.registry.Reserve(fleet.Agent{
		Name: s.so.Name, Description: s.so.Purpose, Secrets: slices.Compact(allow), Token: token, Mode: s.so.Mode,
	}, s.so.Base, freePort)
	return a, !exists, err
}

// freePort reports whether nobody listens at a port of the loopback.
func freePort(port int) bool {
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

// verify waits until the agent answers on its API, which is above its bridge.
func (s *spawner) verify(ctx context.Context, a fleet.Agent) error {
	wait := s.so.Wait
	if wait == 0 {
		wait = spawnWait
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	client := health.NewClient()
	defer client.CloseIdleConnections()
	err := health.WaitFor(ctx, client, a)
	st, stErr := s.driver.Status(context.WithoutCancel(ctx), a.Name)
	if err != nil {
		return fmt.Errorf("@%s is registered and does not answer within %v (%s): %w; see iris agent logs %s", a.Name, wait, st.Detail, errors.Join(err, stErr), a.Name)
	}
	s.say("answers    %s", health.URL(a))
	s.say("Ask it: @%s …", a.Name)
	return nil
}

// commit puts a seed of the agent into the repository, where there is one, and
// pushes it where there is a token. Neither keeps the agent from being made.
func (s *spawner) commit(ctx context.Context) {
	repo := s.opts.Config.Agents.Repo
	if repo == "" {
		return
	}
	if err := s.seedRepo(ctx, repo); err != nil {
		s.say("warning: %v", err)
	}
}

func (s *spawner) seedRepo(ctx context.Context, repo string) error {
	root, err := os.OpenRoot(repo)
	if err != nil {
		return fmt.Errorf("the repository: %w", err)
	}
	defer root.Close()
	dir := filepath.Join("agents", s.so.Name)
	if _, err := root.Stat(filepath.Join(dir, "MEMORY.md")); err == nil {
		return nil
	}
	if err := root.MkdirAll(filepath.Join(dir, "skills"), 0o755); err != nil {
		return err
	}
	for name, text := range map[string][]byte{"MEMORY.md": spawn.Memory(s.so.Name, s.so.Purpose), "README.md": spawn.Readme(s.so.Name, s.so.Purpose), "skills/.gitkeep": nil} {
		if err := root.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	vault, err := openSecrets(s.opts.Config, newRedactor(s.opts.Config), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer vault.close()
	token, ok := vault.lookup("GITHUB_TOKEN")
	if !ok {
		s.say("repository %s: not committed, there is no GITHUB_TOKEN", filepath.Join(repo, dir))
		return nil
	}
	for _, args := range [][]string{
		{"add", "--", dir},
		{"commit", "-q", "-m", "agents: scaffold " + s.so.Name, "--", dir},
		{"-c", "credential.helper=", "-c", `credential.helper=!f() { echo username=x-access-token; echo "password=$GITHUB_TOKEN"; }; f`, "push", "-q"},
	} {
		cmd := exec.CommandContext(ctx, "git", append([]string{"-C", repo}, args...)...)
		cmd.Env = append(os.Environ(), "GITHUB_TOKEN="+token.Reveal(), "GIT_TERMINAL_PROMPT=0")
		cmd.WaitDelay = 5 * time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("git %s in %s: %w: %s", args[len(args)-1], repo, err, strings.TrimSpace(string(out)))
		}
	}
	s.say("repository %s: committed and pushed", filepath.Join(repo, dir))
	return nil
}

// models is what the agent gets of models.json: the entry of its own provider.
// The others may hold keys that are not for it.
func (s *spawner) models(provider string) []byte {
	text, err := os.ReadFile(filepath.Join(s.opts.Config.Workspace, "models.json"))
	if err != nil {
		return nil
	}
	text, err = onlyProvider(text, provider)
	if err != nil {
		slog.New(slog.NewTextHandler(s.opts.Err, nil)).Warn("models.json is not given to the agent", "err", err)
		return nil
	}
	return text
}
