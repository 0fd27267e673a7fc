package anthropic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/iris-operator/iris/internal/llm"
	"github.com/iris-operator/iris/internal/llm/llmtest"
	"github.com/iris-operator/iris/internal/secret"
)

func ask() llm.Request { return llm.Request{Messages: []llm.Message{user(text("x"))}} }

func TestNewRefuses(t *testing.T) {
	for name, opts := range map[string]Options{
		"no model": {},
		"no URL":   {Info: info(), BaseURL: "gateway"},
		"ftp":      {Info: info(), BaseURL: "ftp://x"},
		"bad URL":  {Info: info(), BaseURL: "http://[::1"},
	} {
		if m, err := New(opts); err == nil || m != nil {
			t.Errorf("%s: New = %v, %v", name, m, err)
		}
	}
}

// The environment of the process must not leak into requests, nor the requests
// tell the provider about the machine or the trace.
func TestHeaders(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "from-the-environment")
	t.Setenv("ANTHROPIC_AUTH_TOKEN", "from-the-environment")
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Env: from-the-environment")
	s := llmtest.NewServer(t)
	for name, c := range map[string]struct {
		opts Options
		want map[string]string
	}{
		"key":    {Options{BaseURL: s.URL(), Key: secret.New(llmtest.Key)}, map[string]string{"X-Api-Key": llmtest.Key}},
		"bearer": {Options{BaseURL: s.URL() + "/v1/", Key: secret.New(llmtest.Key), AuthBearer: true}, map[string]string{"Authorization": "Bearer " + llmtest.Key}},
		"more":   {Options{BaseURL: s.URL() + "/", HTTPClient: &http.Client{}, Headers: map[string]string{"X-Api-Key": "gateway-key", "Helicone": "1"}}, map[string]string{"X-Api-Key": "gateway-key", "Helicone": "1"}},
	} {
		c.opts.Info = info()
		m, err := New(c.opts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := llm.Collect(m.Stream(t.Context(), ask())); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all := s.Requests()
		got := map[string]string{}
		for k, v := range all[len(all)-1].Header {
			got[k] = v[0]
		}
		for _, k := range []string{"Content-Length", "Accept-Encoding"} {
			delete(got, k)
		}
		want := map[string]string{"Accept": "text/event-stream", "Content-Type": "application/json", "User-Agent": "iris", "Anthropic-Version": "2023-06-01"}
		for k, v := range c.want {
			want[k] = v
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A redirect would carry the key to wherever it points.
func TestRedirectIsNotFollowed(t *testing.T) {
	var reached bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer elsewhere.Close()
	front := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer front.Close()
	_, err := llm.Collect(open(t, front.URL).Stream(t.Context(), ask()))
	if reached || llm.ClassOf(err) != llm.ClassInvalid {
		t.Errorf("Stream = %v, followed %v", err, reached)
	}
}

func TestConnectionIsReused(t *testing.T) {
	s := llmtest.NewServer(t)
	var dialled int
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) { return transport.RoundTrip(r) })}
	transport.DialContext = countingDial(&dialled)
	m, err := New(Options{Info: info(), BaseURL: s.URL(), Key: secret.New(llmtest.Key), HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := llm.Collect(m.Stream(t.Context(), ask())); err != nil {
			t.Fatal(err)
		}
	}
	if dialled != 1 {
		t.Errorf("%d connections for 5 requests", dialled)
	}
}

// serve answers every request with a status, a content type and a body.
func serve(t *testing.T, status int, kind, body string) *Model {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return open(t, s.URL)
}

func TestFailures(t *testing.T) {
	const page = "<!doctype html><title>Sign in</title>"
	for name, c := range map[string]struct {
		status     int
		kind, body string
		class      llm.Class
		text       string
	}{
		"page instead of a stream": {200, "text/html", page, llm.ClassBroken, "answered with text/html instead of an event stream"},
		"page as error":            {503, "text/html", page, llm.ClassOverloaded, "Service Unavailable"},
		"empty error":              {500, "text/plain", "", llm.ClassServer, "Internal Server Error"},
		"words":                    {500, "text/plain", "upstream\nfailed", llm.ClassServer, "upstream failed"},
		"error is a text":          {400, "application/json", `{"error":"no such deployment"}`, llm.ClassInvalid, "no such deployment"},
		"detail":                   {422, "application/json", `{"detail":"bad field"}`, llm.ClassInvalid, "bad field"},
		"credit":                   {400, "application/json", `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`, llm.ClassQuota, "Your credit balance is too low"},
		"spend limit":              {429, "application/json", `{"type":"error","error":{"type":"rate_limit_error","message":"limit","details":{"error_code":"enforced_spend_limit_reached"}}}`, llm.ClassQuota, "limit"},
		"too long":                 {400, "application/json", `{"type":"error","error":{"type":"invalid_request_error","message":"input length and max_tokens exceed context limit: 1 + 2 > 2"}}`, llm.ClassTooLong, "input length and max_tokens exceed context limit: 1 + 2 > 2"},
		"not JSON in the stream":   {200, "text/event-stream", "event: message_start\ndata: {oops\n\n", llm.ClassBroken, "an event that is not JSON: {oops"},
		"nothing":                  {200, "text/event-stream", "", llm.ClassCut, "the stream ended before the answer did"},
		"huge event":               {200, "text/event-stream", "data: " + strings.Repeat("x", 17<<20), llm.ClassBroken, "event of the stream is too long"},
		"error in the stream":      {200, "", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"billing_error\",\"message\":\"pay " + llmtest.Key + "\"}}\n\n", llm.ClassQuota, "pay [secret]"},
	} {
		_, err := llm.Collect(serve(t, c.status, c.kind, c.body).Stream(t.Context(), ask()))
		var e *llm.Error
		if !errors.As(err, &e) || e.Class != c.class || e.Text != c.text {
			t.Errorf("%s: %#v, want class %s, text %q", name, err, c.class, c.text)
		}
	}
}

// frames makes a stream of the given events.
func frames(events ...string) string {
	var s strings.Builder
	for _, e := range events {
		fmt.Fprintf(&s, "data: %s\n\n", e)
	}
	return s.String()
}

func TestAnswers(t *testing.T) {
	const start, stop = `{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":2}}}`, `{"type":"message_stop"}`
	block := func(i int, b string) string {
		return fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, b)
	}
	delta := func(i int, d string) string {
		return fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, i, d)
	}
	tool := `{"type":"tool_use","id":"a","name":"bash","input":{}}`
	for name, c := range map[string]struct {
		stream string
		want   []llm.Part // nil means ClassBroken
		stop   llm.StopReason
	}{
		"empty":                {frames(start, stop), []llm.Part{}, llm.StopEnd},
		"blank text":           {frames(start, block(0, `{"type":"text","text":" \n"}`), block(1, `{"type":"thinking","thinking":""}`), block(2, `{"type":"text","text":"x"}`), stop), []llm.Part{text("x")}, llm.StopEnd},
		"input at the start":   {frames(start, block(0, `{"type":"tool_use","id":"a","name":"bash","input":{"a":1}}`), stop), []llm.Part{call("a")}, llm.StopTools},
		"no arguments":         {frames(start, block(0, tool), stop), []llm.Part{{Kind: llm.CallPart, Call: &llm.Call{ID: "a", Name: "bash", Args: []byte("{}")}}}, llm.StopTools},
		"unknown block":        {frames(start, block(0, `{"type":"server_tool_use","id":"s","name":"web"}`), delta(0, `{"type":"input_json_delta","partial_json":"{"}`), block(1, `{"type":"text","text":"x"}`), delta(1, `{"type":"citations_delta"}`), stop), []llm.Part{text("x")}, llm.StopEnd},
		"interleaved":          {frames(start, block(0, tool), block(1, `{"type":"text","text":""}`), delta(0, `{"type":"input_json_delta","partial_json":"{\"a\""}`), delta(1, `{"type":"text_delta","text":"x"}`), delta(0, `{"type":"input_json_delta","partial_json":":1}"}`), stop), []llm.Part{call("a"), text("x")}, llm.StopTools},
		"window full":          {frames(start, block(0, `{"type":"text","text":"x"}`), `{"type":"message_delta","delta":{"stop_reason":"model_context_window_exceeded"}}`, stop), []llm.Part{text("x")}, llm.StopLength},
		"redacted":             {frames(start, block(0, `{"type":"redacted_thinking","data":"d"}`), block(1, `{"type":"text","text":"x"}`), stop), []llm.Part{thought("", "redacted:d"), text("x")}, llm.StopEnd},
		"hidden thinking":      {frames(start, block(0, `{"type":"thinking","thinking":"","signature":"s"}`), block(1, `{"type":"text","text":"x"}`), stop), []llm.Part{thought("", "s"), text("x")}, llm.StopEnd},
		"call without id":      {frames(start, block(0, `{"type":"tool_use","name":"bash"}`), stop), nil, ""},
		"arguments are a list": {frames(start, block(0, tool), delta(0, `{"type":"input_json_delta","partial_json":"[]"}`), stop), nil, ""},
		"block begins twice":   {frames(start, block(0, tool), block(0, tool), stop), nil, ""},
	} {
		m := open(t, "http://127.0.0.1:1")
		got, err := m.read(strings.NewReader(c.stream), func(llm.Event, error) bool { return true })
		if c.want == nil {
			if llm.ClassOf(m.failure(t.Context(), err)) != llm.ClassBroken {
				t.Errorf("%s: %+v, %v, want it refused", name, got, err)
			}
			continue
		}
		if len(c.want) == 0 {
			c.want = nil
		}
		if diff := cmp.Diff(c.want, got.Parts); diff != "" || err != nil || got.Stop != c.stop || got.Usage.Input != 3 || got.Usage.CacheRead != 2 {
			t.Errorf("%s: %v, stop %s, usage %+v\n%s", name, err, got.Stop, got.Usage, diff)
		}
	}
}

func TestReadErrors(t *testing.T) {
	m := open(t, "http://127.0.0.1:1")
	reset := errors.New("connection reset by peer")
	_, err := m.read(io.MultiReader(strings.NewReader(frames(`{"type":"ping"}`)), iotest.ErrReader(reset)), nil)
	if err = m.failure(t.Context(), err); llm.ClassOf(err) != llm.ClassNetwork || !errors.Is(err, reset) {
		t.Errorf("reset: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(answerOf(3)))
	f.Add([]byte(frames(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"b"}}`, `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}`, `{"type":"message_stop"}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		m := open(t, "http://127.0.0.1:1")
		got, err := m.read(strings.NewReader(string(data)), func(llm.Event, error) bool { return true })
		if err != nil {
			var e *llm.Error
			if !errors.As(m.failure(t.Context(), err), &e) || e.Class == "" {
				t.Errorf("unclassed: %v", err)
			}
			return
		}
		if len(got.Parts) > 0 {
			history := llm.Repair([]llm.Message{user(text("x")), got})
			if err := llm.Valid(history); err != nil {
				t.Errorf("%v: %+v", err, got)
			}
			for _, p := range got.Parts {
				if p.Kind == llm.CallPart && !llm.IsObject(p.Call.Args) {
					t.Errorf("arguments %s", p.Call.Args)
				}
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// countingDial counts connections. Requests here come one at a time.
func countingDial(n *int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		*n++
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
}
