//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/api"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/journal"
	"github.com/iris-operator/iris/internal/journal/file"
	"github.com/iris-operator/iris/internal/route"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/schedule"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/transport/web"
	"github.com/iris-operator/iris/internal/turn"
)

// A scene answers a turn whose text begins with its name.
type scene func(ctx context.Context, s *stage, req turn.Request, say func(turn.Event))

// stage is everything behind the page but a model: turns follow a script.
type stage struct {
	dir     string
	url     string
	link    string
	scenes  map[string]scene
	engine  *engine.Engine
	journal *file.Journal
	answers chan transport.Answer // questions that were answered

	// mu guards the fields below. asks are the questions that are open.
	mu   sync.Mutex
	asks map[string]chan bool
	// fleet are the agents there are.
	fleet []api.Agent
}

func newStage(t *testing.T, scenes map[string]scene) *stage {
	t.Helper()
	s := &stage{dir: t.TempDir(), scenes: scenes, asks: map[string]chan bool{}, answers: make(chan transport.Answer, 8)}
	s.staff(api.Agent{Name: "billing", Description: "invoices"})
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	var err error
	s.journal, err = file.New(file.Options{Dir: filepath.Join(s.dir, "state", "journal")})
	must(t, err)
	store, err := session.Open(session.Options{Root: s.dir, Journal: s.journal, Logger: log})
	must(t, err)
	s.engine, err = engine.New(engine.Options{
		Journal: s.journal, Archive: store, Logger: log, Grace: time.Millisecond, Answer: s.answer,
		Runners:  map[string]runner.Runner{"native": s, "billing": s},
		Snapshot: func(chat.Address) route.Snapshot { return route.Snapshot{Default: "native"} },
	})
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.engine.Serve(ctx) }()
	<-s.engine.Ready()
	a, err := api.New(api.Options{
		Engine: s.engine, Sessions: store, Files: store, Journal: s.journal, Token: secret.New("stage-token"), Logger: log,
		Agents: s.agents, Schedules: schedule.NewStore(s.dir), Zone: "Europe/Berlin",
		About: func() api.About { return api.About{Version: "1.0.0", Provider: "acme", Model: "acme-large"} },
	})
	must(t, err)
	site, err := web.New(web.Options{
		Inbox: s.engine, Data: a.Page(), Page: web.Page(), Password: secret.New("sesame"), Logger: log,
		CheckFiles: func(_ context.Context, conv chat.Address, locals []string) ([]chat.File, error) {
			return store.CheckFiles(conv, locals)
		},
	})
	must(t, err)
	srv := httptest.NewServer(a.Handler(site))
	s.url, s.link = srv.URL, srv.URL+site.LoginLink()
	t.Cleanup(func() {
		site.Close()
		a.Close()
		srv.Close()
		cancel()
		<-served
		store.Close()
		s.journal.Close()
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Run plays the scene of the message's first word; other messages are echoed.
func (s *stage) Run(ctx context.Context, req turn.Request, sink turn.Sink) error {
	say := func(e turn.Event) { _ = sink.Emit(e) }
	say(turn.Event{Kind: turn.Started})
	word, _, _ := strings.Cut(req.Message.Text, " ")
	if play := s.scenes[word]; play != nil {
		play(ctx, s, req, say)
	} else {
		say(turn.Event{Kind: turn.Final, Text: "You said: " + req.Message.Text})
	}
	if errors.Is(context.Cause(ctx), runner.ErrStopped) {
		return sink.Emit(turn.Event{Kind: turn.Final, Stopped: true})
	}
	return nil
}

// Compact has nothing to do and says so.
func (s *stage) Compact(context.Context, chat.Address) (string, error) {
	return "_Compacted: 12k tokens are 900 now_", nil
}

// Reset forgets nothing: there is no context.
func (s *stage) Reset(context.Context, chat.Address) error { return nil }

// ask puts a question and waits for its answer.
func (s *stage) ask(ctx context.Context, ask turn.Ask, say func(turn.Event)) bool {
	answer := make(chan bool, 1)
	s.mu.Lock()
	s.asks[ask.ID] = answer
	s.mu.Unlock()
	say(turn.Event{Kind: turn.AskFor, Ask: &ask})
	select {
	case yes := <-answer:
		return yes
	case <-ctx.Done():
		return false
	}
}

func (s *stage) answer(_ context.Context, a transport.Answer) (transport.Reply, error) {
	s.mu.Lock()
	answer := s.asks[a.Ask]
	delete(s.asks, a.Ask)
	s.mu.Unlock()
	if answer == nil {
		return transport.Reply{}, transport.ErrUnknownAsk
	}
	s.answers <- a
	answer <- a.Yes
	return transport.Reply{}, nil
}

// staff says which agents there are.
func (s *stage) staff(all ...api.Agent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fleet = all
}

func (s *stage) agents() []api.Agent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fleet
}

// put writes a file into the workspace and returns its path there.
func (s *stage) put(t *testing.T, name string, content []byte) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(s.dir, "out"), 0o755))
	must(t, os.WriteFile(filepath.Join(s.dir, "out", name), content, 0o644))
	return "out/" + name
}

// past gives a thread turns that are over.
func (s *stage) past(t *testing.T, thread string, n int, reply func(i int) (said, text string)) {
	t.Helper()
	var entries []journal.Entry
	add := func(r turn.Record) {
		data, err := json.Marshal(r)
		must(t, err)
		entries = append(entries, journal.Entry{Data: data})
	}
	for i := range n {
		id := turn.NewID()
		said, text := reply(i)
		m := chat.Message{ID: "past-" + string(id), At: time.Now(), From: chat.Person{ID: "web", Name: "web"}, Text: said}
		add(turn.Record{Turn: id, Accepted: &turn.Accepted{Message: m, Origin: turn.FromChat, Runner: "native"}})
		add(turn.Record{Turn: id, Begun: &turn.Begun{Attempt: 1, At: time.Now()}})
		add(turn.Record{Turn: id, Event: &turn.Event{Kind: turn.Started, Turn: id}})
		tool := turn.Tool{ID: "c", Name: "bash", Label: "look", Args: json.RawMessage(`{"command":"uptime"}`), Phase: turn.Start}
		add(turn.Record{Turn: id, Event: &turn.Event{Kind: turn.ToolUse, Turn: id, Tool: &tool}})
		end := turn.Tool{ID: "c", Name: "bash", Result: "up 3 days", DurationMS: 12, Phase: turn.End}
		add(turn.Record{Turn: id, Event: &turn.Event{Kind: turn.ToolUse, Turn: id, Tool: &end}})
		add(turn.Record{Turn: id, Event: &turn.Event{Kind: turn.Final, Turn: id, Text: text, Usage: &turn.Usage{Model: "acme-large", Input: 100, Output: 20}}})
	}
	_, err := s.journal.Append(context.Background(), "WEBUI-"+thread, journal.Any, entries...)
	must(t, err)
}

// writeFile writes a file below a directory.
func writeFile(dir, name, content string) error {
	at := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return os.WriteFile(at, []byte(content), 0o644)
}
