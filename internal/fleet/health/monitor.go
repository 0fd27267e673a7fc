package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/fleet"
)

// A Unit is what the service manager knows of an agent.
type Unit struct {
	// State is its word: running, waiting, stopped, failed, missing. Empty: it
	// is not known who runs the agent.
	State    string
	Detail   string
	Restarts int
	Memory   int64
}

// unitStopped is the state of an agent that somebody has stopped on purpose.
const unitStopped = "stopped"

// Options are what New needs.
type Options struct {
	// Agents lists who is asked. Required.
	Agents func() []fleet.Agent
	// Tell takes what a person should know. Required. It is called at most once
	// when an agent stops answering and once when it answers again.
	Tell func(ctx context.Context, text string)
	// Unit asks the service manager. nil: nothing is known.
	Unit func(ctx context.Context, a fleet.Agent) (Unit, error)
	// Restart starts an agent again that does not answer. nil: nobody does.
	Restart func(ctx context.Context, a fleet.Agent) error
	Logger  *slog.Logger // nil: slog.DiscardHandler

	// Every is the pause between rounds, Timeout what an answer may take, After
	// how many rounds in a row must fail. With the defaults of 15 s, 5 s and 3
	// an agent that stops is noticed within 50 s.
	Every, Timeout time.Duration
	After          int
	// Again is the least time between two restarts of one agent. 0: 10 min.
	Again time.Duration
}

// A View is what is known of an agent now.
type View struct {
	Report
	OK       bool      `json:"ok"`
	Error    string    `json:"error,omitempty"`
	Since    time.Time `json:"since,omitzero"` // of OK
	State    string    `json:"state,omitempty"`
	Restarts int       `json:"restarts"`
}

// A Monitor watches agents. Its methods are safe for concurrent use.
type Monitor struct {
	opts   Options
	client *http.Client

	// mu guards the fields below. It is not held while an agent is asked.
	mu   sync.Mutex
	seen map[string]*record
}

// record is what the monitor remembers of an agent.
type record struct {
	view      View
	asked     bool
	failed    int // rounds in a row
	told      bool
	restarted time.Time
}

// New checks the options. It asks nobody.
func New(opts Options) (*Monitor, error) {
	if opts.Agents == nil || opts.Tell == nil {
		return nil, errors.New("health: Agents and Tell are required")
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	for d, fallback := range map[*time.Duration]time.Duration{&opts.Every: 15 * time.Second, &opts.Timeout: 5 * time.Second, &opts.Again: 10 * time.Minute} {
		if *d == 0 {
			*d = fallback
		}
	}
	if opts.After == 0 {
		opts.After = 3
	}
	return &Monitor{opts: opts, client: NewClient(), seen: map[string]*record{}}, nil
}

// Serve asks round after round until ctx ends.
func (m *Monitor) Serve(ctx context.Context) error {
	defer m.Close()
	tick := time.NewTicker(m.opts.Every)
	defer tick.Stop()
	for {
		m.Round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Close gives back what Round holds. Serve does it itself.
func (m *Monitor) Close() { m.client.CloseIdleConnections() }

// maxAsked bounds how many agents are asked at once.
const maxAsked = 16

// Round asks every agent once and acts on what it finds.
func (m *Monitor) Round(ctx context.Context) {
	agents := m.opts.Agents()
	m.forget(agents)
	slots := make(chan struct{}, maxAsked)
	var wg sync.WaitGroup
	for _, a := range agents {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			m.look(ctx, a)
		})
	}
	wg.Wait()
}

// forget drops what is known of agents that are gone.
func (m *Monitor) forget(agents []fleet.Agent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	here := map[string]bool{}
	for _, a := range agents {
		here[a.Name] = true
	}
	for name := range m.seen {
		if !here[name] {
			delete(m.seen, name)
		}
	}
}

// look asks one agent.
func (m *Monitor) look(ctx context.Context, a fleet.Agent) {
	ask, cancel := context.WithTimeout(ctx, m.opts.Timeout)
	defer cancel()
	report, err := Ask(ask, m.client, a)
	var unit Unit
	if m.opts.Unit != nil {
		u, unitErr := m.opts.Unit(ctx, a)
		if unitErr != nil {
			m.opts.Logger.Debug("ask the service manager", "agent", a.Name, "err", unitErr)
		}
		unit = u
	}
	if ctx.Err() != nil {
		return
	}
	if what := m.note(a.Name, report, unit, err); what != nil {
		what(ctx, a, unit, err)
	}
}

// note records an answer and returns what is to be done about it.
func (m *Monitor) note(name string, report Report, unit Unit, err error) func(context.Context, fleet.Agent, Unit, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec := m.seen[name]
	if rec == nil {
		rec = &record{}
		m.seen[name] = rec
	}
	ok := err == nil
	if !rec.asked || rec.view.OK != ok {
		rec.view.Since = time.Now()
	}
	rec.asked, rec.view.OK, rec.view.Error, rec.view.State, rec.view.Restarts = true, ok, "", unit.State, unit.Restarts
	if ok {
		rec.view.Report = report
	} else {
		rec.view.Error = err.Error()
		rec.view.Running = nil
	}
	if unit.Memory > 0 {
		rec.view.Memory = unit.Memory
	}
	switch {
	case ok:
		rec.failed = 0
		if rec.told {
			rec.told = false
			return m.back
		}
	case unit.State == unitStopped:
		rec.failed = 0
	default:
		rec.failed++
		if rec.failed >= m.opts.After && !rec.told {
			rec.told = true
			return m.gone
		}
	}
	return nil
}

// gone deals with an agent that does not answer any more.
func (m *Monitor) gone(ctx context.Context, a fleet.Agent, unit Unit, err error) {
	text := fmt.Sprintf("Agent @%s does not answer: %v.", a.Name, err)
	if unit.State != "" {
		text += fmt.Sprintf(" Its service is %s.", unit.Detail)
	}
	if m.mayRestart(a.Name) {
		if err := m.opts.Restart(ctx, a); err != nil {
			m.opts.Logger.Warn("start an agent again", "agent", a.Name, "err", err)
			text += " It could not be started again: " + err.Error() + "."
		} else {
			text += " It was started again."
		}
	}
	m.opts.Tell(ctx, text)
}

// mayRestart takes the right to start an agent again.
func (m *Monitor) mayRestart(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec := m.seen[name]
	if m.opts.Restart == nil || rec == nil || time.Since(rec.restarted) < m.opts.Again {
		return false
	}
	rec.restarted = time.Now()
	return true
}

// back says that an agent answers again.
func (m *Monitor) back(ctx context.Context, a fleet.Agent, _ Unit, _ error) {
	m.opts.Tell(ctx, fmt.Sprintf("Agent @%s answers again.", a.Name))
}

// View returns what is known of an agent; false: it was not asked yet.
func (m *Monitor) View(name string) (View, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rec := m.seen[name]
	if rec == nil {
		return View{}, false
	}
	return rec.view, true
}
