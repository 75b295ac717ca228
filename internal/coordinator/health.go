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
		if _, err := h.coordinator.Jobs(ctx); err != nil && ctx.Err() == nil {
			h.coordinator.observer.BackgroundFailed("jobs", err)
		}
	}
	h.coordinator.feeds.tidy(time.Now())
}

// Warning is something about the store that an operator should change.
type Warning struct {
	// Code is stable: it labels the metric.
	Code string
	// Detail is a finished sentence with the remedy.
	Detail string
}
