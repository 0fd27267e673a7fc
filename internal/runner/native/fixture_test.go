package native

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/scripted"
	"github.com/iris-operator/iris/internal/runner/runnertest"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var room = chat.Address{Space: chat.Web, ID: "room"}

// noon is the time of all tests: a Friday.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// A bed is a runner on a real session store, which gets what the engine would
// bring over.
type bed struct {
	t     *testing.T
	root  string
	store *session.Store
	opts  Options
	n     *Native

	// mu guards seq.
	mu  sync.Mutex
	seq int64
}

// archive adds what the tests' workspace needs to the store.
type archive struct {
	*session.Store
	root string
}

func (a archive) Path(local string) (string, error) {
	if !filepath.IsLocal(local) {
		return "", session.ErrBadFile
	}
	return filepath.Join(a.root, local), nil
}

func newBed(t *testing.T, models []llm.Model, change func(*Options)) *bed {
	t.Helper()
	b := &bed{t: t, root: t.TempDir()}
	b.opts = Options{
		Workspace: "/ws",
		Models:    func(context.Context) ([]llm.Model, error) { return models, nil },
		Location:  time.UTC,
		Now:       func() time.Time { return noon },
		Retry:     llm.RetryOptions{Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }},
		Locate:    func(_ context.Context, _ chat.Address, local string) (string, error) { return b.locate(local) },
		Save:      func(ctx context.Context, conv chat.Address, v any) error { return b.checkpoint(conv, "", v) },
	}
	if change != nil {
		change(&b.opts)
	}
	b.restart()
	t.Cleanup(func() { b.store.Close() })
	return b
}

// restart opens everything anew, as after a crash.
func (b *bed) restart() {
	b.t.Helper()
	if b.store != nil {
		b.store.Close()
	}
	store, err := session.Open(session.Options{Root: b.root})
	if err != nil {
		b.t.Fatal(err)
	}
	b.store = store
	b.opts.Archive = archive{store, b.root}
	if b.n, err = New(b.opts); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) locate(local string) (string, error) {
	if _, err := os.Stat(filepath.Join(b.root, local)); err != nil {
		return "", err
	}
	return "/ws/" + local, nil
}

func (b *bed) project(conv chat.Address, rec turn.Record) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seq++
	return b.store.Project(context.Background(), conv, b.seq, noon, rec)
}

func (b *bed) checkpoint(conv chat.Address, id turn.ID, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.project(conv, turn.Record{Turn: id, Checkpoint: data})
}

// A sink keeps what the engine keeps: entries in the store, ends in the log.
type sink struct {
	*runnertest.Sink
	b   *bed
	req turn.Request
	// before, when set, is asked before each call; its error is the answer.
	before func(what string) error
}

func (s *sink) Emit(e turn.Event) error {
	if s.before != nil {
		if err := s.before(string(e.Kind)); err != nil {
			return err
		}
	}
	if err := s.Sink.Emit(e); err != nil {
		return err
	}
	if e.Terminal() {
		return s.b.project(s.req.Conversation, turn.Record{Turn: s.req.ID, Event: &e})
	}
	return nil
}

func (s *sink) Checkpoint(ctx context.Context, v any) error {
	if s.before != nil {
		if err := s.before("checkpoint"); err != nil {
			return err
		}
	}
	if err := s.Sink.Checkpoint(ctx, v); err != nil {
		return err
	}
	return s.b.checkpoint(s.req.Conversation, s.req.ID, v)
}

// accept makes a turn and logs its message, as the engine does.
func (b *bed) accept(text string) turn.Request {
	b.t.Helper()
	req := runnertest.Request(room, text)
	req.Started, req.Message.At = noon, noon
	b.log(req)
	return req
}

func (b *bed) log(req turn.Request) {
	b.t.Helper()
	if err := b.project(req.Conversation, turn.Record{Turn: req.ID, Accepted: &turn.Accepted{Message: req.Message, Origin: req.Origin, Runner: "native"}}); err != nil {
		b.t.Fatal(err)
	}
}

// hear logs a message that starts no turn.
func (b *bed) hear(m chat.Message) {
	b.t.Helper()
	if err := b.project(room, turn.Record{Heard: &m}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) sink(req turn.Request) *sink {
	return &sink{Sink: runnertest.NewSink(b.t), b: b, req: req}
}

// run runs a turn.
func (b *bed) run(req turn.Request) (*sink, error) {
	s := b.sink(req)
	return s, b.n.Run(b.t.Context(), req, s)
}

// say runs a turn that must end with a final event.
func (b *bed) say(text string) turn.Event {
	b.t.Helper()
	s, err := b.run(b.accept(text))
	if err != nil {
		b.t.Fatalf("turn %q: %v", text, err)
	}
	end := s.End()
	if end == nil || end.Kind != turn.Final {
		b.t.Fatalf("turn %q: end = %+v", text, end)
	}
	return *end
}

// started runs a turn in the background; the channel gets what Run returns.
func (b *bed) started(ctx context.Context, req turn.Request) (*sink, <-chan error) {
	s := b.sink(req)
	done := make(chan error, 1) // one value, when Run has returned
	go func() { done <- b.n.Run(ctx, req, s) }()
	return s, done
}

func one(m llm.Model) []llm.Model { return []llm.Model{m} }

// info is a model whose window no test fills by accident.
var info = llm.Info{Provider: "p", Model: "m", Window: 200_000, Images: true, Price: llm.Price{Input: 1, Output: 2}}

// A fakeTool is a tool made of a function.
type fakeTool struct {
	name string
	call func(context.Context, tool.Call) tool.Result
}

func (f fakeTool) Spec() tool.Spec {
	return tool.Spec{Name: f.name, Description: "for tests", Schema: json.RawMessage(`{"type":"object"}`)}
}

func (f fakeTool) Call(ctx context.Context, c tool.Call) tool.Result { return f.call(ctx, c) }

// echo answers with its arguments.
func echo(name string) tool.Tool {
	return fakeTool{name, func(_ context.Context, c tool.Call) tool.Result {
		return tool.Result{Text: name + " " + string(c.Args)}
	}}
}

func tools(t ...tool.Tool) func(*Options) { return func(o *Options) { o.Tools = t } }

// last is the newest request of a model.
func last(t *testing.T, m *scripted.Model) llm.Request {
	t.Helper()
	all := m.Requests()
	if len(all) == 0 {
		t.Fatal("the model was not asked")
	}
	return all[len(all)-1]
}

// valid fails the test when a request is one that providers refuse.
func valid(t *testing.T, reqs ...llm.Request) {
	t.Helper()
	for i, r := range reqs {
		if err := llm.Valid(r.Messages); err != nil {
			t.Errorf("request %d: %v\n%s", i, err, dump(r.Messages))
		}
		if n := len(r.Messages); n == 0 || r.Messages[n-1].Role != llm.User {
			t.Errorf("request %d does not end with the user", i)
		}
	}
}

func dump(msgs []llm.Message) string {
	var b strings.Builder
	for i, m := range msgs {
		fmt.Fprintf(&b, "%d %s:", i, m.Role)
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				fmt.Fprintf(&b, " call %s %s %s", p.Call.ID, p.Call.Name, p.Call.Args)
			case p.Result != nil:
				fmt.Fprintf(&b, " result %s %.200q error=%v", p.Result.ID, p.Result.Text, p.Result.IsError)
			default:
				fmt.Fprintf(&b, " %s %.300q", p.Kind, p.Text)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// results lists the results in a history.
func results(msgs []llm.Message) (all []llm.Result) {
	for _, m := range msgs {
		for _, p := range m.Parts {
			if p.Result != nil {
				all = append(all, *p.Result)
			}
		}
	}
	return all
}

// labels lists the status lines of a turn.
func labels(events []turn.Event) (all []string) {
	for _, e := range events {
		if e.Kind == turn.Status {
			all = append(all, e.Label)
		}
	}
	return all
}

func kinds(events []turn.Event) string {
	var all []string
	for _, e := range events {
		k := string(e.Kind)
		switch {
		case e.Void:
			k = "void"
		case e.Partial:
			k = "piece"
		case e.Tool != nil:
			k = "tool-" + string(e.Tool.Phase)
		}
		all = append(all, k)
	}
	return strings.Join(all, " ")
}

var errDisk = errors.New("disk full")
