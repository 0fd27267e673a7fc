package observe

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFamilyText(t *testing.T) {
	plain := newFamily(counter, "c_total", "With a \\ and\ntwo lines.")
	labelled := newFamily(gauge, "g", "G.", "a", "b")
	labelled.add(1.5, "x", "2")
	labelled.add(-3, "x", "1")
	labelled.add(1, "x", "2")
	labelled.add(1, "\"\\\n\xff", "")
	timed := newFamily(histogram, "h", "H.", "r")
	timed.buckets = []float64{.5, 2}
	for _, v := range []float64{.5, .6, 2.5, 1e9} { // a bound belongs to its bucket
		timed.observe(v, "n")
	}
	bare := newFamily(histogram, "bare", "B.")
	bare.buckets = []float64{1}
	bare.observe(3)
	for _, c := range []struct {
		f    *family
		want string
	}{
		{plain, "# HELP c_total With a \\\\ and\\ntwo lines.\n# TYPE c_total counter\nc_total 0\n"},
		{labelled, "# HELP g G.\n# TYPE g gauge\n" +
			"g{a=\"\\\"\\\\\\n\uFFFD\",b=\"\"} 1\ng{a=\"x\",b=\"1\"} -3\ng{a=\"x\",b=\"2\"} 2.5\n"},
		{timed, "# HELP h H.\n# TYPE h histogram\n" +
			"h_bucket{r=\"n\",le=\"0.5\"} 1\nh_bucket{r=\"n\",le=\"2\"} 2\nh_bucket{r=\"n\",le=\"+Inf\"} 4\n" +
			"h_sum{r=\"n\"} 1.0000000036e+09\nh_count{r=\"n\"} 4\n"},
		{bare, "# HELP bare B.\n# TYPE bare histogram\nbare_bucket{le=\"1\"} 0\nbare_bucket{le=\"+Inf\"} 1\nbare_sum 3\nbare_count 1\n"},
		{newFamily(counter, "none", "N.", "l"), ""},
		{newFamily(histogram, "none", "N."), ""},
	} {
		if diff := cmp.Diff(c.want, string(c.f.appendTo(nil))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.f.name, diff)
		}
	}
}

// Every line of /metrics has the form that Prometheus reads, and no name comes
// twice.
func TestMetricsAreWellFormed(t *testing.T) {
	m := NewMetrics(`v"1`)
	m.TurnEnded("native", "final", time.Second)
	m.Request("GET /sessions/{id}", 200, time.Millisecond)
	m.Used(Tokens{Provider: "p", Model: "m", Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Cost: 1})
	m.Delivered("slack", "reply", time.Second)
	m.DeliveryFailed("slack", "rate")
	m.DeliveryLost("slack", "reply")
	m.DeliveryOpen("slack", func() float64 { return 3 })
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequest("GET", "/metrics", nil))
	if got := rec.Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	line := regexp.MustCompile(`^(?:# (?:HELP [a-z_]+ .+|TYPE [a-z_]+ (?:counter|gauge|histogram))|[a-z_]+(?:\{[a-z]+="(?:[^"\\\n]|\\.)*"(?:,[a-z]+="(?:[^"\\\n]|\\.)*")*\})? (?:\+Inf|-?[0-9.e+-]+))$`)
	seen := map[string]bool{}
	for l := range strings.Lines(rec.Body.String()) {
		l = strings.TrimSuffix(l, "\n")
		name, _, _ := strings.Cut(l, "} ")
		if !strings.HasPrefix(l, "#") && !strings.Contains(l, "{") {
			name, _, _ = strings.Cut(l, " ")
		}
		if !line.MatchString(l) || seen[name] {
			t.Errorf("line %q", l)
		}
		seen[name] = true
	}
	if want := `iris_delivery_open{platform="slack"} 3`; !strings.Contains(rec.Body.String(), want) {
		t.Errorf("/metrics lacks %s", want)
	}
	for _, want := range []string{"go_goroutines", "process_cpu_seconds_total", "process_open_fds", "process_resident_memory_bytes", "process_start_time_seconds", "go_memstats_heap_alloc_bytes"} {
		if !seen[want] {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

func TestMetricsConcurrently(t *testing.T) {
	m := NewMetrics("v")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				m.TurnStarted()
				m.TurnEnded("native", "final", time.Second)
				m.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/metrics", nil))
			}
		})
	}
	wg.Wait()
	if got := string(m.turns.appendTo(nil)); !strings.HasSuffix(got, " 800\n") {
		t.Errorf("turns: %s", got)
	}
	if got := string(m.running.appendTo(nil)); !strings.HasSuffix(got, " 0\n") {
		t.Errorf("running: %s", got)
	}
}
