package app

import (
	"context"
	"fmt"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/iris-operator/iris/internal/observe"
	"github.com/iris-operator/iris/internal/secret/gateway"
)

// Broker runs the daemon that keeps secrets under another user, until ctx ends.
func Broker(ctx context.Context, opts Options) error {
	cfg := opts.Config
	r := newRedactor(cfg)
	log, err := observe.NewLogger(observe.LogOptions{Out: opts.Err, Level: cfg.Log.Level, Format: cfg.Log.Format, Wrap: r.Handler})
	if err != nil {
		return err
	}
	services, err := gateway.Load(cfg.Broker.ServicesFile, gateway.Bundled(cfg.Broker.FoundryAccount))
	if err != nil {
		return err
	}
	place, err := newStore(cfg, log)
	if err != nil {
		return err
	}
	gw, err := gateway.New(gateway.Options{Source: noting{place, r}, Token: cfg.Secrets.BrokerToken, Services: services, Logger: log})
	if err != nil {
		return err
	}
	defer gw.Close()
	if err := place.Check(); err != nil {
		log.Error("the broker answers 503 until its store can be used", "err", err)
	}
	ln := opts.listener
	if ln == nil {
		if ln, err = listen(ctx, cfg.Broker.Host, cfg.Broker.Port, "IRIS_BROKER_PORT"); err != nil {
			return err
		}
	}
	s := &server{opts: opts, log: log}
	return s.serveHTTP(ln, gw)(ctx, func() {
		fmt.Fprintf(opts.Out, "The broker is ready: %s, %d services\n", baseURL(ln.Addr()), len(services))
		if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
			log.Warn("tell systemd that the broker is ready", "err", err)
		}
	})
}
