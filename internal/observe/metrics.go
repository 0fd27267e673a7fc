package observe

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics counts. Its methods are safe for concurrent use and never fail.
type Metrics struct {
	registry *prometheus.Registry
	turns    *prometheus.CounterVec
	turnTime *prometheus.HistogramVec
	running  prometheus.Gauge
	refused  prometheus.Counter
	tokens   *prometheus.CounterVec
	cost     prometheus.Counter
	requests *prometheus.CounterVec
	reqTime  *prometheus.HistogramVec
	arrived  *prometheus.HistogramVec
	faults   *prometheus.CounterVec
	lost     *prometheus.CounterVec
}

// turnBuckets span an instant answer to half an hour of tools, in seconds.
var turnBuckets = []float64{.005, .05, .25, 1, 2.5, 5, 10, 30, 60, 180, 600, 1800}

// NewMetrics returns metrics with a registry of their own. version is shown in
// iris_build_info.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		turns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "iris_turns_total", Help: "Turns that ended, by runner and by outcome: final, stopped, or the code of the failure."},
			[]string{"runner", "outcome"}),
		turnTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "iris_turn_seconds", Help: "Time from accepting a message to the end of its turn.", Buckets: turnBuckets},
			[]string{"runner"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "iris_turns_running", Help: "Turns a runner has right now."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "iris_messages_refused_total", Help: "Messages refused because their conversation's queue was full."}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "iris_model_tokens_total", Help: "Tokens as the provider counted them."},
			[]string{"provider", "model", "kind"}),
		cost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "iris_model_cost_dollars_total", Help: "Cost at list prices, in US dollars."}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "iris_http_requests_total", Help: "Answered requests by route and status."},
			[]string{"route", "status"}),
		reqTime: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "iris_http_request_seconds", Help: "Time to answer a request; streams count until they close.", Buckets: turnBuckets},
			[]string{"route"}),
		arrived: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "iris_delivery_seconds", Help: "Time from what is shown on a platform, or the message that is answered, to its arrival there.", Buckets: turnBuckets},
			[]string{"platform", "what"}),
		faults: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "iris_delivery_faults_total", Help: "Calls of a platform that failed, by the reason."},
			[]string{"platform", "fault"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "iris_delivery_lost_total", Help: "Messages that were given up."},
			[]string{"platform", "what"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "iris_build_info", Help: "Always 1; the version is in the label.", ConstLabels: prometheus.Labels{"version": version}})
	build.Set(1)
	m.registry.MustRegister(m.turns, m.turnTime, m.running, m.refused, m.tokens, m.cost, m.requests, m.reqTime, m.arrived, m.faults, m.lost, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler serves the figures in the Prometheus text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// TurnStarted counts a turn that a runner has got.
func (m *Metrics) TurnStarted() { m.running.Inc() }

// TurnEnded counts a turn's end.
func (m *Metrics) TurnEnded(runner, outcome string, took time.Duration) {
	m.running.Dec()
	m.turns.WithLabelValues(runner, outcome).Inc()
	m.turnTime.WithLabelValues(runner).Observe(took.Seconds())
}

// Refused counts a message that found its queue full.
func (m *Metrics) Refused() { m.refused.Inc() }

// Tokens is what a turn used.
type Tokens struct {
	Provider, Model                      string
	Input, Output, CacheRead, CacheWrite int64
	Cost                                 float64 // US dollars
}

// Used counts what a turn cost.
func (m *Metrics) Used(t Tokens) {
	for kind, n := range map[string]int64{"input": t.Input, "output": t.Output, "cache_read": t.CacheRead, "cache_write": t.CacheWrite} {
		if n > 0 {
			m.tokens.WithLabelValues(t.Provider, t.Model, kind).Add(float64(n))
		}
	}
	if t.Cost > 0 {
		m.cost.Add(t.Cost)
	}
}

// Delivered counts what has arrived on a platform.
func (m *Metrics) Delivered(platform, what string, took time.Duration) {
	m.arrived.WithLabelValues(platform, what).Observe(took.Seconds())
}

// DeliveryFailed counts a failed call of a platform.
func (m *Metrics) DeliveryFailed(platform, fault string) {
	m.faults.WithLabelValues(platform, fault).Inc()
}

// DeliveryLost counts a message that was given up.
func (m *Metrics) DeliveryLost(platform, what string) {
	m.lost.WithLabelValues(platform, what).Inc()
}

// DeliveryOpen shows how many deliveries of a platform are under way. It may be
// called once per platform.
func (m *Metrics) DeliveryOpen(platform string, open func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "iris_delivery_open", Help: "Turns, messages and questions that are under way on a platform.",
		ConstLabels: prometheus.Labels{"platform": platform}}, open))
}

// Request counts an answered HTTP request. route is the pattern and not the
// path, so that ids do not become labels.
func (m *Metrics) Request(route string, status int, took time.Duration) {
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	m.reqTime.WithLabelValues(route).Observe(took.Seconds())
}
