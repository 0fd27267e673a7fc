package app

import (
	"encoding/json"
	"net/http"
	"sync/atomic"

	"github.com/iris-operator/iris/internal/lifetime"
)

// gate is what the listener serves from its first moment on: it is alive at once,
// and lets requests through when the routes behind it exist.
type gate struct {
	routes atomic.Pointer[http.Handler]
	group  atomic.Pointer[lifetime.Group]
}

func (g *gate) open(h http.Handler) { g.routes.Store(&h) }

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/readyz" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		g.readyz(w)
		return
	}
	if h := g.routes.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	if r.URL.Path == "/health" {
		writeJSON(w, http.StatusOK, map[string]any{"ok": true, "channels": 0})
		return
	}
	w.Header().Set("Retry-After", "1")
	writeJSON(w, http.StatusServiceUnavailable, map[string]any{"error": "starting"})
}

// part is one line of GET /readyz.
type part struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason,omitempty"`
}

func (g *gate) readyz(w http.ResponseWriter) {
	out := struct {
		Ready bool   `json:"ready"`
		Parts []part `json:"parts"`
	}{Parts: []part{}}
	status := http.StatusServiceUnavailable
	if group := g.group.Load(); group != nil {
		out.Ready = true
		status = http.StatusOK
		for _, s := range group.States() {
			p := part{Name: s.Name, Ready: s.Err == nil}
			if s.Err != nil {
				p.Reason = s.Err.Error()
				out.Ready = false
				status = http.StatusServiceUnavailable
			}
			out.Parts = append(out.Parts, p)
		}
	}
	writeJSON(w, status, out)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone; nobody is left to tell
}
