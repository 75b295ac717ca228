package coordinator

import (
	"context"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// feedEvents is how many events a feed keeps in memory. A watcher that is further
	// behind reads from the store until it has caught up.
	feedEvents = 1024
	// feedIdle is how long a feed without watchers is kept: a worker that polls comes back.
	feedIdle = 30 * time.Second
	// feedBudget is how long one read of a feed may take.
	feedBudget = 2 * time.Second
)

// feeds are the event logs that somebody in this process watches, read once for all
// watchers of a job.
type feeds struct {
	coordinator *Coordinator
	reads       sync.WaitGroup

	mu    sync.Mutex
	byJob map[string]*feed
}

func newFeeds(c *Coordinator) *feeds { return &feeds{coordinator: c, byJob: map[string]*feed{}} }

// feed is the newest stretch of one job's log.
type feed struct {
	all *feeds
	job string

	mu sync.Mutex
	// known is set when base and position were read from the store.
	known bool
	// ring are the events behind base up to position, oldest first.
	ring     []*Event
	base     EventID
	position EventID
	// changed is closed, and made anew, whenever position moves.
	changed chan struct{}
	// stale asks for another read, reading tells that one runs.
	stale, reading bool
	watchers       int
	idleSince      time.Time

	// views are answers shared by those who wait for the same; new ones begin with a gap,
	// behind which places need not be higher than before.
	views *sharedViews
}

// of finds the feed of a job and counts a watcher in.
func (f *feeds) of(job string) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.byJob[job]
	if found == nil {
		found = &feed{all: f, job: job, changed: make(chan struct{}), views: new(sharedViews)}
		f.byJob[job] = found
	}
	found.mu.Lock()
	found.watchers++
	found.mu.Unlock()
	return found
}

// poke says that a job's log may have grown; "" is any job.
func (f *feeds) poke(job string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, feed := range f.byJob {
		if job == "" || job == name {
			feed.poke()
		}
	}
}

// heard compares a feed with what a look at its job saw: a wake may get lost.
func (f *feeds) heard(state *JobState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if feed := f.byJob[state.Job]; feed != nil {
		feed.heard(state)
	}
}

// tidy drops feeds that nobody has watched for a while.
func (f *feeds) tidy(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for name, feed := range f.byJob {
		feed.mu.Lock()
		if feed.watchers == 0 && !feed.reading && now.Sub(feed.idleSince) > feedIdle {
			delete(f.byJob, name)
		}
		feed.mu.Unlock()
	}
}

// wait waits for the running reads.
func (f *feeds) wait() { f.reads.Wait() }

func (f *feed) heard(state *JobState) {
	f.mu.Lock()
	behind := f.known && f.position != state.LastEvent || f.stale
	f.mu.Unlock()
	if behind {
		f.poke()
	}
}

// poke starts a read when somebody watches; otherwise the next watcher does.
func (f *feed) poke() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = true
	if f.watchers > 0 && f.known && !f.reading {
		f.reading = true
		f.all.reads.Go(f.follow)
	}
}

// follow reads until nothing is new. A store that does not answer leaves the feed stale;
// the next look at the jobs tries again.
func (f *feed) follow() {
	ctx, cancel := context.WithTimeout(context.Background(), feedBudget)
	defer cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.reading = false }()
	for f.stale {
		f.stale = false
		after := f.position
		f.mu.Unlock()
		result, err := f.all.coordinator.events(ctx, EventsCall{Job: f.job, After: &after, Limit: MaxEvents})
		f.mu.Lock()
		if err != nil {
			f.stale = CodeOf(err) != CodeJobNotFound
			return
		}
		f.take(result)
	}
}

// take appends what was read and wakes the watchers. The feed is locked.
func (f *feed) take(result EventsResult) {
	moved := false
	if result.Gap {
		// Watchers find out by themselves, each from its own place.
		f.ring, f.base, f.position, moved = nil, result.Position, result.Position, true
		f.views = new(sharedViews)
	}
	for i := range result.Events {
		event := &result.Events[i]
		event.rendered = new(atomic.Pointer[[]byte])
		f.ring, f.position, moved = append(f.ring, event), event.ID, true
	}
	if over := len(f.ring) - feedEvents; over > 0 {
		f.base = f.ring[over-1].ID
		f.ring = slices.Clone(f.ring[over:])
	}
	f.stale = f.stale || len(result.Events) == MaxEvents
	if moved {
		close(f.changed)
		f.changed = make(chan struct{})
	}
}

// begin gives a place in the log that is not newer than this call; what the feed has
// from there on includes all that follows.
func (f *feed) begin(ctx context.Context) (EventID, error) {
	f.mu.Lock()
	known, stale, position := f.known, f.stale, f.position
	f.mu.Unlock()
	if known {
		if stale {
			f.poke()
		}
		return position, nil
	}
	return f.look(ctx)
}

// look reads the end of the log.
func (f *feed) look(ctx context.Context) (EventID, error) {
	result, err := f.all.coordinator.events(ctx, EventsCall{Job: f.job, Limit: MaxEvents})
	if err != nil {
		return EventID{}, err
	}
	f.mu.Lock()
	if !f.known {
		f.known, f.base, f.position = true, result.Position, result.Position
	}
	behind := f.stale || f.position != result.Position
	f.mu.Unlock()
	if behind {
		f.poke() // a wake may have come before there was anything to compare with
	}
	return result.Position, nil
}

// after gives the events behind a place and a channel that is closed when there are more;
// ok is false where the feed does not reach back so far.
func (f *feed) after(place EventID) (events []*Event, changed <-chan struct{}, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case place == f.position:
		return nil, f.changed, true
	case place.Compare(f.base) < 0:
		return nil, f.changed, false
	}
	first := sort.Search(len(f.ring), func(i int) bool { return f.ring[i].ID.Compare(place) > 0 })
	// A place between two events, or behind the last, is none that was ever given here.
	if place != f.base && (first == 0 || f.ring[first-1].ID != place) {
		return nil, f.changed, false
	}
	return slices.Clone(f.ring[first:]), f.changed, true
}

func (f *feed) shared() *sharedViews {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.views
}

func (f *feed) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watchers--
	f.idleSince = time.Now()
}

// events reads a job's log.
func (c *Coordinator) events(ctx context.Context, events EventsCall) (EventsResult, error) {
	return call(c, "events", func() (EventsResult, error) { return c.store.Events(ctx, events) })
}

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
	// A feed may outlive its job by a moment, so the store is asked in any case.
	return c.watch(ctx, job, after, (*feed).look)
}

func (c *Coordinator) watch(ctx context.Context, job string, after *EventID, begin func(*feed, context.Context) (EventID, error)) (*Watcher, error) {
	w := &Watcher{feed: c.feeds.of(job), draining: c.draining}
	place, err := begin(w.feed, ctx)
	if err != nil {
		w.Close()
		return nil, err
	}
	w.place = place
	if after != nil {
		w.place = *after
	}
	return w, nil
}

// Place is the last event that Next gave, or where the watcher began.
func (w *Watcher) Place() EventID { return w.place }

// Close ends the watch.
func (w *Watcher) Close() { w.feed.leave() }

// Batch is what a watcher is given at once.
type Batch struct {
	// Events are in order and at least one, unless Gap is set.
	Events []*Event
	// Gap tells that the log does not have what follows the watcher's place. It goes on at
	// the log's end, and Pending are the checkpoints that are pending there, oldest first.
	Gap     bool
	Pending []Checkpoint
}

// Next waits for events. Its error is ctx's, the store's, or [ErrDraining].
func (w *Watcher) Next(ctx context.Context) (Batch, error) {
	for {
		events, changed, ok := w.feed.after(w.place)
		switch {
		case !ok:
			if batch, err := w.read(ctx); err != nil || batch.Gap || len(batch.Events) > 0 {
				return batch, err
			}
		case len(events) > 0:
			w.place = events[len(events)-1].ID
			return Batch{Events: events}, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return Batch{}, context.Cause(ctx)
		case <-w.draining:
			return Batch{}, ErrDraining
		}
	}
}

// read takes from the store what the feed does not have.
func (w *Watcher) read(ctx context.Context) (Batch, error) {
	ctx, cancel := context.WithTimeout(ctx, feedBudget)
	defer cancel()
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
