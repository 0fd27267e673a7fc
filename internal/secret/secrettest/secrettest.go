// Package secrettest is the suite that every secret.Source passes. What only
// one of them can do (tampering, other processes) is tested beside it.
package secrettest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/secret"
)

// Values are secrets of odd shapes: what people really store, and what breaks
// encoders.
func Values() []string {
	return []string{
		"hunter2-hunter2", " leading and trailing ", "line one\nline two\n", "tab\tand\rreturn", "ünïcödé-пароль-密碼", "emoji 🔑🔑🔑",
		`{"key":"value","n":1}`, `back\slash "quoted" 'single'`, "c2VjcmV0LXNlY3JldC1zZWNyZXQ=", ".*+?^${}()|[]\\", "%41%42%43-percent",
		"<b>&amp;</b>", "$HOME `id` $(id) ;|&", "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----\n",
		strings.Repeat("x", 4096), strings.Repeat("long-", secret.MaxValue/5), "zero\u200bwidth\u2028and\ufeffmarks", "a\x00b\x01c\x7f-control",
	}
}

// Run runs the suite. sources returns a function that opens one place, empty at
// first; every call is a source of its own, as another process would have it.
func Run(t *testing.T, sources func(t *testing.T) func() secret.Source) {
	t.Run("round trip", func(t *testing.T) {
		open := sources(t)
		for i, want := range Values() {
			name := fmt.Sprintf("ROUND-%d", i)
			put(t, open(), name, want, secret.Put{})
			if got := get(t, open(), name); got != want {
				t.Errorf("value %d: got %.80q, want %.80q", i, got, want)
			}
		}
	})
	t.Run("variants", func(t *testing.T) {
		s := sources(t)()
		put(t, s, "MY-API_KEY", "first-value", secret.Put{})
		for _, name := range []string{"MY-API_KEY", "MY_API_KEY", "MY-API-KEY", "MY_API-KEY"} {
			if got := get(t, s, name); got != "first-value" {
				t.Errorf("Get(%q) = %q", name, got)
			}
		}
		if m := put(t, s, "MY_API_KEY", "second-value", secret.Put{}); m.Name != "MY-API_KEY" {
			t.Errorf("a write under a variant made %q, want the spelling there is", m.Name)
		}
		if list := names(t, s); len(list) != 1 || list[0] != "MY-API_KEY" {
			t.Errorf("List = %q", list)
		}
		if got := get(t, s, "MY-API-KEY"); got != "second-value" {
			t.Errorf("after the write: %q", got)
		}
		wantErr(t, s, "my-api-key", secret.ErrNotFound)
		if err := s.Delete(t.Context(), "MY-API-KEY"); err != nil {
			t.Errorf("Delete of a variant = %v", err)
		}
		wantErr(t, s, "MY-API_KEY", secret.ErrNotFound)
	})
	t.Run("metadata", func(t *testing.T) {
		s := sources(t)()
		yes, no := true, false
		first := put(t, s, "PLAIN", "v-plain-1", secret.Put{})
		if first.ProxyOnly || !first.AgentReadable || first.Origin != secret.FromAPI || first.CreatedAt.IsZero() || !first.UpdatedAt.Equal(first.CreatedAt) {
			t.Errorf("a new secret: %+v", first)
		}
		flagged := put(t, s, "FLAGGED", "v-flagged-1", secret.Put{Origin: secret.FromDrop, ProxyOnly: &yes, AgentReadable: &no})
		if !flagged.ProxyOnly || flagged.AgentReadable || flagged.Origin != secret.FromDrop {
			t.Errorf("with flags: %+v", flagged)
		}
		again := put(t, s, "FLAGGED", "v-flagged-2", secret.Put{})
		if !again.ProxyOnly || again.AgentReadable || again.Origin != secret.FromDrop || !again.CreatedAt.Equal(flagged.CreatedAt) || again.UpdatedAt.Before(flagged.UpdatedAt) {
			t.Errorf("overwritten: %+v, before: %+v", again, flagged)
		}
		changed := put(t, s, "FLAGGED", "v-flagged-3", secret.Put{Origin: secret.FromCLI, ProxyOnly: &no})
		if changed.ProxyOnly || changed.AgentReadable || changed.Origin != secret.FromCLI || !changed.CreatedAt.Equal(flagged.CreatedAt) {
			t.Errorf("overwritten with a flag: %+v", changed)
		}
		m, err := s.Meta(t.Context(), "FLAGGED")
		if diff := cmp.Diff(changed, m); err != nil || diff != "" {
			t.Errorf("Meta: %v\n%s", err, diff)
		}
		list, err := s.List(t.Context())
		if diff := cmp.Diff([]secret.Meta{changed, first}, list); err != nil || diff != "" {
			t.Errorf("List: %v\n%s", err, diff)
		}
	})
	t.Run("delete", func(t *testing.T) {
		open := sources(t)
		s := open()
		wantErr(t, s, "NONE", secret.ErrNotFound)
		if _, err := s.Meta(t.Context(), "NONE"); !errors.Is(err, secret.ErrNotFound) {
			t.Errorf("Meta of nothing = %v", err)
		}
		if err := s.Delete(t.Context(), "NONE"); !errors.Is(err, secret.ErrNotFound) {
			t.Errorf("Delete of nothing = %v", err)
		}
		old := put(t, s, "GONE", "first-life-1", secret.Put{Origin: secret.FromDrop})
		if err := s.Delete(t.Context(), "GONE"); err != nil {
			t.Fatal(err)
		}
		wantErr(t, open(), "GONE", secret.ErrNotFound)
		if m := put(t, s, "GONE", "second-life", secret.Put{}); m.Origin != secret.FromAPI || m.CreatedAt.Before(old.CreatedAt) {
			t.Errorf("a second life remembers the first: %+v", m)
		}
	})
	t.Run("refusals", func(t *testing.T) {
		s := sources(t)()
		for _, name := range []string{"", "a b", "a/b", "../a", "a.b", "ä", "a\n", "a\x00", strings.Repeat("n", 129), "%41", "a=b"} {
			_, _, gerr := s.Get(t.Context(), name)
			_, merr := s.Meta(t.Context(), name)
			_, perr := s.Put(t.Context(), name, secret.New("some-value"), secret.Put{})
			derr := s.Delete(t.Context(), name)
			for op, err := range map[string]error{"Get": gerr, "Meta": merr, "Put": perr, "Delete": derr} {
				if !errors.Is(err, secret.ErrName) {
					t.Errorf("%s(%q) = %v, want ErrName", op, name, err)
				}
			}
		}
		if _, err := s.Put(t.Context(), "EMPTY", secret.Value{}, secret.Put{}); !errors.Is(err, secret.ErrEmpty) {
			t.Errorf("an empty value: %v", err)
		}
		const canary = "canary-canary-"
		_, err := s.Put(t.Context(), "LARGE", secret.New(canary+strings.Repeat("x", secret.MaxValue)), secret.Put{})
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("a value that is too large: %v", err)
		}
		if _, err := s.Put(t.Context(), "BYTES", secret.New("canary\xff\xfe"), secret.Put{}); !errors.Is(err, secret.ErrValue) || strings.Contains(err.Error(), "canary") {
			t.Errorf("a value that is no text: %v", err)
		}
		if list := names(t, s); len(list) != 0 {
			t.Errorf("refused and there all the same: %q", list)
		}
	})
	t.Run("concurrent writers", func(t *testing.T) {
		open := sources(t)
		const writers, each = 4, 6
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				s := open()
				for i := range each {
					name := fmt.Sprintf("W%d-%d", w, i)
					if _, err := s.Put(t.Context(), name, secret.New("value-of-"+name), secret.Put{}); err != nil {
						t.Errorf("Put(%s) = %v", name, err)
					}
					if v, _, err := s.Get(t.Context(), name); err != nil || !v.Equal("value-of-"+name) {
						t.Errorf("a writer does not see what it wrote: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if n := len(names(t, open())); n != writers*each {
			t.Errorf("%d of %d writes are there", n, writers*each)
		}
	})
}

func put(t *testing.T, s secret.Source, name, value string, p secret.Put) secret.Meta {
	t.Helper()
	before := time.Now().Add(-time.Second)
	m, err := s.Put(t.Context(), name, secret.New(value), p)
	if err != nil {
		t.Fatalf("Put(%q) = %v", name, err)
	}
	if m.UpdatedAt.Before(before) {
		t.Errorf("Put(%q) says it was at %v", name, m.UpdatedAt)
	}
	return m
}

func get(t *testing.T, s secret.Source, name string) string {
	t.Helper()
	v, _, err := s.Get(t.Context(), name)
	if err != nil {
		t.Errorf("Get(%q) = %v", name, err)
	}
	return v.Reveal()
}

func wantErr(t *testing.T, s secret.Source, name string, want error) {
	t.Helper()
	if v, _, err := s.Get(t.Context(), name); !errors.Is(err, want) || !v.IsZero() {
		t.Errorf("Get(%q) = %v, want %v", name, err, want)
	}
}

func names(t *testing.T, s secret.Source) (list []string) {
	t.Helper()
	all, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		list = append(list, m.Name)
	}
	return list
}
