package coordinator_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

const wait = 30 * time.Second

// pendings is a worker's long poll; it gives the ids.
func pendings(ctx context.Context, c *coordinator.Coordinator, task string) ([]int64, error) {
	list, err := c.AwaitList(ctx, coordinator.ListCall{
		Job: coordinator.DefaultJob, Status: coordinator.StatusPending, Before: -1, Limit: 10, NotAckedBy: task,
	}, wait)
	var ids []int64
	for _, checkpoint := range list.Checkpoints {
		ids = append(ids, checkpoint.ID)
	}
	return ids, err
}

// waits are the three long polls, each with what satisfies it.
func waits() []struct {
	name    string
	poll    func(context.Context, *coordinator.Coordinator) (satisfied bool, err error)
	satisfy func(*logJob)
	other   func(*logJob)
} {
	return []struct {
		name    string
		poll    func(context.Context, *coordinator.Coordinator) (satisfied bool, err error)
		satisfy func(*logJob)
		other   func(*logJob)
	}{
		{
			name: "a list",
			poll: func(ctx context.Context, c *coordinator.Coordinator) (bool, error) {
				ids, err := pendings(ctx, c, "a")
				return len(ids) > 0, err
			},
			satisfy: func(j *logJob) { j.trigger() },
			other:   func(j *logJob) { j.tell(coordinator.EventHealthy, 0) },
		},
		{
			name: "the latest",
			poll: func(ctx context.Context, c *coordinator.Coordinator) (bool, error) {
				latest, found, err := c.AwaitLatest(ctx, coordinator.DefaultJob, 0, wait)
				return found && latest.ID > 0, err
			},
			satisfy: func(j *logJob) { j.end(j.trigger(), coordinator.StatusCompleted) },
			other:   func(j *logJob) { j.end(j.trigger(), coordinator.StatusAborted) },
		},
		{
			name: "an end",
			poll: func(ctx context.Context, c *coordinator.Coordinator) (bool, error) {
				detail, err := c.AwaitEnd(ctx, coordinator.Ref{Job: coordinator.DefaultJob, ID: 1}, wait)
				return detail.Status == coordinator.StatusAborted, err
			},
			satisfy: func(j *logJob) { j.end(1, coordinator.StatusAborted) },
			other:   func(j *logJob) { j.end(j.trigger(), coordinator.StatusCompleted) },
		},
	}
}

func TestLongPolls(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client went away")
	for _, w := range waits() {
		type world struct {
			store  *logStore
			c      *coordinator.Coordinator
			drain  func()
			cancel context.CancelCauseFunc
		}
		for _, tc := range []struct {
			name      string
			before    func(world) // happens before the poll
			during    func(world) // happens five seconds into it
			satisfied bool
			took      time.Duration
			check     func(error) bool
		}{
			{
				name:   "is satisfied at once",
				before: func(w0 world) { w0.store.change(coordinator.DefaultJob, w.satisfy) }, satisfied: true,
			},
			{
				name:   "is satisfied by an event",
				during: func(w0 world) { w0.store.change(coordinator.DefaultJob, w.satisfy) }, satisfied: true, took: 5 * time.Second,
			},
			{
				name: "is satisfied although the wake got lost",
				during: func(w0 world) {
					w0.store.set(func() { w0.store.muted = true })
					w0.store.change(coordinator.DefaultJob, w.satisfy)
				},
				satisfied: true, took: 5 * time.Second,
			},
			{
				name: "is satisfied by what the log has trimmed already",
				during: func(w0 world) {
					w0.store.change(coordinator.DefaultJob, func(j *logJob) {
						w.satisfy(j)
						j.tell(coordinator.EventHealthy, -1)
						j.trim(len(j.log) - 1)
					})
				},
				satisfied: true, took: 5 * time.Second,
			},
			{
				name:   "is not satisfied by other events and runs out",
				during: func(w0 world) { w0.store.change(coordinator.DefaultJob, w.other) }, took: wait,
			},
			{
				name:   "answers what there is when the server drains",
				during: func(w0 world) { w0.drain() }, took: 5 * time.Second,
			},
			{
				name:   "ends with its client",
				during: func(w0 world) { w0.cancel(gone) }, took: 5 * time.Second,
				check: func(err error) bool { return errors.Is(err, gone) },
			},
			{
				name:   "says that the store is away at the start",
				before: func(w0 world) { w0.store.set(func() { w0.store.away = coordinator.ErrStoreUnavailable(nil) }) },
				check:  func(err error) bool { return coordinator.CodeOf(err) == coordinator.CodeStoreUnavailable },
			},
			{
				name: "outlives an outage that ends before it does",
				during: func(w0 world) {
					w0.store.set(func() { w0.store.away = coordinator.ErrStoreUnavailable(nil) })
					w0.store.change(coordinator.DefaultJob, w.satisfy)
					time.AfterFunc(10*time.Second, func() { w0.store.set(func() { w0.store.away = nil }) })
				},
				satisfied: true, took: 15 * time.Second,
			},
			{
				name:   "says that the store is away when it runs out",
				during: func(w0 world) { w0.store.set(func() { w0.store.away = coordinator.ErrStoreUnavailable(nil) }) },
				took:   wait,
				check:  func(err error) bool { return coordinator.CodeOf(err) == coordinator.CodeStoreUnavailable },
			},
			{
				name: "says that the store is away when it cannot read what it was woken for",
				during: func(w0 world) {
					w0.store.set(func() { w0.store.hangs = map[string]string{"a list": "list"}[w.name] })
					if w0.store.hangs == "" {
						w0.store.set(func() { w0.store.hangs = "get" })
					}
					w0.store.change(coordinator.DefaultJob, w.satisfy)
				},
				took:  7 * time.Second, // the budget of one read
				check: func(err error) bool { return coordinator.CodeOf(err) == coordinator.CodeStoreUnavailable },
			},
		} {
			t.Run(w.name+" "+tc.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					store := newLogStore()
					store.change(coordinator.DefaultJob, func(j *logJob) {
						j.end(j.trigger(), coordinator.StatusCompleted)
						j.trigger()
						j.ack(1, "a")
					})
					draining := make(chan struct{})
					c, stop := running(t, store, coordinator.Options{Draining: draining})
					defer stop()
					ctx, cancel := context.WithCancelCause(t.Context())
					defer cancel(nil)
					world := world{store: store, c: c, drain: func() { close(draining) }, cancel: cancel}
					if tc.before != nil {
						tc.before(world)
					}
					if tc.during != nil {
						time.AfterFunc(5*time.Second, func() { tc.during(world) })
					}
					began := time.Now()
					satisfied, err := w.poll(ctx, c)
					if took := time.Since(began); took < tc.took || took > tc.took+time.Second {
						t.Errorf("it took %v, want %v", took, tc.took)
					}
					if satisfied != tc.satisfied {
						t.Errorf("satisfied: %v", satisfied)
					}
					if tc.check == nil && err != nil || tc.check != nil && !tc.check(err) {
						t.Errorf("it answered %v", err)
					}
					if tc.during == nil {
						return
					}
					time.Sleep(time.Minute) //nolint:forbidigo // Time is synctest's: what is left over shows.
				})
			})
		}
	}
}

// The event comes after the first look has read, and the feed has it before the poll waits.
func TestWhatHappensDuringTheFirstLookIsNotLost(t *testing.T) {
	t.Parallel()
	for _, w := range waits() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newLogStore()
				c, stop := running(t, store, coordinator.Options{})
				defer stop()
				store.change(coordinator.DefaultJob, func(j *logJob) {
					j.end(j.trigger(), coordinator.StatusCompleted)
					j.trigger()
					j.ack(1, "a")
				})
				var once sync.Once
				store.set(func() {
					store.after = func(call string) {
						if call == "list" || call == "get" {
							once.Do(func() {
								store.change(coordinator.DefaultJob, w.satisfy)
								synctest.Wait()
							})
						}
					}
				})
				began := time.Now()
				if satisfied, err := w.poll(t.Context(), c); err != nil || !satisfied || time.Since(began) != 0 {
					t.Errorf("satisfied %v after %v, %v", satisfied, time.Since(began), err)
				}
			})
		})
	}
}

func TestAPollInAnUnknownJobIsRefusedAtOnceAndADeletedOneLater(t *testing.T) {
	t.Parallel()
	for _, w := range waits() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newLogStore()
				store.change(coordinator.DefaultJob, func(j *logJob) {
					j.end(j.trigger(), coordinator.StatusCompleted)
					j.trigger()
					j.ack(1, "a")
				})
				c, stop := running(t, store, coordinator.Options{})
				defer stop()
				began := time.Now()
				time.AfterFunc(5*time.Second, func() {
					store.set(func() { delete(store.jobs, coordinator.DefaultJob) })
					store.poke(coordinator.DefaultJob)
				})
				for _, want := range []time.Duration{5 * time.Second, 5 * time.Second} {
					if _, err := w.poll(t.Context(), c); coordinator.CodeOf(err) != coordinator.CodeJobNotFound || time.Since(began) != want {
						t.Errorf("after %v: %v", time.Since(began), err)
					}
				}
			})
		})
	}
}

func TestAPollEndsWithAJobThatNeverHadAnEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		time.AfterFunc(5*time.Second, func() {
			store.set(func() { delete(store.jobs, coordinator.DefaultJob) })
			store.poke(coordinator.DefaultJob)
		})
		began := time.Now()
		if _, err := pendings(t.Context(), c, "a"); coordinator.CodeOf(err) != coordinator.CodeJobNotFound || time.Since(began) != 5*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestPollsRefuseWhatReadsRefuse(t *testing.T) {
	t.Parallel()
	c := coordinator.New(&scriptedStore{}, coordinator.Options{})
	list := func(call coordinator.ListCall) error {
		_, err := c.AwaitList(t.Context(), call, wait)
		return err
	}
	for name, err := range map[string]error{
		"a job":   list(coordinator.ListCall{Job: "a/b", Before: -1, Limit: 1}),
		"a limit": list(coordinator.ListCall{Job: "a", Before: -1}),
		"a task":  list(coordinator.ListCall{Job: "a", Before: -1, Limit: 1, NotAckedBy: ".."}),
		"the latest of a job": func() error {
			_, _, err := c.AwaitLatest(t.Context(), "", -1, wait)
			return err
		}(),
		"an id": func() error {
			_, err := c.AwaitEnd(t.Context(), coordinator.Ref{Job: "a", ID: -7}, wait)
			return err
		}(),
	} {
		if coordinator.CodeOf(err) != coordinator.CodeInvalidParameter {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestThousandsWhoComeAtOnceShareTheirFirstLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore(coordinator.DefaultJob)
		store.before = func(_ context.Context, call string) {
			if call == "list" {
				time.Sleep(time.Millisecond) //nolint:forbidigo // Time is synctest's; the others come meanwhile.
			}
		}
		c := coordinator.New(store, coordinator.Options{})
		const waiters = 5000
		var all sync.WaitGroup
		for n := range waiters {
			all.Go(func() {
				if ids, err := pendings(t.Context(), c, strconv.Itoa(n)); err != nil || len(ids) != 0 {
					t.Errorf("waiter %d found %v (%v) where nothing is", n, ids, err)
				}
			})
		}
		all.Wait()
		// One look at the beginning, of a few for themselves, and one at the end.
		if looks := store.counted("list"); looks > 100 {
			t.Errorf("%d waiters looked %d times", waiters, looks)
		}
	})
}
