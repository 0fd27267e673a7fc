package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/secret"
)

// Drops makes links over which a person hands a secret over; secret/drop has
// them. The token is in the link and nowhere else.
type Drops interface {
	// Drop makes a link for a name. channel, which may be empty, is told when
	// the secret has come; nil leaves it to the maker whether the secret may be
	// read back.
	Drop(ctx context.Context, name, channel string, ttl time.Duration, proxyOnly *bool) (Drop, error)
}

// A Drop is a link that waits.
type Drop struct {
	Token   string    `json:"token"`
	Path    string    `json:"path"`
	URL     string    `json:"url,omitempty"`
	Expires time.Time `json:"expiresAt"`
}

// ErrTooManyDrops is returned by a Drops that has enough of them: 429.
var ErrTooManyDrops = errors.New("too many secret links are open: use one, or wait until they expire")

func forbidden(text string) error { return &problem{Status: http.StatusForbidden, Text: text} }

// secrets returns the source, or the answer that there is none.
func (s *Server) secrets() (secret.Source, error) {
	if s.opts.Secrets == nil {
		return nil, secret.ErrReadOnly
	}
	return s.opts.Secrets, nil
}

// mayKnow decides whether a caller may hear of a secret at all. It is asked
// before anything is looked up, so that the answer does not depend on what is
// there.
func (s *Server) mayKnow(c caller, name string) error {
	if err := secret.CheckName(name); err != nil {
		return err
	}
	if c.kind == agent && (s.opts.Allowed == nil || !s.opts.Allowed(c.name, name)) {
		return forbidden("this secret is not on the agent's list")
	}
	return nil
}

func (s *Server) secretGet(w http.ResponseWriter, r *http.Request, c caller) error {
	name := r.PathValue("name")
	if err := s.mayKnow(c, name); err != nil {
		return err
	}
	src, err := s.secrets()
	if err != nil {
		return err
	}
	v, m, err := src.Get(r.Context(), name)
	switch {
	case err != nil:
		return err
	case m.ProxyOnly:
		return forbidden("this secret is proxy-only: nobody can read it, the broker puts it into requests")
	case !m.AgentReadable:
		return forbidden("this secret is for Iris's own use and is not given out")
	}
	answer(w, http.StatusOK, map[string]any{"value": v.Reveal()})
	return nil
}

func (s *Server) secretMeta(w http.ResponseWriter, r *http.Request, c caller) error {
	name := r.PathValue("name")
	if err := s.mayKnow(c, name); err != nil {
		return err
	}
	src, err := s.secrets()
	if err != nil {
		return err
	}
	m, err := src.Meta(r.Context(), name)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, m)
	return nil
}

func (s *Server) secretList(w http.ResponseWriter, r *http.Request, _ caller) error {
	src, err := s.secrets()
	if err != nil {
		return err
	}
	all, err := src.List(r.Context())
	if err != nil {
		return err
	}
	if all == nil {
		all = []secret.Meta{}
	}
	answer(w, http.StatusOK, map[string]any{"secrets": all})
	return nil
}

// secretPut stores a secret. A turn may store what is not there yet: what a
// person or an earlier turn has stored is not for a command to replace.
func (s *Server) secretPut(w http.ResponseWriter, r *http.Request, c caller) error {
	name := r.PathValue("name")
	if err := s.mayKnow(c, name); err != nil {
		return err
	}
	b, err := decode[struct {
		Value         string        `json:"value"`
		Source        secret.Origin `json:"source"`
		ProxyOnly     *bool         `json:"proxyOnly"`
		AgentReadable *bool         `json:"agentReadable"`
	}](s, w, r)
	if err != nil {
		return err
	}
	src, err := s.secrets()
	if err != nil {
		return err
	}
	put := secret.Put{Origin: secret.FromAPI, ProxyOnly: b.ProxyOnly, AgentReadable: b.AgentReadable}
	if c.kind == operator {
		switch b.Source {
		case secret.FromCLI, secret.FromImport, secret.FromDrop:
			put.Origin = b.Source
		}
	} else {
		// Two turns that store the same new name at once: the later one wins,
		// as it does for the operator.
		switch m, err := src.Meta(r.Context(), name); {
		case err == nil:
			return forbidden("there is a secret " + m.Name + " already, and a turn may not replace it: ask the operator, or use another name")
		case !errors.Is(err, secret.ErrNotFound) || errors.Is(err, secret.ErrDamaged):
			return err
		}
	}
	m, err := src.Put(r.Context(), name, secret.New(b.Value), put)
	if err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "a secret was stored", "secret", m.Name, "source", m.Origin, "turn", c.turn)
	answer(w, http.StatusOK, map[string]any{"ok": true, "name": m.Name})
	return nil
}

func (s *Server) secretDelete(w http.ResponseWriter, r *http.Request, _ caller) error {
	name := r.PathValue("name")
	src, err := s.secrets()
	if err != nil {
		return err
	}
	if err := src.Delete(r.Context(), name); err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "a secret was removed", "secret", name)
	answer(w, http.StatusOK, map[string]any{"ok": true})
	return nil
}

func (s *Server) secretDrop(w http.ResponseWriter, r *http.Request, c caller) error {
	b, err := decode[struct {
		Name      string  `json:"name"`
		ChannelID string  `json:"channelId"`
		TTL       float64 `json:"ttlSeconds"`
		ProxyOnly *bool   `json:"proxyOnly"`
	}](s, w, r)
	if err != nil {
		return err
	}
	if err := secret.CheckName(b.Name); err != nil {
		return err
	}
	if c.kind == turnToken && b.ChannelID == "" {
		b.ChannelID = c.conv.Channel()
	}
	if b.ChannelID != "" {
		conv, err := chat.Parse(b.ChannelID)
		if err != nil {
			return bad("channelId: %v", err)
		}
		if !s.owns(r.Context(), c, conv) {
			return forbidden("this token may have its own conversation told only")
		}
	}
	if b.TTL < 0 || b.TTL > (7*24*time.Hour).Seconds() {
		return bad("ttlSeconds must be 60 to 86400")
	}
	if s.opts.Drops == nil {
		return secret.ErrReadOnly
	}
	d, err := s.opts.Drops.Drop(r.Context(), b.Name, b.ChannelID, time.Duration(b.TTL*float64(time.Second)), b.ProxyOnly)
	if err != nil {
		return err
	}
	answer(w, http.StatusOK, d)
	return nil
}

// secretProblem turns an error of a source into an answer, nil if it is another.
func secretProblem(err error) *problem {
	switch {
	case errors.Is(err, secret.ErrName):
		return &problem{Status: http.StatusBadRequest, Text: secret.ErrName.Error()}
	case errors.Is(err, secret.ErrEmpty), errors.Is(err, secret.ErrValue):
		return &problem{Status: http.StatusBadRequest, Text: err.Error()}
	case errors.Is(err, secret.ErrNotFound):
		return &problem{Status: http.StatusNotFound, Text: secret.ErrNotFound.Error()}
	case errors.Is(err, secret.ErrForbidden):
		return &problem{Status: http.StatusForbidden, Text: err.Error()}
	case errors.Is(err, secret.ErrReadOnly):
		return &problem{Status: http.StatusServiceUnavailable, Text: "there is no place to store secrets: make one with iris secret init"}
	case errors.Is(err, secret.ErrDisabled), errors.Is(err, secret.ErrCorrupt):
		return &problem{Status: http.StatusServiceUnavailable, Text: "the secret store cannot be used; the log says why", err: err}
	case errors.Is(err, secret.ErrUnreachable):
		return &problem{Status: http.StatusBadGateway, Text: secret.ErrUnreachable.Error(), err: err}
	case errors.Is(err, ErrTooManyDrops):
		return &problem{Status: http.StatusTooManyRequests, Text: ErrTooManyDrops.Error()}
	}
	return nil
}
