package main

import (
	"github.com/spf13/cobra"

	"github.com/iris-operator/iris/internal/app"
)

func scheduleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "schedule",
		Short: "Plan what wakes Iris",
		Long: "Plan what wakes Iris. Schedules are files in the workspace: a running server sees them change,\n" +
			"and without one they wait for the next start.",
	}
	c.AddCommand(addScheduleCommand(), listSchedulesCommand(), explainScheduleCommand(),
		changeScheduleCommand("run", "Let it run once now, besides its times"),
		changeScheduleCommand("pause", "Keep it, and let it not run"),
		changeScheduleCommand("resume", "Let a paused one run again"),
		changeScheduleCommand("cancel", "Delete it"))
	return c
}

// whichWorkspace adds the flags that say which workspace is meant.
func whichWorkspace(c *cobra.Command) settings {
	s := settings{}
	s.add(c, "config", "IRIS_CONFIG", "configuration `file`")
	s.add(c, "workspace", "IRIS_WORKSPACE", "`directory` of the workspace")
	return s
}

func addScheduleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "add --channel <id> (--at <time> | --cron <line>) <text>",
		Short: "Make a schedule and show when it is due",
		Example: "  iris schedule add --channel C024BE91L --cron '0 9 * * 1-5' --timezone Europe/Berlin 'Post the stand-up question'\n" +
			"  iris schedule add --channel WEBUI-main --at 2027-03-28T09:00:00+02:00 'Renew the certificate'",
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	flags := whichWorkspace(c)
	e := app.Event{}
	c.Flags().StringVar(&e.ChannelID, "channel", "", "the conversation that is woken, by its channel `id`")
	c.Flags().StringVar(&e.At, "at", "", "once, at this `time` with its offset")
	c.Flags().StringVar(&e.Schedule, "cron", "", "again and again, by this `line` of five fields")
	c.Flags().StringVar(&e.Timezone, "timezone", "", "IANA `name` of the zone that --cron is meant in")
	c.Flags().StringVar(&e.Missed, "missed", "", "`what` to do when it was due and no server ran: skip or run-once")
	c.Flags().StringVar(&e.Quiet, "quiet", "", "`hours` in which it waits, such as 22:00-07:00, or off")
	c.Flags().StringVar(&e.User, "user", "", "`id` of the person it is for")
	c.MarkFlagsMutuallyExclusive("at", "cron")
	c.MarkFlagsOneRequired("at", "cron")
	c.RunE = func(_ *cobra.Command, args []string) error {
		e.Text, e.Type = args[0], app.OneShot
		if e.Schedule != "" {
			e.Type = app.Periodic
		}
		if err := e.Check(); err != nil && (e.Type != app.Periodic || e.Timezone != "") {
			return errUsage{err}
		}
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		return app.AddSchedule(opts, e)
	}
	return c
}

func listSchedulesCommand() *cobra.Command {
	c := &cobra.Command{Use: "list", Short: "List what is planned", Args: usageArgs(cobra.NoArgs)}
	flags := whichWorkspace(c)
	asJSON := c.Flags().Bool("json", false, "print JSON")
	c.RunE = func(*cobra.Command, []string) error {
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		return app.ListSchedules(opts, *asJSON)
	}
	return c
}

func explainScheduleCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "explain <name | cron line>",
		Short:   "Show the next five times, by the local clock and in UTC",
		Example: "  iris schedule explain '30 2 * * *' --timezone America/New_York",
		Args:    usageArgs(cobra.ExactArgs(1)),
	}
	flags := whichWorkspace(c)
	zone := c.Flags().String("timezone", "", "IANA `name` of the zone a cron line is meant in")
	c.RunE = func(_ *cobra.Command, args []string) error {
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		return app.ExplainSchedule(opts, args[0], *zone)
	}
	return c
}

func changeScheduleCommand(action, short string) *cobra.Command {
	c := &cobra.Command{Use: action + " <name>", Short: short, Args: usageArgs(cobra.ExactArgs(1))}
	flags := whichWorkspace(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		opts, err := plainOptions(flags)
		if err != nil {
			return err
		}
		return app.ChangeSchedule(opts, action, args[0])
	}
	return c
}
