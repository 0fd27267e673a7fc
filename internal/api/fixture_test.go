package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/journal/file"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const operatorToken = "op-token"

// house is the API before a real engine, store and journal, behind a real
// server. Turns are answered by its script.
type house struct {
	t       testing.TB
	dir     string
	url     string
	api     *Server
	engine  *engine.Engine
	store   *session.Store
	journal *file.Journal
	http    *http.Client
	script  *script
	logs    *logs
	stop    func()
}

// script answers turns by the first word of their text.
type script struct {
	mu      sync.Mutex
	running map[string]chan struct{} // what "hold <name>" waits for
	begun   chan string              // names of holds that began
	resets  []chat.Address
	compact error // of Compact
	asks    *turn.Ask
}

func (s *script) Run(ctx context.Context, req turn.Request, sink turn.Sink) error {
	word, rest, _ := strings.Cut(req.Message.Text, " ")
	sink.Emit(turn.Event{Kind: turn.Started})
	switch word {
	case "hold":
		s.mu.Lock()
		gate := s.running[rest]
		if gate == nil {
			gate = make(chan struct{})
			s.running[rest] = gate
		}
		s.mu.Unlock()
		sink.Emit(turn.Event{Kind: turn.Text, Text: "so far", Partial: true})
		s.begun <- rest
		select {
		case <-gate:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), runner.ErrStopped) {
				return sink.Emit(turn.Event{Kind: turn.Final, Text: "so far", Stopped: true})
			}
			return context.Cause(ctx)
		}
	case "work":
		for _, e := range []turn.Event{
			{Kind: turn.Status, Label: "looking"},
			{Kind: turn.Text, Text: "let me ", Partial: true},
			{Kind: turn.Text, Text: "look", Partial: true},
			{Kind: turn.Text, Text: "let me look"},
			{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "c1", Name: "bash", Label: "list", Args: json.RawMessage(`{"command":"ls"}`), Phase: turn.Start}},
			{Kind: turn.ToolUse, Tool: &turn.Tool{ID: "c1", Name: "bash", Result: "a\nb", DurationMS: 5, Phase: turn.End}},
			{Kind: turn.FileOut, Filename: "plot.png", Title: "Plot", Local: "out/deep/plot.png"},
		} {
			if err := sink.Emit(e); err != nil {
				return err
			}
		}
		return sink.Emit(turn.Event{Kind: turn.Final, Text: "the answer", Usage: &turn.Usage{Model: "m", Input: 10, Output: 2, Cost: 0.5, Calls: 1, Context: 12, Window: 100}})
	case "ask":
		s.mu.Lock()
		ask := s.asks
		s.mu.Unlock()
		if err := sink.Emit(turn.Event{Kind: turn.AskFor, Ask: ask}); err != nil {
			return err
		}
	case "silent":
		return sink.Emit(turn.Event{Kind: turn.Final, Text: "[SILENT] nothing", Silent: true})
	case "model":
		return &runner.Error{Code: turn.CodeModel, Text: "the model is overloaded"}
	case "broken":
		return errors.New("disk on fire")
	case "interrupted":
		return runner.ErrInterrupted
	case "throw":
		panic("a defect")
	}
	text := req.Message.Text
	for _, f := range req.Message.Files {
		text += " [" + f.Local + "]"
	}
	return sink.Emit(turn.Event{Kind: turn.Final, Text: text})
}

func (s *script) Compact(context.Context, chat.Address) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return "", s.compact
}

func (s *script) Reset(_ context.Context, conv chat.Address) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resets = append(s.resets, conv)
	return nil
}

func (s *script) ask(a *turn.Ask) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asks = a
}

func (s *script) release(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.running[name])
	delete(s.running, name)
}

// logs keeps what was logged.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func openHouse(t testing.TB, change func(*Options)) *house {
	t.Helper()
	return openIn(t, t.TempDir(), change)
}

func openIn(t testing.TB, dir string, change func(*Options)) *house {
	t.Helper()
	h := &house{t: t, dir: dir, logs: &logs{}, script: &script{running: map[string]chan struct{}{}, begun: make(chan string, 16)}}
	log := slog.New(slog.NewTextHandler(h.logs, nil))
	var err error
	if h.journal, err = file.New(file.Options{Dir: filepath.Join(h.dir, "state", "journal")}); err != nil {
		t.Fatal(err)
	}
	if h.store, err = session.Open(session.Options{Root: h.dir, Journal: h.journal, Logger: log}); err != nil {
		t.Fatal(err)
	}
	var stopEngine func()
	h.engine, stopEngine = serve(t, engine.Options{
		Journal: h.journal, Archive: h.store, Logger: log, Grace: time.Millisecond,
		Runners:  map[string]runner.Runner{"native": h.script, "billing": h.script},
		Snapshot: func(chat.Address) route.Snapshot { return route.Snapshot{Default: "native"} },
	})
	opts := Options{
		Engine: h.engine, Sessions: h.store, Files: h.store, Journal: h.journal,
		Token: secret.New(operatorToken), Tokens: NewTokens(), Logger: log,
		Agent: func(token string) (string, bool) {
			return "billing", secret.New("agent-token").Equal(token)
		},
		Agents:  func() []Agent { return []Agent{{Name: "billing", Description: "invoices"}} },
		Runners: func() []string { return []string{"native", "billing"} },
	}
	if change != nil {
		change(&opts)
	}
	if h.api, err = New(opts); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h.api.Handler(nil))
	h.url = srv.URL
	tr := &http.Transport{MaxIdleConnsPerHost: 64}
	h.http = &http.Client{Transport: tr, Timeout: 30 * time.Second}
	var once sync.Once
	h.stop = func() {
		once.Do(func() {
			h.api.Close()
			tr.CloseIdleConnections()
			srv.Close()
			stopEngine()
			h.store.Close()
			h.journal.Close()
		})
	}
	t.Cleanup(h.stop)
	return h
}

// serveInstead puts another handler before the house's client.
func (h *house) serveInstead(handler http.Handler) {
	srv := httptest.NewServer(handler)
	h.url = srv.URL
	h.t.Cleanup(func() {
		h.api.Close()
		h.http.CloseIdleConnections()
		srv.Close()
	})
}

// serve runs an engine until the returned function is called.
func serve(t testing.TB, opts engine.Options) (*engine.Engine, func()) {
	t.Helper()
	e, err := engine.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.Serve(ctx) }()
	select {
	case <-e.Ready():
	case err := <-served:
		t.Fatalf("Serve: %v", err)
	}
	return e, func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	}
}

// an answer to a request of a test.
type result struct {
	status int
	header http.Header
	raw    string
	json   map[string]any
}

func (r result) str(name string) string { s, _ := r.json[name].(string); return s }

// request sends one with the operator's token; header values that are empty
// remove a header.
func (h *house) request(method, path, body string, header ...string) result {
	h.t.Helper()
	req := h.build(context.Background(), method, path, body, header...)
	res, err := h.http.Do(req)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	r := result{status: res.StatusCode, header: res.Header, raw: string(data)}
	json.Unmarshal(data, &r.json)
	return r
}

func (h *house) build(ctx context.Context, method, path, body string, header ...string) *http.Request {
	h.t.Helper()
	var rd io.Reader
	if body != "" {
		rd = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, h.url+path, rd)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operatorToken)
	for i := 0; i+1 < len(header); i += 2 {
		if req.Header.Del(header[i]); header[i+1] != "" {
			req.Header.Set(header[i], header[i+1])
		}
	}
	return req
}

// want sends a request and checks its status.
func (h *house) want(status int, method, path, body string, header ...string) result {
	h.t.Helper()
	r := h.request(method, path, body, header...)
	if r.status != status {
		h.t.Errorf("%s %s %.80s = %d %s, want %d", method, path, body, r.status, r.raw, status)
	}
	if status >= 400 && r.status == status && method != "HEAD" && r.str("error") == "" {
		h.t.Errorf("%s %s: the body %q has no error", method, path, r.raw)
	}
	return r
}

// session makes one and returns its id.
func (h *house) session(fields string) string {
	h.t.Helper()
	r := h.want(201, "POST", "/sessions", `{"originChannel":"C1","originThreadTs":"1.2"`+fields+`}`)
	return r.str("sessionId")
}

// say posts a message in the background.
func (h *house) say(id, text string, header ...string) <-chan result {
	done := make(chan result, 1)
	go func() {
		done <- h.request("POST", "/sessions/"+id+"/message", fmt.Sprintf(`{"text":%q}`, text), header...)
	}()
	return done
}

// begun waits until a hold has begun.
func (h *house) begun(name string) {
	h.t.Helper()
	select {
	case got := <-h.script.begun:
		if got != name {
			h.t.Fatalf("%q began, want %q", got, name)
		}
	case <-time.After(10 * time.Second):
		h.t.Fatalf("%q did not begin", name)
	}
}

// until asks again until ok holds, for what another goroutine of the server
// brings about.
func (h *house) until(what string, ok func() bool) {
	h.t.Helper()
	limit, again := time.After(10*time.Second), time.NewTicker(time.Millisecond)
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-limit:
			h.t.Fatalf("%s: did not happen", what)
		}
	}
}

// stream is an open event stream.
type sseStream struct {
	t      testing.TB
	rd     *bufio.Reader
	res    *http.Response
	cancel context.CancelFunc
}

func (h *house) stream(path string, header ...string) *sseStream {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	res, err := h.http.Do(h.build(ctx, "GET", path, "", header...))
	if err != nil {
		cancel()
		h.t.Fatal(err)
	}
	s := &sseStream{h.t, bufio.NewReader(res.Body), res, cancel}
	h.t.Cleanup(s.close)
	return s
}

func (s *sseStream) close() {
	s.cancel()
	s.res.Body.Close()
}

// frame reads up to the next empty line.
func (s *sseStream) frame() string {
	s.t.Helper()
	var b strings.Builder
	for {
		line, err := s.rd.ReadString('\n')
		if err != nil {
			s.t.Fatalf("stream after %q: %v", b.String(), err)
		}
		if line == "\n" {
			return b.String()
		}
		b.WriteString(line)
	}
}

// event is the next frame that is no comment.
func (s *sseStream) event() (id, kind string, data map[string]any) {
	s.t.Helper()
	f := s.frame()
	for strings.HasPrefix(f, ":") {
		f = s.frame()
	}
	for line := range strings.SplitSeq(strings.TrimSpace(f), "\n") {
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			if err := json.Unmarshal([]byte(value), &data); err != nil {
				s.t.Fatalf("frame %q: %v", f, err)
			}
		}
	}
	return id, kind, data
}

// written lists what lies in the workspace beside the journal.
func (h *house) written() []string {
	var all []string
	filepath.WalkDir(h.dir, func(p string, d os.DirEntry, err error) error {
		if rel, _ := filepath.Rel(h.dir, p); err == nil && !d.IsDir() && !strings.HasPrefix(rel, "state/") {
			all = append(all, rel)
		}
		return nil
	})
	return all
}
