package coordinator

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Run does what no request waits for until ctx ends: it sweeps the store and watches
// its health. Every replica runs it; no leader is needed, since each sweep is made of
// atomic steps that find nothing to do the second time.
func (c *Coordinator) Run(ctx context.Context) {
	var tasks sync.WaitGroup
	tasks.Go(func() { every(ctx, c.pace.Sweep, c.sweep) })
	tasks.Go(func() {
		watch := healthWatch{coordinator: c}
		every(ctx, c.pace.Health, watch.look)
	})
	tasks.Wait()
}

// every calls f now and then at each tick, never two at once, and drops ticks that a
// slow call missed.
func every(ctx context.Context, pace time.Duration, f func(context.Context)) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for {
		f(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (c *Coordinator) sweep(ctx context.Context) {
	_, err := call(c, "sweep", func() (struct{}, error) {
		return struct{}{}, c.store.Sweep(ctx, SweepCall{Keep: c.settings.CheckpointsToKeep})
	})
	if err != nil && ctx.Err() == nil {
		c.observer.BackgroundFailed("sweep", err)
	}
}

// Health reaches for the store and gives its warnings.
func (c *Coordinator) Health(ctx context.Context) ([]Warning, error) {
	return call(c, "health", func() ([]Warning, error) { return c.store.Health(ctx) })
}

// Jobs reads the state of every job.
func (c *Coordinator) Jobs(ctx context.Context) ([]JobState, error) {
	return call(c, "jobs", func() ([]JobState, error) { return c.store.Jobs(ctx) })
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
		// Reading the jobs also tells the store the highest ids, its floor for new ones.
		if _, err := h.coordinator.Jobs(ctx); err != nil && ctx.Err() == nil {
			h.coordinator.observer.BackgroundFailed("jobs", err)
		}
	}
}
