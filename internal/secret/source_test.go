package secret_test

import (
	"context"
	"errors"
	"testing"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/secret/env"
	"github.com/iris-operator/iris/internal/secret/secrettest"
	"github.com/iris-operator/iris/internal/secret/store"
)

func open(t *testing.T) *store.Store {
	t.Helper()
	dir := t.TempDir()
	if err := store.NewKey(dir + "/key"); err != nil {
		t.Fatal(err)
	}
	s, err := store.New(store.Options{File: dir + "/store", Key: dir + "/key"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A chain is a source like any other.
func TestChain(t *testing.T) {
	secrettest.Run(t, func(t *testing.T) func() secret.Source {
		first, second := open(t), open(t)
		return func() secret.Source { return secret.Chain{First: first, Second: second} }
	})
}

func TestChainFallsBackForWhatIsNotThere(t *testing.T) {
	vars, err := env.New(env.Options{Lookup: func(string) (secret.Value, bool) { return secret.New("of the environment"), true }})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		first secret.Source
		want  error
	}{
		"not there": {failing{secret.ErrNotFound}, nil},
		"damaged":   {failing{secret.ErrDamaged}, secret.ErrDamaged},
		"corrupt":   {failing{secret.ErrCorrupt}, secret.ErrCorrupt},
		"away":      {failing{secret.ErrUnreachable}, secret.ErrUnreachable},
	} {
		chain := secret.Chain{First: c.first, Second: vars}
		_, _, err := chain.Get(t.Context(), "GITHUB-TOKEN")
		_, merr := chain.Meta(t.Context(), "GITHUB-TOKEN")
		if !errors.Is(err, c.want) || !errors.Is(merr, c.want) {
			t.Errorf("%s: Get = %v, Meta = %v, want %v", name, err, merr, c.want)
		}
	}
}

// failing is a source without an answer.
type failing struct{ err error }

func (f failing) Get(context.Context, string) (secret.Value, secret.Meta, error) {
	return secret.Value{}, secret.Meta{}, f.err
}
func (f failing) Meta(context.Context, string) (secret.Meta, error) { return secret.Meta{}, f.err }
func (f failing) List(context.Context) ([]secret.Meta, error)       { return nil, f.err }
func (f failing) Delete(context.Context, string) error              { return f.err }
func (f failing) Put(context.Context, string, secret.Value, secret.Put) (secret.Meta, error) {
	return secret.Meta{}, f.err
}
