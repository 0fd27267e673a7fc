package subagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/engine"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/transport/bridge"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is far longer than a busy machine needs.
const patience = 30 * time.Second

// agents make a client for one agent, billing, at url, with short times.
func agents(t testing.TB, url string, change ...func(*Options)) *Agents {
	t.Helper()
	opts := Options{
		Find: func(name string) (Target, bool) {
			return Target{URL: url, Token: secret.New("secret-token")}, name == "billing"
		},
		Timeout: patience, Silence: patience, Idle: patience, Poll: time.Millisecond, Gap: -1,
	}
	for _, c := range change {
		c(&opts)
	}
	a, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func billing(t testing.TB, a *Agents) runner.Runner {
	t.Helper()
	r, ok := a.Runner("billing")
	if !ok {
		t.Fatal("there is no billing")
	}
	return r
}

// real is a whole sub-agent: an engine behind a bridge.
func real(t testing.TB, run enginetest.Runner, change ...func(*bridge.Options)) *httptest.Server {
	t.Helper()
	j := enginetest.NewJournal()
	opts := engine.Options{Journal: j, Runners: map[string]runner.Runner{"native": run}, Grace: time.Millisecond, SalvageLimit: time.Millisecond, StopLimit: time.Second}
	e, stop := enginetest.Start(t, opts)
	bopts := bridge.Options{Inbox: e, Journal: j, Dir: filepath.Join(t.TempDir(), "jobs"), Tokens: []secret.Value{secret.New("secret-token")}}
	for _, c := range change {
		c(&bopts)
	}
	b, err := bridge.New(bopts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	ready := make(chan struct{})
	served.Go(func() {
		if err := b.Serve(ctx, func() { close(ready) }); err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
	<-ready
	srv := httptest.NewServer(b)
	t.Cleanup(func() {
		stop()
		cancel()
		served.Wait()
		srv.Close()
	})
	return srv
}

// A fake answers requests one after the other; the last step answers all that
// follow.
type fake struct {
	t     testing.TB
	steps []step

	mu   sync.Mutex
	got  []seen
	next int
}

type seen struct {
	method, query string
	body          wire.Request
	header        http.Header
}

type step func(w http.ResponseWriter, r *http.Request, req wire.Request)

func serve(t testing.TB, steps ...step) (*fake, string) {
	f := &fake{t: t, steps: steps}
	srv := httptest.NewServer(f)
	t.Cleanup(srv.Close)
	return f, srv.URL
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var req wire.Request
	if r.Method == http.MethodPost {
		if req, err = wire.ParseRequest(data); err != nil {
			f.t.Errorf("body %s: %v", data, err)
		}
	}
	f.mu.Lock()
	if req.Turn == "" && len(f.got) > 0 {
		req.Turn = f.got[0].body.Turn
	}
	f.got = append(f.got, seen{r.Method, r.URL.RawQuery, req, r.Header.Clone()})
	s := f.steps[min(f.next, len(f.steps)-1)]
	f.next++
	f.mu.Unlock()
	s(w, r, req)
}

func (f *fake) all() []seen {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]seen(nil), f.got...)
}

// stream answers with lines, %T in them being the turn, and ends.
func stream(lines ...string) step {
	return func(w http.ResponseWriter, _ *http.Request, req wire.Request) {
		w.Header().Set("Content-Type", wire.StreamType)
		for _, l := range lines {
			fmt.Fprintln(w, strings.ReplaceAll(l, "%T", req.Turn))
			w.(http.Flusher).Flush()
		}
	}
}

// hold answers with lines and then says nothing until the client leaves.
func hold(lines ...string) step {
	return func(w http.ResponseWriter, r *http.Request, req wire.Request) {
		stream(lines...)(w, r, req)
		<-r.Context().Done()
	}
}

// cut answers with lines and then cuts the connection.
func cut(lines ...string) step {
	return func(w http.ResponseWriter, r *http.Request, req wire.Request) {
		if len(lines) > 0 {
			stream(lines...)(w, r, req)
		}
		panic(http.ErrAbortHandler)
	}
}

func body(status int, text string) step {
	return func(w http.ResponseWriter, _ *http.Request, req wire.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintln(w, strings.ReplaceAll(text, "%T", req.Turn))
	}
}

// knowing is body from a server that knows turns.
func knowing(status int, text string) step {
	return func(w http.ResponseWriter, r *http.Request, req wire.Request) {
		w.Header().Set(wire.Header, wire.KnowsTurns)
		body(status, text)(w, r, req)
	}
}

const (
	accepted = `{"type":"accepted","requestId":"k","protocol":1}`
	echoed   = `{"type":"accepted","requestId":"k","protocol":1,"turn":"%T"}`
	one      = `{"type":"status","text":"one","seq":1}`
	two      = `{"type":"status","text":"two","seq":2}`
	final    = `{"type":"final","text":"done","requestId":"k","seq":3}`
	beat     = `{"type":"heartbeat"}`
)

// ask asks billing and returns what it said and showed.
func ask(t testing.TB, a *Agents) (reply string, shown []string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), patience, errors.New("the test ran out of patience"))
	defer cancel()
	reply, err = a.Ask(ctx, "billing", Question{Key: "k", Text: "how much?"}, func(text string) { shown = append(shown, text) })
	return reply, shown, err
}

func sentence(err error) string {
	var known *runner.Error
	if err == nil {
		return ""
	}
	if !errors.As(err, &known) {
		return "not for people: " + err.Error()
	}
	return string(known.Code) + ": " + known.Text
}
