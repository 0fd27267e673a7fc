package terminal

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testToken   = "the operator's token"
	testSession = "s1"
	// patience is how long tests wait for what should take a moment.
	patience = 30 * time.Second
)

// record is an event with its place in the journal.
type record struct {
	seq int64
	ev  turn.Event
}

// fake is a server that speaks the routes a terminal uses, over real
// connections. Its turns are what script says.
type fake struct {
	*httptest.Server
	t testing.TB

	// script answers a message; it runs in a goroutine of its own.
	script func(f *fake, id turn.ID, text string)
	// beforeFrame may cut the n-th frame that is sent over all streams: what
	// it returns is written of it, and the connection closed.
	beforeFrame func(n int, frame string) (part string, cut bool)
	// refuse may answer a request in place of the fake.
	refuse func(w http.ResponseWriter, r *http.Request) bool

	mu      sync.Mutex
	journal []record
	running turn.ID
	changed chan struct{} // closed and made anew when the journal grows
	log     []Line
	stops   chan turn.ID // what was told to stop
	sent    []string     // texts that were accepted
	keys    map[string]turn.ID
	resumed []string // Last-Event-ID of the streams, in order
	frames  int
	scripts sync.WaitGroup
	leaving chan struct{}
}

func newFake(t testing.TB, script func(f *fake, id turn.ID, text string)) *fake {
	t.Helper()
	f := &fake{t: t, script: script, changed: make(chan struct{}), stops: make(chan turn.ID, 16), keys: map[string]turn.ID{}, leaving: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"ok":true,"channels":1}`) })
	mux.HandleFunc("GET /page/status", func(w http.ResponseWriter, _ *http.Request) {
		f.json(w, map[string]any{"version": "v1", "model": "m1", "provider": "p1", "runners": []string{}})
	})
	mux.HandleFunc("POST /sessions", f.create)
	mux.HandleFunc("GET /sessions/{id}/history", f.history)
	mux.HandleFunc("GET /page/threads/{thread}/history", f.pageHistory)
	mux.HandleFunc("POST /sessions/{id}/message", f.message)
	mux.HandleFunc("POST /sessions/{id}/stop", f.stop)
	mux.HandleFunc("GET /sessions/{id}/stream", f.stream)
	mux.HandleFunc("POST /sessions/{id}/command", func(w http.ResponseWriter, r *http.Request) {
		var b struct{ Text string }
		if err := json.NewDecoder(r.Body).Decode(&b); err != nil {
			t.Errorf("a command: %v", err)
		}
		f.json(w, map[string]any{"command": b.Text == "/status", "message": map[string]string{"/status": "**Agent**\n- mode: `manual`"}[b.Text]})
	})
	mux.HandleFunc("POST /sessions/{id}/reset", func(w http.ResponseWriter, _ *http.Request) {
		f.json(w, map[string]string{"status": "ok", "message": "Context cleared"})
	})
	mux.HandleFunc("POST /sessions/{id}/compact", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		f.json(w, map[string]string{"error": "Can't compact while running"})
	})
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.refuse != nil && f.refuse(w, r) {
			return
		}
		if r.URL.Path != "/health" && r.Header.Get("Authorization") != "Bearer "+testToken {
			w.WriteHeader(http.StatusUnauthorized)
			f.json(w, map[string]string{"error": "unauthorized"})
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		close(f.leaving)
		f.scripts.Wait()
		f.CloseClientConnections()
		f.Close()
	})
	return f
}

// client returns a client with short pauses.
func (f *fake) client() *Client {
	tr := &http.Transport{}
	f.t.Cleanup(tr.CloseIdleConnections)
	return &Client{URL: f.URL, Token: secret.New(testToken), HTTP: &http.Client{Transport: tr}, pause: time.Millisecond, tries: 50, silence: patience}
}

func (f *fake) json(w http.ResponseWriter, v any) {
	if err := json.NewEncoder(w).Encode(v); err != nil {
		f.t.Log(err)
	}
}

func (f *fake) create(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusCreated)
	f.json(w, map[string]string{"sessionId": testSession})
}

func (f *fake) history(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("id") != testSession {
		w.WriteHeader(http.StatusNotFound)
		f.json(w, map[string]string{"error": "session not found"})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.json(w, map[string]any{"history": f.log})
}

func (f *fake) pageHistory(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.json(w, map[string]any{"running": f.running})
}

func (f *fake) message(w http.ResponseWriter, r *http.Request) {
	var body struct{ Text, User string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		f.t.Error(err)
	}
	if body.Text == "help" {
		f.json(w, map[string]string{"text": "_a command in words_", "sessionId": testSession})
		return
	}
	key := r.Header.Get("Idempotency-Key")
	f.mu.Lock()
	id, again := f.keys[key]
	if !again {
		id = turn.NewID()
		f.keys[key] = id
		f.sent = append(f.sent, body.Text)
		f.log = append(f.log, Line{User: body.User, Text: body.Text})
	}
	f.mu.Unlock()
	if !again {
		f.begin(id, body.Text)
	}
	w.WriteHeader(http.StatusAccepted)
	f.json(w, map[string]string{"turn": string(id), "sessionId": testSession})
}

// begin runs a turn.
func (f *fake) begin(id turn.ID, text string) {
	f.mu.Lock()
	f.running = id
	f.mu.Unlock()
	f.scripts.Go(func() { f.script(f, id, text) })
}

// emit journals events of a turn.
func (f *fake) emit(id turn.ID, events ...turn.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range events {
		e.Turn = id
		f.journal = append(f.journal, record{int64(len(f.journal) + 10), e})
		if e.Terminal() {
			f.log = append(f.log, Line{User: "bot", Text: e.Text, IsBot: true})
			if f.running == id {
				f.running = ""
			}
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fake) stop(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	was := f.running != ""
	f.mu.Unlock()
	if was {
		f.stops <- turn.ID(r.URL.Query().Get("turn"))
	}
	f.json(w, map[string]any{"status": "ok", "wasRunning": was})
}

// start is where a new stream begins: with the running turn, else now.
func (f *fake) start(lastID string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resumed = append(f.resumed, lastID)
	if n, err := strconv.ParseInt(lastID, 10, 64); err == nil {
		return max(0, int(n)-9)
	}
	for i, r := range f.journal {
		if f.running != "" && r.ev.Turn == f.running {
			return i
		}
	}
	return len(f.journal)
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request) {
	next := f.start(r.Header.Get("Last-Event-ID"))
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprint(w, ":ok\n\n")
	w.(http.Flusher).Flush()
	for {
		f.mu.Lock()
		news, changed := f.journal[next:], f.changed
		f.mu.Unlock()
		for _, rec := range news {
			f.frame(w, rec)
			next++
		}
		select {
		case <-changed:
		case <-f.leaving:
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fake) frame(w http.ResponseWriter, rec record) {
	data, err := json.Marshal(rec.ev)
	if err != nil {
		f.t.Error(err)
	}
	text := fmt.Sprintf("id: %d\nevent: %s\ndata: %s\n\n", rec.seq, rec.ev.Kind, data)
	f.mu.Lock()
	n := f.frames
	f.frames++
	f.mu.Unlock()
	if f.beforeFrame != nil {
		if part, cut := f.beforeFrame(n, text); cut {
			fmt.Fprint(w, part)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	fmt.Fprint(w, text)
	w.(http.Flusher).Flush()
}

// texts returns what was accepted, joined.
func (f *fake) texts() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.sent, "|")
}

func part(s string) turn.Event  { return turn.Event{Kind: turn.Text, Text: s, Partial: true} }
func whole(s string) turn.Event { return turn.Event{Kind: turn.Text, Text: s} }
func final(s string) turn.Event { return turn.Event{Kind: turn.Final, Text: s} }
func started(id, label string) turn.Event {
	return turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: id, Name: "bash", Label: label, Phase: turn.Start}}
}
func ended(id, label, result string, bad bool) turn.Event {
	return turn.Event{Kind: turn.ToolUse, Tool: &turn.Tool{ID: id, Name: "bash", Label: label, Phase: turn.End, Result: result, IsError: bad, DurationMS: 1250}}
}
