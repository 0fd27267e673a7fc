package app

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/fleet"
)

// CheckConfig prints what the configuration means for agent programs, a block for
// each project, and what is wrong with it. What Load refuses is in opts.ConfigErr.
// It returns ErrTold when something is wrong, a missing file included.
func CheckConfig(opts DoctorOptions) error {
	report := newReport(opts.Out, opts.Environ)
	all := checkConfig(opts)
	wrong := 0
	for _, f := range all {
		report.print(f)
		if f.bad {
			wrong++
		}
	}
	if opts.Config != nil && opts.ConfigErr == nil {
		for _, p := range opts.Config.Projects {
			fmt.Fprintf(opts.Out, "\nproject %s\n  agent     %s (%s)\n  work_dir  %s\n  mode      %s\n  model     %s\n  channels  %s\n  people    %s\n",
				p.Name, p.Agent, p.Bin, p.WorkDir, p.Mode, orElse(p.Model, "the program's own"), orElse(strings.Join(p.AllowChannels, ", "), "none"), people(p))
		}
	}
	if wrong > 0 {
		return ErrTold
	}
	return nil
}

func people(p config.Project) string {
	if len(p.AllowUsers) > 0 {
		return strings.Join(p.AllowUsers, ", ")
	}
	if len(p.AllowChannels) > 0 {
		return "everybody in the channels; nobody in private"
	}
	return "nobody"
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func checkConfig(opts DoctorOptions) (all []finding) {
	cfg := opts.Config
	if opts.ConfigErr != nil {
		return []finding{{what: "configuration", result: opts.ConfigErr.Error(), fix: "correct it; docs/configuration.md and docs/projects.md list every setting", bad: true}}
	}
	if cfg.File == "" {
		return []finding{{what: "configuration", result: "no file", fix: "iris init writes one", bad: true}}
	}
	all = append(all, finding{what: "configuration", result: cfg.File})
	if info, err := os.Stat(cfg.File); err == nil && info.Mode().Perm()&0o077 != 0 {
		all = append(all, finding{what: "file mode", result: fmt.Sprintf("%04o: others can read it", info.Mode().Perm()), fix: "chmod 600 " + cfg.File, bad: true})
	}
	for _, w := range opts.Warnings {
		all = append(all, finding{what: "warning", result: w, fix: "see docs/configuration.md"})
	}
	for _, t := range []struct{ name, prefix, value string }{
		{"slack.bot_token", "xoxb-", cfg.Slack.BotToken.Reveal()}, {"slack.app_token", "xapp-", cfg.Slack.AppToken.Reveal()},
	} {
		if t.value != "" && !strings.HasPrefix(t.value, t.prefix) {
			all = append(all, finding{what: t.name, result: "does not begin with " + t.prefix, fix: "take the right one of the two tokens", bad: true})
		}
	}
	if cfg.Slack.BotToken.IsZero() != cfg.Slack.AppToken.IsZero() {
		all = append(all, finding{what: "slack", result: "one of the two tokens is missing", fix: "set slack.bot_token and slack.app_token", bad: true})
	}
	if len(cfg.Projects) == 0 {
		all = append(all, finding{what: "projects", result: "none", fix: "a [[projects]] table opens a directory to an agent program"})
	}
	return append(all, checkProjects(cfg, opts.Environ)...)
}

// checkProjects looks at what Load cannot know: programs, and names of agents.
func checkProjects(cfg *config.Config, environ []string) (all []finding) {
	names := map[string]bool{nativeRunner: true}
	if agents, err := fleet.Open(fleet.Options{Path: cfg.Agents.Registry}); err == nil {
		for _, a := range agents.List() {
			names[strings.ToLower(a.Name)] = true
		}
	}
	for _, p := range cfg.Projects {
		if names[strings.ToLower(p.Name)] {
			all = append(all, finding{what: p.Name, result: "an agent, or Iris herself, has this name", fix: "give the project another", bad: true})
		}
		if programPath(environ, p.Bin) == "" {
			all = append(all, finding{what: p.Name, result: p.Bin + " is not there", fix: "install it, or name it: bin in the project, or " + p.Agent + "_bin", bad: true})
			continue
		}
		all = append(all, finding{what: p.Name, result: p.Agent + " in " + p.WorkDir})
		for _, l := range []struct {
			key  string
			list []string
		}{{"allow_channels", p.AllowChannels}, {"allow_users", p.AllowUsers}} {
			for _, id := range l.list {
				if !platformID().MatchString(id) {
					all = append(all, finding{what: p.Name, result: fmt.Sprintf("%s: %q is no id, and so fits nobody", l.key, id), fix: "take the id: C… and U… in Slack, a number in Telegram", bad: true})
				}
			}
		}
	}
	return all
}

// platformID is what ids of channels and people look like: capital letters and
// digits in Slack, a number in Telegram.
func platformID() *regexp.Regexp { return regexp.MustCompile(`^([A-Z][A-Z0-9]+|(tg-)?-?[0-9]+)$`) }
