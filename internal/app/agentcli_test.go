package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/approval/audit"
	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/config"
	"github.com/iris-operator/iris/internal/runner/agentcli"
	"github.com/iris-operator/iris/internal/runner/agentcli/clitest"
	"github.com/iris-operator/iris/internal/turn"
)

// A cliHouse is an Iris with an agent program on PATH that is called fake.
type cliHouse struct {
	*testing.T
	dir, home string
	env       []string
	log       io.Writer // nil: the test's
	s         *server
}

func newCLIHouse(t *testing.T, env ...string) *cliHouse {
	h := &cliHouse{T: t, dir: t.TempDir(), home: t.TempDir(), env: env}
	self, err := os.Executable()
	if err == nil {
		err = os.Mkdir(filepath.Join(h.home, "bin"), 0o755)
	}
	if err == nil {
		err = os.Symlink(self, filepath.Join(h.home, "bin", "fake"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// serve runs a server while f does.
func (h *cliHouse) serve(f func()) {
	h.Helper()
	environ := append([]string{"HOME=" + h.home, "IRIS_WORKSPACE=" + h.dir, "IRIS_API_TOKEN=t", "PATH=" + filepath.Join(h.home, "bin") + ":/usr/bin:/bin"}, h.env...)
	cfg, _, err := config.Load(config.Source{Environ: environ, Dir: h.dir, Home: h.home})
	if err != nil {
		h.Fatal(err)
	}
	ln, err := listen(h.Context(), "127.0.0.1", 0, "IRIS_API_PORT")
	if err != nil {
		h.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	up, ended := make(chan *server, 1), make(chan error, 1)
	log := h.log
	if log == nil {
		log = h.Output()
	}
	go func() {
		ended <- Serve(ctx, Options{Config: cfg, Out: io.Discard, Err: log, Environ: environ, listener: ln, started: func(s *server) { up <- s },
			programs: []cliProgram{{"fake", "Fake Agent", func(*server) (agentcli.Driver, error) { return clitest.Driver{}, nil }}}})
	}()
	select {
	case h.s = <-up:
		f()
	case err := <-ended:
		h.Fatalf("Serve = %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		h.Errorf("Serve = %v", err)
	}
}

// ask calls the API and decodes the answer.
func (h *cliHouse) ask(method, path string, body, out any, headers ...string) int {
	h.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		h.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, h.s.url+path, bytes.NewReader(data))
	if err != nil {
		h.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer t")
	req.Header.Set("Content-Type", "application/json")
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		h.Error(err) // it may be called beside the test
		return 0
	}
	defer resp.Body.Close()
	if out != nil {
		if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
			h.Errorf("%s %s: %v", method, path, err)
		}
	}
	return resp.StatusCode
}

func (h *cliHouse) session(runner string) string {
	h.Helper()
	var out struct {
		ID string `json:"sessionId"`
	}
	body := map[string]string{"originChannel": "C1", "originThreadTs": "1.1"}
	if runner != "" {
		body["runner"] = runner
	}
	if status := h.ask("POST", "/sessions", body, &out); status/100 != 2 || out.ID == "" {
		h.Fatalf("POST /sessions: %d, %+v", status, out)
	}
	return out.ID
}

type cliReply struct {
	Text   string
	Silent bool
	Turn   string
	Error  string
	Code   string
	status int
}

func (h *cliHouse) message(session, text string) (r cliReply) {
	h.Helper()
	r.status = h.ask("POST", "/sessions/"+session+"/message", map[string]string{"text": text}, &r)
	return r
}

// send is message in the background.
func (h *cliHouse) send(session, text string) <-chan cliReply {
	done := make(chan cliReply, 1) // one value
	go func() { done <- h.message(session, text) }()
	return done
}

type cliWaiting struct {
	ID, Channel, Text, Command, Tool string
	Options                          []turn.Option
	Waits, Always                    bool
}

// waiting returns the one open question of a session.
func (h *cliHouse) waiting(session string) cliWaiting {
	h.Helper()
	var out struct{ Approvals []cliWaiting }
	until(h.T, "a question", func() bool {
		h.ask("GET", "/approvals?channel=SESSION-"+session, nil, &out)
		return len(out.Approvals) == 1
	})
	return out.Approvals[0]
}

// events are those of a session, as the journal has them.
func (h *cliHouse) events(session string, match func(turn.Event) bool) (all []turn.Event) {
	h.Helper()
	conv := chat.Address{Space: chat.Session, ID: session}
	for r, err := range h.s.house.journal.Read(h.Context(), conv.Channel(), 0) {
		var rec turn.Record
		if err == nil {
			err = json.Unmarshal(r.Data, &rec)
		}
		if err != nil {
			h.Fatal(err)
		}
		if rec.Event != nil && match(*rec.Event) {
			all = append(all, *rec.Event)
		}
	}
	return all
}

// asks are the questions of a session as its events tell them.
func (h *cliHouse) asks(session string) (all []turn.Ask) {
	h.Helper()
	for _, e := range h.events(session, func(e turn.Event) bool { return e.Kind == turn.AskFor }) {
		all = append(all, *e.Ask)
	}
	return all
}

// TestCLIInTheServer: a session names its runner, a mention reaches one, a word, a
// button and the API answer, each once, and the audit has it.
func TestCLIInTheServer(t *testing.T) {
	h := newCLIHouse(t, "IRIS_PROVIDER=rehearsal")
	h.serve(func() {
		id := h.session("fake")
		if r := h.message(id, "hello"); r.Text != "echo: hello" {
			t.Fatalf("reply = %+v", r)
		}
		native := h.session("")
		if r := h.message(native, "@fake hello there"); r.Text != "echo: hello there" {
			t.Errorf("a mention: %+v", r)
		}

		done := h.send(id, "RUN echo one")
		q := h.waiting(id)
		if q.Command != "echo one" || q.Tool != "Bash" || !q.Waits || q.Text != "Fake Agent wants to run this command." {
			t.Errorf("question: %+v", q)
		}
		var answered struct{ Turn string }
		if status := h.ask("POST", "/approvals/"+q.ID, map[string]string{"answer": "yes"}, &answered); status != http.StatusOK {
			t.Errorf("POST /approvals: %d", status)
		}
		r := <-done
		if r.Text != "RUN: true one" || answered.Turn != r.Turn {
			t.Errorf("after the API's yes: %+v; it was about turn %s", r, answered.Turn)
		}
		if status := h.ask("POST", "/approvals/"+q.ID, map[string]string{"answer": "yes"}, nil); status != http.StatusNotFound {
			t.Errorf("a second time: %d", status)
		}

		done = h.send(id, "RUN echo two")
		h.waiting(id)
		if r := h.message(id, "no, not that"); !r.Silent || r.Turn != "" {
			t.Errorf("a word that answers started %+v", r)
		}
		if r := <-done; !strings.Contains(r.Text, "Their words: no, not that") {
			t.Errorf("after a no: %+v", r)
		}

		done = h.send(id, "PICK red|blue;big|small")
		if q := h.waiting(id); len(q.Options) != 2 || q.Options[1].Label != "blue" || q.Tool != "question" {
			t.Errorf("question: %+v", q)
		}
		h.message(id, "2")
		until(t, "the second question", func() bool { return h.waiting(id).Options[0].Label == "big" })
		if status := h.ask("POST", "/approvals/"+h.waiting(id).ID, map[string]string{"choice": "as it comes"}, nil); status != http.StatusOK {
			t.Errorf("own words over the API: %d", status)
		}
		if r := <-done; r.Text != `picked: true {"question 1?":"blue","question 2?":"as it comes"}` {
			t.Errorf("after two picks: %+v", r)
		}

		done = h.send(id, "ALWAYS echo three")
		if q := h.waiting(id); !q.Always {
			t.Errorf("question: %+v", q)
		}
		h.message(id, "always")
		if r := <-done; r.Text != "ALWAYS: true three" {
			t.Errorf("after always: %+v", r)
		}

		if r := h.message(id, "RUN cat .env"); !strings.Contains(r.Text, "Refused by the policy") {
			t.Errorf("refused without a question: %+v", r)
		}

		var told []string
		for _, a := range h.asks(id) {
			if a.Outcome != "" {
				told = append(told, a.Outcome+" "+a.By+" "+a.Picked)
			}
		}
		if got := strings.Join(told, "|"); got != "approved api |declined api |answered api blue|answered api as it comes|approved api always" {
			t.Errorf("the turns tell %q", got)
		}
	})
	h.audited("echo one", audit.ConfirmationRequired, audit.Confirmed)
	h.audited("echo two", audit.ConfirmationRequired, audit.Denied)
	h.audited("cat .env", audit.Denied)
	h.logged("no, not that")
}

// audited checks what the record says of a command.
func (h *cliHouse) audited(command string, want ...audit.Decision) {
	h.Helper()
	f, err := os.Open(filepath.Join(h.dir, "meta", "bash-audit.log"))
	if err != nil {
		h.Fatal(err)
	}
	defer f.Close()
	var got []audit.Decision
	for e, err := range audit.Entries(f, audit.Filter{}) {
		if err != nil {
			h.Fatal(err)
		}
		if e.Command == command {
			got = append(got, e.Decision)
			if e.Sandbox != "agent:fake" {
				h.Errorf("entry: %+v", e)
			}
		}
	}
	if len(got) != len(want) {
		h.Errorf("audit of %q: %v, want %v", command, got, want)
		return
	}
	for i := range got {
		if got[i] != want[i] {
			h.Errorf("audit of %q: %v, want %v", command, got, want)
		}
	}
}

// logged checks that somebody's words are in a log.
func (h *cliHouse) logged(words string) {
	h.Helper()
	logs, err := filepath.Glob(filepath.Join(h.dir, "SESSION-*", "log.jsonl"))
	if err != nil {
		h.Fatal(err)
	}
	for _, l := range logs {
		if data, err := os.ReadFile(l); err == nil && strings.Contains(string(data), words) {
			return
		}
	}
	h.Errorf("%q is in none of %d logs", words, len(logs))
}

// TestCLIIsTheDefaultWithoutAModel: who has a program and no key gets its answers;
// a configured model comes first.
func TestCLIIsTheDefaultWithoutAModel(t *testing.T) {
	h := newCLIHouse(t)
	h.serve(func() {
		if r := h.message(h.session(""), "hello"); r.Text != "echo: hello" {
			t.Errorf("reply = %+v", r)
		}
		if got := h.s.thinks(h.s.house); got != "Fake Agent (an agent program on PATH)" {
			t.Errorf("thinks = %q", got)
		}
		var snap = h.s.snapshot(h.s.house, chat.Address{Space: chat.Slack, ID: "C1"})
		if snap.Default != nativeRunner || len(snap.Agents) != 0 {
			t.Errorf("Slack reaches it: %+v", snap)
		}
		snap = h.s.snapshot(h.s.house, chat.ThreadSession("C123", "1700000000.000100"))
		if snap.Default != nativeRunner || len(snap.Agents) != 0 {
			t.Errorf("a thread of Slack reaches it: %+v", snap)
		}
	})
	h = newCLIHouse(t, "IRIS_PROVIDER=rehearsal")
	h.serve(func() {
		if r := h.message(h.session(""), "hello"); strings.HasPrefix(r.Text, "echo:") {
			t.Errorf("reply = %+v", r)
		}
	})
}

// TestCLIAcrossARestart: a turn that was with the program when Iris ended is
// announced as interrupted and not run again; one that waited behind it is run.
func TestCLIAcrossARestart(t *testing.T) {
	h := newCLIHouse(t, "IRIS_PROVIDER=rehearsal", "IRIS_SHUTDOWN_GRACE_SECS=1")
	var id string
	h.serve(func() {
		id = h.session("fake")
		h.message(id, "SESSION")
		for _, text := range []string{"RUN echo never", "SAY later"} {
			if status := h.ask("POST", "/sessions/"+id+"/message", map[string]string{"text": text}, nil, "Prefer: respond-async"); status != http.StatusAccepted {
				t.Fatalf("%q: %d", text, status)
			}
		}
		h.waiting(id)
		h.s.house.engine.Leave()
	})
	h.serve(func() {
		until(t, "both ends", func() bool { return len(h.events(id, turn.Event.Terminal)) >= 3 })
		ends := h.events(id, turn.Event.Terminal)
		if e := ends[1]; e.Kind != turn.Failed || e.Code != turn.CodeInterrupted || !strings.Contains(e.Error, "Its session is kept") {
			t.Errorf("the turn that ran: %+v", e)
		}
		if e := ends[2]; e.Kind != turn.Final || e.Text != "later" {
			t.Errorf("the turn that waited: %+v", e)
		}
		asks := h.asks(id)
		if n := len(asks); n != 2 || asks[1].Outcome != "withdrawn" || asks[1].ID != asks[0].ID {
			t.Errorf("the question: %+v", asks)
		}
		if r := h.message(id, "SESSION"); r.Text == "" {
			t.Errorf("then: %+v", r)
		}
	})
}
