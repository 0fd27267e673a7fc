package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"

	"github.com/iris-operator/iris/internal/secret"
)

// The keys of models.json.
var (
	fileKeys     = []string{"providers"}
	providerKeys = []string{"baseUrl", "api", "apiKey", "authHeader", "headers", "compat", "models"}
	compatKeys   = []string{"supportsDeveloperRole", "supportsReasoningEffort", "supportsStore"}
	modelKeys    = []string{"id", "name", "reasoning", "input", "contextWindow", "maxTokens", "cost"}
	costKeys     = []string{"input", "output", "cacheRead", "cacheWrite"}
)

// providerName keeps names fit for variables, secrets and messages.
var providerName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
})

type fileProvider struct {
	BaseURL    string                  `json:"baseUrl"`
	API        API                     `json:"api"`
	APIKey     secret.Value            `json:"apiKey"`
	AuthHeader *bool                   `json:"authHeader"`
	Headers    map[string]secret.Value `json:"headers"`
	Compat     json.RawMessage         `json:"compat"`
	Models     []json.RawMessage       `json:"models"`
}

type fileCompat struct {
	DeveloperRole   *bool `json:"supportsDeveloperRole"`
	ReasoningEffort *bool `json:"supportsReasoningEffort"`
	Store           *bool `json:"supportsStore"`
}

type fileModel struct {
	ID        string          `json:"id"`
	Name      *string         `json:"name"`
	Reasoning *bool           `json:"reasoning"`
	Input     []string        `json:"input"`
	Window    *int64          `json:"contextWindow"`
	MaxTokens *int64          `json:"maxTokens"`
	Cost      json.RawMessage `json:"cost"`
}

// ParseCatalog overlays the built-in catalog with the content of a models.json.
// No data means the built-in catalog alone. path is only for errors, which name
// it, the place in the file and, for an unknown key, the nearest valid one; a
// corrupt file is refused as a whole. Values that are not given are inherited
// from the built-in entry of the same name, and listed models keep their order
// before the built-in ones.
func ParseCatalog(path string, data []byte) (*Catalog, error) {
	c := &Catalog{providers: builtin()}
	if len(bytes.TrimSpace(data)) == 0 {
		if len(data) > 0 {
			return nil, fmt.Errorf("%s: the file is empty", path)
		}
		return c, nil
	}
	var file struct {
		Providers map[string]json.RawMessage `json:"providers"`
	}
	if err := strict(data, &file, fileKeys); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, name := range slices.Sorted(maps.Keys(file.Providers)) {
		p, err := c.overlay(name, file.Providers[name])
		if err != nil {
			return nil, fmt.Errorf("%s: providers.%s: %w", path, name, err)
		}
		c.providers[name] = p
	}
	return c, nil
}

// strict decodes one JSON object and refuses keys that are not listed, also
// those that differ only in case.
func strict(data []byte, to any, keys []string) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return err
	}
	if object == nil {
		return fmt.Errorf("want an object, not null")
	}
	for _, k := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(keys, k) {
			return fmt.Errorf("unknown key %q%s", k, meant(k, keys))
		}
	}
	return json.Unmarshal(data, to)
}

func (c *Catalog) overlay(name string, data []byte) (provider, error) {
	if !providerName().MatchString(name) {
		return provider{}, fmt.Errorf("the name of a provider has only letters, digits, '.', '_' and '-'")
	}
	var f fileProvider
	if err := strict(data, &f, providerKeys); err != nil {
		return provider{}, err
	}
	p, known := c.providers[name]
	if real, old := aliases[name]; old && !known {
		p, known = c.providers[real], true
	}
	if !known {
		p.entry.API = OpenAICompletions
	}
	p.entry.Info.Provider = name
	if err := p.configure(f); err != nil {
		return provider{}, err
	}
	if p.entry.BaseURL == "" && p.hint == "" {
		return provider{}, fmt.Errorf("baseUrl is missing")
	}
	return p, p.list(f.Models)
}

// configure takes over what is said about the provider as a whole.
func (p *provider) configure(f fileProvider) error {
	e := &p.entry
	if f.API != "" {
		if !slices.Contains(apis, string(f.API)) {
			return fmt.Errorf("unknown api %q%s", f.API, meant(string(f.API), apis))
		}
		e.API = f.API
	}
	if f.BaseURL != "" {
		if err := checkURL(f.BaseURL); err != nil {
			return fmt.Errorf("baseUrl: %w", err)
		}
		p.custom = p.custom || f.BaseURL != e.BaseURL
		e.BaseURL = f.BaseURL
	}
	if !f.APIKey.IsZero() {
		e.APIKey = f.APIKey
	}
	if f.AuthHeader != nil {
		e.AuthHeader = *f.AuthHeader
	}
	if f.Headers != nil {
		e.Headers = f.Headers
	}
	if f.Compat == nil {
		return nil
	}
	var compat fileCompat
	if err := strict(f.Compat, &compat, compatKeys); err != nil {
		return fmt.Errorf("compat: %w", err)
	}
	set(&e.Compat.DeveloperRole, compat.DeveloperRole)
	set(&e.Compat.ReasoningEffort, compat.ReasoningEffort)
	set(&e.Compat.Store, compat.Store)
	return nil
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// list puts the models of the file before the built-in ones.
func (p *provider) list(models []json.RawMessage) error {
	var out []Entry
	for i, data := range models {
		e, err := p.model(data)
		if err != nil {
			return fmt.Errorf("models[%d]: %w", i, err)
		}
		if slices.ContainsFunc(out, func(o Entry) bool { return o.Info.Model == e.Info.Model }) {
			return fmt.Errorf("models[%d]: %q is listed twice", i, e.Info.Model)
		}
		out = append(out, e)
	}
	for _, e := range p.models {
		if !slices.ContainsFunc(out, func(o Entry) bool { return o.Info.Model == e.Info.Model }) {
			out = append(out, p.shared(e))
		}
	}
	p.models = out
	return nil
}

// shared gives a model what its provider is configured with.
func (p *provider) shared(e Entry) Entry {
	s := p.entry
	s.Name, s.Info, s.Known = e.Name, e.Info, e.Known
	s.Info.Provider = p.entry.Info.Provider
	return s
}

func (p *provider) model(data []byte) (Entry, error) {
	var f fileModel
	if err := strict(data, &f, modelKeys); err != nil {
		return Entry{}, err
	}
	if f.ID == "" {
		return Entry{}, fmt.Errorf("id is missing")
	}
	e := Entry{Name: f.ID, Info: Info{Model: f.ID, Window: p.entry.Info.Window}}
	if i := slices.IndexFunc(p.models, func(o Entry) bool { return o.Info.Model == f.ID }); i >= 0 {
		e = p.models[i]
	}
	e = p.shared(e)
	e.Known = true
	set(&e.Name, f.Name)
	set(&e.Info.Thinking, f.Reasoning)
	set(&e.Info.Window, f.Window)
	set(&e.Info.MaxOutput, f.MaxTokens)
	if e.Info.Window == 0 {
		e.Info.Window = DefaultWindow
	}
	if e.Info.Window < 0 || e.Info.MaxOutput < 0 {
		return Entry{}, fmt.Errorf("contextWindow and maxTokens may not be negative")
	}
	for _, in := range f.Input {
		if in != "text" && in != "image" {
			return Entry{}, fmt.Errorf("input may hold %q and %q, not %q", "text", "image", in)
		}
	}
	if f.Input != nil {
		e.Info.Images = slices.Contains(f.Input, "image")
	}
	if f.Cost == nil {
		return e, nil
	}
	if err := strict(f.Cost, &e.Info.Price, costKeys); err != nil {
		return Entry{}, fmt.Errorf("cost: %w", err)
	}
	if c := e.Info.Price; min(c.Input, c.Output, c.CacheRead, c.CacheWrite) < 0 {
		return Entry{}, fmt.Errorf("cost: a price may not be negative")
	}
	return e, nil
}
