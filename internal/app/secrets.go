package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/secret/broker"
	"github.com/iris-operator/iris/internal/secret/env"
	"github.com/iris-operator/iris/internal/secret/redact"
	"github.com/iris-operator/iris/internal/secret/store"
	"github.com/iris-operator/iris/internal/secret/veil"
)

// secrets is where secrets come from and what keeps them from getting out.
type secrets struct {
	// source serves them all; every value that it gives or takes is redacted
	// from then on.
	source secret.Source
	// store is the encrypted file where there is one, nil in the other modes.
	store  *store.Store
	redact *redact.Redactor
	veil   *veil.Veil
	cfg    *config.Config
	log    *slog.Logger
	close  func()

	// mu guards the fields below.
	mu    sync.Mutex
	known map[string]time.Time // when the secrets of the store were last changed
}

// words are those that Iris's own files are made of: redacting them would break
// the files.
var words = []string{
	"assistant", "thinking", "accepted", "checkpoint", "conversation", "attachments", "originChannel", "interrupted", "toolName",
	"sessionId", "createdAt", "updatedAt", "timestamp", "messages", "provider", "isError", "cacheRead", "cacheWrite", "userName", "displayName",
	"durationMs", "filename", "password", "username", "terminal", "schedule", "localhost", "workspace", "anthropic", "anonymous", "administrator",
}

// newRedactor knows the keys of the process itself.
func newRedactor(cfg *config.Config, more ...secret.Value) *redact.Redactor {
	r := redact.New(redact.Options{Except: words})
	for _, v := range append(more, cfg.API.Token, cfg.Web.Password, cfg.Secrets.BrokerToken, cfg.Bridge.Token, cfg.Mail.Password, cfg.Telegram.Token, cfg.Slack.AppToken, cfg.Slack.BotToken) {
		r.Keep(v)
	}
	for _, name := range env.Sensitive() {
		if v, ok := cfg.Lookup(name); ok {
			r.Keep(v)
		}
	}
	return r
}

// openSecrets finds the source of the configured mode.
func openSecrets(cfg *config.Config, r *redact.Redactor, log *slog.Logger) (*secrets, error) {
	s := &secrets{redact: r, veil: veil.New(r), cfg: cfg, log: log, close: func() {}, known: map[string]time.Time{}}
	source, err := s.open()
	if err != nil {
		return nil, err
	}
	s.source = noting{source, r}
	s.refresh(context.Background())
	return s, nil
}

func (s *secrets) open() (secret.Source, error) {
	if s.cfg.Secrets.BrokerURL != "" {
		c, err := newBroker(s.cfg)
		if err != nil {
			return nil, err
		}
		s.close = c.Close
		return c, nil
	}
	vars, err := env.New(env.Options{Lookup: s.cfg.Lookup, Known: s.sensitive})
	if err != nil {
		return nil, err
	}
	if s.cfg.Secrets.Mode != config.SecretsStore {
		if list, err := vars.List(context.Background()); err == nil && len(list) > 0 {
			s.log.Warn("keys lie in the environment in plain text: iris secret init and iris secret import-env move them into an encrypted store", "variables", len(list))
		}
		return vars, nil
	}
	if s.store, err = newStore(s.cfg, s.log); err != nil {
		return nil, err
	}
	if err := s.store.Check(); err != nil {
		s.log.Error("secrets cannot be read from the store", "err", err)
	}
	return secret.Chain{First: s.store, Second: vars}, nil
}

func newBroker(cfg *config.Config) (*broker.Client, error) {
	return broker.New(broker.Options{URL: cfg.Secrets.BrokerURL, Token: cfg.Secrets.BrokerToken})
}

func newStore(cfg *config.Config, log *slog.Logger) (*store.Store, error) {
	return store.New(store.Options{File: cfg.Secrets.StoreFile, Key: cfg.Secrets.KeyFile, Logger: log})
}

// sensitive are the variables known to be secret, those of
// meta/secrets-config.json included.
func (s *secrets) sensitive() []string {
	data, err := os.ReadFile(filepath.Join(s.cfg.Workspace, "meta", "secrets-config.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return env.Sensitive()
	}
	var extra []string
	if err == nil {
		extra, err = env.ParseExtra(data)
	}
	if err != nil {
		s.log.Debug("meta/secrets-config.json counts for nothing", "err", err)
	}
	return env.Sensitive(extra...)
}

// refresh makes what the store holds known to the redaction, also what another
// process has put there. It costs a stat when nothing has changed.
func (s *secrets) refresh(ctx context.Context) {
	if s.store == nil {
		return
	}
	list, err := s.store.List(ctx)
	if err != nil {
		return // whoever needs a secret is told
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range list {
		if at, ok := s.known[m.Name]; ok && at.Equal(m.UpdatedAt) {
			continue
		}
		if _, _, err := s.source.Get(ctx, m.Name); err == nil {
			s.known[m.Name] = m.UpdatedAt
		}
	}
}

// lookupTime bounds the question for a key of a model.
const lookupTime = 10 * time.Second

// lookup finds a variable or a secret by name, variables first. Iris herself may
// use what she may not show.
func (s *secrets) lookup(name string) (secret.Value, bool) {
	if v, ok := s.cfg.Lookup(name); ok {
		if !strings.HasSuffix(name, "_BASE_URL") {
			s.redact.Keep(v)
		}
		return v, true
	}
	if strings.HasSuffix(name, "_BASE_URL") || secret.CheckName(name) != nil {
		return secret.Value{}, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	v, _, err := s.source.Get(ctx, name)
	if err != nil {
		if !errors.Is(err, secret.ErrNotFound) && !errors.Is(err, secret.ErrDisabled) {
			s.log.Warn("a key cannot be looked up", "name", name, "err", err)
		}
		return secret.Value{}, false
	}
	s.redact.Keep(v)
	return v, true
}

// stamp changes when the store does.
func (s *secrets) stamp() (newest time.Time, count int) {
	if s.store == nil {
		return newest, 0
	}
	list, err := s.store.List(context.Background())
	if err != nil {
		return newest, -1
	}
	for _, m := range list {
		if m.UpdatedAt.After(newest) {
			newest = m.UpdatedAt
		}
	}
	return newest, len(list)
}

// noting is a source whose values are redacted from the moment they are known.
type noting struct {
	secret.Source
	r *redact.Redactor
}

// Get notes what it gives.
func (n noting) Get(ctx context.Context, name string) (secret.Value, secret.Meta, error) {
	v, m, err := n.Source.Get(ctx, name)
	n.r.Add(v)
	return v, m, err
}

// Put notes what it takes, before it is anywhere.
func (n noting) Put(ctx context.Context, name string, v secret.Value, p secret.Put) (secret.Meta, error) {
	n.r.Add(v)
	return n.Source.Put(ctx, name, v, p)
}

// runners decorates who answers.
func (s *secrets) runners(all map[string]runner.Runner) map[string]runner.Runner {
	out := make(map[string]runner.Runner, len(all))
	for name, r := range all {
		out[name] = s.veil.Runner(r, s.refresh)
	}
	return out
}

// found decorates those that come and go. A decorated runner is made for each
// turn; it keeps nothing.
func (s *secrets) found(find func(name string) (runner.Runner, bool)) func(string) (runner.Runner, bool) {
	return func(name string) (runner.Runner, bool) {
		r, ok := find(name)
		if !ok {
			return nil, false
		}
		return s.veil.Runner(r, s.refresh), true
	}
}

// writable says why nothing can be stored, nil if it can.
func (s *secrets) writable() error {
	switch {
	case s.cfg.Secrets.BrokerURL != "":
		return nil // the broker says
	case s.store == nil:
		return secret.ErrReadOnly
	}
	return s.store.Check()
}
