package coordinator

import (
	"context"
	"sync"
	"time"
)

// SweepCall carries the server's default of retention to the sweep; a job's own settings win.
type SweepCall struct {
	Retention Retention
}

// Run does what no request waits for until ctx ends: it sweeps the store, watches its
// health, triggers what is due, and listens for events. Every replica runs it; no
// leader is needed, since all of it is made of atomic steps that find nothing to do
// the second time.
func (c *Coordinator) Run(ctx context.Context) {
	var tasks sync.WaitGroup
	tasks.Go(func() { every(ctx, c.pace.Sweep, c.sweep) })
	tasks.Go(func() {
		watch := healthWatch{coordinator: c}
		every(ctx, c.pace.Health, watch.look)
	})
	tasks.Go(func() { c.scheduler.run(ctx) })
	tasks.Go(func() { c.store.Listen(ctx, c.feeds.poke) })
	tasks.Wait()
	c.feeds.end()
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
		return struct{}{}, c.store.Sweep(ctx, SweepCall{Retention: c.settings.Retention})
	})
	if err != nil && ctx.Err() == nil {
		c.observer.BackgroundFailed("sweep", err)
	}
}
