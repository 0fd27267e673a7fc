package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/anthropic"
	"github.com/iris-operator/iris/internal/llm/openai"
	"github.com/iris-operator/iris/internal/llm/rehearsal"
)

// models finds who thinks: what the configuration names, else what the
// environment has a key for, else a local Ollama, else the rehearsal. It reads
// models.json again when the file changes; a broken edit keeps what there was.
type models struct {
	cfg  *config.Config
	keys *secrets
	path string // of models.json
	log  *slog.Logger
	http *http.Client // of all models, so that a reload keeps the connections

	// mu guards the fields below.
	mu     sync.Mutex
	stamp  stamp
	list   []llm.Model
	ollama string // a model that Ollama has, found at start
}

// stamp tells one version of a file from the next.
type stamp struct {
	mod  time.Time
	size int64
	// keys is when a secret was last stored: it may be the key that was
	// missing.
	keys  time.Time
	count int
}

func newModels(ctx context.Context, cfg *config.Config, keys *secrets, log *slog.Logger) (*models, error) {
	m := &models{cfg: cfg, keys: keys, path: filepath.Join(cfg.Workspace, "models.json"), log: log, http: llm.NewHTTPClient()}
	provider, _ := m.chosen()
	if provider == "" {
		m.ollama = findOllama(ctx)
	}
	m.stamp = m.look()
	var err error
	m.list, err = m.build(ctx)
	return m, err
}

// close ends the connections that wait for the next request.
func (m *models) close() { m.http.CloseIdleConnections() }

func (m *models) look() stamp {
	var at stamp
	at.keys, at.count = m.keys.stamp()
	if info, err := os.Stat(m.path); err == nil {
		at.mod, at.size = info.ModTime(), info.Size()
	}
	return at
}

// candidates returns the models in the order in which they are tried.
func (m *models) candidates(ctx context.Context) ([]llm.Model, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.look()
	if now == m.stamp {
		return m.list, nil
	}
	m.stamp = now
	list, err := m.build(ctx)
	if err != nil {
		m.log.Error("models.json or the keys have changed and cannot be used: the models stay as they are", "err", err)
		return m.list, nil
	}
	m.list = list
	m.log.Info("models.json and the keys were read again", "model", describe(list))
	return m.list, nil
}

// describe names the first model for a person.
func (m *models) describe() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return describe(m.list)
}

func describe(list []llm.Model) string {
	info := list[0].Info()
	if info.Provider == rehearsal.Name {
		return "none (a rehearsal answers; see docs/configuration.md)"
	}
	return info.Provider + "/" + info.Model
}

// first is what the page shows.
func (m *models) first() llm.Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.list[0].Info()
}

// chosen returns the provider and the model to start with, "" for none.
func (m *models) chosen() (provider, model string) {
	if p := m.cfg.Model.Provider; p != "" {
		return p, m.cfg.Model.Name
	}
	for _, p := range []string{"anthropic", "openai"} {
		for _, v := range []string{"_API_KEY", "_BASE_URL"} {
			if _, ok := m.keys.lookup(strings.ToUpper(p) + v); ok {
				return p, m.cfg.Model.Name
			}
		}
	}
	if m.cfg.Model.Name != "" {
		return "anthropic", m.cfg.Model.Name
	}
	return "", ""
}

func (m *models) build(ctx context.Context) ([]llm.Model, error) {
	data, err := os.ReadFile(m.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	catalog, err := llm.ParseCatalog(m.path, data)
	if err != nil {
		return nil, err
	}
	if catalog, err = m.redirect(catalog); err != nil {
		return nil, err
	}
	provider, name := m.chosen()
	if provider == "" && m.ollama != "" {
		provider, name = "ollama", m.ollama
	}
	if provider == "" || provider == rehearsal.Name {
		r, err := rehearsal.New(rehearsal.Options{})
		return m.keys.veil.Models([]llm.Model{r}), err
	}
	first, err := m.make(ctx, catalog, provider, name)
	if err != nil {
		return nil, err
	}
	list := []llm.Model{first}
	for _, f := range m.cfg.Model.Fallback {
		p, n, _ := strings.Cut(f, "/")
		next, err := m.make(ctx, catalog, p, n)
		if err != nil {
			return nil, fmt.Errorf("IRIS_MODEL_FALLBACK: %w", err)
		}
		list = append(list, next)
	}
	return m.keys.veil.Models(list), nil
}

// redirect applies the <PROVIDER>_BASE_URL variables.
func (m *models) redirect(c *llm.Catalog) (*llm.Catalog, error) {
	for _, p := range c.Providers() {
		variable := strings.ToUpper(strings.ReplaceAll(p, "-", "_")) + "_BASE_URL"
		url, ok := m.keys.lookup(variable)
		if !ok {
			continue
		}
		var err error
		if c, err = c.WithBaseURL(p, url.Reveal()); err != nil {
			return nil, fmt.Errorf("%s: %w", variable, err)
		}
	}
	return c, nil
}

func (m *models) make(ctx context.Context, c *llm.Catalog, provider, name string) (llm.Model, error) {
	e, err := c.Lookup(provider, name)
	if err != nil {
		return nil, err
	}
	key, err := llm.ResolveKey(ctx, provider, e, m.keys.lookup)
	if err != nil {
		return nil, err
	}
	m.keys.redact.Keep(key)
	switch e.API {
	case llm.AnthropicMessages:
		headers := make(map[string]string, len(e.Headers))
		for k, v := range e.Headers {
			headers[k] = v.Reveal()
		}
		return anthropic.New(anthropic.Options{Info: e.Info, BaseURL: e.BaseURL, Key: key, AuthBearer: e.AuthHeader, Headers: headers, HTTPClient: m.http})
	case llm.OpenAICompletions, llm.OpenAIResponses:
		return openai.New(openai.Options{Info: e.Info, API: e.API, BaseURL: e.BaseURL, Key: key, AuthHeader: e.AuthHeader, Compat: e.Compat, Headers: e.Headers, HTTPClient: m.http})
	}
	return nil, fmt.Errorf("%s/%s: the API %q is not supported", provider, name, e.API)
}

// ollamaAddress is Ollama's default. The probe is one request to this machine,
// at start and only when nothing else is configured.
const (
	ollamaAddress = "http://127.0.0.1:11434"
	ollamaProbe   = 300 * time.Millisecond
)

// findOllama returns the first model of a local Ollama, "" if there is none.
func findOllama(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, ollamaProbe)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, ollamaAddress+"/api/tags", nil)
	if err != nil {
		return ""
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var tags struct {
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
	}
	if json.NewDecoder(resp.Body).Decode(&tags) != nil || len(tags.Models) == 0 {
		return ""
	}
	return tags.Models[0].Name
}
