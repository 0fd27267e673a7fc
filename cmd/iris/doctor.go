package main

import (
	"os"

	"github.com/iris-operator/iris/internal/app"
)

type doctorCmd struct {
	common
	Workspace string `arg:"" optional:"" help:"Workspace to look at (default ~/.iris)."`
}

// Run prints one line per check and fails when one of them did.
func (d *doctorCmd) Run() error {
	cfg, err := load(d.flags(), d.Workspace, os.Stdout)
	return app.Doctor(app.DoctorOptions{Config: cfg, ConfigErr: err, Version: version(), Out: os.Stdout, Environ: os.Environ()})
}
