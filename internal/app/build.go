package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"

	"github.com/iris-operator/iris/internal/api"
	"github.com/iris-operator/iris/internal/approval"
	"github.com/iris-operator/iris/internal/approval/audit"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/fleet"
	"github.com/iris-operator/iris/internal/fleet/health"
	"github.com/iris-operator/iris/internal/journal"
	journalfile "github.com/iris-operator/iris/internal/journal/file"
	"github.com/iris-operator/iris/internal/lease"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/observe"
	"github.com/iris-operator/iris/internal/picture"
	"github.com/iris-operator/iris/internal/policy"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/runner/native"
	"github.com/iris-operator/iris/internal/schedule"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/skill"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/tool/bash"
	"github.com/iris-operator/iris/internal/tool/file"
	"github.com/iris-operator/iris/internal/transport/web"
	"github.com/iris-operator/iris/internal/turn"
)

// nativeRunner is the name of Iris's own runner.
const nativeRunner = "native"

// stores is what lies on disk.
type stores struct {
	journal   *journalfile.Journal
	sessions  *session.Store
	audit     *audit.Log
	approvals *approval.Book
	skills    *skill.Library
	models    *models
	box       *box
	fleet     *fleet.Registry
	monitor   *health.Monitor
}

// prepare makes a directory a workspace of this version.
func prepare(_ context.Context, root string, log *slog.Logger) error {
	return session.Prepare(session.PrepareOptions{Root: root, Logger: log})
}

// build makes everything that lives in the workspace, from the ground up.
func (s *server) build(ctx context.Context, keeper lease.Keeper) (_ *house, err error) {
	h := &house{keeper: keeper}
	defer func() {
		if err != nil {
			h.close(s.log)
		}
	}()
	if err := s.openStores(ctx, h); err != nil {
		return nil, err
	}
	tokens := api.NewTokens()
	h.tokens = tokens
	pictures := picture.NewReducer(0)
	skills, err := skill.New(skill.Options{Workspace: s.opts.Config.Workspace, Logger: s.log})
	if err != nil {
		return nil, err
	}
	h.skills = skills
	if h.box, err = openProven(ctx, s.opts.Config, s.opts.Environ, s.log); err != nil {
		return nil, err
	}
	if err := s.openAgents(h); err != nil {
		return nil, err
	}
	tools, err := s.tools(h, tokens, skills, pictures)
	if err != nil {
		return nil, err
	}
	if h.native, err = s.native(h, tools, skills, pictures); err != nil {
		return nil, err
	}
	if err := s.openRooms(h); err != nil {
		return nil, err
	}
	if err := s.openCLI(h, pictures); err != nil {
		return nil, err
	}
	h.channels = newChannels(filepath.Join(s.opts.Config.Workspace, "meta", "channels.json"), s.log)
	s.openProjects(h)
	runners, err := s.relays(h)
	if err != nil {
		return nil, err
	}
	runners[nativeRunner] = h.native
	h.cliRunners(runners)
	if h.engine, err = s.engine(h, runners); err != nil {
		return nil, err
	}
	if err := s.openBridge(h); err != nil {
		return nil, err
	}
	if err := s.openDesk(h); err != nil {
		return nil, err
	}
	if err := s.openPosts(h); err != nil {
		return nil, err
	}
	return h, s.ways(h, tokens)
}

// close gives back what build opened.
func (h *house) close(log *slog.Logger) {
	errs := []error{h.posts.close()}
	if h.cli != nil {
		h.cli.Close()
	}
	if h.models != nil {
		h.models.close()
	}
	if h.box != nil && h.box.close != nil {
		errs = append(errs, h.box.close())
	}
	if h.subagents != nil {
		h.subagents.Close()
	}
	if h.rooms != nil {
		errs = append(errs, h.rooms.Close())
	}
	if h.native != nil {
		errs = append(errs, h.native.Close())
	}
	if h.skills != nil {
		errs = append(errs, h.skills.Close())
	}
	if h.sessions != nil {
		errs = append(errs, h.sessions.SyncAll(context.Background()), h.sessions.Close())
	}
	if h.journal != nil {
		errs = append(errs, h.journal.Close())
	}
	if err := errors.Join(errs...); err != nil {
		log.Error("close the workspace", "err", err)
	}
}

// wayOut says what can be done about a damaged journal.
func wayOut(err error) error {
	if !errors.Is(err, journal.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w; nothing was changed. Bring back a good copy of state/journal, or move that directory away: a new one is begun, and what was said stays in each log.jsonl", err)
}

func (s *server) openStores(ctx context.Context, h *house) (err error) {
	cfg := s.opts.Config
	h.journal, err = journalfile.New(journalfile.Options{
		Dir:      filepath.Join(cfg.Workspace, "state", "journal"),
		MaxAge:   cfg.Journal.MaxAge.Duration(),
		MaxBytes: cfg.Journal.MaxMiB << 20,
		Log:      s.log,
		// The readable files are copies of the journal: they must last before
		// it forgets.
		BeforeDrop: func() error {
			if err := h.sessions.CatchUpAll(context.Background()); err != nil {
				return err
			}
			return h.sessions.SyncAll(context.Background())
		},
	})
	if err != nil {
		return wayOut(err)
	}
	if h.sessions, err = session.Open(session.Options{
		Root: cfg.Workspace, Journal: h.journal, BridgeRetention: cfg.Bridge.Retention.Duration(), Logger: s.log,
	}); err != nil {
		return err
	}
	key, head, err := auditKey(s.opts, true)
	if err != nil {
		s.log.Warn("the record of commands has no key: a record that is written anew as a whole is not found", "err", err)
	}
	if h.audit, err = audit.New(audit.Options{File: cfg.Bash.AuditFile, Logger: s.log, Key: key, Head: head}); err != nil {
		return err
	}
	if err := s.openApprovals(h); err != nil {
		return err
	}
	if err := s.openFleet(h); err != nil {
		return err
	}
	h.models, err = newModels(ctx, cfg, s.secrets, s.log)
	return err
}

// tools lists what the model may call.
func (s *server) tools(h *house, tokens *api.Tokens, skills *skill.Library, pictures *picture.Reducer) ([]tool.Tool, error) {
	cfg := s.opts.Config
	box := h.box
	judge, err := policy.New(policyOptions(cfg, lookup(s.opts.Environ, "HOME"), box.dialect))
	if err != nil {
		return nil, err
	}
	outputs, err := tool.NewOutputs(tool.OutputsOptions{Workspace: cfg.Workspace, Redact: s.secrets.redact.Writer})
	if err != nil {
		return nil, err
	}
	dir := box.dir
	environ := bash.Environ(s.opts.Environ, cfg.Bash.PassEnv...)
	if box.environ != nil {
		environ = box.environ(environ)
	} else {
		bin, err := linkCommands(cfg.Workspace)
		if err != nil {
			return nil, err
		}
		environ = withCommands(environ, bin)
	}
	if box.inside != "" {
		environ = append(environ, socketVariable+"="+box.inside)
	}
	run, err := bash.New(bash.Options{
		Sandbox: box.Sandbox, Judge: judge, Audit: s.secrets.veil.Audit(h.audit), Outputs: outputs, Dir: dir,
		PolicyOff: cfg.Bash.Policy == "off", Logger: s.log, Hold: s.hold(h, environ, dir),
		Env: func(r turn.Request) []string {
			return append(environ[:len(environ):len(environ)],
				"IRIS_API_URL="+s.url, "IRIS_TURN_TOKEN="+s.turnToken(tokens, r).Reveal(), "IRIS_CHANNEL="+r.Conversation.Channel())
		},
	})
	if err != nil {
		return nil, err
	}
	files, err := file.New(file.Options{
		Sandbox: box.Sandbox, Judge: judge, Audit: s.secrets.veil.Audit(h.audit), Workspace: cfg.Workspace, Dir: dir,
		Pictures: pictures, PolicyOff: cfg.Bash.Policy == "off", Memory: guardMemory(skills),
	})
	if err != nil {
		return nil, err
	}
	if h.asking, err = s.askAgent(h, outputs); err != nil {
		return nil, err
	}
	plan, err := scheduleTool(cfg)
	if err != nil {
		return nil, err
	}
	return s.secrets.veil.Tools(append([]tool.Tool{run, plan}, files...)), nil
}

// guardMemory keeps the version before a write to a memory file, and refuses a
// write that would lose most of it.
func guardMemory(skills *skill.Library) func(path, old, new string) error {
	return func(path, old, new string) error {
		if err := skill.Guard(path, []byte(old), []byte(new)); err != nil {
			return err
		}
		if !skill.IsNote(path) {
			return nil
		}
		return skills.Keep(path)
	}
}

func (s *server) native(h *house, tools []tool.Tool, skills *skill.Library, pictures *picture.Reducer) (*native.Native, error) {
	cfg := s.opts.Config
	where, err := cfg.Location()
	if err != nil {
		return nil, err
	}
	return native.New(native.Options{
		Agents: h.agentInfos, MoreTools: h.moreTools, Directory: h.directory, Await: h.awaitFile, AwaitLimit: cfg.Turns.Attachments.Duration(),
		Archive: h.sessions, Models: h.models.candidates, Tools: tools,
		Notes:     native.NotesFrom(skills, cfg.Workspace, cfg.Workspace),
		Workspace: cfg.Workspace,
		Retry:     llm.RetryOptions{Max: cfg.Model.Retries, Base: cfg.Model.Base.Duration()},
		Silence:   cfg.Model.Timeout.Duration(),
		Thinking:  cfg.Model.Thinking,
		CompactAt: cfg.Compact.Threshold,
		CompactTo: cfg.Compact.Target,
		ReduceImage: func(ctx context.Context, _ string, data []byte) (string, []byte, error) {
			p, err := pictures.Reduce(ctx, data)
			return p.Mime, p.Data, err
		},
		Budget: native.Budget{CallsPerTurn: cfg.Budget.Calls, TokensPerTurn: cfg.Budget.Tokens, CostPerTurn: cfg.Budget.Cost,
			TokensPerDay: cfg.Budget.DayTokens, CostPerDay: cfg.Budget.DayCost},
		UsageDir: filepath.Join(cfg.Workspace, "state", "usage"),
		Save:     func(ctx context.Context, conv chat.Address, state any) error { return h.engine.Save(ctx, conv, state) },
		Location: where, Logger: s.log,
	})
}

func (s *server) engine(h *house, runners map[string]runner.Runner) (*engine.Engine, error) {
	cfg := s.opts.Config
	return engine.New(engine.Options{
		Journal: h.journal, Archive: h.sessions, Redact: s.secrets.veil.Record,
		Runners: s.secrets.runners(runners), Runner: s.secrets.found(h.findRunner), Seal: h.rooms.Seal,
		Early:    func(runner string) bool { return runner == nativeRunner },
		Snapshot: func(a chat.Address) route.Snapshot { return s.snapshot(h, a) },
		Verbose:  s.verbose(h),
		Program:  s.cliCommand(h),
		Answer:   h.pressed(answer(h)), Settle: s.settle(h),
		MaxAge: cfg.Turns.MaxAge.Duration(), Grace: cfg.Turns.Grace.Duration(),
		Hooks: engine.Hooks{
			TurnStarted: s.turnStarted,
			TurnEnded: func(t engine.TurnInfo) {
				s.dropTurnToken(h.tokens, t)
				s.turnEnded(t)
			},
			Cleared: func(conv chat.Address) {
				h.approvals.Withdraw(conv)
				if h.box.cleared != nil {
					h.box.cleared(conv)
				}
			},
		},
		Logger: s.log,
	})
}

// snapshot tells routing who answers at an address.
func (s *server) snapshot(h *house, a chat.Address) route.Snapshot {
	snap := route.Snapshot{Default: nativeRunner, Agents: h.agentNames()}
	if room, _, ok := h.rooms.Find(a); ok {
		snap.Runner, snap.Conversation, snap.Hears = room.ID, room.Address(), true
		return snap
	}
	s.cliSnapshot(h, a, &snap)
	s.projectSnapshot(h, a, &snap)
	if a.Space == chat.Slack {
		h.slackSnapshot(a, &snap)
	}
	if a.Space == chat.Session {
		ses, err := h.sessions.Get(context.Background(), a.ID)
		if err == nil {
			snap.Runner = ses.Runner
		}
	}
	return snap
}

func (s *server) turnStarted(t engine.TurnInfo) {
	s.openedByThread(t)
	s.metrics.TurnStarted()
	s.ledger.begin(t)
}

func (s *server) turnEnded(t engine.TurnInfo) {
	outcome := string(t.Code)
	switch {
	case outcome != "":
	case t.Stopped:
		outcome = "stopped"
	default:
		outcome = string(turn.Final)
	}
	s.metrics.TurnEnded(t.Runner, outcome, t.Waited+t.Ran)
	s.ledger.end(t, outcome)
	if u := t.Usage; u != nil {
		s.metrics.Used(observe.Tokens{Provider: u.Provider, Model: u.Model, Input: u.Input, Output: u.Output,
			CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Cost: u.Cost})
	}
}

// verbose keeps the setting of one conversation.
func (s *server) verbose(h *house) func(context.Context, chat.Address, string) (string, error) {
	return func(ctx context.Context, conv chat.Address, argument string) (string, error) {
		set, err := h.sessions.Settings(ctx, conv)
		if err != nil {
			return "", err
		}
		on := s.opts.Config.Turns.VerboseTools
		if set.VerboseTools != nil {
			on = *set.VerboseTools
		}
		if argument == "on" || argument == "off" {
			on = argument == "on"
			set.VerboseTools = &on
			if err := h.sessions.SetSettings(ctx, conv, set); err != nil {
				return "", err
			}
		}
		state := "off"
		if on {
			state = "on"
		}
		return fmt.Sprintf("_Verbose tool output: %s_", state), nil
	}
}

// ways builds the API and the page.
func (s *server) ways(h *house, tokens *api.Tokens) (err error) {
	cfg := s.opts.Config
	if err := s.openDrops(h); err != nil {
		return err
	}
	h.api, err = api.New(api.Options{
		Engine: h.engine, Sessions: h.sessions, Journal: h.journal, Token: s.token, Tokens: tokens,
		Approvals: h.approvals, Files: h.sessions, Timeout: cfg.API.Timeout.Duration(), Logger: s.log,
		Runners: h.runnerNames,
		About: func() api.About {
			if name := s.cliDefault(h); name != "" {
				return api.About{Version: s.opts.Version, Provider: name, Model: "its own"}
			}
			m := h.models.first()
			return api.About{Version: s.opts.Version, Provider: m.Provider, Model: m.Model}
		},
		Rooms: councils{h.rooms}, Agent: h.agentOf, Agents: h.agents, Status: func() any { return s.ledger.report(s.opts.Version) }, Parent: s.forward(),
		Secrets: s.secrets.source, Allowed: h.fleet.Allows, Drops: h.drops,
		Schedules: schedule.NewStore(cfg.Workspace), Zone: zoneName(cfg),
		Observe: s.metrics.Request,
	})
	if err != nil {
		return err
	}
	hosts := append([]string{}, cfg.Web.AllowedHosts...)
	for _, l := range []struct {
		host string
		port int
	}{{cfg.API.Host, cfg.API.Port}, {cfg.Web.Host, cfg.Web.Port}} {
		hosts = append(hosts, l.host, l.host+":"+strconv.Itoa(l.port))
	}
	h.site, err = web.New(web.Options{
		Inbox: h.engine, Data: h.api.Page(), Page: web.Page(), Password: cfg.Web.Password,
		Logins: filepath.Join(cfg.Workspace, "state", "logins.json"), Hosts: hosts,
		AnyIP: cfg.API.Host == "0.0.0.0" || cfg.API.Host == "::",
		CheckFiles: func(ctx context.Context, conv chat.Address, locals []string) ([]chat.File, error) {
			return h.sessions.CheckFiles(conv, locals)
		},
		Logger: s.log,
	})
	return err
}
