package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/iris-operator/iris/internal/api"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/durable"
	"github.com/iris-operator/iris/internal/secret"
)

// escalateTimeout bounds one attempt to reach who an agent works for.
const escalateTimeout = 15 * time.Second

// SelfHealOptions are what an agent has to say about its own trouble.
type SelfHealOptions struct {
	Agent, Reason, Context, Severity string
	// Email sends the report to a person as well, also when Iris cannot be
	// reached: the configured address, for an agent must not write to others.
	Email bool
	// Restart starts the agent's service again after the report.
	Restart bool
}

// SelfHeal reports trouble: to the API at IRIS_API_URL, else as a file in
// IRIS_EVENTS_DIR, which is read when Iris is back.
func SelfHeal(ctx context.Context, opts Options, so SelfHealOptions) error {
	if so.Agent == "" {
		so.Agent = lookup(opts.Environ, "AGENT_NAME")
	}
	e := api.Escalation{Agent: so.Agent, Issue: so.Reason, Context: so.Context, Severity: so.Severity, Environment: opts.Config.Env}
	if err := e.Check(); err != nil {
		return err
	}
	how, err := escalate(ctx, e, escalationWay(opts))
	if err == nil {
		_, err = fmt.Fprintln(opts.Out, how)
	}
	if so.Email {
		mailed := mailEscalation(ctx, opts.Config.Mail, e, time.Now())
		if mailed == nil {
			_, mailed = fmt.Fprintln(opts.Out, "mailed")
		}
		err = errors.Join(err, mailed)
	}
	if err != nil {
		return err
	}
	if !so.Restart {
		return nil
	}
	cmd := exec.CommandContext(ctx, "systemctl", "restart", "iris-agent-"+so.Agent+".service")
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("restart iris-agent-%s.service: %w: %s", so.Agent, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// way is how an escalation gets to who should know.
type way struct {
	url    string
	token  secret.Value
	events string
	http   *http.Client // nil: over the network
}

// escalationWay reads it from the environment of a command of a turn, or of the
// agent's own service.
func escalationWay(opts Options) way {
	w := way{url: lookup(opts.Environ, "IRIS_API_URL"), events: opts.Config.Agents.Events, http: throughDoor(opts.Environ)}
	if t := lookup(opts.Environ, "IRIS_TURN_TOKEN"); t != "" {
		w.token = secret.New(t)
		return w
	}
	w.token = parentToken(opts)
	return w
}

// parentToken is what an agent proves itself with where it works.
func parentToken(opts Options) secret.Value {
	if !opts.Config.Secrets.BrokerToken.IsZero() {
		return opts.Config.Secrets.BrokerToken
	}
	return opts.Config.API.Token
}

// escalate posts e, or leaves it as a file. how says which.
func escalate(ctx context.Context, e api.Escalation, w way) (how string, err error) {
	var errs []error
	if w.url != "" {
		id, err := postEscalation(ctx, e, w)
		if err == nil {
			return "reported: " + id, nil
		}
		errs = append(errs, err)
	}
	if w.events != "" {
		file, err := leaveEscalation(w.events, e, time.Now())
		if err == nil {
			return "left for when Iris is back: " + file, nil
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		errs = append(errs, errors.New("neither IRIS_API_URL nor IRIS_EVENTS_DIR says where to"))
	}
	return "", fmt.Errorf("escalate: %w", errors.Join(errs...))
}

func postEscalation(ctx context.Context, e api.Escalation, w way) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, escalateTimeout)
	defer cancel()
	body, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(w.url, "/")+"/escalate", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+w.token.Reveal())
	client := w.http
	if client == nil {
		client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var told struct{ EventID, Error string }
	if err := json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&told); err != nil || res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answers %s %s", w.url, res.Status, told.Error)
	}
	return told.EventID, nil
}

// leaveEscalation writes an event file and returns its path. Whoever reads the
// directory sees a whole file or none.
func leaveEscalation(dir string, e api.Escalation, at time.Time) (path string, err error) {
	var random [4]byte
	rand.Read(random[:]) //nolint:errcheck // never fails: it ends the process instead
	body, err := json.Marshal(map[string]any{
		"type": "immediate", "channelId": chat.Address{Space: chat.Escalate, ID: e.Agent}.Channel(), "text": e.Text(at),
		"user": e.Agent,
		"meta": map[string]string{"kind": "self-heal", "agent": e.Agent, "severity": e.Severity, "environment": e.Environment, "at": at.UTC().Format(time.RFC3339)},
	})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, fmt.Sprintf("selfheal-%d-%s.json", at.Unix(), hex.EncodeToString(random[:])))
	// The agent may write into the directory and its parent reads there: 0644,
	// whatever the mask, in a directory that only the two can enter.
	return path, durable.Create(path, append(body, '\n'), durable.Exactly(0o644))
}

// forward hands an escalation of this process to who it works for; nil: it works
// for nobody. Commands of a turn reach their own API alone, which passes it on,
// so that they never see the token.
func (s *server) forward() func(context.Context, api.Escalation) (string, error) {
	cfg := s.opts.Config
	if cfg.Agents.Parent == "" || strings.TrimSuffix(cfg.Agents.Parent, "/") == s.url {
		return nil
	}
	w := way{url: cfg.Agents.Parent, token: parentToken(s.opts), events: cfg.Agents.Events}
	name := lookup(s.opts.Environ, "AGENT_NAME")
	return func(ctx context.Context, e api.Escalation) (string, error) {
		if name != "" {
			e.Agent = name
		}
		return escalate(ctx, e, w)
	}
}
