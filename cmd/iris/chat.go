package main

import (
	"io"
	"os"

	"github.com/iris-operator/iris/internal/app"
)

type chatCmd struct {
	common
	Session   string `placeholder:"ID" help:"Continue this session."`
	Agent     string `placeholder:"NAME" help:"Who answers; the default is Iris herself."`
	Workspace string `placeholder:"DIR" help:"Workspace of the server to talk to, or to start."`
	Text      string `arg:"" optional:"" help:"The message; - reads it from standard input. Without one a prompt opens."`
}

// Run talks to the running server, or starts one for the time of the talk.
func (c *chatCmd) Run() error {
	cfg, err := load(c.flags(), c.Workspace, io.Discard)
	if err != nil {
		return err
	}
	ctx, _, stop := untilTerminated()
	defer stop()
	return app.Chat(ctx, app.ChatOptions{
		Options: app.Options{Config: cfg, Version: version(), Out: io.Discard, Err: os.Stderr, Environ: os.Environ()},
		Session: c.Session, Runner: c.Agent, Text: c.Text, In: os.Stdin, Terminal: os.Stdout,
	})
}
