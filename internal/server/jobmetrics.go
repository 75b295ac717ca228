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
}

// jobsCollector reads the jobs at each scrape. While the store is away it has nothing
// to say, and store_up says why.
type jobsCollector struct {
	coordinator *coordinator.Coordinator
	metrics     []jobMetric
}

func newJobsCollector(c *coordinator.Coordinator) *jobsCollector {
	type job = coordinator.JobState
	j := &jobsCollector{coordinator: c}
	add := func(name, help string, kind prometheus.ValueType, of func(*job, coordinator.Settings) (float64, bool)) {
		j.metrics = append(j.metrics, jobMetric{prometheus.NewDesc("checkpointd_"+name, help, []string{"job"}, nil), kind, of})
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
	add("pending_checkpoints", "Pending checkpoints of the job.", gauge,
		always(func(s *job) float64 { return float64(s.Pending) }))
	add("last_completed_age_seconds", "Age of the job's latest completed checkpoint; absent while there is none.", gauge,
		completed(func(s *job) float64 { return max(0, float64(s.ObservedAt-s.LatestAt)/1000) }))
	add("last_completed_id", "Id of the job's latest completed checkpoint; absent while there is none.", gauge,
		completed(func(s *job) float64 { return float64(s.LatestID) }))
	add("job_epoch", "Number of recoveries of the job.", gauge,
		always(func(s *job) float64 { return float64(s.Epoch) }))
	add("job_never_completed", "1 while the job has no completed checkpoint.", gauge,
		always(func(s *job) float64 { return truth(s.LatestID < 0) }))
	add("job_stale", "1 while the job's latest completed checkpoint is older than it should be.", gauge,
		func(s *job, holds coordinator.Settings) (float64, bool) {
			return truth(s.Freshness(holds) == coordinator.FreshnessStale), true
		})
	add("job_failing", "1 while more checkpoints in a row failed than the job tolerates.", gauge,
		always(func(s *job) float64 { return truth(s.Failing) }))
	add("job_consecutive_failures", "Checkpoints that failed since the last completion.", gauge,
		always(func(s *job) float64 { return float64(s.ConsecutiveFailures) }))
	add("schedule_interval_seconds", "The job's interval; absent while it has no schedule or is paused.", gauge,
		func(s *job, holds coordinator.Settings) (float64, bool) {
			return float64(holds.IntervalMs) / 1000, holds.IntervalMs > 0 && !s.Settings.Paused
		})
	add("schedule_triggered_total", "Periods in which the job's schedule triggered; the same on every replica.", counter,
		always(func(s *job) float64 { return float64(s.Schedule.Triggered) }))
	add("schedule_skipped_total", "Periods that were skipped because too many checkpoints were pending; the same on every replica.", counter,
		always(func(s *job) float64 { return float64(s.Schedule.Skipped) }))
	add("schedule_missed_total", "Periods in which no replica reached the store; the same on every replica.", counter,
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
	for i := range jobs {
		holds := jobs[i].Settings.Over(j.coordinator.Settings())
		for _, metric := range j.metrics {
			if value, has := metric.of(&jobs[i], holds); has {
				out <- prometheus.MustNewConstMetric(metric.desc, metric.kind, value, jobs[i].Job)
			}
		}
	}
}
