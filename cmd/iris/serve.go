package main

import (
	"maps"
	"os"

	"github.com/iris-operator/iris/internal/app"
)

type serveCmd struct {
	common
	Workspace   string `arg:"" optional:"" help:"Directory in which everything durable lives (default ~/.iris)."`
	Sandbox     string `placeholder:"LEVEL" help:"Where commands run: host."`
	Environment string `placeholder:"NAME" help:"Label for logs: prod or preview."`
}

// Run serves until a signal comes.
func (s *serveCmd) Run() error {
	flags := s.flags()
	extra := map[string]string{"IRIS_SANDBOX": s.Sandbox, "IRIS_ENV": s.Environment}
	maps.DeleteFunc(extra, func(_, v string) bool { return v == "" })
	maps.Copy(flags, extra)
	cfg, err := load(flags, s.Workspace, os.Stderr)
	if err != nil {
		return err
	}
	ctx, now, stop := untilSignal()
	defer stop()
	return app.Serve(ctx, app.Options{Config: cfg, Version: version(), Out: os.Stdout, Err: os.Stderr, Environ: os.Environ(), Now: now})
}
