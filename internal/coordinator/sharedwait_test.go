package coordinator_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// crowd starts a poll for each name, waits until all wait, and gives a function that
// collects the answers.
func crowd[T any](names []string, poll func(name string) (T, error)) (answers func() (map[string]T, []error)) {
	var (
		mu      sync.Mutex
		all     sync.WaitGroup
		answer  = map[string]T{}
		refused []error
	)
	for _, name := range names {
		all.Go(func() {
			got, err := poll(name)
			mu.Lock()
			defer mu.Unlock()
			answer[name] = got
			if err != nil {
				refused = append(refused, err)
			}
		})
	}
	synctest.Wait()
	return func() (map[string]T, []error) {
		all.Wait()
		return answer, refused
	}
}

func tasks(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("task-%05d", i)
	}
	return names
}

// What a waiting worker costs: its own goroutine, no other, and a share in a few reads.
func TestThousandsOfWaitersShareAHandfulOfReads(t *testing.T) {
	t.Parallel()
	const waiters, handful = 2000, 5
	for _, w := range waits() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newLogStore()
				c, stop := running(t, store, coordinator.Options{Pace: coordinator.Pace{Health: time.Hour, Sweep: time.Hour}})
				defer stop()
				store.change(coordinator.DefaultJob, func(j *logJob) {
					j.end(j.trigger(), coordinator.StatusCompleted)
					j.trigger()
					j.ack(1, "a")
				})
				answers := crowd(tasks(waiters), func(string) (bool, error) { return w.poll(t.Context(), c) })
				store.totalled()
				for range 3 {
					store.change(coordinator.DefaultJob, w.other)
					synctest.Wait()
				}
				if calls := store.totalled(); calls > 3 {
					t.Errorf("%d calls for three events that matter to nobody", calls)
				}
				store.change(coordinator.DefaultJob, w.satisfy)
				got, refused := answers()
				if calls := store.totalled(); calls > handful {
					t.Errorf("%d calls for one event", calls)
				}
				if len(refused) > 0 {
					t.Errorf("%d refused, the first with %v", len(refused), refused[0])
				}
				for name, satisfied := range got {
					if !satisfied {
						t.Fatalf("%s was told of nothing", name)
					}
				}
			})
		})
	}
}

func TestAWaiterHasNoGoroutineOfItsOwn(t *testing.T) { //nolint:paralleltest // It counts the goroutines of the process.
	const waiters = 1000
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		before := runtime.NumGoroutine()
		answers := crowd(tasks(waiters), func(task string) ([]int64, error) { return pendings(ctx, c, task) })
		// The process may have begun some others meanwhile.
		if n := runtime.NumGoroutine() - before; n > waiters+waiters/10 {
			t.Errorf("%d goroutines for %d waiters", n, waiters)
		}
		cancel()
		answers()
	})
}

func TestTheSharedListIsRightForEachTask(t *testing.T) {
	t.Parallel()
	const waiters = 3000
	for _, tc := range []struct {
		name   string
		happen func(*logJob)
		// want are the ids for tasks below 10, tasks from 10 on, and those that are not waiting yet.
		early, late []int64
		// calls bounds the calls of the store; 0 is any number.
		calls int
	}{
		{
			name:   "nobody has acknowledged",
			happen: func(j *logJob) { j.trigger() },
			early:  []int64{0}, late: []int64{0}, calls: 3,
		},
		{
			name: "some have acknowledged before the answer was read",
			happen: func(j *logJob) {
				j.trigger()
				j.ack(j.trigger(), tasks(10)...)
			},
			early: []int64{0}, late: []int64{1, 0}, calls: 5,
		},
		{
			name:   "only some are named",
			happen: func(j *logJob) { j.trigger(); j.trigger(tasks(waiters)[10:]...) },
			early:  []int64{0}, late: []int64{1, 0}, calls: 8,
		},
		{
			name: "some of the named have acknowledged",
			happen: func(j *logJob) {
				j.trigger()
				j.ack(j.trigger(tasks(waiters)...), tasks(10)...)
			},
			early: []int64{0}, late: []int64{1, 0}, calls: 8,
		},
		{
			name: "more have acknowledged than fit a view",
			happen: func(j *logJob) {
				for range 9 {
					j.ack(j.trigger(), tasks(waiters)[10:]...)
				}
				j.ack(j.trigger(), tasks(10)...)
			},
			early: []int64{8, 7, 6, 5, 4, 3, 2, 1, 0}, late: []int64{9},
		},
		{
			name: "it is deleted at once",
			happen: func(j *logJob) {
				j.ack(j.trigger(), "somebody")
				j.checkpoints = nil
				j.trigger()
			},
			early: []int64{1}, late: []int64{1}, calls: 3,
		},
	} {
		t.Run("when "+tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newLogStore()
				c, stop := running(t, store, coordinator.Options{Pace: coordinator.Pace{Health: time.Hour, Sweep: time.Hour}})
				defer stop()
				answers := crowd(tasks(waiters), func(task string) ([]int64, error) { return pendings(t.Context(), c, task) })
				store.totalled()
				store.change(coordinator.DefaultJob, tc.happen)
				got, refused := answers()
				if calls := store.totalled(); tc.calls > 0 && calls > tc.calls {
					t.Errorf("%d calls", calls)
				}
				if len(refused) > 0 {
					t.Fatal(refused[0])
				}
				for i, task := range tasks(waiters) {
					want := tc.late
					if i < 10 {
						want = tc.early
					}
					if !slices.Equal(got[task], want) {
						t.Fatalf("%s was told of %v, want %v", task, got[task], want)
					}
				}
			})
		})
	}
}

func TestWhatEndsWhileTheSharedListIsReadIsNobodysToDo(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*logJob){
		"aborted": func(j *logJob) { j.at(0).Status = coordinator.StatusAborted },
		"deleted": func(j *logJob) {
			j.checkpoints = slices.DeleteFunc(j.checkpoints, func(c coordinator.Checkpoint) bool { return c.ID == 0 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := newLogStore()
				c, stop := running(t, store, coordinator.Options{Pace: coordinator.Pace{Health: time.Hour, Sweep: time.Hour}})
				defer stop()
				answers := crowd(tasks(100), func(task string) ([]int64, error) { return pendings(t.Context(), c, task) })
				store.totalled()
				var once sync.Once
				store.set(func() {
					store.before = func(_ context.Context, call string) {
						if call == "tasks" {
							once.Do(func() { store.set(func() { end(store.jobs[coordinator.DefaultJob]) }) })
						}
					}
				})
				store.change(coordinator.DefaultJob, func(j *logJob) {
					j.ack(j.trigger(), "somebody")
					j.trigger()
				})
				got, _ := answers()
				for task, ids := range got {
					if !slices.Equal(ids, []int64{1}) {
						t.Fatalf("%s was told of %v", task, ids)
					}
				}
				if calls := store.totalled(); calls > 3 {
					t.Errorf("%d calls", calls)
				}
			})
		})
	}
}

// The feed lags: the event of a checkpoint arrives after a task has acknowledged it and
// waits for the next.
func TestATaskIsNotToldAgainOfWhatItHasAcknowledged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{Pace: coordinator.Pace{Health: time.Hour}})
		defer stop()
		others := crowd(tasks(100), func(task string) ([]int64, error) { return pendings(t.Context(), c, task) })
		store.set(func() { store.muted = true })
		store.change(coordinator.DefaultJob, func(j *logJob) {
			j.trigger()
			j.ack(0, "quick")
		})
		quick := crowd([]string{"quick"}, func(task string) ([]int64, error) { return pendings(t.Context(), c, task) })
		store.poke(coordinator.DefaultJob)
		answered, _ := others()
		for task, ids := range answered {
			if !slices.Equal(ids, []int64{0}) {
				t.Fatalf("%s was told of %v", task, ids)
			}
		}
		store.set(func() { store.muted = false })
		store.change(coordinator.DefaultJob, func(j *logJob) {
			j.end(0, coordinator.StatusCompleted)
			j.trigger()
		})
		if told, _ := quick(); !cmp.Equal(told["quick"], []int64{1}) {
			t.Errorf("quick was told of %v", told["quick"])
		}
	})
}

func TestAShortPageOfTheSharedListSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		answers := crowd([]string{"a", "b"}, func(task string) (coordinator.ListResult, error) {
			return c.AwaitList(t.Context(), coordinator.ListCall{
				Job: coordinator.DefaultJob, Status: coordinator.StatusPending, Before: -1, Limit: 2, NotAckedBy: task,
			}, wait)
		})
		store.change(coordinator.DefaultJob, func(j *logJob) {
			for range 3 {
				j.trigger()
			}
		})
		got, _ := answers()
		for name, page := range got {
			if len(page.Checkpoints) != 2 || page.Checkpoints[0].ID != 2 || page.Next != 1 {
				t.Errorf("%s: %+v", name, page)
			}
		}
	})
}

// Thousands that ask a store that is away one after the other would never be done.
func TestAFailedReadIsEverybodysAndOneClientsEndIsNot(t *testing.T) {
	t.Parallel()
	t.Run("a store that hangs", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store := newLogStore()
			c, stop := running(t, store, coordinator.Options{Pace: coordinator.Pace{Health: time.Hour, Sweep: time.Hour}})
			defer stop()
			answers := crowd(tasks(1000), func(task string) ([]int64, error) { return pendings(t.Context(), c, task) })
			store.totalled()
			store.set(func() { store.hangs = "list" })
			began := time.Now()
			store.change(coordinator.DefaultJob, func(j *logJob) { j.trigger() })
			_, refused := answers()
			if len(refused) != 1000 || coordinator.CodeOf(refused[0]) != coordinator.CodeStoreUnavailable {
				t.Errorf("%d were refused", len(refused))
			}
			if took, calls := time.Since(began), store.totalled(); took > 2*time.Second || calls > 2 {
				t.Errorf("%d calls, and it took %v", calls, took)
			}
		})
	})
	t.Run("a client that goes away while it reads for all", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			store := newLogStore()
			c, stop := running(t, store, coordinator.Options{Pace: coordinator.Pace{Health: time.Hour, Sweep: time.Hour}})
			defer stop()
			type client struct{}
			answers := crowd(tasks(100), func(task string) ([]int64, error) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				return pendings(context.WithValue(ctx, client{}, cancel), c, task)
			})
			store.totalled()
			store.set(func() {
				store.before = func(ctx context.Context, call string) {
					if call == "list" {
						ctx.Value(client{}).(context.CancelFunc)()
					}
				}
			})
			store.change(coordinator.DefaultJob, func(j *logJob) { j.trigger() })
			got, refused := answers()
			if calls := store.counted("list"); calls != 1 {
				t.Errorf("%d reads", calls)
			}
			if len(refused) > 1 {
				t.Errorf("%d clients were refused since one went away: %v", len(refused), refused[0])
			}
			told := 0
			for _, ids := range got {
				if slices.Equal(ids, []int64{0}) {
					told++
				}
			}
			if told < 99 {
				t.Errorf("only %d were told", told)
			}
		})
	})
}

// The look into the store runs on another stack, where a panic would end the process.
func TestAPanicOfTheStoreReachesTheOneWhoWaits(t *testing.T) {
	t.Parallel()
	store := newLogStore(coordinator.DefaultJob)
	store.before = func(_ context.Context, call string) {
		if call == "list" {
			panic("a bug")
		}
	}
	defer func() {
		if cause := recover(); cause != "a bug" {
			t.Errorf("the waiter recovers %v", cause)
		}
	}()
	_, err := pendings(t.Context(), coordinator.New(store, coordinator.Options{}), "a")
	t.Errorf("the panic is answered %v", err)
}

func TestSharedAnswersAreOfTheEventAndOfTheCheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newLogStore()
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		for round := range int64(3) {
			answers := crowd(tasks(50), func(task string) (int64, error) {
				list, err := c.AwaitList(t.Context(), coordinator.ListCall{
					Job: coordinator.DefaultJob, Status: coordinator.StatusPending, Before: -1, Limit: 1, NotAckedBy: task,
				}, wait)
				return list.Checkpoints[0].ID, err
			})
			store.change(coordinator.DefaultJob, func(j *logJob) { j.trigger() })
			got, _ := answers()
			store.change(coordinator.DefaultJob, func(j *logJob) { j.ack(round, tasks(50)...) })
			for task, id := range got {
				if id != round {
					t.Fatalf("round %d: %s was told of %d", round, task, id)
				}
			}
		}
		ends := crowd(tasks(3), func(task string) (coordinator.CheckpointDetail, error) {
			return c.AwaitEnd(t.Context(), coordinator.Ref{Job: coordinator.DefaultJob, ID: int64(task[len(task)-1] - '0')}, wait)
		})
		store.change(coordinator.DefaultJob, func(j *logJob) {
			for id := range int64(3) {
				j.end(id, coordinator.StatusAborted) // as a recovery does
			}
		})
		got, _ := ends()
		for i, task := range tasks(3) {
			if detail := got[task]; detail.ID != int64(i) || detail.Status != coordinator.StatusAborted {
				t.Errorf("who waited for %d was told of %d, %s", i, detail.ID, detail.Status)
			}
		}
	})
}
