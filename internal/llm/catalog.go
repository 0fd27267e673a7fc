package llm

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/iris-operator/iris/internal/secret"
)

// An API is a wire format, as models.json names it.
type API string

// The wire formats. Bedrock is accepted in models.json; whether there is an
// adapter for it is up to the caller.
const (
	AnthropicMessages API = "anthropic-messages"
	OpenAIResponses   API = "openai-responses"
	OpenAICompletions API = "openai-completions"
	BedrockConverse   API = "bedrock-converse-stream"
)

var apis = []string{string(AnthropicMessages), string(OpenAIResponses), string(OpenAICompletions), string(BedrockConverse)}

// DefaultProvider and DefaultWindow are used where nothing else is said.
const (
	DefaultProvider = "anthropic"
	DefaultWindow   = 200_000 // tokens
)

// ErrModelNotFound is wrapped by the errors of Lookup: the channel cannot run
// with that choice. The text names the nearest known one.
var ErrModelNotFound = errors.New("model not found")

// Compat says what an OpenAI-compatible server understands.
type Compat struct {
	DeveloperRole   bool // the system prompt may have the role "developer"
	ReasoningEffort bool // reasoning_effort is understood
	Store           bool // store may be sent
}

// An Entry is all that is needed to build a Model, but for the key itself: see
// ResolveKey.
type Entry struct {
	API     API
	BaseURL string
	// APIKey is the apiKey of models.json as written. It may be a literal key.
	APIKey secret.Value
	// AuthHeader sends the key as "Authorization: Bearer" also where the wire
	// or the host has a header of its own.
	AuthHeader bool
	Headers    map[string]secret.Value
	Compat     Compat
	Name       string // for people
	Info       Info
	// Known reports that the model is listed, and not merely allowed because
	// the provider has a base URL of its own.
	Known bool

	keyless bool     // works without a key
	keyVars []string // further variables that hold the key
}

// A Catalog knows providers and their models: the built-in ones, overlaid by
// those of models.json. It does not change and is safe for concurrent use.
type Catalog struct {
	providers map[string]provider
}

type provider struct {
	entry  Entry   // what its models share
	models []Entry // complete; the first is the default
	custom bool    // has a base URL that is not built in
	open   bool    // takes models that are not listed
	hint   string  // what to configure when there is no base URL
}

// aliases are older names.
var aliases = map[string]string{"foundry-e2": "azure-foundry"}

// WithBaseURL returns a catalog in which the provider is reached under another
// URL, and may have models that are not listed.
func (c *Catalog) WithBaseURL(name, base string) (*Catalog, error) {
	p, name, err := c.provider(name)
	if err != nil {
		return nil, err
	}
	if err := checkURL(base); err != nil {
		return nil, fmt.Errorf("base URL of %s: %w", name, err)
	}
	p.entry.BaseURL, p.custom = base, true
	p.models = slices.Clone(p.models)
	for i := range p.models {
		p.models[i].BaseURL = base
	}
	all := maps.Clone(c.providers)
	all[name] = p
	return &Catalog{providers: all}, nil
}

// Providers lists the names of the providers in alphabetical order.
func (c *Catalog) Providers() []string { return slices.Sorted(maps.Keys(c.providers)) }

// Models lists the models of a provider; the first is its default. It is nil
// for a provider that is not known or has no list.
func (c *Catalog) Models(name string) []Entry {
	p, _, err := c.provider(name)
	if err != nil {
		return nil
	}
	return slices.Clone(p.models)
}

func (c *Catalog) provider(name string) (provider, string, error) {
	if name == "" {
		name = DefaultProvider
	}
	if real, old := aliases[name]; old {
		if _, ok := c.providers[name]; !ok {
			name = real
		}
	}
	p, ok := c.providers[name]
	if !ok {
		return provider{}, "", fmt.Errorf("%w: provider %q is not known%s; add it to models.json", ErrModelNotFound, name, meant(name, c.Providers()))
	}
	return p, name, nil
}

// Lookup finds a model. An empty provider is DefaultProvider, an empty model
// the first of the provider's list. A date or "-latest" behind a known id means
// that id's entry. A model that is not listed is allowed where the provider has
// a base URL of its own (models.json, WithBaseURL) or serves whatever it is
// asked for (ollama, openrouter, azure-foundry); it has the DefaultWindow, no
// price and takes no images. Errors wrap ErrModelNotFound.
func (c *Catalog) Lookup(providerName, model string) (Entry, error) {
	p, name, err := c.provider(providerName)
	if err != nil {
		return Entry{}, err
	}
	if p.entry.BaseURL == "" && p.hint != "" {
		return Entry{}, fmt.Errorf("%w: provider %s needs a baseUrl in models.json: %s", ErrModelNotFound, name, p.hint)
	}
	if model == "" {
		if len(p.models) == 0 {
			return Entry{}, fmt.Errorf("%w: choose a model of %s with IRIS_MODEL, it has no default", ErrModelNotFound, name)
		}
		return p.models[0], nil
	}
	var ids []string
	for _, e := range p.models {
		if e.Info.Model == model {
			return e, nil
		}
		ids = append(ids, e.Info.Model)
	}
	if i := slices.Index(ids, undated(model)); i >= 0 {
		e := p.models[i]
		e.Info.Model = model
		return e, nil
	}
	if p.custom || p.open {
		e := p.entry
		e.Info.Model, e.Name = model, model
		if e.Info.Window == 0 {
			e.Info.Window = DefaultWindow
		}
		return e, nil
	}
	return Entry{}, fmt.Errorf("%w: %s has no model %q%s; add it to models.json if it exists", ErrModelNotFound, name, model, meant(model, ids))
}

var dated = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`-(?:\d{8}|\d{4}-\d\d-\d\d|latest)$`)
})

func undated(model string) string { return dated().ReplaceAllString(model, "") }

// checkURL accepts absolute http and https URLs. Errors do not quote it: it may
// hold a password.
func checkURL(base string) error {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("not an http or https URL")
	}
	return nil
}

// local reports whether a URL leads to this machine.
func local(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := u.Hostname()
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || err == nil && ip.IsLoopback()
}

// meant is " (did you mean …?)" with the nearest of the names, or nothing.
func meant(name string, names []string) string {
	best, least := "", len(name)/2+1
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < least {
			best, least = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

// distance counts the edits between two short names. Names beyond any sensible
// length are far from everything.
func distance(a, b string) int {
	if len(a) > 100 || len(b) > 100 {
		return len(a) + len(b)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := diagonal
			if a[i] != b[j] {
				next = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
