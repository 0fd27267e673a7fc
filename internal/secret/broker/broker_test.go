package broker_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/secret/broker"
	"github.com/iris-operator/iris/internal/secret/gateway"
	"github.com/iris-operator/iris/internal/secret/secrettest"
	"github.com/iris-operator/iris/internal/secret/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, url, token string) *broker.Client {
	t.Helper()
	c, err := broker.New(broker.Options{URL: url, Token: secret.New(token), Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// The client in front of our own daemon is a source like any other.
func TestSuite(t *testing.T) {
	secrettest.Run(t, func(t *testing.T) func() secret.Source {
		dir := t.TempDir()
		if err := store.NewKey(dir + "/key"); err != nil {
			t.Fatal(err)
		}
		s, err := store.New(store.Options{File: dir + "/store", Key: dir + "/key"})
		if err != nil {
			t.Fatal(err)
		}
		gw, err := gateway.New(gateway.Options{Source: s, Token: secret.New("broker-token")})
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewServer(gw)
		t.Cleanup(srv.Close)
		return func() secret.Source { return client(t, srv.URL, "broker-token") }
	})
}

// A server that knows nothing but GET /secret/<name>, as a parent of another
// version may be.
func TestAServerOfThatShape(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer child-token":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/parent/secret/MINE":
			fmt.Fprint(w, `{"value":"my-value"}`)
		case r.URL.Path == "/parent/secret/PROXY-ONLY":
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"error":"secret is proxy-only"}`)
		case r.URL.Path == "/parent/secret/BROKEN":
			fmt.Fprint(w, `{"value":"canary-canary`)
		case r.URL.Path == "/parent/secret/EMPTY":
			fmt.Fprint(w, `{}`)
		case r.URL.Path == "/parent/secret/ELSEWHERE":
			http.Redirect(w, r, "/parent/secret/MINE", http.StatusFound)
		case r.URL.Path == "/parent/secret/NO-STORE":
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/parent/secret/FAILS":
			w.WriteHeader(http.StatusInternalServerError)
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	c := client(t, srv.URL+"/parent/", "child-token")
	v, m, err := c.Get(t.Context(), "MINE")
	if err != nil || !v.Equal("my-value") || m.Name != "MINE" || m.ProxyOnly || !m.AgentReadable {
		t.Errorf("Get = %v, %+v", err, m)
	}
	for name, want := range map[string]error{
		"PROXY-ONLY": secret.ErrForbidden, "BROKEN": secret.ErrUnreachable, "EMPTY": secret.ErrUnreachable, "ELSEWHERE": secret.ErrUnreachable,
		"NO-STORE": secret.ErrReadOnly, "FAILS": secret.ErrUnreachable, "NONE": secret.ErrNotFound, "a b": secret.ErrName,
	} {
		_, _, err := c.Get(t.Context(), name)
		if !errors.Is(err, want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("Get(%s) = %v, want %v", name, err, want)
		}
	}
	if _, _, err := client(t, srv.URL, "wrong").Get(t.Context(), "MINE"); !errors.Is(err, secret.ErrUnreachable) || !strings.Contains(err.Error(), "token") {
		t.Errorf("a wrong token: %v", err)
	}
	srv.Close()
	if _, _, err := c.Get(t.Context(), "MINE"); !errors.Is(err, secret.ErrUnreachable) {
		t.Errorf("nobody there: %v", err)
	}
}

func TestNewChecksTheAddress(t *testing.T) {
	for _, url := range []string{"", "127.0.0.1:9099", "ftp://x", "http://", "://"} {
		if _, err := broker.New(broker.Options{URL: url}); err == nil {
			t.Errorf("New(%q) succeeds", url)
		}
	}
}
