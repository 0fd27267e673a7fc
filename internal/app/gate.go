package app

import (
	"context"
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/iris-operator/iris/internal/lifetime"
)

// gate is what the listener serves from its first moment on: it is alive at once.
// Requests that come before the routes behind it exist wait for them.
type gate struct {
	group  atomic.Pointer[lifetime.Group]
	routes atomic.Pointer[http.Handler]
	// opened is closed when routes is set.
	opened chan struct{}
	// patience is how long a request waits before it is told to come again.
	patience time.Duration
}

// gatePatience outlasts a start that has to read a journal cut off by a crash.
const gatePatience = 10 * time.Second

func newGate() *gate { return &gate{opened: make(chan struct{}), patience: gatePatience} }

// open lets requests through. It is called once.
func (g *gate) open(h http.Handler) {
	g.routes.Store(&h)
	close(g.opened)
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/readyz" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		g.readyz(w)
		return
	}
	if r.URL.Path == "/health" && g.routes.Load() == nil {
		writeJSON(w, http.StatusOK, map[string]any{"ok": true, "channels": 0})
		return
	}
	if !g.wait(r.Context()) {
		w.Header().Set("Retry-After", "1")
		writeJSON(w, http.StatusServiceUnavailable, map[string]any{"error": "starting"})
		return
	}
	(*g.routes.Load()).ServeHTTP(w, r)
}

// wait reports whether the gate is open, now or within its patience.
func (g *gate) wait(ctx context.Context) bool {
	select {
	case <-g.opened:
		return true
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, g.patience)
	defer cancel()
	select {
	case <-g.opened:
		return true
	case <-ctx.Done():
		return false
	}
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
