package coordinator

import "context"

// Watcher follows the events of one job. It is for one goroutine; Close it.
type Watcher struct {
	feed     *feed
	place    EventID
	draining <-chan struct{}
}

// Watch follows a job from after on, or from now when that is nil. Error: CodeJobNotFound.
func (c *Coordinator) Watch(ctx context.Context, job string, after *EventID) (*Watcher, error) {
	var f faults
	f.param("job", CheckJob(job))
	if err := f.err(); err != nil {
		return nil, err
	}
	// A feed may outlive its job by a moment, and "from now" must not be in the past.
	feed, place, err := c.feeds.join(ctx, job, true)
	if err != nil {
		return nil, err
	}
	if after != nil {
		place = *after
	}
	return &Watcher{feed: feed, place: place, draining: c.draining}, nil
}

// Place is the last event that Next gave, or where the watcher began.
func (w *Watcher) Place() EventID { return w.place }

// Close ends the watch.
func (w *Watcher) Close() { w.feed.leave() }

// Batch is what a watcher is given at once.
type Batch struct {
	// Events are in order and at least one, unless Gap is set. They are shared: to be read only.
	Events []*Event
	// Gap tells that the log does not have what follows the watcher's place. It goes on at
	// the log's end, and Pending are the checkpoints that are pending there, oldest first.
	Gap     bool
	Pending []Checkpoint
}

// Next waits for events. Its error is ctx's, the store's, CodeJobNotFound when the job was
// deleted meanwhile, or [ErrDraining]; after each but the third it may be called again.
func (w *Watcher) Next(ctx context.Context) (Batch, error) {
	for {
		now := w.feed.now.Load()
		events, reached := now.after(w.place)
		switch {
		case len(events) > 0:
			w.place = now.position
			return Batch{Events: events}, nil
		case now.lost != nil:
			return Batch{}, now.lost
		case !reached:
			batch, err := w.read(ctx)
			if ctx.Err() != nil && err != nil {
				return Batch{}, context.Cause(ctx)
			}
			if err != nil || batch.Gap || len(batch.Events) > 0 {
				return batch, err
			}
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			return Batch{}, context.Cause(ctx)
		case <-w.draining:
			return Batch{}, ErrDraining
		}
	}
}

// read takes from the store what the feed does not have.
func (w *Watcher) read(ctx context.Context) (Batch, error) {
	result, err := w.feed.all.coordinator.events(ctx, EventsCall{Job: w.feed.job, After: &w.place, Limit: MaxEvents})
	if err != nil {
		return Batch{}, err
	}
	if result.Gap {
		w.place = result.Position
		return Batch{Gap: true, Pending: result.Pending}, nil
	}
	batch := Batch{Events: make([]*Event, 0, len(result.Events))}
	for i := range result.Events {
		batch.Events = append(batch.Events, &result.Events[i])
		w.place = result.Events[i].ID
	}
	return batch, nil
}

// events reads a job's log.
func (c *Coordinator) events(ctx context.Context, events EventsCall) (EventsResult, error) {
	return call(c, "events", func() (EventsResult, error) {
		return inTime(ctx, func(ctx context.Context) (EventsResult, error) { return c.store.Events(ctx, events) })
	})
}
