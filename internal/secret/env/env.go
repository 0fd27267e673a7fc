// Package env is the source of secrets that reads the environment of the
// process, and the list of variables that are known to be secret. It writes
// nothing. It serves the variables it knows and no others: a name must not
// reach whatever happens to be in the environment.
package env

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/iris-operator/iris/internal/secret"
)

// sensitive are the variables known to be secret.
var sensitive = []string{
	"AZURE_FOUNDRY_KEY", "FOUNDRY_E2_KEY", "DEEPSEEK_API_KEY", "MISTRAL_API_KEY", "CUSTOM_API_KEY", "ANTHROPIC_API_KEY",
	"OPENAI_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "IRIS_SLACK_APP_TOKEN", "IRIS_SLACK_BOT_TOKEN",
	"TELEGRAM_BOT_TOKEN", "GITHUB_TOKEN", "RESEND_API_KEY", "PERPLEXITY_API_KEY",
}

// never are served to nobody, whatever a configuration adds: they open Iris.
var never = []string{"IRIS_API_TOKEN", "IRIS_SECRET_BROKER_TOKEN", "IRIS_WEBUI_PASSWORD", "IRIS_TURN_TOKEN"}

// Sensitive returns the names of the variables known to be secret, and extra.
func Sensitive(extra ...string) []string {
	list := slices.Clone(sensitive)
	for _, name := range extra {
		if !slices.Contains(list, name) && !slices.Contains(never, name) {
			list = append(list, name)
		}
	}
	return list
}

// extraName is what a further variable may be called.
var extraName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
})

// ParseExtra reads meta/secrets-config.json: {"extraSensitiveEnvVars": […]}. An
// error says what is wrong; no name counts then.
func ParseExtra(data []byte) ([]string, error) {
	var c struct {
		Extra []string `json:"extraSensitiveEnvVars"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("it is not {\"extraSensitiveEnvVars\": [names]}: %w", err)
	}
	for _, name := range c.Extra {
		if !extraName().MatchString(name) {
			return nil, fmt.Errorf("%.80q is not the name of a variable (A-Z, 0-9 and _)", name)
		}
	}
	return c.Extra, nil
}

// Name is the variable that holds the secret of a name: hyphens become
// underscores.
func Name(secretName string) string { return secret.Fold(secretName) }

// Options say what an Env serves.
type Options struct {
	// Lookup finds a variable. Required.
	Lookup func(variable string) (secret.Value, bool)
	// Known lists the variables that are served; see Sensitive. It is asked on
	// every call, so that a changed configuration counts at once. nil serves
	// Sensitive().
	Known func() []string
}

// An Env is a secret.Source. Put and Delete fail with secret.ErrReadOnly.
type Env struct{ opts Options }

var _ secret.Source = (*Env)(nil)

// New returns a source of variables.
func New(opts Options) (*Env, error) {
	if opts.Lookup == nil {
		return nil, fmt.Errorf("secrets of the environment need a Lookup")
	}
	if opts.Known == nil {
		opts.Known = func() []string { return Sensitive() }
	}
	return &Env{opts}, nil
}

// Get returns the variable of a name.
func (e *Env) Get(_ context.Context, name string) (secret.Value, secret.Meta, error) {
	if err := secret.CheckName(name); err != nil {
		return secret.Value{}, secret.Meta{}, err
	}
	variable := Name(name)
	if !slices.Contains(e.opts.Known(), variable) || slices.Contains(never, variable) {
		return secret.Value{}, secret.Meta{}, fmt.Errorf("%w: %s", secret.ErrNotFound, name)
	}
	v, ok := e.opts.Lookup(variable)
	if !ok || v.IsZero() {
		return secret.Value{}, secret.Meta{}, fmt.Errorf("%w: %s", secret.ErrNotFound, name)
	}
	return v, meta(variable), nil
}

// Meta says that a variable is there.
func (e *Env) Meta(ctx context.Context, name string) (secret.Meta, error) {
	_, m, err := e.Get(ctx, name)
	return m, err
}

// List returns the known variables that are set.
func (e *Env) List(context.Context) ([]secret.Meta, error) {
	var list []secret.Meta
	for _, variable := range e.opts.Known() {
		if v, ok := e.opts.Lookup(variable); ok && !v.IsZero() && !slices.Contains(never, variable) {
			list = append(list, meta(variable))
		}
	}
	slices.SortFunc(list, func(a, b secret.Meta) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Put fails.
func (e *Env) Put(_ context.Context, name string, v secret.Value, _ secret.Put) (secret.Meta, error) {
	if err := secret.CheckName(name); err != nil {
		return secret.Meta{}, err
	}
	return secret.Meta{}, secret.ErrReadOnly
}

// Delete fails.
func (e *Env) Delete(_ context.Context, name string) error {
	if err := secret.CheckName(name); err != nil {
		return err
	}
	return secret.ErrReadOnly
}

func meta(variable string) secret.Meta {
	return secret.Meta{Name: variable, Origin: secret.FromEnv, AgentReadable: true}
}
