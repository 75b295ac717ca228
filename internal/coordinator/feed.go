package coordinator

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// feedEvents is how many events a feed keeps in memory at least. A watcher that is
	// further behind reads from the store until it has caught up.
	feedEvents = 1024
	// feedIdle is how long a feed without watchers is kept: a worker that polls comes back.
	feedIdle = 30 * time.Second
)

// feeds are the event logs that somebody in this process watches, read once for all
// watchers of a job. Locks are taken in the order feeds, feed.
type feeds struct {
	coordinator *Coordinator
	reads       sync.WaitGroup

	mu    sync.Mutex
	byJob map[string]*feed
	ended bool
}

func newFeeds(c *Coordinator) *feeds { return &feeds{coordinator: c, byJob: map[string]*feed{}} }

// feed has the newest stretch of one job's log.
type feed struct {
	all *feeds
	job string

	// now is replaced, with mu held, and never changed: thousands who wake at once read it
	// without waiting for each other.
	now atomic.Pointer[stretch]

	mu sync.Mutex
	// known is set when the stretch was read from the store.
	known bool
	// stale asks for another read, reading tells that one runs, ended that none may begin.
	stale, reading, ended bool
	watchers              int
	idleSince             time.Time

	// What many wait for together.
	pending sharedRead[pendingView]
	// arriving is the same for those who have only just come.
	arriving freshRead[pendingView]
	latest   sharedRead[CheckpointDetail]
	one      sharedRead[CheckpointDetail]
}

// stretch are the newest events of a log.
type stretch struct {
	// ring are the events behind base up to position, oldest first.
	ring     []*Event
	base     EventID
	position EventID
	// turn counts the stretches: unlike position it never goes back.
	turn uint64
	// changed is closed when there is a stretch of a later turn.
	changed chan struct{}
	// lost is why there is none any more: the job was deleted.
	lost error
}

// join counts a watcher in, who must leave again, and gives the end of the log. With
// fresh that is asked of the store; otherwise a feed that is known does.
func (f *feeds) join(ctx context.Context, job string, fresh bool) (*feed, EventID, error) {
	feed := f.of(job)
	feed.mu.Lock()
	known, position := feed.known, feed.now.Load().position
	feed.mu.Unlock()
	if known && !fresh {
		return feed, position, nil
	}
	position, err := feed.look(ctx)
	if err != nil {
		feed.leave()
		return nil, EventID{}, err
	}
	return feed, position, nil
}

// of finds the feed of a job and counts a watcher in.
func (f *feeds) of(job string) *feed {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.byJob[job]
	if found == nil {
		found = &feed{all: f, job: job, ended: f.ended}
		found.now.Store(&stretch{changed: make(chan struct{})})
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
	if job != "" {
		if feed := f.byJob[job]; feed != nil {
			feed.poke()
		}
		return
	}
	for _, feed := range f.byJob {
		feed.poke()
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

// missed pokes the feeds of jobs that are not among all, which are by name: they were
// deleted, and of a job without checkpoints no event tells of that.
func (f *feeds) missed(all []JobState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for job, feed := range f.byJob {
		_, found := slices.BinarySearchFunc(all, job, func(state JobState, job string) int { return cmp.Compare(state.Job, job) })
		if !found {
			feed.poke()
		}
	}
}

// tidy drops feeds that nobody has watched for a while.
func (f *feeds) tidy(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, feed := range f.byJob {
		f.drop(feed, now)
	}
}

// drop forgets a feed that is of no use. The feeds are locked.
func (f *feeds) drop(feed *feed, now time.Time) {
	feed.mu.Lock()
	defer feed.mu.Unlock()
	idle := feed.watchers == 0 && !feed.reading && (!feed.known || now.Sub(feed.idleSince) > feedIdle)
	if idle && f.byJob[feed.job] == feed {
		delete(f.byJob, feed.job)
	}
}

// end lets no read begin any more and waits for the running ones, so that the store may
// be closed.
func (f *feeds) end() {
	f.mu.Lock()
	f.ended = true
	for _, feed := range f.byJob {
		feed.mu.Lock()
		feed.ended = true
		feed.mu.Unlock()
	}
	f.mu.Unlock()
	f.reads.Wait()
}

func (f *feed) heard(state *JobState) {
	f.mu.Lock()
	behind := f.known && f.now.Load().position != state.LastEvent
	f.mu.Unlock()
	if behind {
		f.poke()
	}
}

// poke starts a read when somebody watches. Otherwise the feed stays behind: who comes
// then looks for himself first.
func (f *feed) poke() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stale = true
	if f.watchers > 0 && f.known && !f.reading && !f.ended {
		f.reading = true
		f.all.reads.Go(f.follow)
	}
}

// follow reads until nothing is new. A store that does not answer leaves the feed behind,
// which the next look at the jobs finds.
func (f *feed) follow() {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.reading = false }()
	for f.stale {
		f.stale = false
		after := f.now.Load().position
		f.mu.Unlock()
		result, err := f.all.coordinator.events(context.Background(), EventsCall{Job: f.job, After: &after, Limit: MaxEvents})
		f.mu.Lock()
		switch {
		case CodeOf(err) == CodeJobNotFound:
			f.known = false
			next := *f.now.Load() // what came before is still to be told
			next.lost = err
			f.turn(next)
			return
		case err != nil:
			return
		}
		f.take(result)
	}
}

// take appends what was read. The feed is locked.
func (f *feed) take(result EventsResult) {
	next := *f.now.Load()
	if result.Gap {
		// Watchers find out by themselves, each from its own place.
		next.ring, next.base, next.position = nil, result.Position, result.Position
	}
	for i := range result.Events {
		event := &result.Events[i]
		event.rendered = new(rendering)
		next.ring, next.position = append(next.ring, event), event.ID
	}
	// Trimmed by halves, or each event would copy the whole ring.
	if len(next.ring) >= 2*feedEvents {
		over := len(next.ring) - feedEvents
		next.base = next.ring[over-1].ID
		next.ring = slices.Clone(next.ring[over:])
	}
	f.stale = f.stale || len(result.Events) == MaxEvents
	if result.Gap || len(result.Events) > 0 {
		f.turn(next)
	}
}

// turn puts next in place and wakes the watchers. The feed is locked.
func (f *feed) turn(next stretch) {
	before := f.now.Load()
	next.turn, next.changed = before.turn+1, make(chan struct{})
	f.now.Store(&next)
	close(before.changed)
}

// look reads the end of the log.
func (f *feed) look(ctx context.Context) (EventID, error) {
	result, err := f.all.coordinator.events(ctx, EventsCall{Job: f.job, Limit: MaxEvents})
	if err != nil {
		return EventID{}, err
	}
	f.mu.Lock()
	now := f.now.Load()
	if !f.known {
		f.known = true
		now = &stretch{base: result.Position, position: result.Position, turn: now.turn, changed: now.changed}
		f.now.Store(now)
	}
	behind := f.stale || now.position != result.Position
	f.mu.Unlock()
	if behind {
		f.poke() // a wake may have come before there was anything to compare with
	}
	return result.Position, nil
}

// after gives the events behind a place, which are to be read only. reached is false
// where the stretch does not reach back to the place, or up to it.
func (s *stretch) after(place EventID) (events []*Event, reached bool) {
	if place == s.position {
		return nil, true
	}
	if place.Compare(s.base) < 0 {
		return nil, false
	}
	first := sort.Search(len(s.ring), func(i int) bool { return s.ring[i].ID.Compare(place) > 0 })
	// A place between two events, or behind the last, is none that was ever given here.
	if place != s.base && (first == 0 || s.ring[first-1].ID != place) {
		return nil, false
	}
	return s.ring[first:len(s.ring):len(s.ring)], true
}

// leave counts a watcher out.
func (f *feed) leave() {
	now := time.Now()
	f.mu.Lock()
	f.watchers--
	f.idleSince = now
	useless := f.watchers == 0 && !f.known
	f.mu.Unlock()
	if useless { // or names that are no jobs would gather here
		f.all.mu.Lock()
		f.all.drop(f, now)
		f.all.mu.Unlock()
	}
}

func (f *feed) crowd() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watchers
}
