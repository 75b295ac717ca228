package server

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// jobMetric is one figure of every job.
type jobMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// of gives the figure, and false where the job has none.
	of func(*coordinator.JobState, coordinator.Settings) (value float64, has bool)
	// together makes one figure of two of jobs without series of their own; nil where such a figure
	// would say nothing.
	together func(a, b float64) float64
}

func sum(a, b float64) float64     { return a + b }
func highest(a, b float64) float64 { return max(a, b) }

// jobsCollector reads the jobs at each scrape. While the store is away it has nothing
// to say, and store_up says why.
type jobsCollector struct {
	coordinator *coordinator.Coordinator
	metrics     []jobMetric
	series      *jobSeries
}

func newJobsCollector(c *coordinator.Coordinator, series *jobSeries) *jobsCollector {
	type job = coordinator.JobState
	j := &jobsCollector{coordinator: c, series: series}
	add := func(name, help string, kind prometheus.ValueType, together func(a, b float64) float64, of func(*job, coordinator.Settings) (float64, bool)) {
		j.metrics = append(j.metrics, jobMetric{prometheus.NewDesc("checkpointd_"+name, help, []string{"job"}, nil), kind, of, together})
	}
	always := func(of func(*job) float64) func(*job, coordinator.Settings) (float64, bool) {
		return func(s *job, _ coordinator.Settings) (float64, bool) { return of(s), true }
	}
	completed := func(of func(*job) float64) func(*job, coordinator.Settings) (float64, bool) {
		return func(s *job, _ coordinator.Settings) (float64, bool) {
			if s.LatestID < 0 {
				return 0, false
			}
			return of(s), true
		}
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	add("pending_checkpoints", "Pending checkpoints of the job.", gauge, sum,
		always(func(s *job) float64 { return float64(s.Pending) }))
	add("last_completed_age_seconds", "Age of the job's latest completed checkpoint; absent while there is none.", gauge, highest,
		completed(func(s *job) float64 { return max(0, float64(s.ObservedAt-s.LatestAt)/1000) }))
	add("last_completed_id", "Id of the job's latest completed checkpoint; absent while there is none.", gauge, nil,
		completed(func(s *job) float64 { return float64(s.LatestID) }))
	add("job_epoch", "Number of recoveries of the job.", gauge, nil,
		always(func(s *job) float64 { return float64(s.Epoch) }))
	add("job_never_completed", "1 while the job has no completed checkpoint.", gauge, sum,
		always(func(s *job) float64 { return truth(s.LatestID < 0) }))
	add("job_stale", "1 while the job's latest completed checkpoint is older than it should be.", gauge, sum,
		func(s *job, holds coordinator.Settings) (float64, bool) {
			return truth(s.Freshness(holds) == coordinator.FreshnessStale), true
		})
	add("job_failing", "1 while more checkpoints in a row failed than the job tolerates.", gauge, sum,
		always(func(s *job) float64 { return truth(s.Failing) }))
	add("job_consecutive_failures", "Checkpoints that failed since the last completion.", gauge, sum,
		always(func(s *job) float64 { return float64(s.ConsecutiveFailures) }))
	add("schedule_interval_seconds", "The job's interval; absent while it has no schedule or is paused.", gauge, nil,
		func(s *job, holds coordinator.Settings) (float64, bool) {
			return float64(holds.IntervalMs) / 1000, holds.IntervalMs > 0 && !s.Settings.Paused
		})
	add("schedule_triggered_total", "Periods in which the job's schedule triggered; the same on every replica.", counter, sum,
		always(func(s *job) float64 { return float64(s.Schedule.Triggered) }))
	add("schedule_skipped_total", "Periods that were skipped because too many checkpoints were pending; the same on every replica.", counter, sum,
		always(func(s *job) float64 { return float64(s.Schedule.Skipped) }))
	add("schedule_missed_total", "Periods in which no replica reached the store; the same on every replica.", counter, sum,
		always(func(s *job) float64 { return float64(s.Schedule.Missed) }))
	return j
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Describe implements prometheus.Collector.
func (j *jobsCollector) Describe(out chan<- *prometheus.Desc) {
	for _, metric := range j.metrics {
		out <- metric.desc
	}
}

// Collect implements prometheus.Collector.
func (j *jobsCollector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	jobs, err := j.coordinator.Jobs(ctx)
	if err != nil {
		return
	}
	// Of all without series of their own there is one figure of each kind, if it says something.
	others := make(map[*prometheus.Desc]float64, len(j.metrics))
	for i := range jobs {
		holds := jobs[i].Settings.Over(j.coordinator.Settings())
		name := j.series.nameOf(jobs[i].Job)
		for _, metric := range j.metrics {
			value, has := metric.of(&jobs[i], holds)
			switch {
			case !has:
			case name != otherJobs:
				out <- prometheus.MustNewConstMetric(metric.desc, metric.kind, value, name)
			case metric.together != nil:
				if before, has := others[metric.desc]; has {
					value = metric.together(before, value)
				}
				others[metric.desc] = value
			}
		}
	}
	for _, metric := range j.metrics {
		if value, has := others[metric.desc]; has {
			out <- prometheus.MustNewConstMetric(metric.desc, metric.kind, value, otherJobs)
		}
	}
}
