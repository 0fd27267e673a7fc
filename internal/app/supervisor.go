package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/iris-operator/iris/internal/lifetime"
)

// supervisor tells systemd, when it asked for it (Type=notify, WatchdogSec=),
// that the process is ready, alive and ending. The watchdog is fed only while
// pulse succeeds, so that a process that is stuck and green is restarted.
func supervisor(pulse func(context.Context) error, log *slog.Logger) lifetime.Part {
	return lifetime.Part{Name: "supervisor", Serve: func(ctx context.Context, ready func()) error {
		period, err := daemon.SdWatchdogEnabled(false)
		if err != nil {
			return err
		}
		if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
			log.Warn("tell systemd that the server is ready", "err", err)
		}
		ready()
		var tick <-chan time.Time
		if period > 0 {
			t := time.NewTicker(period / 2)
			defer t.Stop()
			tick = t.C
		}
		for {
			select {
			case <-ctx.Done():
				_, err := daemon.SdNotify(false, daemon.SdNotifyStopping)
				return err
			case <-tick:
				check, cancel := context.WithTimeout(ctx, period/4)
				err := pulse(check)
				cancel()
				if err != nil {
					if ctx.Err() == nil {
						log.Error("no pulse: the watchdog is not fed", "err", err)
					}
					continue
				}
				if _, err := daemon.SdNotify(false, daemon.SdNotifyWatchdog); err != nil {
					log.Warn("feed the watchdog", "err", err)
				}
			}
		}
	}}
}
