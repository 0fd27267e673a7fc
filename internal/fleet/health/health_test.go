package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/fleet"
	"github.com/iris-operator/iris/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// subAgent is an agent whose API can be made to fail.
type subAgent struct {
	fleet.Agent
	down  atomic.Bool
	hangs atomic.Bool
	until chan struct{}
}

func newAgent(t *testing.T, name string) *subAgent {
	t.Helper()
	s := &subAgent{until: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		if s.hangs.Load() {
			select {
			case <-r.Context().Done():
			case <-s.until:
			}
			return
		}
		if s.down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token-of-"+name {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		fmt.Fprint(w, `{"version":"v1","running":[{"channel":"BRIDGE-x","since":"2026-01-02T03:04:05Z"}],"last":{"channel":"BRIDGE-y","at":"2026-01-02T03:04:05Z","outcome":"final"},"turns":7,"cost":0.5,"memory":1024}`)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	t.Cleanup(func() { close(s.until) })
	port := srv.Listener.Addr().(*net.TCPAddr).Port
	s.Agent = fleet.Agent{Name: name, BridgeURL: fmt.Sprintf("http://127.0.0.1:%d/", port-fleet.APIOffset), Token: secret.New("token-of-" + name)}
	return s
}

func TestAsk(t *testing.T) {
	s := newAgent(t, "billing")
	client := NewClient()
	defer client.CloseIdleConnections()
	r, err := Ask(t.Context(), client, s.Agent)
	if err != nil || r.Version != "v1" || r.Turns != 7 || r.Cost != .5 || r.Memory != 1024 || len(r.Running) != 1 || r.Last.Outcome != "final" {
		t.Errorf("Ask = %+v, %v", r, err)
	}
	for name, token := range map[string]secret.Value{"no token": {}, "another token": secret.New("x")} {
		a := s.Agent
		a.Token = token
		if r, err := Ask(t.Context(), client, a); err != nil || r.Version != "" {
			t.Errorf("%s: Ask = %+v, %v, want a healthy agent that says nothing", name, r, err)
		}
	}
	s.down.Store(true)
	if _, err := Ask(t.Context(), client, s.Agent); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("Ask = %v", err)
	}
	if _, err := Ask(t.Context(), client, fleet.Agent{Name: "x"}); err == nil {
		t.Error("an agent without a bridge is healthy")
	}
	if got := URL(fleet.Agent{BridgeURL: "https://h"}); got != "https://h:543" {
		t.Errorf("URL = %s", got)
	}
}

func TestWaitForEndsWithTheLastError(t *testing.T) {
	s := newAgent(t, "billing")
	client := NewClient()
	defer client.CloseIdleConnections()
	if err := WaitFor(t.Context(), client, s.Agent); err != nil {
		t.Error(err)
	}
	s.down.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := WaitFor(ctx, client, s.Agent); err == nil {
		t.Error("WaitFor: no error")
	}
}

// desk collects what people are told.
type desk struct {
	mu   sync.Mutex
	said []string
}

func (d *desk) tell(_ context.Context, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said = append(d.said, text)
}

func (d *desk) take() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.said
	d.said = nil
	return out
}

func monitor(t *testing.T, d *desk, opts Options, agents ...*subAgent) *Monitor {
	t.Helper()
	opts.Agents = func() []fleet.Agent {
		var all []fleet.Agent
		for _, a := range agents {
			all = append(all, a.Agent)
		}
		return all
	}
	opts.Tell = d.tell
	opts.Timeout = 200 * time.Millisecond
	m, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.client.CloseIdleConnections)
	return m
}

// TestNoticedAfterThreeRounds: within 3 × 15 s and one timeout, which is less
// than a minute.
func TestNoticedAfterThreeRounds(t *testing.T) {
	for name, fail := range map[string]func(*subAgent){
		"an error": func(s *subAgent) { s.down.Store(true) },
		"hangs":    func(s *subAgent) { s.hangs.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			d := &desk{}
			s, other := newAgent(t, "billing"), newAgent(t, "ops")
			m := monitor(t, d, Options{}, s, other)
			m.Round(t.Context())
			if v, ok := m.View("billing"); !ok || !v.OK || v.Turns != 7 || v.Since.IsZero() {
				t.Errorf("View = %+v, %v", v, ok)
			}
			fail(s)
			for round := range 5 {
				m.Round(t.Context())
				said := d.take()
				if want := round == 2; want != (len(said) == 1) {
					t.Errorf("round %d: told %q", round+1, said)
				}
				if len(said) == 1 && !strings.Contains(said[0], "@billing does not answer") {
					t.Errorf("told %q", said)
				}
			}
			if v, _ := m.View("billing"); v.OK || v.Error == "" || v.Running != nil {
				t.Errorf("View = %+v", v)
			}
			if v, _ := m.View("ops"); !v.OK {
				t.Errorf("the other: %+v", v)
			}
			s.down.Store(false)
			s.hangs.Store(false)
			m.Round(t.Context())
			if said := d.take(); len(said) != 1 || !strings.Contains(said[0], "answers again") {
				t.Errorf("told %q", said)
			}
		})
	}
	m, err := New(Options{Agents: func() []fleet.Agent { return nil }, Tell: (&desk{}).tell})
	if err != nil {
		t.Fatal(err)
	}
	if worst := time.Duration(m.opts.After)*m.opts.Every + m.opts.Timeout; worst > time.Minute {
		t.Errorf("noticed after %v", worst)
	}
}

func TestARunningAgentThatHangsIsStartedAgain(t *testing.T) {
	d := &desk{}
	s := newAgent(t, "billing")
	var starts int
	var fails error
	m := monitor(t, d, Options{After: 1,
		Unit: func(context.Context, fleet.Agent) (Unit, error) {
			return Unit{State: "running", Detail: "active (running)", Restarts: 4, Memory: 9}, nil
		},
		Restart: func(_ context.Context, a fleet.Agent) error { starts++; return fails },
	}, s)
	s.down.Store(true)
	m.Round(t.Context())
	if said := d.take(); starts != 1 || len(said) != 1 || !strings.Contains(said[0], "started again") || !strings.Contains(said[0], "active (running)") {
		t.Errorf("started %d times, told %q", starts, said)
	}
	if v, _ := m.View("billing"); v.Restarts != 4 || v.Memory != 9 || v.State != "running" {
		t.Errorf("View = %+v", v)
	}
	// It comes back and goes again: not every ten seconds.
	s.down.Store(false)
	m.Round(t.Context())
	s.down.Store(true)
	m.Round(t.Context())
	if starts != 1 {
		t.Errorf("started %d times within the pause", starts)
	}
	d.take()
	m.opts.Again = time.Nanosecond
	fails = errors.New("no rights")
	s.down.Store(false)
	m.Round(t.Context())
	s.down.Store(true)
	m.Round(t.Context())
	if said := d.take(); starts != 2 || !strings.Contains(strings.Join(said, " "), "could not be started again: no rights") {
		t.Errorf("started %d times, told %q", starts, said)
	}
}

func TestAStoppedAgentIsNoNews(t *testing.T) {
	d := &desk{}
	s := newAgent(t, "billing")
	m := monitor(t, d, Options{After: 1, Unit: func(context.Context, fleet.Agent) (Unit, error) { return Unit{State: "stopped"}, nil }}, s)
	s.down.Store(true)
	for range 3 {
		m.Round(t.Context())
	}
	if said := d.take(); len(said) != 0 {
		t.Errorf("told %q", said)
	}
}

func TestWhoIsGoneIsForgotten(t *testing.T) {
	d := &desk{}
	agents := []fleet.Agent{newAgent(t, "a").Agent, newAgent(t, "b").Agent}
	m, err := New(Options{Agents: func() []fleet.Agent { return slices.Clone(agents) }, Tell: d.tell})
	if err != nil {
		t.Fatal(err)
	}
	defer m.client.CloseIdleConnections()
	m.Round(t.Context())
	agents = agents[:1]
	m.Round(t.Context())
	if _, ok := m.View("b"); ok {
		t.Error("b is remembered")
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	d := &desk{}
	s := newAgent(t, "billing")
	rounds := make(chan struct{}, 10)
	m := monitor(t, d, Options{Every: time.Millisecond, Unit: func(context.Context, fleet.Agent) (Unit, error) {
		select {
		case rounds <- struct{}{}:
		default:
		}
		return Unit{}, errors.New("no bus")
	}}, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Serve(ctx) }()
	<-rounds
	<-rounds
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve = %v", err)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("New without Agents: no error")
	}
}
