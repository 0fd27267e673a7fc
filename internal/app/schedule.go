package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/schedule"
	toolschedule "github.com/iris-operator/iris/internal/tool/schedule"
)

// An Event is what is planned, and the types it has; see package schedule.
type Event = schedule.Event

// The types that people plan.
const (
	OneShot  = schedule.OneShot
	Periodic = schedule.Periodic
)

// zoneName is the IANA name of the zone people mean. The host's is known by the
// file that /etc/localtime leads to.
func zoneName(cfg *config.Config) string {
	if loc, err := cfg.Location(); err == nil && loc != time.Local {
		return loc.String()
	}
	if to, err := filepath.EvalSymlinks("/etc/localtime"); err == nil {
		if _, name, ok := strings.Cut(to, "/zoneinfo/"); ok {
			if _, err := time.LoadLocation(name); err == nil {
				return name
			}
		}
	}
	return "UTC"
}

func scheduleTool(cfg *config.Config) (*toolschedule.Tool, error) {
	return toolschedule.New(toolschedule.Options{Store: schedule.NewStore(cfg.Workspace), Zone: zoneName(cfg)})
}

// serveSchedule runs what is due. It starts after the engine, which takes it.
func (s *server) serveSchedule(ctx context.Context, ready func()) error {
	cfg := s.opts.Config
	where, err := time.LoadLocation(zoneName(cfg))
	if err != nil {
		return err
	}
	runs, err := schedule.New(schedule.Options{
		Workspace: cfg.Workspace, Inbox: s.house.engine, Leases: s.house.keeper, Tell: s.house.desk.Tell,
		Quiet: cfg.Schedule.Quiet, Location: where, Grace: cfg.Schedule.Grace.Duration(), Logger: s.log,
	})
	if err != nil {
		return fmt.Errorf("IRIS_QUIET_HOURS and schedules: %w", err)
	}
	return runs.Serve(ctx, ready)
}

// AddSchedule puts an event into the workspace and says when it is due. Without a
// zone, times are meant in the configured one.
func AddSchedule(opts Options, e Event) error {
	if e.Type == schedule.Periodic && e.Timezone == "" {
		e.Timezone = zoneName(opts.Config)
	}
	it, err := schedule.NewStore(opts.Config.Workspace).Add(e)
	if err != nil {
		return err
	}
	fmt.Fprintf(opts.Out, "%s\n", it.Name)
	return explain(opts, it.Event)
}

// ListSchedules prints every event file of the workspace.
func ListSchedules(opts Options, asJSON bool) error {
	all, err := schedule.NewStore(opts.Config.Workspace).List()
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(opts.Out).Encode(all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(opts.Out, "Nothing is scheduled.")
		return err
	}
	w := tabwriter.NewWriter(opts.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tWHERE\tWHEN\tNEXT\tTEXT")
	for _, it := range all {
		when, next := it.Event.At, "never"
		switch {
		case it.Problem != "":
			when, next = "broken", it.Problem
		case it.Event.Paused:
			next = "paused"
		case it.Next != nil:
			next = it.Next.Format("Mon 2006-01-02 15:04 MST")
		}
		if it.Event.Type == schedule.Periodic {
			when = it.Event.Schedule + " " + it.Event.Timezone
		}
		if it.Event.Type == schedule.Immediate {
			when = "at once"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", it.File, it.Event.ChannelID, when, next, oneLine(it.Event.Text, 60))
	}
	return w.Flush()
}

// oneLine is the beginning of a text for a table.
func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// ExplainSchedule prints when an event is due: one of the workspace by its name,
// or, if name holds five fields, a cron line in a zone.
func ExplainSchedule(opts Options, name, zone string) error {
	if len(strings.Fields(name)) == 5 {
		if zone == "" {
			zone = zoneName(opts.Config)
		}
		return explain(opts, schedule.Event{Type: schedule.Periodic, ChannelID: "SESSION-x", Text: "x", Schedule: name, Timezone: zone})
	}
	it, err := schedule.NewStore(opts.Config.Workspace).Find(name)
	if err != nil {
		return err
	}
	if it.Problem != "" {
		return fmt.Errorf("%s: %s", it.File, it.Problem)
	}
	return explain(opts, it.Event)
}

func explain(opts Options, e schedule.Event) error {
	const times = 5
	next, err := e.Next(time.Now(), times)
	if err != nil {
		return err
	}
	switch e.Type {
	case schedule.Immediate:
		_, err := fmt.Fprintln(opts.Out, "Runs as soon as the server sees it.")
		return err
	case schedule.Periodic:
		fmt.Fprintf(opts.Out, "%s by the clock of %s\n", e.Schedule, e.Timezone)
	}
	if len(next) == 0 {
		_, err := fmt.Fprintln(opts.Out, "Its time is over.")
		return err
	}
	if e.Paused {
		fmt.Fprintln(opts.Out, "Paused; it would be due at:")
	}
	for _, t := range next {
		fmt.Fprintf(opts.Out, "  %s   %s\n", t.Format("Mon 2006-01-02 15:04 MST"), t.UTC().Format("2006-01-02 15:04 UTC"))
	}
	return nil
}

// ChangeSchedule runs, pauses, resumes or cancels an event by its name.
func ChangeSchedule(opts Options, action, name string) error {
	store := schedule.NewStore(opts.Config.Workspace)
	var it schedule.Item
	var err error
	said := ""
	switch action {
	case "run":
		it, err = store.Run(name)
		said = "runs once, as " + it.Name
	case "pause":
		it, err = store.Pause(name, true)
		said = it.Name + " is paused"
	case "resume":
		it, err = store.Pause(name, false)
		said = it.Name + " runs again"
	case "cancel":
		it, err = store.Cancel(name)
		said = it.Name + " is cancelled"
	default:
		return fmt.Errorf("%q is nothing to do with a schedule", action)
	}
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: run this as the user of iris serve", err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(opts.Out, said)
	return err
}
