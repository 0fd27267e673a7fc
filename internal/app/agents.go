package app

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/iris-operator/iris/internal/fleet"
	"github.com/iris-operator/iris/internal/fleet/health"
	"github.com/iris-operator/iris/internal/fleet/spawn"
	"github.com/iris-operator/iris/internal/secret"
)

// newToken returns a token of 192 random bits.
func newToken() secret.Value {
	b := make([]byte, 24)
	rand.Read(b) //nolint:errcheck // never fails: it ends the process instead
	return secret.New(hex.EncodeToString(b))
}

// registry opens the registry for a subcommand. A broken one is an error here:
// there is no last good state to go on with.
func registry(opts Options) (*fleet.Registry, error) {
	fo := fleetOptions(opts.Config)
	fo.Logger = slog.New(slog.DiscardHandler)
	r, err := fleet.Open(fo)
	if err != nil {
		return nil, err
	}
	return r, r.Err()
}

// RegisterOptions describe an entry; what is empty stays as it was.
type RegisterOptions struct {
	Name, URL, Description string
	Secrets                []string
	// TokenFrom is where the token is read from, a line. nil: it stays.
	TokenFrom io.Reader
	// NewToken makes a token and prints it, once.
	NewToken bool
}

// maxTokenLine bounds a token on standard input.
const maxTokenLine = 4 << 10

// RegisterAgent adds an agent to the registry or changes it.
func RegisterAgent(opts Options, ro RegisterOptions) error {
	r, err := registry(opts)
	if err != nil {
		return err
	}
	a := fleet.Agent{Name: ro.Name, BridgeURL: ro.URL, Description: ro.Description, Secrets: ro.Secrets}
	switch {
	case ro.NewToken:
		a.Token = newToken()
	case ro.TokenFrom != nil:
		line, err := bufio.NewReader(io.LimitReader(ro.TokenFrom, maxTokenLine)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the token: %w", err)
		}
		a.Token = secret.New(strings.TrimRight(line, "\r\n"))
	}
	if err := r.Register(a); err != nil {
		return err
	}
	if ro.NewToken {
		_, err = fmt.Fprintln(opts.Out, a.Token.Reveal())
		return err
	}
	_, err = fmt.Fprintf(opts.Out, "registered @%s\n", a.Name)
	return err
}

// ReserveAgent registers an agent at the next free port and prints the port.
func ReserveAgent(opts Options, ro RegisterOptions, base int) error {
	r, err := registry(opts)
	if err != nil {
		return err
	}
	a, err := r.Reserve(fleet.Agent{Name: ro.Name, Description: ro.Description, Secrets: ro.Secrets}, base, nil)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(opts.Out, a.Port())
	return err
}

// agentView is an entry as people and scripts see it; the token is not shown.
type agentView struct {
	Name        string   `json:"name"`
	BridgeURL   string   `json:"bridge_url"`
	Description string   `json:"description,omitempty"`
	Secrets     []string `json:"secrets,omitempty"`
	Token       bool     `json:"has_token"`
}

func viewOf(a fleet.Agent) agentView {
	return agentView{a.Name, a.BridgeURL, a.Description, a.Secrets, !a.Token.IsZero()}
}

// ShowAgent prints one entry.
func ShowAgent(opts Options, name string, asJSON bool) error {
	r, err := registry(opts)
	if err != nil {
		return err
	}
	a, ok := r.Get(name)
	if !ok {
		return fmt.Errorf("%q: %w; see iris agent list", name, fleet.ErrUnknown)
	}
	v := viewOf(a)
	if asJSON {
		return writeIndented(opts.Out, v)
	}
	w := tabwriter.NewWriter(opts.Out, 0, 0, 2, ' ', 0)
	token := "none: it has no identity of its own"
	if v.Token {
		token = "yes"
	}
	fmt.Fprintf(w, "name\t%s\nbridge\t%s\ndescription\t%s\nsecrets\t%s\ntoken\t%s\n",
		v.Name, printable(v.BridgeURL), printable(v.Description), orNone(strings.Join(v.Secrets, ", ")), token)
	return w.Flush()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return printable(s)
}

func writeIndented(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// NextPort prints the first port from base on that is clear of every agent's.
func NextPort(opts Options, base int) error {
	r, err := registry(opts)
	if err != nil {
		return err
	}
	port, err := r.NextPort(base)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(opts.Out, port)
	return err
}

// askFor is how long the agents of a list may take to answer.
const askFor = 3 * time.Second

// listed is an agent in a list, with how it is.
type listed struct {
	agentView
	Mode   string      `json:"mode,omitempty"`
	Health health.View `json:"health"`
}

// ListAgents prints the agents and how they are, having asked them.
func ListAgents(ctx context.Context, opts Options, asJSON bool) error {
	r, err := registry(opts)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	m, err := health.New(health.Options{
		Agents: r.List, Tell: func(context.Context, string) {}, Timeout: askFor,
		Unit: func(ctx context.Context, a fleet.Agent) (health.Unit, error) { return unitOf(ctx, opts, a) },
	})
	if err != nil {
		return err
	}
	defer m.Close()
	m.Round(ctx)
	all := []listed{}
	for _, a := range r.List() {
		v, _ := m.View(a.Name)
		all = append(all, listed{viewOf(a), a.Mode, v})
	}
	if asJSON {
		return writeIndented(opts.Out, all)
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(opts.Out, "There are no agents. Make one with: iris agent spawn <name> <purpose>")
		return err
	}
	return printAgents(opts.Out, all)
}

func printAgents(out io.Writer, all []listed) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tHEALTH\tRUNNING\tLAST TURN\tMEMORY\tRESTARTS\tCOST\tBRIDGE\tFOR")
	for _, a := range all {
		v := a.Health
		state := "well"
		switch {
		case !v.OK && v.State == string(spawn.Stopped):
			state = "stopped"
		case !v.OK:
			state = "does not answer"
		}
		running, last, memory := "-", "-", "-"
		if len(v.Running) > 0 {
			running = v.Running[0].Channel + " for " + time.Since(v.Running[0].Since).Round(time.Second).String()
		}
		if v.Last != nil {
			last = v.Last.Outcome + " " + shortTime(v.Last.At)
		}
		if v.Memory > 0 {
			memory = fmt.Sprintf("%.1f MiB", float64(v.Memory)/(1<<20))
		}
		fmt.Fprintf(w, "@%s\t%s\t%s\t%s\t%s\t%d\t$%.4f\t%s\t%s\n", a.Name, state, printable(running), printable(last), memory, v.Restarts, v.Cost, printable(a.BridgeURL), cutText(printable(a.Description), 60))
	}
	return w.Flush()
}

func cutText(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// ControlAgent acts on an agent that was spawned: "stop", "restart" or "remove". An
// agent that runs elsewhere can only be removed, which takes it out of the
// registry.
func ControlAgent(ctx context.Context, opts Options, name, verb string) error {
	r, err := registry(opts)
	if err != nil {
		return err
	}
	a, ok := r.Get(name)
	if !ok {
		return fmt.Errorf("%q: %w; see iris agent list", name, fleet.ErrUnknown)
	}
	if a.Mode == "" && verb != "remove" {
		return fmt.Errorf("@%s was not spawned by iris: %s it where it runs", name, verb)
	}
	if a.Mode != "" {
		d, done, err := driverOf(opts, a)
		if err != nil {
			return err
		}
		defer done()
		act := map[string]func(context.Context, string) error{"stop": d.Stop, "restart": d.Restart, "remove": d.Remove}[verb]
		if err := act(ctx, name); err != nil {
			return err
		}
	}
	if verb == "remove" {
		// The service is gone first: an entry without a service can be removed
		// again, a service without an entry would be forgotten.
		if _, err := r.Remove(name); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(opts.Out, "@%s: %s\n", name, map[string]string{"stop": "stopped", "restart": "started", "remove": "removed; its files stay"}[verb])
	return err
}

// AgentLogs copies what an agent printed.
func AgentLogs(ctx context.Context, opts Options, name string, lines int, follow bool) error {
	r, err := registry(opts)
	if err != nil {
		return err
	}
	a, ok := r.Get(name)
	if !ok {
		return fmt.Errorf("%q: %w; see iris agent list", name, fleet.ErrUnknown)
	}
	if a.Mode == "" {
		return fmt.Errorf("@%s was not spawned by iris: its log is where it runs", name)
	}
	d, done, err := driverOf(opts, a)
	if err != nil {
		return err
	}
	defer done()
	return d.Logs(ctx, name, opts.Out, spawn.LogOptions{Lines: lines, Follow: follow})
}

// onlyProvider returns a models.json with one provider of another.
func onlyProvider(text []byte, provider string) ([]byte, error) {
	var all struct {
		Providers map[string]json.RawMessage `json:"providers"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, errors.New("models.json is not JSON")
	}
	one, ok := all.Providers[provider]
	if !ok {
		return nil, nil
	}
	return json.Marshal(map[string]any{"providers": map[string]json.RawMessage{provider: one}})
}
