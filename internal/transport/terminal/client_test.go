package terminal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/turn"
)

func TestProbe(t *testing.T) {
	f := newFake(t, nil)
	if err := f.client().Probe(t.Context()); err != nil {
		t.Errorf("Probe() = %v", err)
	}
	c := f.client()
	c.Token = secret.New("wrong")
	var refused *StatusError
	if err := c.Probe(t.Context()); !errors.As(err, &refused) || refused.Status != 401 {
		t.Errorf("Probe() with a wrong token = %v, want 401", err)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	c.URL = gone.URL
	if err := c.Probe(t.Context()); !errors.Is(err, ErrNobody) {
		t.Errorf("Probe() of a closed port = %v, want ErrNobody", err)
	}
}

// TestProbeTokenIsNotForStrangers: what is not Iris does not get to see it.
func TestProbeTokenIsNotForStrangers(t *testing.T) {
	for _, answer := range []string{"<html>", `{"ok":true}`, `{"ok":false,"channels":1}`, ``, `[]`} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				t.Error("a stranger was sent the token")
			}
			fmt.Fprint(w, answer)
		}))
		tr := &http.Transport{}
		c := &Client{URL: srv.URL, Token: secret.New(testToken), HTTP: &http.Client{Transport: tr}}
		if err := c.Probe(t.Context()); !errors.Is(err, ErrNotIris) {
			t.Errorf("Probe() of %q = %v, want ErrNotIris", answer, err)
		}
		tr.CloseIdleConnections()
		srv.Close()
	}
}

func TestStatusErrorWords(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		want   string
	}{
		{404, `{"error":"session not found"}`, "session not found"},
		{500, `{"error":"internal server error"}`, "internal server error (HTTP 500)"},
		{502, `<html>bad gateway</html>`, "Bad Gateway (HTTP 502)"},
		{599, ``, "an answer without words (HTTP 599)"},
	} {
		if got := statusError(c.status, []byte(c.body)).Error(); got != c.want {
			t.Errorf("%d %s reads %q, want %q", c.status, c.body, got, c.want)
		}
	}
}

func TestClientErrors(t *testing.T) {
	f := newFake(t, nil)
	var answer atomic.Value
	answer.Store("{")
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		fmt.Fprint(w, answer.Load())
		return true
	}
	c := f.client()
	if _, err := c.Open(t.Context(), "native"); !errors.Is(err, errUnreadable) {
		t.Errorf("Open() of half an answer = %v", err)
	}
	if _, err := c.Send(t.Context(), testSession, "u", "x"); !errors.Is(err, errUnreadable) {
		t.Errorf("Send() = %v, want no second try", err)
	}
	c.URL = "http://127.0.0.1:bad"
	if _, err := c.History(t.Context(), testSession); err == nil {
		t.Error("a bad URL passed")
	}
	f.Close()
	c.URL = f.URL
	_, err := c.Running(t.Context(), testSession)
	if err == nil || strings.Contains(err.Error(), "http://") {
		t.Errorf("error of a closed port = %v, want one without the URL", err)
	}
}

// TestSendIsAcceptedOnce: the answer to the first try is lost, the server
// restarts, and the message is still one turn.
func TestSendIsAcceptedOnce(t *testing.T) {
	f := newFake(t, func(*fake, turn.ID, string) {})
	var tries atomic.Int32
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		switch tries.Add(1) {
		case 1: // accepted, and the answer never comes
			f.message(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	}
	sent, err := f.client().Send(t.Context(), testSession, "u", "hello")
	if err != nil || sent.Turn == "" || f.texts() != "hello" {
		t.Errorf("Send() = %+v, %v; accepted %q, want it once", sent, err, f.texts())
	}
}

func TestSendGivesUp(t *testing.T) {
	f := newFake(t, nil)
	status := http.StatusServiceUnavailable
	var tries atomic.Int32
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		tries.Add(1)
		w.WriteHeader(status)
		return true
	}
	c := f.client()
	c.tries = 3
	if _, err := c.Send(t.Context(), testSession, "u", "x"); err == nil || tries.Load() != 3 {
		t.Errorf("Send() = %v after %d tries, want 3", err, tries.Load())
	}
	tries.Store(0)
	status = http.StatusTooManyRequests
	if _, err := c.Send(t.Context(), testSession, "u", "x"); err == nil || tries.Load() != 1 {
		t.Errorf("Send() to a full queue = %v after %d tries, want 1: the person decides", err, tries.Load())
	}
	status = http.StatusBadGateway
	c.pause, c.tries = time.Hour, 2
	ctx, cancel := context.WithCancelCause(t.Context())
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		cancel(ErrInterrupted)
		w.WriteHeader(status)
		return true
	}
	if _, err := c.Send(ctx, testSession, "u", "x"); err == nil {
		t.Error("Send() goes on after its context")
	}
}

// follow collects the texts of a session's events until n have come.
func follow(ctx context.Context, c *Client, n int) (got []string, err error) {
	err = c.Follow(ctx, Watch{Session: testSession, See: func(e turn.Event) bool {
		got = append(got, e.Text)
		return len(got) < n
	}})
	return got, err
}

// TestFollowCutAtEveryByte cuts the stream at every byte of its frames: no event
// is lost and none is seen twice.
func TestFollowCutAtEveryByte(t *testing.T) {
	events := []turn.Event{part("a"), part("b"), whole("ab"), final("c")}
	for n := range events {
		for at, longest := 0, 1; at <= longest; at++ {
			f := newFake(t, nil)
			f.beforeFrame = func(i int, frame string) (string, bool) {
				if i != n {
					return "", false
				}
				longest = len(frame)
				return frame[:at], true
			}
			id := turn.NewID()
			f.running = id
			f.emit(id, events[:2]...)
			var got []string
			err := f.client().Follow(t.Context(), Watch{
				Session: testSession,
				Opened:  func() { f.emit(id, events[2:]...) },
				See: func(e turn.Event) bool {
					got = append(got, e.Text)
					return !e.Terminal()
				},
			})
			if d := cmp.Diff([]string{"a", "b", "ab", "c"}, got); d != "" || err != nil {
				t.Fatalf("frame %d cut at %d: %v (-want +got)\n%s", n, at, err, d)
			}
		}
	}
}

// TestFollowBrokenBeforeItsFirstEvent: the turn runs and ends while the stream
// is down, and is still seen whole.
func TestFollowBrokenBeforeItsFirstEvent(t *testing.T) {
	f := newFake(t, nil)
	before := turn.NewID()
	f.emit(before, final("an older turn"))
	var streams atomic.Int32
	id := turn.NewID()
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if streams.Add(1) != 1 {
			return false
		}
		fmt.Fprint(w, ":ok\n\n")
		w.(http.Flusher).Flush()
		f.emit(id, part("a"), final("a"))
		panic(http.ErrAbortHandler)
	}
	opened := 0
	var got []turn.Event
	err := f.client().Follow(t.Context(), Watch{
		Session: testSession, Opened: func() { opened++ },
		See: func(e turn.Event) bool {
			got = append(got, e)
			return e.Turn != id || !e.Terminal()
		},
	})
	want := []turn.Event{{Kind: turn.Final, Text: "an older turn", Turn: before}, {Kind: turn.Text, Text: "a", Partial: true, Turn: id}, {Kind: turn.Final, Text: "a", Turn: id}}
	if d := cmp.Diff(want, got); d != "" || err != nil || opened != 1 {
		t.Errorf("err %v, opened %d times (-want +got)\n%s", err, opened, d)
	}
	if d := cmp.Diff([]string{"0"}, f.resumed); d != "" {
		t.Errorf("the second stream begins elsewhere: %s", d)
	}
}

func TestFollowSkipsWhatItCannotUse(t *testing.T) {
	f := newFake(t, nil)
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		fmt.Fprint(w, "event: truncated\ndata: {\"kind\":\"truncated\"}\n\nid: 5\ndata: not JSON\n\n"+
			"id: 6\ndata: {\"kind\":\"text\",\"text\":\"a\"}\n\nid: 6\ndata: {\"kind\":\"text\",\"text\":\"again\"}\n\nid: 7\ndata: {\"kind\":\"text\",\"text\":\"b\"}\n\n")
		return true
	}
	got, err := follow(t.Context(), f.client(), 2)
	if d := cmp.Diff([]string{"a", "b"}, got); d != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, d)
	}
}

func TestFollowEnds(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		broken int
		want   string
	}{
		"the session is gone":   {404, 0, "Not Found"},
		"the token is no good":  {401, 0, "Unauthorized"},
		"it stays away":         {503, 3, "the server stays away"},
		"too many streams":      {429, 3, "the server stays away: Too Many Requests"},
		"a defect is no excuse": {500, 0, "Internal Server Error (HTTP 500)"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, nil)
			f.refuse = func(w http.ResponseWriter, r *http.Request) bool { w.WriteHeader(c.status); return true }
			cl := f.client()
			cl.tries = 3
			broken := 0
			err := cl.Follow(t.Context(), Watch{Session: testSession, Broken: func(error) { broken++ }, See: func(turn.Event) bool { return true }})
			if err == nil || !strings.HasPrefix(err.Error(), c.want) || broken != c.broken {
				t.Errorf("Follow() = %v after %d breaks, want %q after %d", err, broken, c.want, c.broken)
			}
		})
	}
}

// TestFollowASilentStreamIsDead: a connection that nobody closed is given up.
func TestFollowASilentStreamIsDead(t *testing.T) {
	f := newFake(t, nil)
	var streams atomic.Int32
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool {
		if streams.Add(1) == 1 {
			fmt.Fprint(w, ":ok\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return true
		}
		fmt.Fprint(w, "id: 1\ndata: {\"kind\":\"text\",\"text\":\"a\"}\n\n")
		return true
	}
	c := f.client()
	c.silence = 20 * time.Millisecond
	var why error
	err := c.Follow(t.Context(), Watch{Session: testSession, Broken: func(err error) { why = err }, See: func(turn.Event) bool { return false }})
	if err != nil || !errors.Is(why, errSilent) {
		t.Errorf("Follow() = %v, broken by %v; want %v", err, why, errSilent)
	}
}

func TestFollowEndsWithItsContext(t *testing.T) {
	f := newFake(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- f.client().Follow(ctx, Watch{Session: testSession, Opened: cancel, See: func(turn.Event) bool { return true }})
	}()
	if err := <-done; err != nil {
		t.Errorf("Follow() = %v", err)
	}
	f.refuse = func(w http.ResponseWriter, r *http.Request) bool { panic(http.ErrAbortHandler) }
	c := f.client()
	c.pause = time.Hour
	ctx, cancel = context.WithCancel(t.Context())
	if err := c.Follow(ctx, Watch{Session: testSession, Broken: func(error) { cancel() }, See: func(turn.Event) bool { return true }}); err != nil {
		t.Errorf("Follow() = %v", err)
	}
}
