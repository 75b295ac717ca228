package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/load"
)

// loadCollector reads the bounds at each scrape.
type loadCollector struct {
	load                       *load.Load
	used, limit, waiting, shed *prometheus.Desc
}

func newLoadCollector(l *load.Load) *loadCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("checkpointd_"+name, help, append([]string{"class"}, labels...), nil)
	}
	return &loadCollector{
		load:    l,
		used:    desc("load", "What is taken of each bound: requests by class, and bytes of class buffered."),
		limit:   desc("load_limit", "How much each bound has."),
		waiting: desc("load_waiting", "Requests that wait for some of a bound."),
		shed:    desc("requests_shed_total", "Requests refused because a bound was used up, by code.", "code"),
	}
}

// Describe implements [prometheus.Collector].
func (c *loadCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{c.used, c.limit, c.waiting, c.shed} {
		descs <- desc
	}
}

// Collect implements [prometheus.Collector].
func (c *loadCollector) Collect(metrics chan<- prometheus.Metric) {
	report := func(class string, bound *load.Bound) {
		usage := bound.Usage()
		send := func(desc *prometheus.Desc, kind prometheus.ValueType, value int64, labels ...string) {
			metrics <- prometheus.MustNewConstMetric(desc, kind, float64(value), append([]string{class}, labels...)...)
		}
		send(c.used, prometheus.GaugeValue, usage.Used)
		send(c.limit, prometheus.GaugeValue, usage.Size)
		send(c.waiting, prometheus.GaugeValue, usage.Waiting)
		send(c.shed, prometheus.CounterValue, usage.Full, string(coordinator.CodeOverloaded))
		send(c.shed, prometheus.CounterValue, usage.Unfair, string(coordinator.CodeTooManyRequests))
	}
	for _, class := range load.Classes() {
		report(string(class), c.load.Of(class))
	}
	report("buffered", c.load.Buffered)
}
