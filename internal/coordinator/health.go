package coordinator

import (
	"context"
	"slices"
	"time"
)

// Health reaches for the store and gives its warnings.
func (c *Coordinator) Health(ctx context.Context) ([]Warning, error) {
	return call(c, "health", func() ([]Warning, error) { return c.store.Health(ctx) })
}

// healthWatch reports the store's coming and going once each.
type healthWatch struct {
	coordinator *Coordinator
	known, up   bool
	warnings    []Warning
	// jobs are the jobs as the last look found them.
	jobs map[string]jobHealth
}

type jobHealth struct {
	failing   bool
	freshness Freshness
}

func (h *healthWatch) look(ctx context.Context) {
	warnings, err := h.coordinator.Health(ctx)
	if ctx.Err() != nil {
		return
	}
	up := err == nil
	if !h.known || up != h.up || (up && !slices.Equal(warnings, h.warnings)) {
		h.known, h.up, h.warnings = true, up, warnings
		h.coordinator.observer.StoreChanged(up, warnings, err)
	}
	if up {
		// Reading the jobs also tells the store the highest ids, its floor for new ones; the
		// scheduler when they are due; and the feeds of events whose wake got lost.
		jobs, err := h.coordinator.Jobs(ctx)
		if err == nil {
			h.compare(jobs)
		} else if ctx.Err() == nil {
			h.coordinator.observer.BackgroundFailed("jobs", err)
		}
	}
	h.coordinator.feeds.tidy(time.Now())
}

// compare reports jobs whose health changed since the last look. A job that has not
// completed anything yet is news only if it had.
func (h *healthWatch) compare(jobs []JobState) {
	now := make(map[string]jobHealth, len(jobs))
	for i := range jobs {
		job := &jobs[i]
		health := jobHealth{job.Failing, job.Freshness(job.Settings.Over(h.coordinator.settings))}
		now[job.Job] = health
		before, known := h.jobs[job.Job]
		if !known {
			before.freshness = FreshnessHealthy
			if health.freshness == FreshnessNever {
				before.freshness = FreshnessNever
			}
		}
		if health != before {
			h.coordinator.observer.JobChanged(job.Job, health.failing, health.freshness)
		}
	}
	for job := range h.jobs {
		if _, there := now[job]; !there {
			h.coordinator.observer.JobGone(job)
		}
	}
	h.jobs = now
}

// Warning is something about the store that an operator should change.
type Warning struct {
	// Code is stable: it labels the metric.
	Code string
	// Detail is a finished sentence with the remedy.
	Detail string
}
