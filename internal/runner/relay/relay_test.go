package relay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/iris-operator/iris/internal/chat"
	"github.com/iris-operator/iris/internal/runner"
	"github.com/iris-operator/iris/internal/secret"
	"github.com/iris-operator/iris/internal/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type sink struct{ events []turn.Event }

func (s *sink) Emit(e turn.Event) error               { s.events = append(s.events, e); return nil }
func (s *sink) Checkpoint(context.Context, any) error { return nil }

func request() turn.Request {
	return turn.Request{ID: turn.NewID(), Attempt: 1, Conversation: chat.Address{Space: chat.Slack, ID: "C1"},
		Message: chat.Message{ID: "1700000000.000200", Thread: "1700000000.000100", Text: "hi {{ts}}", From: chat.Person{ID: "U1", Name: "ann", Display: "Ann Lee"}}}
}

// serve answers with a status and a body, and keeps what was asked.
func serve(t *testing.T, status int, body string) (url string, asked func() (http.Header, any)) {
	var header http.Header
	var got any
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		data, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(data, &got)
		}
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() (http.Header, any) { return header, got }
}

func run(t *testing.T, target Target, quiet bool, req turn.Request) ([]turn.Event, error) {
	t.Helper()
	r, err := New(Options{Quiet: quiet, Timeout: 2 * time.Second, Target: func(context.Context, chat.Address) (Target, error) {
		if target.URL == "" {
			return target, errors.New("nowhere")
		}
		return target, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{}
	err = r.Run(t.Context(), req, s)
	return s.events, err
}

func TestDefaultPayload(t *testing.T) {
	url, asked := serve(t, 200, `{"response":"hello","text":"no"}`)
	events, err := run(t, Target{URL: url, Key: secret.New("k1"), ReplyPrefix: "> "}, false, request())
	header, got := asked()
	if err != nil || len(events) != 1 || events[0].Text != "> hello" || header.Get("X-API-Key") != "k1" {
		t.Errorf("%+v, %v, key %q", events, err, header.Get("X-API-Key"))
	}
	if diff := cmp.Diff(any(map[string]any{"text": "hi {{ts}}", "user": "Ann Lee", "sender_id": "slack_1700000000000100"}), got); diff != "" {
		t.Error(diff)
	}
}

func TestCustomPayload(t *testing.T) {
	url, asked := serve(t, 200, `{"error":"told"}`)
	events, err := run(t, Target{URL: url, Payload: json.RawMessage(
		`{"a":["{{text}}",1,{"b":"{{user_id}}/{{user_handle}}/{{channel}}/{{ts}}/{{unknown}}"}],"n":12345678901234567890}`)}, false, request())
	if err != nil || events[0].Text != "told" {
		t.Errorf("%+v, %v", events, err)
	}
	_, got := asked()
	if diff := cmp.Diff(any(map[string]any{"a": []any{"hi {{ts}}", 1.0, map[string]any{"b": "U1/ann.lee/C1/1700000000.000200/"}}, "n": 12345678901234567890.0}), got); diff != "" {
		t.Error(diff)
	}
}

func TestReplies(t *testing.T) {
	for body, want := range map[string]string{`{"text":"a"}`: "a", `{"error":"e","text":" "}`: "e", `{}`: "(no response)", `nonsense`: "(no response)", `{"text":3}`: "(no response)"} {
		if got := reply([]byte(body)); got != want {
			t.Errorf("reply(%s) = %q, want %q", body, got, want)
		}
	}
}

// TestFailuresAreToldToWhoAsked: those of other messages go to the log alone.
func TestFailuresAreToldToWhoAsked(t *testing.T) {
	url, _ := serve(t, 500, "oops")
	for name, target := range map[string]Target{"status": {URL: url}, "nowhere": {}, "nobody": {URL: "http://127.0.0.1:1/"}} {
		events, err := run(t, target, false, request())
		if err != nil || len(events) != 1 || events[0].Text != unavailable {
			t.Errorf("%s: %+v, %v", name, events, err)
		}
		events, err = run(t, target, true, request())
		if err != nil || len(events) != 1 || !events[0].Silent || events[0].Text != "" {
			t.Errorf("%s, quiet: %+v, %v", name, events, err)
		}
	}
}

func TestARestartInterrupts(t *testing.T) {
	req := request()
	req.Attempt = 2
	if events, err := run(t, Target{}, false, req); !errors.Is(err, runner.ErrInterrupted) || len(events) != 0 {
		t.Errorf("%+v, %v", events, err)
	}
}

func TestAStopEndsTheRequest(t *testing.T) {
	hang := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(hang)
		<-r.Context().Done()
	}))
	defer s.Close()
	r, err := New(Options{Target: func(context.Context, chat.Address) (Target, error) { return Target{URL: s.URL}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() { <-hang; cancel(runner.ErrStopped) }()
	out := &sink{}
	if err := r.Run(ctx, request(), out); !errors.Is(err, runner.ErrStopped) || len(out.events) != 0 {
		t.Errorf("Run = %v, %+v", err, out.events)
	}
}

func TestATargetIsRequired(t *testing.T) {
	if _, err := New(Options{}); err == nil {
		t.Error("New without a target")
	}
}

func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"a":"{{text}}"}`), "x")
	f.Fuzz(func(t *testing.T, template []byte, text string) {
		out, err := payload(template, map[string]string{"text": text})
		if err == nil && !json.Valid(out) {
			t.Fatalf("payload(%q) = %q", template, out)
		}
	})
}
