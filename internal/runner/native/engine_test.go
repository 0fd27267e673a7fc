package native

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine"
	journal "github.com/iris-operator/iris/internal/journal/file"
	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/scripted"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/session"
	"github.com/iris-operator/iris/internal/tool"
	"github.com/iris-operator/iris/internal/transport"
	"github.com/iris-operator/iris/internal/turn"
)

// A house is everything a turn goes through, on real files.
type house struct {
	t      *testing.T
	engine *engine.Engine
	store  *session.Store
	leave  func()
}

func openHouse(t *testing.T, dir string, m llm.Model, more ...tool.Tool) *house {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	j, err := journal.New(journal.Options{Dir: filepath.Join(dir, "state")})
	must(err)
	store, err := session.Open(session.Options{Root: dir, Journal: j})
	must(err)
	h := &house{t: t, store: store}
	n, err := New(Options{
		Archive: store, Workspace: dir, Tools: more, Models: func(context.Context) ([]llm.Model, error) { return one(m), nil },
		Save: func(ctx context.Context, conv chat.Address, state any) error { return h.engine.Save(ctx, conv, state) },
	})
	must(err)
	h.engine, err = engine.New(engine.Options{
		Journal: j, Archive: store, Runners: map[string]runner.Runner{"native": n},
		Grace: time.Nanosecond, SalvageLimit: 10 * time.Second,
	})
	must(err)
	served := make(chan error, 1) // one value, when Serve has returned
	go func() { served <- h.engine.Serve(context.Background()) }()
	closed := false
	h.leave = func() {
		if closed {
			return
		}
		closed = true
		h.engine.Leave()
		if err := <-served; err != nil {
			t.Errorf("Serve = %v", err)
		}
		store.Close()
		j.Close()
	}
	t.Cleanup(h.leave)
	<-h.engine.Ready()
	return h
}

func (h *house) submit(text string) turn.ID {
	h.t.Helper()
	r, err := h.engine.Submit(h.t.Context(), transport.Submission{
		Address: room, Origin: turn.FromChat, Direct: true,
		Message: chat.Message{ID: fmt.Sprint("m-", turn.NewID()), From: chat.Person{ID: "U1", Name: "ada"}, Text: text, At: time.Now()},
	})
	if err != nil || r.Outcome != transport.Accepted {
		h.t.Fatalf("Submit(%q) = %+v, %v", text, r, err)
	}
	return r.Turn
}

func (h *house) wait(id turn.ID) turn.Event {
	h.t.Helper()
	ev, err := h.engine.Wait(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	return ev
}

// Promises 2 and 4 with the real engine, journal and store: the process leaves
// in the middle of a call; the turn comes back, the call does not.
func TestEngineGivesTheTurnBackAndTheCallIsNotRunAgain(t *testing.T) {
	dir := t.TempDir()
	busy := make(chan struct{}, 8)
	ran := 0
	slow := fakeTool{"slow", func(ctx context.Context, _ tool.Call) tool.Result {
		if ran++; ran > 1 {
			return tool.Fail("ran again")
		}
		busy <- struct{}{}
		<-ctx.Done()
		return tool.Fail("aborted")
	}}
	m := scripted.Func(info, func(_ int, req llm.Request) scripted.Step {
		if strings.Contains(dump(req.Messages), "hello") && len(req.Messages) == 1 {
			return scripted.Text("hi")
		}
		if len(results(req.Messages)) == 0 {
			return scripted.Tools(scripted.Call("slow", `{"label":"Wait"}`))
		}
		return scripted.Text("went on")
	})
	h := openHouse(t, dir, m, slow)
	if end := h.wait(h.submit("hello")); end.Text != "hi" {
		t.Fatalf("end = %+v", end)
	}
	id := h.submit("do it")
	<-busy
	h.leave()

	h = openHouse(t, dir, m, slow)
	if end := h.wait(id); end.Kind != turn.Final || end.Text != "went on" || ran != 1 {
		t.Fatalf("end = %+v, ran %d times", end, ran)
	}
	req := last(t, m)
	valid(t, m.Requests()...)
	if r := results(req.Messages); len(r) != 1 || r[0].Text != llm.Interrupted || !r[0].IsError {
		t.Errorf("results = %+v", r)
	}
	if got := dump(req.Messages); strings.Count(got, ": do it") != 1 || strings.Count(got, ": hello") != 1 {
		t.Errorf("request:\n%s", got)
	}
	if err := h.store.CatchUp(t.Context(), room); err != nil {
		t.Fatal(err)
	}
	lines, err := h.store.Log(t.Context(), room, session.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, l := range lines {
		said = append(said, l.Text)
	}
	if got := strings.Join(said, "|"); got != "hello|hi|do it|went on" {
		t.Errorf("log = %s", got)
	}
}

// A manual compaction goes through the engine and outlives a restart.
func TestEngineCompactsAndResets(t *testing.T) {
	dir := t.TempDir()
	m := scripted.Func(small, func(_ int, req llm.Request) scripted.Step {
		if isSummary(req) {
			return scripted.Text("They asked.")
		}
		return scripted.Text("ok")
	})
	h := openHouse(t, dir, m)
	h.wait(h.submit("question 0 " + long))
	h.wait(h.submit("question 1 " + long))
	command := func(v transport.Verb) string {
		t.Helper()
		r, err := h.engine.Command(t.Context(), transport.Command{Conversation: room, Verb: v})
		if err != nil {
			t.Fatal(err)
		}
		return r.Text
	}
	command(transport.Compact)
	h.wait(h.submit("more")) // behind the compaction in the lane
	h.leave()
	h = openHouse(t, dir, m)
	h.wait(h.submit("and more"))
	got := dump(last(t, m).Messages)
	if !strings.Contains(got, "They asked.") || strings.Contains(got, "question 0") || !strings.Contains(got, ": more") {
		t.Errorf("after the compaction: %.2000s", got)
	}
	command(transport.Reset)
	h.wait(h.submit("what do you know?"))
	if got := dump(last(t, m).Messages); strings.Contains(got, "They asked") || strings.Contains(got, "more") {
		t.Errorf("after the reset: %.2000s", got)
	}
	valid(t, m.Requests()...)
}

// The next turn of a conversation finds its history in memory, with the real
// store and journal behind it.
func TestHistoryIsReadOnce(t *testing.T) {
	b := newBed(t, one(scriptedOK(info)), nil)
	b.say("one")
	h := b.n.shelf.take(room)
	if h == nil {
		t.Fatal("the history was not kept")
	}
	b.n.shelf.put(room, h)
	b.say("two")
	if again := b.n.shelf.take(room); again != h {
		t.Error("the history was read again")
	}
}

func TestShelfForgets(t *testing.T) {
	now := noon
	s := newShelf(2000, time.Minute, func() time.Time { return now })
	key := func(n int) chat.Address { return chat.Address{Space: chat.Web, ID: fmt.Sprint(n)} }
	put := func(n int, bytes int64) { s.put(key(n), &history{mem: bytes}) }
	put(1, 900)
	put(2, 900)
	put(3, 900)
	if s.take(key(1)) != nil || s.take(key(2)) == nil || s.take(key(3)) == nil || s.bytes != 0 {
		t.Errorf("the oldest goes first; %d bytes left", s.bytes)
	}
	put(4, 5000)
	if s.take(key(4)) != nil {
		t.Error("kept more than fits")
	}
	put(5, 10)
	put(5, 20)
	if s.bytes != 20 {
		t.Errorf("%d bytes after a second put", s.bytes)
	}
	for n := range 2 * maxShelved {
		put(100+n, 0)
	}
	if s.take(key(100+maxShelved-1)) != nil || s.take(key(100+maxShelved)) == nil {
		t.Errorf("%d small ones are kept, want the last %d", s.order.Len(), maxShelved)
	}
	put(5, 20)
	now = now.Add(2 * time.Minute)
	if s.take(key(5)) != nil {
		t.Error("kept for too long")
	}
}
