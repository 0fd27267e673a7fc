package agentcli

import (
	"context"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/turn"
)

// An Outbox is where programs put files for the people of a conversation;
// *tray.Out is one.
type Outbox interface {
	// Prepare makes the place below a work directory and returns what the program
	// is told about it.
	Prepare(workDir string, conv chat.Address) (contract string, err error)
	// Collect shows what lies there, as turn.FileOut, and takes it away. It may take
	// its time, as long as ctx gives it.
	Collect(ctx context.Context, workDir string, conv chat.Address, emit func(turn.Event) error) error
}

// collectLimit bounds how long the end of a turn waits for its files.
const collectLimit = 30 * time.Second

// contract adds to the system prompt where files go. Without a place for them the
// program works as well.
func (p *proc) contract() {
	box := p.c.r.pool.opts.Outbox
	if box == nil {
		return
	}
	text, err := box.Prepare(p.setup.WorkDir, p.c.addr)
	if err != nil {
		p.c.r.pool.log.Error("an agent has no place for its files", "project", p.c.r.project.Name, "conversation", p.c.addr, "err", err)
		return
	}
	if p.setup.System != "" {
		text = p.setup.System + "\n\n" + text
	}
	p.setup.System = text
}

// collect sends the files of a turn that is about to end, however it ends.
func (t *run) collect() {
	box := t.c.r.pool.opts.Outbox
	if box == nil || t.own {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), collectLimit)
	defer cancel()
	rec, _ := t.c.view() // it was read before
	if err := box.Collect(ctx, t.c.dir(rec), t.c.addr, t.emit); err != nil {
		t.c.r.pool.log.Error("the files of an agent were not sent", "turn", t.req.ID, "project", t.c.r.project.Name, "conversation", t.c.addr, "err", err)
	}
}
