package llm

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/iris-operator/iris/internal/secret"
)

// The syntax of apiKey in models.json: "$NAME" or "${NAME}" is the environment
// variable or secret NAME, "$$" at the start stands for one "$", and anything
// else is the key itself. A bare NAME in capitals with an underscore is what
// older files write for "$NAME"; it is read so, because no provider's key looks
// like one, and is never sent.
var (
	templated = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^\$(?:([A-Za-z_][A-Za-z0-9_-]*)|\{([A-Za-z_][A-Za-z0-9_-]*)\})$`)
	})
	bareName = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+$`)
	})
)

// keyName splits an apiKey into the name it refers to, or the literal key.
func keyName(apiKey string) (name, literal string) {
	if m := templated().FindStringSubmatch(apiKey); m != nil {
		return m[1] + m[2], ""
	}
	if bareName().MatchString(apiKey) {
		return apiKey, ""
	}
	if rest, ok := strings.CutPrefix(apiKey, "$$"); ok {
		return "", "$" + rest
	}
	return "", apiKey
}

// ResolveKey finds the key of an entry. Every call to a provider and every
// question whether one is configured goes through it. It asks, in this order:
// the entry's apiKey; the secret <PROVIDER>-API-KEY; the environment variable
// <PROVIDER>_API_KEY. lookup finds environment variables and secrets by name and
// may be asked for either; a name it finds holding an empty value, or the name
// itself, counts as not found.
//
// A provider that works without a key, or whose URL leads to this machine,
// gets the empty Value when nothing is found. Otherwise the error names the
// variable to set. It is the cause of ctx when ctx has ended.
func ResolveKey(ctx context.Context, provider string, e Entry, lookup func(name string) (secret.Value, bool)) (secret.Value, error) {
	name, literal := keyName(e.APIKey.Reveal())
	if literal != "" {
		return secret.New(literal), nil
	}
	upper := strings.ToUpper(provider)
	variable := strings.NewReplacer("-", "_", ".", "_").Replace(upper) + "_API_KEY"
	asked := []string{strings.NewReplacer("_", "-", ".", "-").Replace(upper) + "-API-KEY", variable}
	if name != "" {
		variable, asked = name, append([]string{name}, asked...)
	}
	for _, n := range append(asked, e.keyVars...) {
		if ctx.Err() != nil {
			return secret.Value{}, context.Cause(ctx)
		}
		v, ok := lookup(n)
		if ok && !v.IsZero() && !v.Equal(n) && !v.Equal("$"+n) {
			return v, nil
		}
	}
	if e.keyless || local(e.BaseURL) {
		return secret.Value{}, nil
	}
	return secret.Value{}, fmt.Errorf("no key for provider %s: set %s in the environment, or store it as a secret of that name", provider, variable)
}
