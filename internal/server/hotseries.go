package server

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// hotSeries keeps the series that every request counts in. To find one by its labels costs
// more than to count in it.
type hotSeries struct {
	requests sync.Map // requestKey → requestSeries
	calls    sync.Map // the operation → prometheus.Observer
	acks     sync.Map // ackKey → ackSeries
}

type requestKey struct {
	method, route string
	status        int
}

type requestSeries struct {
	count prometheus.Counter
	time  prometheus.Observer
}

type ackKey struct{ job, outcome string }

type ackSeries struct {
	count   prometheus.Counter
	latency prometheus.Observer // nil but for accepted ones
}

// kept gives what is in m under the key, found at first.
func kept[K comparable, V any](m *sync.Map, key K, find func() V) V {
	if found, ok := m.Load(key); ok {
		return found.(V) //nolint:forcetypeassert // Each map has one type of values.
	}
	series := find()
	m.Store(key, series)
	return series
}

// knownMethods are those that a series is made for: the method is the client's to make up.
var knownMethods = []string{
	http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions,
}

func (m *metrics) request(method, route string, status int, took time.Duration) {
	if !slices.Contains(knownMethods, method) {
		method = "other"
	}
	series := kept(&m.hot.requests, requestKey{method, route, status}, func() requestSeries {
		return requestSeries{
			count: m.requests.WithLabelValues(method, route, strconv.Itoa(status)),
			time:  m.requestTime.WithLabelValues(method, route),
		}
	})
	series.count.Inc()
	series.time.Observe(took.Seconds())
}

func (m *metrics) storeCall(operation string, took time.Duration) {
	kept(&m.hot.calls, operation, func() prometheus.Observer {
		return m.storeCalls.WithLabelValues(operation)
	}).Observe(took.Seconds())
}

// acknowledged counts an acknowledgement by its outcome, and its latency if it was accepted.
func (m *metrics) acknowledged(job, outcome string, accepted bool, latencyMs int64) {
	job = m.jobs.nameOf(job)
	series := kept(&m.hot.acks, ackKey{job, outcome}, func() ackSeries {
		series := ackSeries{count: m.acks.WithLabelValues(job, outcome)}
		if accepted {
			series.latency = m.ackLatency.WithLabelValues(job)
		}
		return series
	})
	series.count.Inc()
	if series.latency != nil {
		series.latency.Observe(float64(latencyMs) / 1000)
	}
}

// forgetJob forgets the series of a deleted job, which are no longer in the registry.
func (h *hotSeries) forgetJob(job string) {
	h.acks.Range(func(key, _ any) bool {
		if k, ok := key.(ackKey); ok && k.job == job {
			h.acks.Delete(key)
		}
		return true
	})
}
