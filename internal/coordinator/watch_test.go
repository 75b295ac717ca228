package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

const patience = 30 * time.Second

// follow reads a job's events from after on until the one with seq last, in sittings of
// random length, and gives their numbers.
func follow(ctx context.Context, c *coordinator.Coordinator, random *rand.Rand, after coordinator.EventID, last int64) ([]int64, error) {
	var seen []int64
	for after.Seq < last {
		watcher, err := c.Watch(ctx, coordinator.DefaultJob, &after)
		if err != nil {
			return seen, err
		}
		for range 1 + random.IntN(20) {
			if after.Seq >= last {
				break
			}
			batch, err := watcher.Next(ctx)
			if err != nil || batch.Gap {
				watcher.Close()
				return seen, fmt.Errorf("gap %v: %w", batch.Gap, err)
			}
			for _, event := range batch.Events {
				seen = append(seen, event.ID.Seq)
			}
			after = watcher.Place()
		}
		watcher.Close()
	}
	return seen, nil
}

func upTo(last int64) []int64 {
	all := make([]int64, last)
	for i := range all {
		all[i] = int64(i) + 1
	}
	return all
}

// This is the promise of the events: whoever resumes gets each exactly once, in order.
func TestWatchersThatComeAndGoGetEachEventOnceInOrder(t *testing.T) {
	t.Parallel()
	const events, watchers = 2000, 50
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{Pace: coordinator.Pace{Health: 5 * time.Millisecond}})
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var all sync.WaitGroup
		for i := range watchers {
			all.Go(func() {
				seen, err := follow(ctx, c, rand.New(rand.NewPCG(1, uint64(i))), coordinator.EventID{}, events)
				if err != nil {
					t.Errorf("watcher %d, after %d events: %v", i, len(seen), err)
				} else if diff := cmp.Diff(upTo(events), seen); diff != "" {
					t.Errorf("watcher %d: %s", i, diff)
				}
			})
		}
		random := rand.New(rand.NewPCG(1, 99))
		for told := 0; told < events; {
			burst := min(1+random.IntN(5), events-told)
			told += burst
			store.set(func() { store.muted = random.IntN(10) == 0 }) // a wake may get lost
			store.change(coordinator.DefaultJob, func(j *logJob) {
				for range burst {
					j.tell(coordinator.EventTriggered, 1)
				}
			})
		}
		all.Wait()
	})
}

func TestAWatcherBehindTheFeedReadsFromTheStore(t *testing.T) {
	t.Parallel()
	const events = 5000
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		slow, err := c.Watch(t.Context(), coordinator.DefaultJob, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		for range events {
			store.change(coordinator.DefaultJob, func(j *logJob) { j.tell(coordinator.EventTriggered, 1) })
		}
		synctest.Wait()
		store.counted("events")
		var seen []int64
		for int64(len(seen)) < events {
			batch, err := slow.Next(t.Context())
			if err != nil || batch.Gap {
				t.Fatalf("gap %v: %v", batch.Gap, err)
			}
			for _, event := range batch.Events {
				seen = append(seen, event.ID.Seq)
			}
		}
		if diff := cmp.Diff(upTo(events), seen); diff != "" {
			t.Error(diff)
		}
		if reads := store.counted("events"); reads < 3 || reads > 5 {
			t.Errorf("%d reads of the store; the last thousand are in memory, four are not", reads)
		}
	})
}

func TestALogThatHasNotWhatFollowsAnswersAGap(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]coordinator.EventID{
		"an event that was trimmed": {Seq: 2},
		"the beginning, trimmed":    {},
		"an id that was never given": {
			Epoch: 7, Seq: 3,
		},
		"an event of the future": {Seq: 99},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newLogStore()
				c, stop := running(t, store, coordinator.Options{})
				defer stop()
				store.change(coordinator.DefaultJob, func(j *logJob) {
					for range 5 {
						j.end(j.trigger(), coordinator.StatusAborted)
					}
					j.trigger()
					j.trim(4)
				})
				watcher, err := c.Watch(t.Context(), coordinator.DefaultJob, &after)
				if err != nil {
					t.Fatal(err)
				}
				defer watcher.Close()
				batch, err := watcher.Next(t.Context())
				if err != nil || !batch.Gap || len(batch.Pending) != 1 || batch.Pending[0].ID != 5 {
					t.Fatalf("%+v, %v", batch, err)
				}
				store.change(coordinator.DefaultJob, func(j *logJob) { j.tell(coordinator.EventCompleted, 5) })
				batch, err = watcher.Next(t.Context())
				if err != nil || batch.Gap || len(batch.Events) != 1 || batch.Events[0].ID.Seq != 12 {
					t.Errorf("after the gap: %+v, %v", batch, err)
				}
			})
		})
	}
}

// A store that lost everything counts events from 1 again, below the places of all watchers.
func TestPositionsThatGoBackAreAGapAndThenGoOn(t *testing.T) {
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
		store.change(coordinator.DefaultJob, func(j *logJob) {
			for range 50 {
				j.tell(coordinator.EventTriggered, 1)
			}
		})
		if batch, err := watcher.Next(t.Context()); err != nil || len(batch.Events) != 50 {
			t.Fatalf("%d events, %v", len(batch.Events), err)
		}
		var waited coordinator.ListResult
		var waiter sync.WaitGroup
		waiter.Go(func() {
			waited, err = c.AwaitList(t.Context(), coordinator.ListCall{Job: coordinator.DefaultJob, Status: coordinator.StatusPending, Before: -1, Limit: 9}, time.Minute)
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		store.set(func() { store.jobs[coordinator.DefaultJob] = newLogJob(coordinator.DefaultJob) })
		batch, err := watcher.Next(t.Context())
		if err != nil || !batch.Gap || watcher.Place() != (coordinator.EventID{}) {
			t.Fatalf("%+v at %s, %v", batch, watcher.Place(), err)
		}
		for seq := int64(1); seq <= 3; seq++ {
			store.change(coordinator.DefaultJob, func(j *logJob) { j.trigger() })
			batch, err := watcher.Next(t.Context())
			if err != nil || batch.Gap || len(batch.Events) != 1 || batch.Events[0].ID.Seq != seq {
				t.Errorf("event %d: %+v, %v", seq, batch, err)
			}
		}
		waiter.Wait()
		if len(waited.Checkpoints) == 0 {
			t.Error("who waited through it was told of nothing")
		}
	})
}

func TestADeletedJobEndsItsWatchersAndMayComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore("orders")
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		watcher, err := c.Watch(t.Context(), "orders", nil)
		if err != nil {
			t.Fatal(err)
		}
		gone := store.jobs["orders"]
		store.set(func() {
			gone.tell(coordinator.EventDeleted, 1)
			delete(store.jobs, "orders")
		})
		store.poke("orders")
		if _, err := watcher.Next(t.Context()); coordinator.CodeOf(err) != coordinator.CodeJobNotFound {
			t.Errorf("the watcher was told %v", err)
		}
		place := watcher.Place()
		watcher.Close()
		if _, err := c.Watch(t.Context(), "orders", &place); coordinator.CodeOf(err) != coordinator.CodeJobNotFound {
			t.Errorf("a new watcher was told %v", err)
		}
		store.set(func() { store.jobs["orders"] = gone })
		watcher, err = c.Watch(t.Context(), "orders", &place)
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Close()
		if batch, err := watcher.Next(t.Context()); err != nil || batch.Gap || len(batch.Events) != 1 || batch.Events[0].Type != coordinator.EventDeleted {
			t.Errorf("after it came back: %+v, %v", batch, err)
		}
	})
}

// No event tells of the deletion of a job without checkpoints, so that nothing wakes.
func TestADeletionThatNoEventTellsOfEndsWatchersAtTheNextLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore("orders")
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		watcher, err := c.Watch(t.Context(), "orders", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Close()
		store.set(func() { delete(store.jobs, "orders") })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := watcher.Next(ctx); coordinator.CodeOf(err) != coordinator.CodeJobNotFound {
			t.Errorf("the watcher was told %v", err)
		}
	})
}

func isRefusal(err error) bool {
	_, refusal := errors.AsType[*coordinator.Error](err)
	return refusal
}

// Next is called again and again with a context of its own for each heartbeat.
func TestAWaitThatRunsOutLosesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		after := coordinator.EventID{Seq: 1} // the feed does not reach back to it
		store.change(coordinator.DefaultJob, func(j *logJob) {
			j.tell(coordinator.EventTriggered, 1)
			j.tell(coordinator.EventCompleted, 1)
		})
		watcher, err := c.Watch(t.Context(), coordinator.DefaultJob, &after)
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Close()
		next := func() (coordinator.Batch, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return watcher.Next(ctx)
		}
		store.set(func() { store.hangs = "events" })
		if _, err := next(); !errors.Is(err, context.DeadlineExceeded) || isRefusal(err) {
			t.Errorf("while the store hangs: %v", err)
		}
		store.set(func() { store.hangs = "" })
		if batch, err := next(); err != nil || len(batch.Events) != 1 || batch.Events[0].ID.Seq != 2 {
			t.Errorf("after it: %+v, %v", batch, err)
		}
		if _, err := next(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("with nothing new: %v", err)
		}
	})
}

func TestDrainingEndsWatchers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		draining := make(chan struct{})
		c, stop := running(t, newLogStore(), coordinator.Options{Draining: draining})
		defer stop()
		watcher, err := c.Watch(t.Context(), coordinator.DefaultJob, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer watcher.Close()
		time.AfterFunc(time.Second, func() { close(draining) })
		if _, err := watcher.Next(t.Context()); !errors.Is(err, coordinator.ErrDraining) {
			t.Errorf("got %v", err)
		}
	})
}
