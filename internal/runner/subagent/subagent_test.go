package subagent

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	wire "github.com/iris-operator/iris/internal/bridge"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/engine/enginetest"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/runner/runnertest"
	"github.com/iris-operator/iris/internal/turn"
)

func TestRunner(t *testing.T) {
	// blocking is an agent that works until it is let go.
	blocking := func(t *testing.T) (r runner.Runner, busy <-chan struct{}, let func()) {
		began, open := make(chan struct{}, 100), make(chan struct{})
		var once sync.Once
		let = func() { once.Do(func() { close(open) }) }
		srv := real(t, func(ctx context.Context, req turn.Request, s turn.Sink) error {
			began <- struct{}{}
			select {
			case <-open:
				return s.Emit(turn.Event{Kind: turn.Final, Text: "done"})
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
		return billing(t, agents(t, srv.URL)), began, let
	}
	runnertest.Run(t, runnertest.Kit{
		Answering: func(t *testing.T) runner.Runner { return billing(t, agents(t, real(t, enginetest.Echo).URL)) },
		Blocking: func(t *testing.T) (runner.Runner, <-chan struct{}) {
			r, busy, _ := blocking(t)
			return r, busy
		},
		Failing: func(t *testing.T) runner.Runner {
			return billing(t, agents(t, real(t, func(context.Context, turn.Request, turn.Sink) error { return errors.New("no paper") }).URL))
		},
		Resuming: func(t *testing.T) (runner.Runner, <-chan struct{}, func()) { return blocking(t) },
	})
}

// Spec 8.7: what comes of each answer.
func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		step  step
		reply string
		shown []string
		err   string
	}{
		"a stream":               {stream(accepted, one, beat, two, final), "done", []string{"one", "two"}, ""},
		"junk is ignored":        {stream(accepted, "rubbish", one, `{"type":"later"}`, "", `{"type":7}`, final), "done", []string{"one"}, ""},
		"no accepted line":       {stream(final), "done", nil, ""},
		"an empty final":         {stream(`{"type":"final","text":"  ","requestId":"k","seq":1}`), "(no response)", nil, ""},
		"an error line":          {stream(accepted, `{"type":"error","error":"no progress for 180s","code":"idle_timeout","requestId":"k","seq":1}`), "", nil, "idle_timeout: Bridge failed (idle_timeout): no progress for 180s"},
		"an error without code":  {stream(`{"type":"error","error":"oops"}`), "", nil, "failed: Bridge failed (): oops"},
		"one body":               {body(200, `{"text":"done","requestId":"k"}`), "done", nil, ""},
		"one body without text":  {body(200, `{"text":"","requestId":"k"}`), "(no response)", nil, ""},
		"one body without all":   {body(200, `{}`), "(no response)", nil, ""},
		"a body that is none":    {body(200, `<html>`), "", nil, "failed: The answer of the bridge cannot be read"},
		"a refusal":              {body(504, `{"error":"Bridge request failed."}`), "", nil, "failed: Bridge returned 504: Bridge request failed."},
		"a refusal without text": {body(502, `<html>`), "", nil, "failed: Bridge returned 502: Bad Gateway"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request, _ wire.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/x", http.StatusFound)
		}, "", nil, "failed: Bridge returned 302: Found"},
	} {
		t.Run(name, func(t *testing.T) {
			f, url := serve(t, c.step)
			reply, shown, err := ask(t, agents(t, url))
			if reply != c.reply || sentence(err) != c.err || cmp.Diff(c.shown, shown) != "" {
				t.Errorf("Ask = %q, %q, shown %q; want %q, %q, %q", reply, sentence(err), shown, c.reply, c.err, c.shown)
			}
			got := f.all()
			if len(got) != 1 || got[0].body.Text != "how much?" || got[0].body.RequestID != "k" || got[0].body.User != "iris" {
				t.Errorf("the agent got %+v", got)
			}
			if h := got[0].header; h.Get("Accept") != wire.StreamType || h.Get("Authorization") != "Bearer secret-token" {
				t.Errorf("headers %v", h)
			}
		})
	}
}

// Spec 8.7, appendix B.3: a lost connection is recovered from the job log.
func TestRecovery(t *testing.T) {
	lost := "failed: Bridge connection was lost: unexpected EOF"
	job := func(done, turn string, events ...string) string {
		return `{"requestId":"k","done":` + done + `,"events":[` + strings.Join(events, ",") + `]` + turn + `}`
	}
	own, others := `,"turn":"%T"`, `,"turn":"01936f00-0000-7000-8000-000000000001"`
	for name, c := range map[string]struct {
		steps []step
		shown []string
		err   string
		asked string // methods
	}{
		"the reply is there":              {[]step{cut(accepted, one), body(200, job("true", "", two, final))}, []string{"one", "two"}, "", "POST GET"},
		"it comes later":                  {[]step{cut(accepted, one), body(200, job("false", "")), body(200, job("false", "", two)), body(200, job("true", "", final))}, []string{"one", "two"}, "", "POST GET GET GET"},
		"without a final line":            {[]step{stream(accepted, one), body(200, job("true", "", final))}, []string{"one"}, "", "POST GET"},
		"seen lines are not shown again":  {[]step{cut(accepted, one, two), body(200, job("true", own, one, two, final))}, []string{"one", "two"}, "", "POST GET"},
		"it failed":                       {[]step{cut(accepted), body(200, job("true", "", `{"type":"error","error":"interrupted by a restart","code":"interrupted","requestId":"k","seq":1}`))}, nil, "interrupted: Bridge failed (interrupted): interrupted by a restart", "POST GET"},
		"an old agent without jobs":       {[]step{cut(accepted, one), body(404, `{"error":"not found"}`)}, []string{"one"}, lost, "POST GET"},
		"an old agent that has forgotten": {[]step{cut(accepted, one), body(404, `{"error":"unknown job"}`)}, []string{"one"}, lost, "POST GET"},
		"no word of an end":               {[]step{stream(accepted, one), body(404, `{"error":"not found"}`)}, []string{"one"}, "failed: Bridge stream ended without a final reply", "POST GET"},
		"done and nothing to say":         {[]step{cut(accepted, one), body(200, job("true", ""))}, []string{"one"}, lost, "POST GET"},
		"an agent that comes back":        {[]step{cut(accepted, one), cut(), body(503, `{}`), body(500, `{}`), body(200, job("true", "", final))}, []string{"one"}, "", "POST GET GET GET GET"},
		"no answer of a job log":          {[]step{cut(accepted, one), body(200, `<html>`)}, []string{"one"}, lost, "POST GET"},
		"not let in any more":             {[]step{cut(accepted, one), body(401, `{"error":"unauthorized"}`)}, []string{"one"}, lost, "POST GET"},
		"it never knew the turn":          {[]step{cut(), knowing(404, `{"error":"unknown job"}`), stream(echoed, one, final)}, []string{"one"}, "", "POST GET POST"},
		"it has forgotten the turn":       {[]step{cut(echoed, one), body(404, `{"error":"unknown job"}`), stream(echoed, one, two, final)}, []string{"one", "two"}, "", "POST GET POST"},
		"another has the id":              {[]step{cut(echoed, one), body(200, job("true", others, final)), stream(echoed, one, two, final)}, []string{"one", "two"}, "", "POST GET POST"},
		"an old agent, another's":         {[]step{cut(accepted, one), body(200, job("true", others, final))}, []string{"one"}, lost, "POST GET"},
		"the request did not come whole":  {[]step{knowing(400, `{"error":"the body did not come whole"}`), knowing(404, `{"error":"unknown job"}`), stream(echoed, one, final)}, []string{"one"}, "", "POST GET POST"},
		"it came as other JSON":           {[]step{knowing(400, `{"error":"invalid JSON"}`), knowing(404, `{"error":"unknown job"}`), stream(echoed, one, final)}, []string{"one"}, "", "POST GET POST"},
		"it never comes whole":            {[]step{knowing(400, `{"error":"invalid JSON"}`), knowing(404, `{"error":"unknown job"}`), knowing(400, `{"error":"invalid JSON"}`), knowing(404, `{"error":"unknown job"}`), knowing(400, `{"error":"invalid JSON"}`)}, nil, "failed: Bridge returned 400: invalid JSON", "POST GET POST GET POST"},
		"an old agent cannot read it":     {[]step{body(400, `{"error":"invalid JSON"}`)}, nil, "failed: Bridge returned 400: invalid JSON", "POST"},
		"it breaks each time":             {[]step{cut(), knowing(404, `{"error":"unknown job"}`), cut(), knowing(404, `{"error":"unknown job"}`), cut()}, nil, "failed: Agent @billing broke off: EOF", "POST GET POST GET POST"},
	} {
		t.Run(name, func(t *testing.T) {
			f, url := serve(t, c.steps...)
			reply, shown, err := ask(t, agents(t, url))
			if c.err == "" && reply != "done" || sentence(err) != c.err || cmp.Diff(c.shown, shown) != "" {
				t.Errorf("Ask = %q, %q, shown %q; want %q, %q", reply, sentence(err), shown, c.err, c.shown)
			}
			var asked []string
			turns := map[string]bool{}
			for _, s := range f.all() {
				asked = append(asked, s.method)
				if s.method == "POST" {
					turns[s.body.Turn] = true
				}
			}
			if got := strings.Join(asked, " "); got != c.asked || len(turns) != 1 {
				t.Errorf("asked %s with %d turns, want %s with one", got, len(turns), c.asked)
			}
		})
	}
}

// The poll goes on from the last number that was seen.
func TestRecoveryAsksForWhatItHasNotSeen(t *testing.T) {
	f, url := serve(t, cut(accepted, one, two), body(200, `{"requestId":"k","done":true,"events":[`+final+`]}`))
	if reply, _, err := ask(t, agents(t, url)); reply != "done" || err != nil {
		t.Fatalf("Ask = %q, %v", reply, err)
	}
	if q := f.all()[1].query; !strings.HasPrefix(q, "since=2&wait=") {
		t.Errorf("the poll asks for %s", q)
	}
}

// Spec 8.7: silence, the limits of a recovery and of the whole.
func TestLimits(t *testing.T) {
	const soon = 50 * time.Millisecond
	for name, c := range map[string]struct {
		steps  []step
		change func(*Options)
		err    string
	}{
		"a silent stream": {[]step{hold(accepted, one), body(404, `{"error":"not found"}`)}, func(o *Options) { o.Silence = soon }, "idle_timeout: Agent bridge went silent for 0s"},
		"a silent job":    {[]step{cut(accepted), body(200, `{"requestId":"k","done":false,"events":[]}`)}, func(o *Options) { o.Idle = soon }, "failed: Bridge connection was lost: unexpected EOF"},
		"in all":          {[]step{hold(accepted)}, func(o *Options) { o.Timeout = soon }, "max_duration: Agent bridge timed out after 0s"},
		"in all, polling": {[]step{cut(accepted), body(200, `{"requestId":"k","done":false,"events":[]}`)}, func(o *Options) { o.Timeout = soon }, "max_duration: Agent bridge timed out after 0s"},
	} {
		t.Run(name, func(t *testing.T) {
			_, url := serve(t, c.steps...)
			if _, _, err := ask(t, agents(t, url, c.change)); sentence(err) != c.err {
				t.Errorf("Ask = %q, want %q", sentence(err), c.err)
			}
		})
	}
}

// Heartbeats keep a stream from being taken for silent; an answer that is no
// stream may take longer than any silence.
func TestSilenceIsOfTheStreamAlone(t *testing.T) {
	const silence = 400 * time.Millisecond
	slow := func(w http.ResponseWriter, r *http.Request, req wire.Request) {
		select {
		case <-time.After(silence * 3 / 2):
		case <-r.Context().Done():
		}
		body(200, `{"text":"done"}`)(w, r, req)
	}
	beating := func(w http.ResponseWriter, r *http.Request, req wire.Request) {
		stream(accepted)(w, r, req)
		for range 6 {
			select {
			case <-time.After(silence / 4):
			case <-r.Context().Done():
			}
			stream(beat)(w, r, req)
		}
		stream(final)(w, r, req)
	}
	for name, s := range map[string]step{"one body": slow, "heartbeats": beating} {
		_, url := serve(t, s)
		if reply, _, err := ask(t, agents(t, url, func(o *Options) { o.Silence = silence })); reply != "done" || err != nil {
			t.Errorf("%s: Ask = %q, %v", name, reply, err)
		}
	}
}

func TestPlainOnRequest(t *testing.T) {
	f, url := serve(t, body(200, `{"text":"done"}`))
	if reply, _, err := ask(t, agents(t, url, func(o *Options) { o.Plain = true })); reply != "done" || err != nil {
		t.Errorf("Ask = %q, %v", reply, err)
	}
	if got := f.all()[0].header.Get("Accept"); got != "" {
		t.Errorf("Accept: %s", got)
	}
}

func TestNobodyThere(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + ln.Addr().String()
	ln.Close()
	a := agents(t, url)
	if _, _, err := ask(t, a); !strings.HasPrefix(sentence(err), "failed: Agent @billing cannot be reached: ") {
		t.Errorf("Ask = %q", sentence(err))
	}
	if _, err := a.Ask(t.Context(), "nobody", Question{Text: "x"}, nil); sentence(err) != `failed: There is no agent "nobody"` {
		t.Errorf("Ask nobody = %v", err)
	}
	if _, ok := a.Runner("nobody"); ok {
		t.Error("there is a runner for nobody")
	}
	if _, _, err := ask(t, agents(t, "http://[bad")); !strings.Contains(sentence(err), "address that cannot be used") {
		t.Errorf("a bad address: %v", err)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("New takes no options")
	}
}

// The address may or may not have /bridge at its end.
func TestAddresses(t *testing.T) {
	for _, end := range []string{"", "/", "/bridge", "/bridge/"} {
		srv := real(t, enginetest.Echo)
		if reply, _, err := ask(t, agents(t, srv.URL+end)); reply != "how much?" || err != nil {
			t.Errorf("%q: Ask = %q, %v", end, reply, err)
		}
	}
}

// A person who stops a turn stops the agent's.
func TestStopReachesTheAgent(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	srv := real(t, func(ctx context.Context, _ turn.Request, _ turn.Sink) error {
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		done <- billing(t, agents(t, srv.URL)).Run(ctx, runnertest.Request(chat.Address{Space: chat.Web, ID: "x"}, "work"), runnertest.NewSink(t))
	}()
	<-began
	cancel(runner.ErrStopped)
	if err := <-done; !errors.Is(err, runner.ErrStopped) {
		t.Errorf("Run = %v", err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, runner.ErrStopped) {
			t.Errorf("the agent's run ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("the agent's run goes on")
	}
}

// The place in the job is saved before the request, and with what is shown; the
// next attempt asks for what follows and does not ask the question again.
func TestResumeGoesOnFromTheLastLine(t *testing.T) {
	f, url := serve(t, hold(echoed, one), knowing(200, `{"requestId":"k","done":true,"events":[`+two+`,`+final+`],"turn":"%T"}`))
	a := agents(t, url)
	req := runnertest.Request(chat.Address{Space: chat.Slack, ID: "C1"}, "how much?")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	first := runnertest.NewSink(t)
	done := make(chan error, 1)
	go func() { done <- billing(t, a).Run(ctx, req, first) }()
	first.Wait(func(e turn.Event) bool { return e.Kind == turn.Status && e.Label == "one" })
	cancel(runner.ErrLeaving)
	if err := <-done; !errors.Is(err, runner.ErrLeaving) {
		t.Fatalf("Run = %v", err)
	}
	states := first.States()
	var before, after state
	if err := errors.Join(json.Unmarshal(states[0], &before), json.Unmarshal(states[len(states)-1], &after)); err != nil {
		t.Fatal(err)
	}
	want := state{Agent: "billing", URL: url, RequestID: "slack-C1", Turn: f.all()[0].body.Turn}
	if before != want {
		t.Errorf("saved before the request: %+v, want %+v", before, want)
	}
	if want.Seq = 1; after != want {
		t.Errorf("saved at the end: %+v, want %+v", after, want)
	}
	req.Attempt, req.Resume = 2, states
	second := runnertest.NewSink(t)
	if err := billing(t, a).Run(t.Context(), req, second); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range second.Events() {
		got = append(got, string(e.Kind)+" "+e.Label+e.Text)
	}
	if diff := cmp.Diff([]string{"status two", "final done"}, got); diff != "" {
		t.Errorf("second attempt (-want +got):\n%s", diff)
	}
	if all := f.all(); len(all) != 2 || all[1].method != "GET" || !strings.HasPrefix(all[1].query, "since=1&") {
		t.Errorf("asked %+v", all)
	}
	req.Resume = []json.RawMessage{json.RawMessage(`{"other":1}`)}
	if err := billing(t, a).Run(t.Context(), req, runnertest.NewSink(t)); !errors.Is(err, runner.ErrInterrupted) {
		t.Errorf("a state of somebody else: Run = %v", err)
	}
}

// A restart that finds nothing at the agent says so.
func TestResumeWithoutAnAnswer(t *testing.T) {
	_, url := serve(t, body(404, `{"error":"not found"}`))
	req := runnertest.Request(chat.Address{Space: chat.Web, ID: "x"}, "work")
	st, err := json.Marshal(state{Agent: "billing", URL: url, RequestID: "k", Turn: string(turn.NewID())})
	if err != nil {
		t.Fatal(err)
	}
	req.Resume = []json.RawMessage{st}
	err = billing(t, agents(t, url)).Run(t.Context(), req, runnertest.NewSink(t))
	if got := sentence(err); got != "interrupted: interrupted by a restart of Iris, and @billing has no answer to it" {
		t.Errorf("Run = %q", got)
	}
}

// What the agent is told of the person and of files.
func TestWhatTheAgentIsTold(t *testing.T) {
	f, url := serve(t, stream(final))
	req := runnertest.Request(chat.Address{Space: chat.Web, ID: "x"}, "@billing look")
	req.Message.Prompt = "look"
	req.Message.Files = []chat.File{{Original: "a.png", Local: "x"}, {Original: "b.pdf", Local: "y"}}
	if err := billing(t, agents(t, url)).Run(t.Context(), req, runnertest.NewSink(t)); err != nil {
		t.Fatal(err)
	}
	got := f.all()[0].body
	if got.User != "ada" || got.RequestID != "web-WEBUI-x" || got.Text != "look\n\n(Files that came with this and stayed behind: a.png, b.pdf)" {
		t.Errorf("the agent is told %+v", got)
	}
}

// Spec 8.7: the throttle, and nothing after close.
func TestShower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var shown []string
		s := newShower(3*time.Second, func(text string, seq int64) error {
			shown = append(shown, time.Since(begun).String()+" "+text)
			return nil
		}, nil)
		for _, text := range []string{"a", "b", "c", "c"} {
			s.say(text, 1)
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		s.say("d", 1)
		s.close()
		s.close()
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"0s a", "3s c"}, shown); diff != "" {
			t.Errorf("shown (-want +got):\n%s", diff)
		}
		var failed error
		broken := errors.New("nobody looks")
		f := newShower(-1, func(string, int64) error { return broken }, func(err error) { failed = err })
		f.say("a", 1)
		f.say("b", 2)
		f.close()
		if failed != broken {
			t.Errorf("failed with %v", failed)
		}
	})
}

// A line without end is not read into memory.
func TestEndlessLine(t *testing.T) {
	_, url := serve(t, func(w http.ResponseWriter, r *http.Request, _ wire.Request) {
		w.Header().Set("Content-Type", wire.StreamType)
		for chunk := []byte(strings.Repeat("x", 1<<20)); r.Context().Err() == nil; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	if _, _, err := ask(t, agents(t, url)); !strings.Contains(sentence(err), "longer than") {
		t.Errorf("Ask = %q", sentence(err))
	}
}
