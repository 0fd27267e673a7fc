package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// newSession is the body of POST /sessions and /sessions/open.
type newSession struct {
	OriginChannel   string         `json:"originChannel"`
	OriginThreadTS  string         `json:"originThreadTs"`
	WorkingChannel  string         `json:"workingChannel"`
	WorkingThreadTS string         `json:"workingThreadTs"`
	ClientEmail     string         `json:"clientEmail"`
	Metadata        map[string]any `json:"metadata"`
	Runner          string         `json:"runner"`

	Channel string `json:"channel"` // open only
	Text    string `json:"text"`    // open only
}

func (b newSession) session() session.Session {
	s := session.Session{Metadata: b.Metadata, Runner: b.Runner}
	s.Integrations.Slack = session.SlackThread{
		OriginChannel: b.OriginChannel, OriginThreadTS: b.OriginThreadTS,
		WorkingChannel: b.WorkingChannel, WorkingThreadTS: b.WorkingThreadTS,
	}
	s.Integrations.Email.ClientEmail = b.ClientEmail
	if s.Metadata == nil {
		s.Metadata = map[string]any{}
	}
	return s
}

func (s *Server) checkRunner(name string) error {
	if known := s.runners(); name != "" && len(known) > 0 && !slices.Contains(known, name) {
		return s.unknownRunner(name)
	}
	return nil
}

func (s *Server) sessionCreate(w http.ResponseWriter, r *http.Request, _ caller) error {
	b, err := decode[newSession](s, w, r)
	if err != nil {
		return err
	}
	if err := required("originChannel", b.OriginChannel, "originThreadTs", b.OriginThreadTS); err != nil {
		return err
	}
	if err := s.checkRunner(b.Runner); err != nil {
		return err
	}
	made, err := s.opts.Sessions.Create(r.Context(), b.session())
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/sessions/"+made.ID)
	answer(w, http.StatusCreated, made)
	return nil
}

// required takes pairs of a field's name and its value.
func required(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if strings.TrimSpace(pairs[i+1]) == "" {
			return bad("%s is required", pairs[i])
		}
	}
	return nil
}

func (s *Server) sessionOpen(w http.ResponseWriter, r *http.Request, _ caller) error {
	b, err := decode[newSession](s, w, r)
	if err != nil {
		return err
	}
	if err := required("channel", b.Channel, "text", b.Text); err != nil {
		return err
	}
	if err := s.checkRunner(b.Runner); err != nil {
		return err
	}
	if _, err := chat.Parse(b.Channel); err != nil {
		return bad("channel: %v", err)
	}
	if s.opts.Post == nil {
		return &problem{Status: http.StatusServiceUnavailable, Text: "bot not started"}
	}
	thread, err := s.opts.Post(r.Context(), b.Channel, b.Text)
	if err != nil {
		return &problem{Status: http.StatusBadGateway, Text: "the text could not be posted", err: err}
	}
	b.OriginChannel, b.OriginThreadTS, b.WorkingThreadTS = b.Channel, thread, ""
	made, err := s.opts.Sessions.Create(r.Context(), b.session())
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/sessions/"+made.ID)
	answer(w, http.StatusCreated, map[string]string{"sessionId": made.ID, "threadTs": thread, "message": b.Text})
	return nil
}

func (s *Server) sessionList(w http.ResponseWriter, r *http.Request, _ caller) error {
	all, err := s.opts.Sessions.List(r.Context())
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"sessions": orEmpty(all)})
	return nil
}

// orEmpty keeps a list from being written as null.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// session loads the session a path names.
func (s *Server) session(r *http.Request) (session.Session, error) {
	id := r.PathValue("id")
	if chat.CheckID(id) != nil {
		return session.Session{}, missing("session not found")
	}
	found, err := s.opts.Sessions.Get(r.Context(), id)
	if errors.Is(err, session.ErrNotFound) {
		return found, missing("session not found")
	}
	return found, err
}

func (s *Server) sessionGet(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.session(r)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, found)
	return nil
}

// patch is what PATCH may change; what is not sent stays. The integrations are
// merged by the store, from their JSON; their types are checked here.
type patch struct {
	Integrations json.RawMessage `json:"integrations"`
	Metadata     map[string]any  `json:"metadata"`
	Runner       *string         `json:"runner"`
}

func (p patch) check() error {
	if len(p.Integrations) == 0 {
		return nil
	}
	var wrong *json.UnmarshalTypeError
	if err := json.Unmarshal(p.Integrations, new(session.Integrations)); errors.As(err, &wrong) {
		return bad("%s must be %s", strings.Trim("integrations."+wrong.Field, "."), kindName(wrong.Type))
	}
	return nil
}

func (s *Server) sessionPatch(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.session(r)
	if err != nil {
		return err
	}
	p, err := decode[patch](s, w, r)
	if err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	if p.Runner != nil {
		if err := s.checkRunner(*p.Runner); err != nil {
			return err
		}
	}
	changed, err := s.opts.Sessions.Patch(r.Context(), found.ID, p.Metadata, p.Integrations, p.Runner)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, changed)
	return nil
}

func (s *Server) sessionHistory(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.session(r)
	if err != nil {
		return err
	}
	lines, err := s.opts.Sessions.Log(r.Context(), found.Address(), session.LogOptions{})
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"history": orEmpty(lines)})
	return nil
}

// stop ends what runs, or with the query parameter turn that turn alone, which
// may still be waiting.
func (s *Server) stop(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.session(r)
	if err != nil {
		return err
	}
	only := turn.ID(r.URL.Query().Get("turn"))
	if only != "" {
		if _, err := turn.ParseID(string(only)); err != nil {
			return bad("turn: %v", err)
		}
	}
	reply, err := s.command(r, found, transport.Stop, only)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"status": "ok", "wasRunning": reply.Running})
	return nil
}

func (s *Server) reset(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.session(r)
	if err != nil {
		return err
	}
	if _, err := s.command(r, found, transport.Reset, ""); err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]string{"status": "ok", "message": "Context cleared"})
	return nil
}

// compact summarises the context and answers when that is done. What was not
// done is no success: a conversation that is busy is a conflict.
func (s *Server) compact(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.session(r)
	if err != nil {
		return err
	}
	reply, err := s.command(r, found, transport.Compact, "")
	text := strings.Trim(reply.Text, "_")
	switch {
	case err != nil && (r.Context().Err() != nil || text == "" || errors.Is(err, transport.ErrClosing)):
		return err
	case err != nil:
		return &problem{Status: http.StatusBadGateway, Text: text, err: err}
	case reply.Running:
		return &problem{Status: http.StatusConflict, Text: text}
	}
	answer(w, http.StatusOK, map[string]string{"status": "ok", "message": text})
	return nil
}

// line acts on a text that people type as a command of an agent program. What is
// none is told as such, and not done.
func (s *Server) line(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.session(r)
	if err != nil {
		return err
	}
	b, err := decode[struct {
		Text string `json:"text"`
	}](s, w, r)
	if err != nil {
		return err
	}
	if err := required("text", b.Text); err != nil {
		return err
	}
	reply, ok, err := s.opts.Engine.Line(r.Context(), found.Address(), chat.Person{ID: "api"}, b.Text)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]any{"command": ok, "message": reply.Text})
	return nil
}

func (s *Server) command(r *http.Request, to session.Session, verb transport.Verb, only turn.ID) (transport.Reply, error) {
	return s.opts.Engine.Command(r.Context(), transport.Command{
		Conversation: to.Address(), Verb: verb, From: chat.Person{ID: "api"}, Turn: only,
	})
}

func (s *Server) inject(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.session(r)
	if err != nil {
		return err
	}
	b, err := decode[struct {
		Text string `json:"text"`
	}](s, w, r)
	if err != nil {
		return err
	}
	if err := required("text", b.Text); err != nil {
		return err
	}
	at := s.opts.Now()
	_, err = s.opts.Engine.Hear(r.Context(), found.Address(), chat.Message{
		ID: s.stamps.Next(at), At: at, Text: "[team]: " + b.Text,
		From: chat.Person{ID: "human-agent", Name: "team"},
	})
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
	return nil
}

// attach stores an upload for a session.
func (s *Server) attach(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.session(r)
	if err != nil {
		return err
	}
	return s.store(w, r, found.Address())
}

// store takes the bytes of an upload. The name is data: what becomes a file name
// is decided where files are kept.
func (s *Server) store(w http.ResponseWriter, r *http.Request, conv chat.Address) error {
	name, err := uploadName(r.Header.Get("X-Filename"))
	if err != nil {
		return err
	}
	if r.ContentLength == 0 {
		return bad("the file is empty")
	}
	if r.ContentLength > MaxUpload {
		return &problem{Status: http.StatusRequestEntityTooLarge, Text: fmt.Sprintf("the file is larger than %d MiB", MaxUpload>>20)}
	}
	content := &remembering{from: s.body(w, r, MaxUpload)}
	file, err := s.opts.Files.AddFile(r.Context(), conv, name, content, MaxUpload)
	if content.err != nil {
		return s.bodyError(w, content.err, MaxUpload)
	}
	if err != nil {
		return err
	}
	_ = s.bodyError(w, nil, MaxUpload)
	answer(w, http.StatusOK, map[string]string{"local": file.Local, "original": file.Original})
	return nil
}

// uploadName reads X-Filename. Header values are Latin-1 at best, so names from
// browsers come percent-encoded; a name that does not decode is taken as it is.
func uploadName(header string) (string, error) {
	name := header
	if decoded, err := url.PathUnescape(header); err == nil {
		name = decoded
	}
	switch {
	case strings.TrimSpace(name) == "":
		return "", bad("the header X-Filename is missing")
	case strings.ContainsAny(name, "/\\\x00") || strings.Contains(name, ".."):
		return "", bad("the header X-Filename must be a plain file name")
	}
	return name, nil
}
