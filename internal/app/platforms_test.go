package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/delivery/deliverytest"
	"github.com/iris-operator/iris/internal/transport"
)

// deaf is a way in through which nobody speaks.
type deaf struct{ broken error }

func (deaf) Name() string   { return "fake" }
func (d deaf) Ready() error { return d.broken }
func (d deaf) Serve(ctx context.Context, ready func()) error {
	ready()
	<-ctx.Done()
	return nil
}

// until polls, because what is waited for happens behind a socket.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// TestTheServerDeliversToItsPlatforms has a whole server with a platform: a
// reply, a notice and a command's line arrive, also those that a restart cut off.
func TestTheServerDeliversToItsPlatforms(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	fake := deliverytest.NewFake(deliverytest.FakeOptions{Space: chat.Telegram})
	conv := chat.Address{Space: chat.Telegram, ID: "7"}
	var say func(transport.Place, string) error
	serve := func(broken error, f func(s *server)) {
		environ := []string{"HOME=" + home, "IRIS_WORKSPACE=" + dir, "IRIS_API_TOKEN=t", "PATH=/usr/bin:/bin"}
		cfg, _, err := config.Load(config.Source{Environ: environ, Dir: dir, Home: home})
		if err != nil {
			t.Fatal(err)
		}
		ln, err := listen(t.Context(), "127.0.0.1", 0, "IRIS_API_PORT")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		up, ended := make(chan *server, 1), make(chan error, 1)
		go func() {
			ended <- Serve(ctx, Options{Config: cfg, Out: io.Discard, Err: t.Output(), Environ: environ, listener: ln,
				platforms: []platform{{in: deaf{broken}, out: fake, lines: func(f func(transport.Place, string) error) { say = f }}},
				started:   func(s *server) { up <- s }})
		}()
		select {
		case s := <-up:
			f(s)
		case err := <-ended:
			t.Fatalf("Serve = %v", err)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Serve = %v", err)
		}
	}
	shows := func(word string) func() bool {
		return func() bool {
			for _, m := range fake.Shown(conv.ID) {
				if strings.Contains(m.Text, word) {
					return true
				}
			}
			return false
		}
	}
	readyz := func(s *server) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		s.gate.ServeHTTP(rec, httptest.NewRequest("GET", "/readyz", nil))
		return rec
	}
	serve(nil, func(s *server) {
		until(t, "ready", func() bool { return readyz(s).Code == http.StatusOK })
		_, err := s.house.engine.Submit(t.Context(), transport.Submission{Address: conv, Direct: true,
			Message: chat.Message{ID: "1", Text: "hello there", From: chat.Person{ID: "U1"}}})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "a reply", func() bool { return len(fake.Shown(conv.ID)) == 1 && !shows("Thinking")() })
		if err := s.house.desk.Post(t.Context(), conv, "by the way"); err != nil {
			t.Fatal(err)
		}
		until(t, "the notice", shows("by the way"))
		if err := say(transport.Place{Chat: conv.ID}, "nothing runs"); err != nil {
			t.Fatal(err)
		}
		until(t, "the line", shows("nothing runs"))
		rec := httptest.NewRecorder()
		s.metrics.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
		for _, want := range []string{`iris_delivery_seconds_count{platform="fake",what="turn"} 1`, `iris_delivery_open{platform="fake"} 0`} {
			if !strings.Contains(rec.Body.String(), want) {
				t.Errorf("/metrics lacks %s", want)
			}
		}
	})
	n := len(fake.Shown(conv.ID))
	serve(errors.New("409: another process has the token"), func(s *server) {
		if err := s.house.desk.Post(t.Context(), conv, "I am back"); err != nil {
			t.Fatal(err)
		}
		until(t, "the notice after the restart", shows("I am back"))
		until(t, "red readiness", func() bool {
			rec := readyz(s)
			return rec.Code == http.StatusServiceUnavailable && strings.Contains(rec.Body.String(), "fake: 409: another process")
		})
	})
	if got := len(fake.Shown(conv.ID)); got != n+1 {
		t.Errorf("%d messages after the restart, want %d", got, n+1)
	}
}
