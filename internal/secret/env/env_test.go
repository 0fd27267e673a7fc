package env

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/secret"
)

func lookup(vars map[string]string) func(string) (secret.Value, bool) {
	return func(name string) (secret.Value, bool) { v, ok := vars[name]; return secret.New(v), ok }
}

func TestOnlyKnownNamesAreServed(t *testing.T) {
	e, err := New(Options{
		Lookup: lookup(map[string]string{
			"GITHUB_TOKEN": "gh-value", "PATH": "/bin", "IRIS_API_TOKEN": "operator", "EXTRA_KEY": "extra-value", "OTHER_KEY": "other", "MISTRAL_API_KEY": "",
		}),
		Known: func() []string { return Sensitive("EXTRA_KEY", "IRIS_API_TOKEN", "EXTRA_KEY") },
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"GITHUB-TOKEN": "gh-value", "GITHUB_TOKEN": "gh-value", "EXTRA-KEY": "extra-value",
		"PATH": "", "IRIS-API-TOKEN": "", "IRIS_API_TOKEN": "", "OTHER-KEY": "", "MISTRAL-API-KEY": "", "OPENAI-API-KEY": "",
	} {
		v, m, err := e.Get(t.Context(), name)
		if v.Reveal() != want || (err == nil) != (want != "") {
			t.Errorf("Get(%s) = %q, %v", name, v.Reveal(), err)
		}
		if want == "" && !errors.Is(err, secret.ErrNotFound) {
			t.Errorf("Get(%s) = %v, want ErrNotFound", name, err)
		}
		if want != "" && (m.Origin != secret.FromEnv || !m.AgentReadable) {
			t.Errorf("meta of %s = %+v", name, m)
		}
	}
	list, err := e.List(t.Context())
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
	}
	if diff := cmp.Diff([]string{"EXTRA_KEY", "GITHUB_TOKEN"}, names); err != nil || diff != "" {
		t.Errorf("List: %v %s", err, diff)
	}
	if _, err := e.Put(t.Context(), "GITHUB-TOKEN", secret.New("x"), secret.Put{}); !errors.Is(err, secret.ErrReadOnly) {
		t.Errorf("Put = %v", err)
	}
	if err := e.Delete(t.Context(), "GITHUB-TOKEN"); !errors.Is(err, secret.ErrReadOnly) {
		t.Errorf("Delete = %v", err)
	}
	for _, err := range []error{e.Delete(t.Context(), "a b"), second(e.Put(t.Context(), "a b", secret.Value{}, secret.Put{})), second(e.Meta(t.Context(), "a/b"))} {
		if !errors.Is(err, secret.ErrName) {
			t.Errorf("a bad name: %v", err)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("New without a lookup succeeds")
	}
	bare, _ := New(Options{Lookup: lookup(map[string]string{"OPENAI_API_KEY": "k"})})
	if v, _, err := bare.Get(t.Context(), "OPENAI-API-KEY"); err != nil || !v.Equal("k") {
		t.Errorf("without Known: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestParseExtra(t *testing.T) {
	for text, want := range map[string][]string{
		`{"extraSensitiveEnvVars":["STRIPE_KEY","A1"]}`: {"STRIPE_KEY", "A1"},
		`{}`: nil,
		`{"extraSensitiveEnvVars":["ok","STRIPE"]}`:   nil,
		`{"extraSensitiveEnvVars":["STRIPE-KEY"]}`:    nil,
		`{"extraSensitiveEnvVars":"STRIPE_KEY"}`:      nil,
		`not json`:                                    nil,
		`{"extraSensitiveEnvVars":["_A","1A","A B"]}`: nil,
	} {
		got, err := ParseExtra([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (want != nil || text == "{}") {
			t.Errorf("ParseExtra(%s) = %v, %v", text, got, err)
		}
	}
}
