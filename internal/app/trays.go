package app

import (
	"context"
	"io"
	"path/filepath"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner/agentcli/tray"
	"github.com/iris-operator/iris/internal/turn"
)

// openTrays makes the ways of files between people and agent programs. What a program
// sends is kept among the attachments of its conversation, so that it can be sent again
// after a crash and seen on the page.
func (s *server) openTrays(h *house) (*tray.Out, error) {
	in, err := tray.NewIn(tray.InOptions{Dir: filepath.Join(s.opts.Config.Workspace, "inbox")})
	if err != nil {
		return nil, err
	}
	h.inbox = in
	if err := in.Sweep(); err != nil {
		s.log.Warn("old files of agents were not deleted", "err", err)
	}
	return tray.NewOut(tray.OutOptions{
		Keep: func(ctx context.Context, conv chat.Address, name string, r io.Reader, limit int64) (string, error) {
			f, err := h.sessions.Receive(ctx, conv, "", name, r, limit)
			return f.Local, err
		},
		Logger: s.log,
	})
}

// cliReadable are the files that people sent to a conversation.
func (s *server) cliReadable(conv chat.Address) []string {
	return []string{s.house.inbox.Dir(conv)}
}

// place puts files that people sent where a program may read them, and tells people
// which did not get there; missed are those that are known not to.
func (s *server) place(ctx context.Context, h *house, req turn.Request, files []tray.File, missed []string) (paths []string, err error) {
	if len(files) > 0 {
		if err := h.inbox.Sweep(); err != nil {
			s.log.Warn("old files of agents were not deleted", "err", err)
		}
		var more []string
		paths, more, err = h.inbox.Place(ctx, req.Conversation, req.ID, files)
		missed = append(missed, more...)
	}
	for _, m := range missed {
		s.log.Warn("a file did not reach an agent", "turn", req.ID, "why", m)
		if err := h.engine.Notice(context.WithoutCancel(ctx), req.Conversation, "_"+m+"_"); err != nil {
			s.log.Warn("a notice was not given", "conversation", req.Conversation, "err", err)
		}
	}
	return paths, err
}
