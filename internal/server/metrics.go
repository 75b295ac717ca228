package server

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are this process' own; nothing is in the global registry. ARCHITECTURE.md
// lists the names, which alerts rely on.
type metrics struct {
	registry *prometheus.Registry

	triggered        *prometheus.CounterVec
	ended            *prometheus.CounterVec
	deleted          *prometheus.CounterVec
	damaged          *prometheus.CounterVec
	recoveries       *prometheus.CounterVec
	acks             *prometheus.CounterVec
	ackLatency       *prometheus.HistogramVec
	duration         *prometheus.HistogramVec
	restores         *prometheus.CounterVec
	restoredBytes    *prometheus.CounterVec
	storeCalls       *prometheus.HistogramVec
	storeErrors      *prometheus.CounterVec
	storeUp          prometheus.Gauge
	storeWarnings    *prometheus.GaugeVec
	credentialsValid *prometheus.GaugeVec
	background       *prometheus.CounterVec
	eventsDropped    prometheus.Counter
	// connectionsClosed counts by what the connection did: "waiting" for its client between two requests or in the
	// middle of a head, or "full" for a new one that found all others busy.
	connectionsClosed *prometheus.CounterVec
	requests          *prometheus.CounterVec
	requestTime       *prometheus.HistogramVec
	inFlight          prometheus.Gauge

	hot hotSeries
	// jobs are those that have series of their own.
	jobs jobSeries
}

// Checkpoints take from milliseconds to hours, requests and store calls from tenths of
// a millisecond to seconds.
var (
	longBuckets  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}
	shortBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}
)

// newMetrics makes the metrics of a server that has series of their own for so many jobs.
func newMetrics(jobs int) *metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "checkpointd", Name: name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "checkpointd", Name: name, Help: help, Buckets: buckets}, labels)
		registry.MustRegister(v)
		return v
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "checkpointd", Name: name, Help: help}, labels)
		registry.MustRegister(v)
		return v
	}
	return &metrics{
		registry:          registry,
		jobs:              jobSeries{most: jobs},
		triggered:         counter("checkpoints_triggered_total", "Checkpoints triggered through this process.", "job"),
		ended:             counter("checkpoints_ended_total", "Checkpoints that reached a terminal status in this process, by reason (empty when completed).", "job", "status", "reason"),
		deleted:           counter("checkpoints_deleted_total", "Checkpoints removed by this process: by request, cleanup or retention.", "job", "why"),
		damaged:           counter("damage_found_total", "Times that this process found a completed checkpoint to lack something.", "job"),
		recoveries:        counter("recoveries_total", "Epochs raised through this process.", "job"),
		acks:              counter("acks_total", "Acknowledgements by outcome: acknowledged, duplicate, or the code of the refusal.", "job", "outcome"),
		ackLatency:        histogram("ack_latency_seconds", "Time from a checkpoint's start to an accepted acknowledgement.", longBuckets, "job"),
		duration:          histogram("checkpoint_duration_seconds", "Time a checkpoint was pending, by the status it ended in.", longBuckets, "job", "status"),
		restores:          counter("restores_total", "Transfers of restore bytes, finished or broken off.", "job", "outcome"),
		restoredBytes:     counter("restored_bytes_total", "Bytes that restore transfers moved, broken-off ones too.", "job"),
		storeCalls:        histogram("store_call_seconds", "Time of store calls by operation.", shortBuckets, "operation"),
		storeErrors:       counter("store_errors_total", "Store calls that failed for the store's reasons, by operation and code.", "operation", "code"),
		storeUp:           gauge("store_up", "1 while the store answers.").WithLabelValues(),
		storeWarnings:     gauge("store_warning", "1 for each warning about how the store is configured.", "warning"),
		credentialsValid:  gauge("credentials_valid", "1 while the files that say who may come in are valid, by kind (tokens, tls); 0 while those of before hold.", "files"),
		background:        counter("background_errors_total", "Errors that no request saw.", "task"),
		eventsDropped:     counter("event_streams_dropped_total", "Event streams given up because their client did not read.").WithLabelValues(),
		connectionsClosed: counter("connections_closed_total", "Connections closed because there were too many: waiting ones, which had no request, and new ones while all were busy (full).", "why"),
		requests:          counter("http_requests_total", "Requests by method, route pattern and status.", "method", "route", "status"),
		requestTime:       histogram("http_request_seconds", "Time of requests by method and route pattern.", shortBuckets, "method", "route"),
		inFlight:          gauge("http_requests_in_flight", "Requests that are being answered.").WithLabelValues(),
	}
}

// forgetJob drops the series of a job that was deleted, or short-lived jobs would make each
// scrape larger for ever.
func (m *metrics) forgetJob(job string) {
	if !m.jobs.forget(job) {
		return
	}
	labels := prometheus.Labels{"job": job}
	for _, series := range []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}{
		m.triggered, m.ended, m.deleted, m.damaged, m.recoveries, m.acks, m.ackLatency, m.duration, m.restores, m.restoredBytes,
	} {
		series.DeletePartialMatch(labels)
	}
	m.hot.forgetJob(job)
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}
