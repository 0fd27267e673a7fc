// Package gateway is the daemon that keeps secrets under another user: it
// answers for the store to whoever holds its token, and its gateway puts
// secrets into requests on their way to a service, so that the caller never has
// them. It is a plain http.Handler; listening is up to its user, where secrets
// lie is up to a secret.Source.
//
// The wall is the user it runs as: a process of that user, and whoever can read
// its token, can use every service, and read what is not proxy-only.
package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/secret"
)

// Options are what New needs.
type Options struct {
	Source secret.Source // required
	Token  secret.Value  // required: there is no broker without one
	// Services are those of the gateway by name; see Services. nil: none.
	Services map[string]Service
	// Transport reaches the services. nil means one of this package, that goes
	// through no proxy and follows no redirect.
	Transport http.RoundTripper
	Logger    *slog.Logger // nil: slog.DiscardHandler
}

// Limits of requests. A body that is passed on is streamed; its size is bounded
// all the same.
const (
	maxJSON  = 512 << 10
	maxProxy = 10 << 20
	bodyTime = 30 * time.Second
)

// A Server answers. It is safe for concurrent use.
type Server struct {
	opts Options
	log  *slog.Logger
}

// New checks the options.
func New(opts Options) (*Server, error) {
	switch {
	case opts.Source == nil:
		return nil, errors.New("a broker needs a source of secrets")
	case opts.Token.IsZero():
		return nil, errors.New("IRIS_SECRET_BROKER_TOKEN is not set: a broker does not start without a token")
	}
	if opts.Transport == nil {
		opts.Transport = newTransport()
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	for name, s := range opts.Services {
		if err := s.check(name); err != nil {
			return nil, err
		}
	}
	return &Server{opts, opts.Logger}, nil
}

// Close ends the connections to services that wait for the next request.
func (s *Server) Close() {
	if t, ok := s.opts.Transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// ServeHTTP answers one request. Paths are looked at as they came: nothing is
// cleaned or redirected.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	if first == "health" && rest == "" {
		answer(w, http.StatusOK, map[string]any{"ok": true})
		return
	}
	if !s.authorized(r) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "unauthorized")
		return
	}
	switch {
	case first == "secrets" && rest == "":
		s.list(w, r)
	case first == "meta" && rest != "":
		s.meta(w, r, rest)
	case first == "secret" && rest != "":
		s.secret(w, r, rest)
	case first == "proxy" && rest != "":
		service, below, _ := strings.Cut(rest, "/")
		s.proxy(w, r, service, below)
	default:
		refuse(w, http.StatusNotFound, "not found")
	}
}

func (s *Server) authorized(r *http.Request) bool {
	all := r.Header.Values("Authorization")
	if len(all) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	return strings.EqualFold(scheme, "bearer") && s.opts.Token.Equal(strings.TrimSpace(token))
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	if !method(w, r, http.MethodGet) {
		return
	}
	all, err := s.opts.Source.List(r.Context())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if all == nil {
		all = []secret.Meta{}
	}
	answer(w, http.StatusOK, map[string]any{"secrets": all})
}

func (s *Server) meta(w http.ResponseWriter, r *http.Request, name string) {
	if !method(w, r, http.MethodGet) {
		return
	}
	m, err := s.opts.Source.Meta(r.Context(), name)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer(w, http.StatusOK, m)
}

func (s *Server) secret(w http.ResponseWriter, r *http.Request, name string) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		// The flag is looked at before the value, and again with it: a write
		// in between must not open what it closes.
		v, m, err := s.opts.Source.Get(r.Context(), name)
		if err == nil && m.ProxyOnly {
			err = fmt.Errorf("%w: it is proxy-only", secret.ErrForbidden)
		}
		if err != nil {
			s.fail(w, r, err)
			return
		}
		answer(w, http.StatusOK, map[string]any{"value": v.Reveal()})
	case http.MethodPut:
		s.put(w, r, name)
	case http.MethodDelete:
		if err := s.opts.Source.Delete(r.Context(), name); err != nil {
			s.fail(w, r, err)
			return
		}
		answer(w, http.StatusOK, map[string]any{"ok": true})
	default:
		method(w, r, "GET, PUT, DELETE")
	}
}

func (s *Server) put(w http.ResponseWriter, r *http.Request, name string) {
	if err := secret.CheckName(name); err != nil {
		s.fail(w, r, err)
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // recorders in tests have none
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSON))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		refuse(w, http.StatusRequestEntityTooLarge, "the body is too large")
		return
	}
	var b struct {
		Value         *string        `json:"value"`
		Source        *secret.Origin `json:"source"`
		ProxyOnly     *bool          `json:"proxyOnly"`
		AgentReadable *bool          `json:"agentReadable"`
	}
	if err != nil || json.Unmarshal(data, &b) != nil {
		refuse(w, http.StatusBadRequest, "invalid JSON body")
		return
	}
	if b.Value == nil || *b.Value == "" {
		refuse(w, http.StatusBadRequest, "missing value")
		return
	}
	put := secret.Put{ProxyOnly: b.ProxyOnly, AgentReadable: b.AgentReadable, Origin: secret.FromAPI}
	if b.Source != nil {
		switch *b.Source {
		case secret.FromDrop, secret.FromAPI, secret.FromCLI, secret.FromImport, "":
			put.Origin = *b.Source
		}
	}
	m, err := s.opts.Source.Put(r.Context(), name, secret.New(*b.Value), put)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"ok": true, "name": m.Name})
}

// fail answers an error of the source. Details go to the log alone.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, secret.ErrName):
		refuse(w, http.StatusBadRequest, secret.ErrName.Error())
	case errors.Is(err, secret.ErrEmpty), errors.Is(err, secret.ErrValue):
		refuse(w, http.StatusBadRequest, err.Error())
	case errors.Is(err, secret.ErrNotFound):
		refuse(w, http.StatusNotFound, secret.ErrNotFound.Error())
	case errors.Is(err, secret.ErrForbidden):
		refuse(w, http.StatusForbidden, err.Error())
	case errors.Is(err, secret.ErrReadOnly), errors.Is(err, secret.ErrDisabled), errors.Is(err, secret.ErrCorrupt):
		s.log.Error("broker: the store cannot be used", "method", r.Method, "err", err)
		refuse(w, http.StatusServiceUnavailable, "the secret store cannot be used")
	default:
		s.log.Error("broker: request failed", "method", r.Method, "err", err)
		refuse(w, http.StatusInternalServerError, "internal server error")
	}
}

// method reports whether a request has one of the methods, and refuses it if not.
func method(w http.ResponseWriter, r *http.Request, allow string) bool {
	if r.Method == allow || allow == http.MethodGet && r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", allow)
	refuse(w, http.StatusMethodNotAllowed, "method not allowed")
	return false
}

func refuse(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]any{"error": text})
}

func answer(w http.ResponseWriter, status int, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":"internal server error"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n')) // the client may be gone
}

// unclean reports whether a path could mean another one to the service.
func unclean(escaped string) bool {
	lower := strings.ToLower(escaped)
	// An encoded dot, slash, backslash, percent or NUL is decoded once more by
	// many servers.
	for _, bad := range []string{"%2e", "%2f", "%5c", "%25", "%00", "\\", "//"} {
		if strings.Contains(lower, bad) {
			return true
		}
	}
	clean := path.Clean("/" + escaped)
	if strings.HasSuffix(escaped, "/") && clean != "/" {
		clean += "/"
	}
	return clean != "/"+escaped
}
