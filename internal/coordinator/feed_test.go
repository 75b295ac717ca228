package coordinator_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestALostWakeIsRepairedByTheNextLookAtTheJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		watcher, err := c.Watch(t.Context(), coordinator.DefaultJob, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Close()
		store.set(func() { store.muted = true })
		began := time.Now()
		store.change(coordinator.DefaultJob, func(j *logJob) { j.tell(coordinator.EventCompleted, 3) })
		batch, err := watcher.Next(t.Context())
		if err != nil || len(batch.Events) != 1 {
			t.Fatalf("%+v, %v", batch, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// One read of the store has a limit, and one wake may be all there is.
func TestOneWakeBringsAllOfABurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		watcher, err := c.Watch(t.Context(), coordinator.DefaultJob, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Close()
		const events = 2 * coordinator.MaxEvents
		began := time.Now()
		store.change(coordinator.DefaultJob, func(j *logJob) {
			for range events {
				j.tell(coordinator.EventCompleted, 3)
			}
		})
		for seen := 0; seen < events; {
			batch, err := watcher.Next(t.Context())
			if err != nil || batch.Gap {
				t.Fatalf("gap %v, %v", batch.Gap, err)
			}
			seen += len(batch.Events)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// The end of the log is read before there is a feed that a wake could be compared with.
func TestAnEventBetweenTheFirstLookAndTheFeedIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		var once sync.Once
		store.set(func() {
			store.after = func(call string) {
				if call == "events" {
					once.Do(func() { store.change(coordinator.DefaultJob, func(j *logJob) { j.trigger() }) })
				}
			}
		})
		began := time.Now()
		watcher, err := c.Watch(t.Context(), coordinator.DefaultJob, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Close()
		if batch, err := watcher.Next(t.Context()); err != nil || len(batch.Events) != 1 {
			t.Fatalf("%+v, %v", batch, err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

func TestAStoreThatIsAwayLeavesTheFeedBehindOnlyUntilItIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		watcher, err := c.Watch(t.Context(), coordinator.DefaultJob, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Close()
		store.set(func() { store.away = coordinator.ErrStoreUnavailable(nil) })
		store.change(coordinator.DefaultJob, func(j *logJob) { j.tell(coordinator.EventCompleted, 3) })
		synctest.Wait()
		store.totalled()
		time.Sleep(10 * time.Second) //nolint:forbidigo // Time is synctest's.
		if calls := store.totalled(); calls > 20 {
			t.Errorf("%d calls in ten seconds of an outage", calls)
		}
		store.set(func() { store.away = nil })
		began := time.Now()
		if batch, err := watcher.Next(t.Context()); err != nil || len(batch.Events) != 1 {
			t.Fatalf("%+v, %v", batch, err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// After Run has returned the store may be closed.
func TestNoFeedReadsOnceRunHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{})
		watcher, err := c.Watch(t.Context(), coordinator.DefaultJob, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Close()
		stop()
		store.totalled()
		store.change(coordinator.DefaultJob, func(j *logJob) { j.tell(coordinator.EventCompleted, 3) })
		synctest.Wait()
		if calls := store.totalled(); calls != 0 {
			t.Errorf("%d calls", calls)
		}
	})
}

func TestFeedsAreDroppedWhenNobodyWatches(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, stop := running(t, newLogStore(), coordinator.Options{})
		defer stop()
		for i := range 100 {
			if _, err := c.AwaitList(t.Context(), coordinator.ListCall{Job: fmt.Sprintf("typo-%d", i), Before: -1, Limit: 1}, time.Second); coordinator.CodeOf(err) != coordinator.CodeJobNotFound {
				t.Fatal(err)
			}
		}
		if feeds := c.Feeds(); feeds != 0 {
			t.Errorf("%d feeds of jobs that do not exist", feeds)
		}
		watcher, err := c.Watch(t.Context(), coordinator.DefaultJob, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) //nolint:forbidigo // Time is synctest's.
		if feeds := c.Feeds(); feeds != 1 {
			t.Errorf("%d feeds with one watcher", feeds)
		}
		watcher.Close()
		time.Sleep(time.Minute) //nolint:forbidigo // Time is synctest's.
		if feeds := c.Feeds(); feeds != 0 {
			t.Errorf("%d feeds without any", feeds)
		}
	})
}
