package observe

import (
	"bytes"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestMetrics(t *testing.T) {
	m := NewMetrics("v1")
	m.TurnStarted()
	m.TurnStarted()
	m.TurnEnded("native", "final", time.Second)
	m.Refused()
	m.Used(Tokens{Provider: "p", Model: "m", Input: 3, Cost: .5})
	m.Request("GET /health", 200, time.Millisecond)
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`iris_turns_total{outcome="final",runner="native"} 1`, "iris_turns_running 1", "iris_messages_refused_total 1",
		`iris_model_tokens_total{kind="input",model="m",provider="p"} 3`, "iris_model_cost_dollars_total 0.5",
		`iris_http_requests_total{route="GET /health",status="200"} 1`, `iris_build_info{version="v1"} 1`, "go_goroutines",
	} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	if strings.Contains(rec.Body.String(), `kind="output"`) {
		t.Error("/metrics has a kind that was never used")
	}
}

func TestLogger(t *testing.T) {
	for _, c := range []struct{ level, format, want, not string }{
		{"info", "text", "level=INFO msg=hello turn=1", "quiet"},
		{"debug", "text", "msg=quiet", "nothing"},
		{"warn", "json", `"msg":"loud"`, "hello"},
	} {
		var buf bytes.Buffer
		log, err := NewLogger(LogOptions{Out: &buf, Level: c.level, Format: c.format})
		if err != nil {
			t.Fatal(err)
		}
		log.Debug("quiet")
		log.Info("hello", "turn", 1)
		log.Warn("loud")
		if got := buf.String(); !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s %s: %s", c.level, c.format, got)
		}
	}
	if _, err := NewLogger(LogOptions{Level: "loud"}); err == nil {
		t.Error("an unknown level is accepted")
	}
}
