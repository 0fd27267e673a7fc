package observe

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Metrics counts. Its methods are safe for concurrent use and never fail.
//
// It writes the text format of Prometheus itself: the client library for it
// takes a tenth of the time from exec to the first answer and two megabytes of
// the binary, for counters that fit on a page.
type Metrics struct {
	started time.Time
	all     []*family

	turns, turnTime, running, refused, tokens, cost, requests, reqTime *family
	arrived, faults, lost                                              *family

	// mu guards open.
	mu   sync.Mutex
	open map[string]func() float64 // by platform
}

// turnBuckets span an instant answer to half an hour of tools, in seconds.
var turnBuckets = []float64{.005, .05, .25, 1, 2.5, 5, 10, 30, 60, 180, 600, 1800}

// NewMetrics returns metrics, all at 0. version is shown in iris_build_info.
func NewMetrics(version string) *Metrics {
	m := &Metrics{started: time.Now(), open: map[string]func() float64{}}
	add := func(k kind, name, help string, labels ...string) *family {
		f := newFamily(k, name, help, labels...)
		if k == histogram {
			f.buckets = turnBuckets
		}
		m.all = append(m.all, f)
		return f
	}
	m.turns = add(counter, "iris_turns_total", "Turns that ended, by runner and by outcome: final, stopped, or the code of the failure.", "outcome", "runner")
	m.turnTime = add(histogram, "iris_turn_seconds", "Time from accepting a message to the end of its turn.", "runner")
	m.running = add(gauge, "iris_turns_running", "Turns a runner has right now.")
	m.refused = add(counter, "iris_messages_refused_total", "Messages refused because their conversation's queue was full.")
	m.tokens = add(counter, "iris_model_tokens_total", "Tokens as the provider counted them.", "kind", "model", "provider")
	m.cost = add(counter, "iris_model_cost_dollars_total", "Cost at list prices, in US dollars.")
	m.requests = add(counter, "iris_http_requests_total", "Answered requests by route and status.", "route", "status")
	m.reqTime = add(histogram, "iris_http_request_seconds", "Time to answer a request; streams count until they close.", "route")
	m.arrived = add(histogram, "iris_delivery_seconds", "Time from what is shown on a platform, or the message that is answered, to its arrival there.", "platform", "what")
	m.faults = add(counter, "iris_delivery_faults_total", "Calls of a platform that failed, by the reason.", "fault", "platform")
	m.lost = add(counter, "iris_delivery_lost_total", "Messages that were given up.", "platform", "what")
	add(gauge, "iris_build_info", "Always 1; the version is in the label.", "version").add(1, version)
	return m
}

// Handler serves the figures in the text format of Prometheus, those of the
// process and of Go among them.
func (m *Metrics) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		var b []byte
		for _, f := range m.all {
			b = f.appendTo(b)
		}
		b = m.deliveries().appendTo(b)
		_, _ = w.Write(appendProcess(b, m.started)) // who asked may have gone
	})
}

// deliveries asks every platform how much is under way there.
func (m *Metrics) deliveries() *family {
	f := newFamily(gauge, "iris_delivery_open", "Turns, messages and questions that are under way on a platform.", "platform")
	m.mu.Lock()
	defer m.mu.Unlock()
	for platform, open := range m.open {
		f.add(open(), platform)
	}
	return f
}

// TurnStarted counts a turn that a runner has got.
func (m *Metrics) TurnStarted() { m.running.add(1) }

// TurnEnded counts a turn's end.
func (m *Metrics) TurnEnded(runner, outcome string, took time.Duration) {
	m.running.add(-1)
	m.turns.add(1, outcome, runner)
	m.turnTime.observe(took.Seconds(), runner)
}

// Refused counts a message that found its queue full.
func (m *Metrics) Refused() { m.refused.add(1) }

// Tokens is what a turn used.
type Tokens struct {
	Provider, Model                      string
	Input, Output, CacheRead, CacheWrite int64
	Cost                                 float64 // US dollars
}

// Used counts what a turn cost.
func (m *Metrics) Used(t Tokens) {
	for _, u := range []struct {
		kind string
		n    int64
	}{{"input", t.Input}, {"output", t.Output}, {"cache_read", t.CacheRead}, {"cache_write", t.CacheWrite}} {
		if u.n > 0 {
			m.tokens.add(float64(u.n), u.kind, t.Model, t.Provider)
		}
	}
	if t.Cost > 0 {
		m.cost.add(t.Cost)
	}
}

// Delivered counts what has arrived on a platform.
func (m *Metrics) Delivered(platform, what string, took time.Duration) {
	m.arrived.observe(took.Seconds(), platform, what)
}

// DeliveryFailed counts a failed call of a platform.
func (m *Metrics) DeliveryFailed(platform, fault string) { m.faults.add(1, fault, platform) }

// DeliveryLost counts a message that was given up.
func (m *Metrics) DeliveryLost(platform, what string) { m.lost.add(1, platform, what) }

// DeliveryOpen shows how many deliveries of a platform are under way. open is
// asked for every answer of Handler; it must be quick and safe for concurrent
// use.
func (m *Metrics) DeliveryOpen(platform string, open func() float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[platform] = open
}

// Request counts an answered HTTP request. route is the pattern and not the
// path, so that ids do not become labels.
func (m *Metrics) Request(route string, status int, took time.Duration) {
	m.requests.add(1, route, strconv.Itoa(status))
	m.reqTime.observe(took.Seconds(), route)
}
