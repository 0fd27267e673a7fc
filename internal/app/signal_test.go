package app_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/llmtest"
	"github.com/iris-operator/iris/internal/turn"
)

// reply is what POST …/message came back with.
type reply struct {
	answer answer
	err    error
}

// post sends a message and does not wait. The channel gets the answer.
func (p *place) post(session, text string) <-chan reply {
	c := make(chan reply, 1)
	body, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		p.t.Fatal(err)
	}
	go func() {
		a, err := p.call(p.t.Context(), "POST", "/sessions/"+session+"/message", string(body))
		c <- reply{a, err}
	}()
	return c
}

// closing returns when a server that was told to end knows it.
func (p *place) closing() {
	p.t.Helper()
	until(p.t, "the server knows that it ends", func() bool {
		a, err := p.call(p.t.Context(), "GET", "/readyz", "")
		return err != nil || a.status != http.StatusOK
	})
}

// held is a model that holds each answer until the test lets it go.
type held struct {
	*llmtest.Server
	t    *testing.T
	asks chan struct{} // one value per request
	let  chan struct{}
}

func newHeld(t *testing.T, answer func(llmtest.Request) llmtest.Answer) *held {
	h := &held{llmtest.NewServer(t), t, make(chan struct{}, 100), make(chan struct{})}
	h.Script(func(r llmtest.Request) llmtest.Answer {
		a := answer(r)
		if a.Fault.SilentAfter == 0 {
			a.Hold = h.let
		}
		h.asks <- struct{}{}
		return a
	})
	return h
}

// asked waits for a request.
func (h *held) asked() {
	h.t.Helper()
	select {
	case <-h.asks:
	case <-time.After(patience):
		h.t.Fatal("the model is not asked")
	}
}

func sayDone(llmtest.Request) llmtest.Answer {
	return llmtest.Answer{Parts: []llm.Part{llmtest.Text("done")}}
}

// ends returns the terminal events of the session's turns, read from the
// journal of a server that is gone.
func ends(t *testing.T, p *place, session string) (all []turn.Event) {
	t.Helper()
	for _, j := range journalOf(t, p).turns {
		if j.channel == "SESSION-"+session {
			all = append(all, j.ends...)
		}
	}
	return all
}

func TestSigtermLetsTheTurnFinish(t *testing.T) {
	model := newHeld(t, sayDone)
	p := newPlace(t, wires(model.Server)[0]...)
	s := p.serve()
	id := p.session()
	got := p.post(id, "hello")
	model.asked()
	s.signal(syscall.SIGTERM)
	p.closing()
	close(model.let)
	if r := <-got; r.err != nil || r.answer.status != http.StatusOK || r.answer.field(p, "text") != "done" {
		t.Errorf("the running turn: %v, %v", r.answer, r.err)
	}
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.stderr)
	}
	if all := ends(t, p, id); len(all) != 1 || all[0].Kind != turn.Final || all[0].Text != "done" {
		t.Errorf("the turn ended with %+v", all)
	}
}

func TestSigtermEndsATurnThatTakesTooLong(t *testing.T) {
	model := newHeld(t, func(llmtest.Request) llmtest.Answer {
		return llmtest.Answer{Parts: []llm.Part{llmtest.Text("half of what there is to say")}, Fault: llmtest.Fault{SilentAfter: 5}}
	})
	p := newPlace(t, append(wires(model.Server)[0], "IRIS_SHUTDOWN_GRACE_SECS=0.3")...)
	s := p.serve()
	id := p.session()
	got := p.post(id, "hello")
	model.asked()
	begun := time.Now()
	s.signal(syscall.SIGTERM)
	r := <-got
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.stderr)
	}
	if d := time.Since(begun); d > 8*time.Second {
		t.Errorf("the end took %v", d)
	}
	if r.err != nil || r.answer.status != http.StatusOK || !strings.Contains(r.answer.body, `"stopped":true`) {
		t.Errorf("the running turn: %v, %v", r.answer, r.err)
	}
	if all := ends(t, p, id); len(all) != 1 || !all[0].Stopped {
		t.Errorf("the turn ended with %+v", all)
	}
}

// F5: twice SIGTERM leaves at once, and the turn goes on after the next start,
// without a call run twice.
func TestSigtermTwiceLeavesAtOnceAndTheTurnGoesOn(t *testing.T) {
	p := newPlace(t)
	counter := filepath.Join(p.home, "counter")
	work := worker(counter)
	model := newHeld(t, work)
	p.environ = wires(model.Server)[0]
	s := p.serve()
	id := p.session()
	for i := range 10 {
		name := fmt.Sprint("twice", 6*i) // one call, then the answer
		path := "/sessions/" + id
		a := p.do("POST", path+"/message", `{"text":"job `+name+`"}`, "Prefer: respond-async")
		model.asked()
		model.let <- struct{}{}
		model.asked() // the call has run
		s.signal(syscall.SIGTERM)
		p.closing()
		begun := time.Now()
		s.signal(syscall.SIGTERM)
		if code := s.wait(); code != 0 {
			t.Errorf("exit code %d\n%s", code, s.stderr)
		}
		if d := time.Since(begun); d > 3*time.Second {
			t.Errorf("leaving at once took %v", d)
		}
		s = p.serve(wires(model.Server)[i%3]...)
		model.asked()
		model.let <- struct{}{}
		until(t, "the turn has ended", func() bool {
			a = p.do("GET", path+"/turns/"+a.field(p, "turn"), "")
			return a.field(p, "state") == "ended"
		})
		if text := a.field(p, "text"); text != "done "+name {
			t.Errorf("after the restart: %v", a)
		}
	}
	s.stop()
	if all := ends(t, p, id); len(all) != 10 {
		t.Errorf("%d ends of 10 turns", len(all))
	}
	data, err := os.ReadFile(counter)
	if err != nil || len(lines(string(data))) != 10 {
		t.Errorf("calls that ran: %s, %v", data, err)
	}
	if refused := model.Refused(); len(refused) > 0 {
		t.Error(refused)
	}
}

func TestSystemdIsTold(t *testing.T) {
	dir, err := os.MkdirTemp("", "iris") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	heard := func() string {
		b := make([]byte, 1024)
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	p := newPlace(t)
	s := p.start("NOTIFY_SOCKET="+path, "WATCHDOG_USEC=100000")
	if first := heard(); first != "READY=1" {
		t.Errorf("the first word is %q", first)
	}
	if a := p.do("GET", "/health", ""); a.status != http.StatusOK {
		t.Errorf("after READY=1: GET /health = %v", a)
	}
	for range 3 {
		if next := heard(); next != "WATCHDOG=1" {
			t.Errorf("the next word is %q", next)
		}
	}
	s.signal(syscall.SIGTERM)
	last := heard()
	for last == "WATCHDOG=1" {
		last = heard()
	}
	if last != "STOPPING=1" {
		t.Errorf("the last word is %q", last)
	}
	if code := s.wait(); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.stderr)
	}
}
