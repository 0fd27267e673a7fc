package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// A handler answers one request. What it returns is written as an error.
type handler func(w http.ResponseWriter, r *http.Request, c caller) error

// A row of the route table.
type row struct {
	method, pattern string
	may             access
	run             handler
}

func (s *Server) table() []row {
	const everyone = operator | agent | turnToken
	return []row{
		{"GET", "/health", open, s.health},
		{"GET", "/readyz", open, s.ready},
		{"GET", "/openapi.json", open, s.document},
		{"GET", "/mcp/status", operator, s.mcpStatus},
		{"GET", "/agents", operator | page, s.agents},
		{"GET", "/status", operator, s.status},
		{"GET", "/channels", operator, s.channels},
		{"GET", "/approvals", operator | page, s.approvals},
		{"POST", "/approvals/{id}", operator | page, s.approve},
		{"GET", "/schedules", operator | page, s.scheduleList},
		{"POST", "/schedules", operator | page, s.scheduleAdd},
		{"POST", "/schedules/{name}", operator | page, s.scheduleChange},
		{"POST", "/event", everyone, s.event},
		{"POST", "/escalate", everyone, s.escalate},

		{"GET", "/secrets", operator, s.secretList},
		{"GET", "/secrets/{name}", everyone, s.secretGet},
		{"GET", "/secret/{name}", everyone, s.secretGet},
		{"GET", "/meta/{name}", everyone, s.secretMeta},
		{"PUT", "/secrets/{name}", operator | turnToken, s.secretPut},
		{"PUT", "/secret/{name}", operator | turnToken, s.secretPut},
		{"DELETE", "/secrets/{name}", operator, s.secretDelete},
		{"DELETE", "/secret/{name}", operator, s.secretDelete},
		{"POST", "/secret-drops", operator | turnToken, s.secretDrop},

		{"POST", "/sessions", operator, s.sessionCreate},
		{"GET", "/sessions", operator, s.sessionList},
		{"POST", "/sessions/open", operator, s.sessionOpen},
		{"POST", "/sessions/email-inbound", operator, s.emailInbound},
		{"GET", "/sessions/{id}", operator, s.sessionGet},
		{"PATCH", "/sessions/{id}", operator, s.sessionPatch},
		{"POST", "/sessions/{id}/message", operator, s.message},
		{"POST", "/sessions/{id}/attachments", operator, s.attach},
		{"POST", "/sessions/{id}/stop", operator, s.stop},
		{"POST", "/sessions/{id}/reset", operator, s.reset},
		{"POST", "/sessions/{id}/compact", operator, s.compact},
		{"POST", "/sessions/{id}/command", operator, s.line},
		{"POST", "/sessions/{id}/inject-turn", operator, s.inject},
		{"GET", "/sessions/{id}/history", operator, s.sessionHistory},
		{"GET", "/sessions/{id}/stream", operator, s.stream},
		{"GET", "/sessions/{id}/turns/{turn}", operator, s.turnState},

		{"GET", "/rooms", operator | page, s.roomList},
		{"POST", "/rooms", operator | page, s.roomCreate},
		{"GET", "/rooms/{room}", operator | page, s.roomView},
		{"POST", "/rooms/{room}/events", operator | page, s.roomEvent},
		{"POST", "/rooms/{room}/steps", operator | page, s.roomStep},

		{"GET", "/page/threads", operator | page, s.pageThreads},
		{"GET", "/page/threads/{thread}/history", operator | page, s.pageHistory},
		{"GET", "/page/status", operator | page, s.pageStatus},
		{"POST", "/upload", operator | page, s.upload},
		{"GET", "/files/{channel}/{file}", operator | page, s.download},
	}
}

// A Route is one row of the table, for documents and tests.
type Route struct {
	Method, Pattern string
	// Open needs no token; Page may also be called behind the page's cookie.
	Open, Page bool
}

// Routes lists what the API answers.
func (s *Server) Routes() []Route {
	var all []Route
	for _, r := range s.table() {
		all = append(all, Route{r.method, r.pattern, r.may&open != 0, r.may&page != 0})
	}
	return all
}

// A spot is all rows of one pattern.
type spot struct {
	s    *Server
	rows []row
}

func (s *Server) routes() *http.ServeMux {
	spots := map[string]*spot{}
	mux := http.NewServeMux()
	for _, r := range s.table() {
		if spots[r.pattern] == nil {
			spots[r.pattern] = &spot{s: s}
			mux.Handle(r.pattern, spots[r.pattern])
		}
		spots[r.pattern].rows = append(spots[r.pattern].rows, r)
	}
	return mux
}

// row finds the row of a method; a HEAD is a GET.
func (p *spot) row(method string) (row, bool) {
	if method == http.MethodHead {
		method = http.MethodGet
	}
	i := slices.IndexFunc(p.rows, func(r row) bool { return r.method == method })
	if i < 0 {
		return row{}, false
	}
	return p.rows[i], true
}

// page reports whether any row may be called behind the page's cookie.
func (p *spot) page() bool {
	return slices.ContainsFunc(p.rows, func(r row) bool { return r.may&page != 0 })
}

func (p *spot) allow() string {
	var methods []string
	for _, r := range p.rows {
		methods = append(methods, r.method)
		if r.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	return strings.Join(methods, ", ")
}

// ServeHTTP answers a request whose path has matched. The caller was put into
// the request by its entry.
func (p *spot) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e := r.Context().Value(entryKey{}).(*entry)
	e.pattern = p.rows[0].pattern
	c, known := e.caller, e.known
	row, ok := p.row(r.Method)
	if !known && (!ok || row.may&open == 0) {
		p.s.refuse(w, r, &problem{Status: http.StatusUnauthorized, Text: "unauthorized"})
		return
	}
	if !ok {
		w.Header().Set("Allow", p.allow())
		p.s.refuse(w, r, &problem{Status: http.StatusMethodNotAllowed, Text: "method not allowed"})
		return
	}
	if row.may&(open|c.kind) == 0 {
		p.s.refuse(w, r, &problem{Status: http.StatusForbidden, Text: "this token may not call this route"})
		return
	}
	if err := row.run(w, r, c); err != nil {
		p.s.refuse(w, r, err)
	}
}

// An entry is how a request came in. It travels through the mux, which alone
// knows the parts of the path.
type entry struct {
	caller  caller
	known   bool
	pattern string
}

type entryKey struct{}

// Handler returns the API behind bearer tokens. Requests without a bearer token
// that the API has no route for, or whose route the page may call, go to rest,
// which is the web page where both share a listener; nil: there is none.
func (s *Server) Handler(rest http.Handler) http.Handler {
	return s.guard(func(w http.ResponseWriter, r *http.Request) *entry {
		if _, ok := bearer(r); !ok && rest != nil && !s.claims(r) {
			rest.ServeHTTP(w, r)
			return &entry{pattern: "page"}
		}
		c, known := s.identify(r)
		return s.dispatch(w, r, c, known)
	})
}

// Page returns the routes that the page may call, for requests whose cookie,
// Host and Origin have been checked already. Every other path is not found.
func (s *Server) Page() http.Handler {
	return s.guard(func(w http.ResponseWriter, r *http.Request) *entry {
		return s.dispatch(w, r, caller{kind: page}, true)
	})
}

// claims reports whether a path is the API's alone.
func (s *Server) claims(r *http.Request) bool {
	h, pattern := s.mux.Handler(r)
	p, ok := h.(*spot)
	return pattern != "" && ok && !p.page()
}

func (s *Server) dispatch(w http.ResponseWriter, r *http.Request, c caller, known bool) *entry {
	e := &entry{caller: c, known: known, pattern: "unknown"}
	if err := checkPath(r.URL.Path); err != nil {
		s.refuse(w, r, err)
		return e
	}
	if _, pattern := s.mux.Handler(r); pattern == "" {
		s.refuse(w, r, missing("not found"))
		return e
	}
	s.mux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), entryKey{}, e)))
	return e
}

// checkPath refuses what the mux would answer with a redirect to another path.
func checkPath(p string) error {
	if !strings.HasPrefix(p, "/") || strings.ContainsRune(p, 0) {
		return bad("malformed path")
	}
	clean := path.Clean(p)
	if p != "/" && strings.HasSuffix(p, "/") {
		clean += "/"
	}
	if clean != p {
		return bad("malformed path")
	}
	return nil
}

// guard makes a panic end its own request only, and tells the observer.
func (s *Server) guard(serve func(http.ResponseWriter, *http.Request) *entry) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w}
		begun := time.Now()
		pattern := "panic"
		defer func() {
			if v := recover(); v != nil {
				s.recovered(rec, r, v)
			}
			if s.opts.Observe != nil {
				s.opts.Observe(pattern, cmp.Or(rec.status, http.StatusOK), time.Since(begun))
			}
		}()
		pattern = serve(rec, r).pattern
	})
}

func (s *Server) recovered(w *recorder, r *http.Request, v any) {
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	err := fmt.Errorf("panic: %v\n%s", v, debug.Stack())
	if w.status != 0 {
		s.log.ErrorContext(r.Context(), "api request", "method", r.Method, "path", r.URL.Path, "error", err)
		panic(http.ErrAbortHandler) // the answer has begun: cut it, so that it cannot pass for a whole one
	}
	s.refuse(w, r, err)
}

// A recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the first status.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write counts as a 200 when no header was written.
func (w *recorder) Write(p []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
