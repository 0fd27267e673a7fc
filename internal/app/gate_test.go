package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/lifetime"
)

func ask(h http.Handler, path string) (status int, body string) {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest("GET", path, nil))
	return rec.Code, rec.Body.String()
}

func TestGateIsAliveBeforeItIsReady(t *testing.T) {
	g := newGate()
	if status, body := ask(g, "/health"); status != 200 || body != `{"channels":0,"ok":true}`+"\n" {
		t.Errorf("/health = %d %s", status, body)
	}
	if status, _ := ask(g, "/readyz"); status != 503 {
		t.Errorf("/readyz without parts = %d, want 503", status)
	}
	g.patience = time.Millisecond
	if status, body := ask(g, "/sessions"); status != 503 || body != `{"error":"starting"}`+"\n" {
		t.Errorf("/sessions = %d %s, want 503 starting", status, body)
	}
	g.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	if status, _ := ask(g, "/sessions"); status != 204 {
		t.Errorf("/sessions behind an open gate = %d, want 204", status)
	}
}

func TestGateLetsEarlyRequestsWait(t *testing.T) {
	g := newGate()
	status := make(chan int)
	go func() {
		got, _ := ask(g, "/sessions")
		status <- got
	}()
	g.open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }))
	if got := <-status; got != 204 {
		t.Errorf("early request = %d, want 204", got)
	}
}

func TestReadyzNamesWhatIsNotReady(t *testing.T) {
	g := newGate()
	down := errors.New("the platform does not answer")
	serve := func(ctx context.Context, ready func()) error {
		ready()
		<-ctx.Done()
		return nil
	}
	up := make(chan struct{})
	last := func(ctx context.Context, ready func()) error {
		ready()
		close(up)
		<-ctx.Done()
		return nil
	}
	group := lifetime.New(lifetime.Part{Name: "good", Serve: serve},
		lifetime.Part{Name: "bad", Serve: serve, Check: func() error { return down }},
		lifetime.Part{Name: "last", Serve: last})
	g.group.Store(group)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- group.Run(ctx) }()
	<-up
	status, body := ask(g, "/readyz")
	var got struct {
		Ready bool
		Parts []part
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if status != 503 || got.Ready || len(got.Parts) != 3 || !got.Parts[0].Ready || got.Parts[1].Ready || got.Parts[1].Reason != down.Error() {
		t.Errorf("/readyz = %d %s", status, body)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
