package dockerapi

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func engine(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "engine.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ln) }()
	t.Cleanup(func() { srv.Close(); <-done })
	c, err := New(Options{Host: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestDo(t *testing.T) {
	c := engine(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/echo":
			fmt.Fprintf(w, `{"method":%q,"type":%q,"body":%q}`, r.Method, r.Header.Get("Content-Type"), body)
		case "/same":
			w.WriteHeader(http.StatusNotModified)
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"No such container: x"}`)
		case "/plain":
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprint(w, "broken\n")
		case "/nonsense":
			fmt.Fprint(w, "{")
		}
	})
	var got struct{ Method, Type, Body string }
	if err := c.Do(t.Context(), "POST", "/echo", map[string]int{"a": 1}, &got); err != nil || got.Method != "POST" || got.Type != "application/json" || got.Body != `{"a":1}` {
		t.Errorf("Do = %+v, %v", got, err)
	}
	if err := c.Do(t.Context(), "GET", "/echo", nil, &got); err != nil || got.Type != "" || got.Body != "" {
		t.Errorf("Do without a body = %+v, %v", got, err)
	}
	if err := c.Do(t.Context(), "POST", "/same", nil, nil); err != nil {
		t.Errorf("304: %v", err)
	}
	err := c.Do(t.Context(), "GET", "/missing", nil, nil)
	if !Is(err, 404) || Is(err, 409) || Is(errors.New("x"), 404) || !strings.Contains(err.Error(), "No such container: x") {
		t.Errorf("404: %v", err)
	}
	if err := c.Do(t.Context(), "GET", "/plain", nil, nil); !Is(err, 500) || !strings.Contains(err.Error(), "broken (500)") {
		t.Errorf("500: %v", err)
	}
	if err := c.Do(t.Context(), "GET", "/nonsense", nil, &got); err == nil {
		t.Error("half an answer is no error")
	}
	if err := c.Do(t.Context(), "POST", "/echo", func() {}, nil); err == nil {
		t.Error("what cannot be JSON is no error")
	}
}

func TestNoEngine(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none.sock")
	c, err := New(Options{Host: socket})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Do(t.Context(), "GET", "/_ping", nil, nil); err == nil || !strings.Contains(err.Error(), socket) {
		t.Errorf("Do = %v", err)
	}
	if _, err := New(Options{Host: "tcp://127.0.0.1:2375"}); err == nil {
		t.Error("TCP is taken")
	}
	if c, err := New(Options{}); err != nil || c.socket != DefaultSocket {
		t.Errorf("New = %v, %v", c, err)
	}
}
