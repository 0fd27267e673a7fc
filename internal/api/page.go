package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/turn"
)

// threadAddress is the conversation a page's thread names: "SESSION-<id>" is a
// session, everything else a conversation of the page.
func threadAddress(thread string) (chat.Address, error) {
	if a, err := chat.Parse(thread); err == nil && a.Space == chat.Session {
		return a, nil
	}
	if err := chat.CheckID(thread); err != nil {
		return chat.Address{}, bad("thread %v", err)
	}
	return chat.Address{Space: chat.Web, ID: thread}, nil
}

// thread is a row of the page's list.
type thread struct {
	ID      string    `json:"id"`
	Channel string    `json:"channel"`
	Title   string    `json:"title,omitempty"`
	Updated time.Time `json:"updated"`
	Running bool      `json:"running"`
}

func (s *Server) pageThreads(w http.ResponseWriter, r *http.Request, _ caller) error {
	kept, err := s.opts.Sessions.Threads(r.Context())
	if err != nil {
		return err
	}
	running := map[chat.Address]bool{}
	for _, c := range s.opts.Engine.Conversations() {
		running[c.Address] = c.Running
	}
	all := []thread{}
	for _, t := range kept {
		all = append(all, thread{t.Address.ID, t.Address.Channel(), t.Title, t.Updated, running[t.Address]})
	}
	answer(w, http.StatusOK, map[string]any{"threads": all})
	return nil
}

func (s *Server) pageHistory(w http.ResponseWriter, r *http.Request, _ caller) error {
	conv, err := threadAddress(r.PathValue("thread"))
	if err != nil {
		return err
	}
	h, err := s.history(r.Context(), conv)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, h)
	return nil
}

// pageStatus is the line below a thread: what answers it and what it cost.
func (s *Server) pageStatus(w http.ResponseWriter, r *http.Request, _ caller) error {
	out := struct {
		About
		Runners []string    `json:"runners"`
		Thread  string      `json:"thread,omitempty"`
		Running bool        `json:"running"`
		Usage   *turn.Usage `json:"usage,omitempty"`
	}{Runners: orEmpty(s.runners())}
	if s.opts.About != nil {
		out.About = s.opts.About()
	}
	if name := r.URL.Query().Get("thread"); name != "" {
		conv, err := threadAddress(name)
		if err != nil {
			return err
		}
		out.Thread = name
		out.Running = slices.ContainsFunc(s.opts.Engine.Conversations(), func(c engine.Conversation) bool {
			return c.Address == conv && c.Running
		})
		if out.Usage, err = s.usage(r.Context(), conv); err != nil {
			return err
		}
	}
	answer(w, http.StatusOK, out)
	return nil
}

// usage adds up what the turns that are still in the journal cost. Context and
// window are those of the last turn.
func (s *Server) usage(ctx context.Context, conv chat.Address) (*turn.Usage, error) {
	var sum turn.Usage
	for rec, err := range s.records(ctx, conv, 0) {
		if err != nil {
			return nil, err
		}
		if rec.Record.Event == nil || rec.Record.Event.Usage == nil || !rec.Record.Event.Terminal() {
			continue
		}
		u := rec.Record.Event.Usage
		sum.Provider, sum.Model = cmp.Or(u.Provider, sum.Provider), cmp.Or(u.Model, sum.Model)
		sum.Calls += u.Calls
		sum.Input += u.Input
		sum.Output += u.Output
		sum.CacheRead += u.CacheRead
		sum.CacheWrite += u.CacheWrite
		sum.Cost += u.Cost
		sum.Context, sum.Window = cmp.Or(u.Context, sum.Context), cmp.Or(u.Window, sum.Window)
	}
	return &sum, nil
}

// pageChannel is the conversation that an upload or download names. Only those
// a page can show are let through.
func pageChannel(channel string) (chat.Address, error) {
	conv, err := chat.Parse(channel)
	if err != nil {
		return conv, bad("%v", err)
	}
	if conv.Space != chat.Web && conv.Space != chat.Session {
		return conv, bad("channel %q is neither a thread of the page nor a session", channel)
	}
	return conv, nil
}

func (s *Server) upload(w http.ResponseWriter, r *http.Request, _ caller) error {
	conv, err := pageChannel(r.URL.Query().Get("channel"))
	if err != nil {
		return err
	}
	if conv.Space == chat.Session {
		if _, err := s.opts.Sessions.Get(r.Context(), conv.ID); err != nil {
			return err
		}
	}
	return s.store(w, r, conv)
}

// plainFile reports whether a path's last part can be a file's name.
func plainFile(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= 255 && !strings.ContainsAny(name, "/\\\x00")
}
