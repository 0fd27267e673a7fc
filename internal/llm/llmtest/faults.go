package llmtest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/iris-operator/iris/internal/llm"
)

// places is the most events that an answer of the suite has, with room.
const places = 80

func (s suite) split(t *testing.T) {
	server, m := s.start(t)
	for _, size := range []int{1, 2, 3, 7, 64} {
		a := s.full()
		a.Fault.Chunk = size
		server.Answers(a)
		s.checkFull(t, listen(t, m.Stream(t.Context(), ask("x"))))
	}
}

func (s suite) noise(t *testing.T) {
	server, m := s.start(t)
	a := s.full()
	a.Fault.Pings, a.Fault.Unknown = true, true
	server.Answers(a)
	s.checkFull(t, listen(t, m.Stream(t.Context(), ask("x"))))
}

func (s suite) statuses(t *testing.T) {
	tooLong := "prompt is too long: 210000 tokens > 200000 maximum"
	if s.wire != Anthropic {
		tooLong = "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens."
	}
	server, m := s.start(t)
	for _, c := range []struct {
		status  int
		message string
		want    llm.Class
	}{
		{400, "messages: something is wrong", llm.ClassInvalid},
		{400, tooLong, llm.ClassTooLong},
		{401, "invalid key " + Key, llm.ClassAuth},
		{402, "pay first", llm.ClassQuota},
		{403, "not you", llm.ClassAuth},
		{404, "no such model", llm.ClassInvalid},
		{413, "request too large", llm.ClassInvalid},
		{422, "unprocessable", llm.ClassInvalid},
		{429, "slow down", llm.ClassRateLimit},
		{500, "oops", llm.ClassServer},
		{502, "bad gateway", llm.ClassServer},
		{503, "no capacity", llm.ClassOverloaded},
		{529, "overloaded", llm.ClassOverloaded},
	} {
		a := Answer{Status: c.status, Message: c.message}
		var wait time.Duration
		if c.status == 429 || c.status == 529 {
			a.RetryAfter, wait = "3", 3*time.Second
		}
		server.Answers(a)
		h := listen(t, m.Stream(t.Context(), ask("x")))
		var e *llm.Error
		if !errors.As(h.err, &e) {
			t.Errorf("%d: %v is no *llm.Error", c.status, h.err)
			continue
		}
		words, _, _ := strings.Cut(c.message, Key)
		if e.Class != c.want || e.Status != c.status || e.RetryAfter != wait || !strings.Contains(e.Text, strings.TrimSpace(words)) {
			t.Errorf("%d %q: %#v, want class %s, retry after %v", c.status, c.message, e, c.want, wait)
		}
	}
	server.Answers(Answer{Status: 429, RetryAfter: time.Now().Add(40 * time.Second).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")})
	var e *llm.Error
	if h := listen(t, m.Stream(t.Context(), ask("x"))); !errors.As(h.err, &e) || e.RetryAfter < 20*time.Second || e.RetryAfter > 41*time.Second {
		t.Errorf("retry-after as a date 40 s ahead: %#v", h.err)
	}
	if n := len(server.Requests()); n != 14 {
		t.Errorf("%d requests for 14 questions: the adapter retries by itself", n)
	}
}

func (s suite) html(t *testing.T) {
	server, m := s.start(t)
	server.Answers(Answer{Status: 502, Body: "<html><head><title>502</title></head><body>" + strings.Repeat("<p>proxy</p>\n", 50000) + "</body></html>"})
	h := listen(t, m.Stream(t.Context(), ask("x")))
	if llm.ClassOf(h.err) != llm.ClassServer || strings.Contains(h.err.Error(), "<p>") {
		t.Errorf("Stream = %q of class %s", h.err, llm.ClassOf(h.err))
	}
}

// everywhere plays an answer with a fault after each of its events, and hands
// over what was heard as long as the fault comes before the end.
func (s suite) everywhere(t *testing.T, fault func(k int) Fault, watch func(llm.Model) llm.Model, check func(k int, h heard)) {
	t.Helper()
	server, m := s.start(t)
	if watch != nil {
		m = watch(m)
	}
	for k := 1; ; k++ {
		a := s.full()
		a.Fault = fault(k)
		server.Answers(a)
		h := listen(t, m.Stream(t.Context(), ask("x")))
		if h.err == nil {
			// Only what comes after the whole message may be missing. On the
			// chat wire that is usage too, which some servers never send: the
			// reason of the end is the end.
			least := 20
			if s.wire == Chat {
				least = 19
				if h.message.Usage == nil {
					h.message.Usage = s.full().Usage
				}
			}
			s.checkFull(t, h)
			if k < least || k > places {
				t.Errorf("the answer is complete after %d events", k)
			}
			break
		}
		check(k, h)
	}
	waitIdle(t, server)
}

// waitIdle waits until every client has let go.
func waitIdle(t *testing.T, server *Server) {
	t.Helper()
	select {
	case <-server.Idle():
	case <-time.After(10 * time.Second):
		t.Error("a stream is still open: it was not released")
	}
}

func (s suite) cut(t *testing.T) {
	want := func(k int, h heard) {
		if c := llm.ClassOf(h.err); c != llm.ClassCut && c != llm.ClassNetwork {
			t.Errorf("cut after %d events: %v of class %q", k, h.err, c)
		}
	}
	s.everywhere(t, func(k int) Fault { return Fault{CutAfter: k} }, nil, want)
	s.everywhere(t, func(k int) Fault { return Fault{EndAfter: k} }, nil, func(k int, h heard) {
		if c := llm.ClassOf(h.err); c != llm.ClassCut {
			t.Errorf("ended after %d events: %v of class %q", k, h.err, c)
		}
	})
}

func (s suite) errorEvent(t *testing.T) {
	s.everywhere(t, func(k int) Fault { return Fault{ErrorAfter: k} }, nil, func(k int, h heard) {
		if c := llm.ClassOf(h.err); c != llm.ClassOverloaded || !strings.Contains(h.err.Error(), "told to fail") {
			t.Errorf("error event after %d events: %v of class %q", k, h.err, c)
		}
	})
}

func (s suite) errorKinds(t *testing.T) {
	server, m := s.start(t)
	kinds := map[string]llm.Class{"rate_limit_error": llm.ClassRateLimit, "api_error": llm.ClassServer, "overloaded_error": llm.ClassOverloaded, "authentication_error": llm.ClassAuth, "invalid_request_error": llm.ClassInvalid, "never_heard_of": llm.ClassServer}
	if s.wire != Anthropic {
		kinds = map[string]llm.Class{"rate_limit_exceeded": llm.ClassRateLimit, "server_error": llm.ClassServer, "never_heard_of": llm.ClassServer}
	}
	for kind, want := range kinds {
		a := s.full()
		a.Fault = Fault{ErrorAfter: 2, ErrorKind: kind}
		server.Answers(a)
		if h := listen(t, m.Stream(t.Context(), ask("x"))); llm.ClassOf(h.err) != want {
			t.Errorf("%s: %v of class %q, want %s", kind, h.err, llm.ClassOf(h.err), want)
		}
	}
}

// silent is F44: a stream that stalls after any event, also one that goes on
// with keep-alives, ends and is released.
func (s suite) silent(t *testing.T) {
	watch := func(m llm.Model) llm.Model { return llm.WithSilence(m, 30*time.Millisecond) }
	for _, pings := range []bool{false, true} {
		s.everywhere(t, func(k int) Fault { return Fault{SilentAfter: k, Pings: pings} }, watch, func(k int, h heard) {
			if llm.ClassOf(h.err) != llm.ClassSilence || !strings.Contains(h.err.Error(), "LLM response timeout after 0.03s") {
				t.Errorf("silent after %d events (pings %v): %v", k, pings, h.err)
			}
		})
	}
	server, m := s.start(t)
	server.Answers(Answer{Hold: make(chan struct{})})
	if h := listen(t, watch(m).Stream(t.Context(), ask("x"))); llm.ClassOf(h.err) != llm.ClassSilence {
		t.Errorf("no headers: %v", h.err)
	}
	waitIdle(t, server)
}

func (s suite) brokenCalls(t *testing.T) {
	server, m := s.start(t)
	for name, fault := range map[string]Fault{"arguments cut": {CutArgs: true}, "pieces for another call": {WrongID: true}, "one id for all": {SameID: true}} {
		a := s.full()
		a.Fault = fault
		server.Answers(a)
		if h := listen(t, m.Stream(t.Context(), ask("x"))); llm.ClassOf(h.err) != llm.ClassBroken {
			t.Errorf("%s: %+v, %v of class %q, want %s", name, calls(h.message), h.err, llm.ClassOf(h.err), llm.ClassBroken)
		}
	}
}

func (s suite) cancel(t *testing.T) {
	server, m := s.start(t)
	enough := errors.New("enough")
	for _, a := range []Answer{{Hold: make(chan struct{})}, {Parts: s.full().Parts, Fault: Fault{SilentAfter: 8}}} {
		arrived := make(chan struct{})
		server.Script(func(Request) Answer { close(arrived); return a })
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { <-arrived; cancel(enough) }()
		if h := listen(t, m.Stream(ctx, ask("x"))); !errors.Is(h.err, enough) {
			t.Errorf("after cancel: %v, want its cause", h.err)
		}
		waitIdle(t, server)
	}
}

func (s suite) stop(t *testing.T) {
	server, m := s.start(t)
	a := s.full()
	a.Fault.SilentAfter = 20
	server.Answers(a)
	for range m.Stream(t.Context(), ask("x")) {
		break
	}
	waitIdle(t, server)
}
