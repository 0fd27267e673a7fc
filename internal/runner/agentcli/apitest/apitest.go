// Package apitest is a Messages API on loopback for agent programs (Claude Code,
// its ACP adapter, Copilot, Pi), so that the real ones can be tested without the
// internet. What it answers is in the prompt: "RUN: ls" becomes a call of Bash,
// "SLOW" a long answer, "ERR529" an error; script.go lists the words. After a tool
// it says what the tool said.
//
// It is strict: a body that the real API refuses is refused, and fails the test
// when it ends (Options.Lenient). It keeps a log of what was asked, and sees when a
// client hangs up. It is no model of the wires of Iris's own runner; that is
// llmtest.
package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is how long Await waits. A cold start of an agent program on a busy
// machine takes most of it.
const Patience = 60 * time.Second

// Options say how a Server behaves. The zero value is good.
type Options struct {
	// Piece is the pause between the pieces of a SLOW answer; 0 is 100 ms.
	Piece time.Duration
	// Lenient has refused bodies not fail the test.
	Lenient bool
}

// A Request is one that arrived. Method, Path and Agent are those of HTTP; the
// rest is empty for what is no message.
type Request struct {
	Number  int // from 1
	Method  string
	Path    string // with its query
	Agent   string // user-agent
	Beta    string // anthropic-beta
	Key     string // x-api-key, or the bearer token
	Model   string
	System  string
	Tools   []string
	Turns   int    // messages in the body
	Images  int    // in all of them
	Text    string // what the user said last
	Results []Result
	Body    []byte
	// Refused is why the body was refused. Aborted: the client hung up before the
	// answer was whole. Done: the answer has ended, in whatever way.
	Refused       string
	Aborted, Done bool
}

// A Result is what a tool said.
type Result struct {
	ID, Text string
	Failed   bool
}

// A Server is the API. Use New.
type Server struct {
	opts Options
	http *httptest.Server

	// mu guards the fields below.
	mu       sync.Mutex
	requests []*Request
	failures map[string]int // what ERR…*n has failed already, by text
	changed  chan struct{}  // closed, and made anew, when a request changes
	release  chan struct{}  // closed by Release
}

// New starts a server that lives as long as the test.
func New(t testing.TB, opts Options) *Server {
	t.Helper()
	if opts.Piece == 0 {
		opts.Piece = 100 * time.Millisecond
	}
	s := &Server{opts: opts, failures: map[string]int{}, changed: make(chan struct{}), release: make(chan struct{})}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.http.CloseClientConnections()
		s.http.Close()
		if opts.Lenient {
			return
		}
		for _, r := range s.Requests() {
			if r.Refused != "" {
				t.Errorf("the Messages API refused request %d: %s", r.Number, r.Refused)
			}
		}
	})
	return s
}

// URL is what ANTHROPIC_BASE_URL is set to.
func (s *Server) URL() string { return s.http.URL }

// Release lets every HOLD answer, now and later, go on to its end.
func (s *Server) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.release:
	default:
		close(s.release)
	}
}

// Requests returns what has arrived, in order, as it stands.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Request, 0, len(s.requests))
	for _, r := range s.requests {
		out = append(out, *r)
	}
	return out
}

// Await waits for the first request that is as wanted and returns it; after
// Patience the test fails, with the log.
func (s *Server) Await(t testing.TB, what string, wanted func(Request) bool) Request {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		for _, r := range s.Requests() {
			if wanted(r) {
				return r
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("no request that is %s:\n%s", what, s.Log())
		}
	}
}

// AwaitText waits for a prompt that contains text.
func (s *Server) AwaitText(t testing.TB, text string) Request {
	t.Helper()
	return s.Await(t, fmt.Sprintf("a prompt with %q", text), func(r Request) bool { return strings.Contains(r.Text, text) })
}

// AwaitAbort waits until the client has hung up on the prompt that contains text.
func (s *Server) AwaitAbort(t testing.TB, text string) Request {
	t.Helper()
	return s.Await(t, fmt.Sprintf("given up, with %q", text), func(r Request) bool { return r.Aborted && strings.Contains(r.Text, text) })
}

// Log is what has arrived, one line each, for people.
func (s *Server) Log() string {
	var b strings.Builder
	for _, r := range s.Requests() {
		fmt.Fprintf(&b, "%d %s %s agent=%.40q model=%s messages=%d tools=%d results=%d text=%.80q refused=%q aborted=%v done=%v\n",
			r.Number, r.Method, r.Path, r.Agent, r.Model, r.Turns, len(r.Tools), len(r.Results), r.Text, r.Refused, r.Aborted, r.Done)
	}
	return b.String()
}

// book keeps a request.
func (s *Server) book(r *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Number = len(s.requests) + 1
	s.requests = append(s.requests, r)
	s.announce()
}

// change alters a request that is kept.
func (s *Server) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.announce()
}

// announce wakes who awaits. The caller holds mu.
func (s *Server) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	body, err := io.ReadAll(in.Body)
	if err != nil {
		return
	}
	r := &Request{
		Method: in.Method, Path: in.URL.RequestURI(), Agent: in.UserAgent(), Beta: in.Header.Get("Anthropic-Beta"), Body: body,
		Key: in.Header.Get("X-Api-Key"),
	}
	if r.Key == "" {
		r.Key = strings.TrimPrefix(in.Header.Get("Authorization"), "Bearer ")
	}
	var m message
	isMessage := in.Method == http.MethodPost && in.URL.Path == "/v1/messages"
	if isMessage {
		if m, err = read(body, r); err != nil {
			r.Refused = err.Error()
		}
	}
	s.book(r)
	defer s.change(func() { r.Done = true })
	w.Header().Set("Request-Id", "req_fake_"+strconv.Itoa(r.Number))
	switch {
	case in.Method == http.MethodPost && in.URL.Path == "/v1/messages/count_tokens":
		answer(w, http.StatusOK, map[string]any{"input_tokens": 1 + len(body)/4})
	case !isMessage:
		refuse(w, http.StatusNotFound, "not_found_error", "there is no "+in.URL.Path)
	case r.Refused != "":
		refuse(w, http.StatusBadRequest, "invalid_request_error", r.Refused)
	default:
		s.reply(w, in, r, m.Stream)
	}
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, kind, why string) {
	answer(w, status, map[string]any{"type": "error", "error": map[string]any{"type": kind, "message": why}})
}
