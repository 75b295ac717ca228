package coordinator_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// scheduled gives a store whose jobs have the interval.
func scheduled(interval time.Duration, jobs ...string) *logStore {
	store := newLogStore(jobs...)
	for _, job := range jobs {
		store.jobs[job].state.Settings.IntervalMs = new(interval.Milliseconds())
	}
	return store
}

func (s *logStore) schedule(job string) coordinator.ScheduleState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[job].state.Schedule
}

func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // Time is synctest's.
	synctest.Wait()
}

// failures keeps what the scheduler reports.
type failures struct {
	coordinator.Silence

	schedule atomic.Int64
	trigger  atomic.Int64
}

func (f *failures) BackgroundFailed(task string, _ error) {
	if task == "schedule" {
		f.schedule.Add(1)
	}
}

func (f *failures) Triggered(coordinator.Checkpoint) { f.trigger.Add(1) }

func TestTheSchedulerAsksWhenAJobIsDueAndSleepsOtherwise(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := scheduled(10*time.Second, "orders")
		var seen failures
		_, stop := running(t, store, coordinator.Options{Observer: &seen})
		defer stop()
		pass(0)
		if asked := store.counted("due"); asked != 1 {
			t.Errorf("asked %d times for a schedule that no tick has seen", asked)
		}
		first := store.schedule("orders").Due
		if now := store.now(); first <= now || first > now+10_001 {
			t.Errorf("the first trigger is due in %d ms", first-now)
		}
		pass(time.Duration(first-store.now())*time.Millisecond - time.Millisecond)
		if asked := store.counted("due"); asked != 0 {
			t.Errorf("asked %d times before it was due", asked)
		}
		for period := range int64(5) {
			pass(time.Millisecond)
			if state := store.schedule("orders"); state.Triggered != period+1 || state.LastAt != first+period*10_000 {
				t.Errorf("period %d: %+v", period, state)
			}
			pass(10*time.Second - time.Millisecond)
			if asked := store.counted("due"); asked != 1 {
				t.Errorf("asked %d times in a period", asked)
			}
		}
		if told := seen.trigger.Load(); told != 5 {
			t.Errorf("the observer was told of %d triggers", told)
		}
	})
}

func TestJobsWithoutAScheduleAreNotAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := scheduled(time.Second, "paused", "off")
		store.jobs["paused"].state.Settings.Paused = true
		store.jobs["off"].state.Settings.IntervalMs = new(int64(0))
		_, stop := running(t, store, coordinator.Options{})
		defer stop()
		pass(time.Minute)
		if asked := store.counted("due"); asked != 0 {
			t.Errorf("asked %d times", asked)
		}
	})
}

func TestPausingForgettingAndResuming(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := scheduled(time.Second, "orders")
		c, stop := running(t, store, coordinator.Options{})
		defer stop()
		put := func(settings coordinator.JobSettings) {
			if _, err := c.PutJob(t.Context(), "orders", settings, coordinator.Precondition{}); err != nil {
				t.Fatal(err)
			}
		}
		asked := func(want bool, when string) {
			t.Helper()
			store.counted("due")
			pass(10 * time.Second)
			if got := store.counted("due"); (got > 0) != want || got > 11 {
				t.Errorf("asked %d times %s", got, when)
			}
		}
		asked(true, "at first")
		put(coordinator.JobSettings{IntervalMs: new(int64(1000)), Paused: true})
		asked(false, "while it was paused")
		put(coordinator.JobSettings{IntervalMs: new(int64(1000))})
		asked(true, "after it was resumed")
		// Another replica pauses it; this one finds out when it asks, or at the next look.
		store.set(func() { store.jobs["orders"].state.Settings.Paused = true })
		pass(time.Second)
		asked(false, "after another replica paused it")
		store.set(func() { store.jobs["orders"].state.Settings.Paused = false })
		pass(time.Second)
		asked(true, "after another replica resumed it")
		if err := c.DeleteJob(t.Context(), "orders", false, coordinator.Precondition{}); err == nil {
			t.Fatal("a job with pending checkpoints was deleted")
		}
		asked(true, "after a deletion that was refused")
		gone := store.jobs["orders"]
		store.set(func() { delete(store.jobs, "orders") }) // by another replica, while it is due
		pass(time.Second)
		asked(false, "after another replica deleted it")
		store.set(func() { store.jobs["orders"] = gone })
		pass(time.Second)
		asked(true, "after it came back")
		if err := c.DeleteJob(t.Context(), "orders", true, coordinator.Precondition{}); err != nil {
			t.Fatal(err)
		}
		asked(false, "after it was deleted")
	})
}

func TestAChangedIntervalIsLearntAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := scheduled(time.Hour, "orders")
		c, stop := running(t, store, coordinator.Options{Pace: coordinator.Pace{Health: time.Hour}})
		defer stop()
		pass(0)
		if _, err := c.PutJob(t.Context(), "orders", coordinator.JobSettings{IntervalMs: new(int64(200))}, coordinator.Precondition{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if triggered := store.schedule("orders").Triggered; triggered < 4 {
			t.Errorf("%d triggers in a second of 200 ms", triggered)
		}
	})
}

func TestADeletionThatIsRefusedLeavesTheSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := scheduled(time.Second, "orders")
		c, stop := running(t, store, coordinator.Options{Pace: coordinator.Pace{Health: time.Hour}})
		defer stop()
		pass(5 * time.Second)
		if err := c.DeleteJob(t.Context(), "orders", false, coordinator.Precondition{}); err == nil {
			t.Fatal("a job with pending checkpoints was deleted")
		}
		store.counted("due")
		pass(5 * time.Second)
		if asked := store.counted("due"); asked < 4 {
			t.Errorf("asked %d times in five periods after it", asked)
		}
	})
}

func TestTheScheduleGoesOnWithinAPeriodAfterAnOutage(t *testing.T) {
	t.Parallel()
	for _, jobs := range []int{1, 1000} {
		t.Run(fmt.Sprintf("of %d jobs", jobs), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var names []string
				for i := range jobs {
					names = append(names, fmt.Sprintf("job-%d", i))
				}
				store := scheduled(200*time.Millisecond, names...)
				var seen failures
				_, stop := running(t, store, coordinator.Options{Observer: &seen})
				defer stop()
				pass(time.Second)
				if n := store.schedule("job-0").Triggered; n < 4 {
					t.Fatalf("%d triggers in the first second", n)
				}
				store.set(func() { store.away = coordinator.ErrStoreUnavailable(errors.New("gone")) })
				pass(200 * time.Millisecond)
				store.counted("due")
				before := make(map[string]int64) // the first one is jittered, so some have one more
				for _, job := range names {
					before[job] = store.schedule(job).Triggered
				}
				pass(5 * time.Second)
				if asked := store.counted("due"); asked < 90 || asked > 110 {
					t.Errorf("asked %d times in five seconds of an outage; every 50 ms was meant", asked)
				}
				if told := seen.schedule.Load(); told != 1 {
					t.Errorf("one outage was reported %d times", told)
				}
				store.set(func() { store.away = nil })
				pass(200 * time.Millisecond)
				for _, job := range names {
					if n := store.schedule(job).Triggered; n != before[job]+1 && n != before[job]+2 {
						t.Fatalf("%s: %d triggers in the first period after the outage, from %d", job, n, before[job])
					}
				}
				if missed := store.schedule("job-0").Missed; missed < 24 || missed > 26 {
					t.Errorf("%d periods were missed in five seconds", missed)
				}
			})
		})
	}
}

func TestAStoreThatHangsIsProbedByOneJobAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 20 {
			names = append(names, fmt.Sprintf("job-%d", i))
		}
		store := scheduled(200*time.Millisecond, names...)
		_, stop := running(t, store, coordinator.Options{Pace: coordinator.Pace{Health: time.Hour}})
		defer stop()
		pass(time.Second)
		store.set(func() { store.hangs = "due" })
		pass(10 * time.Second)
		store.counted("due")
		pass(20 * time.Second)
		if asked := store.counted("due"); asked < 8 || asked > 12 {
			t.Errorf("asked %d times in 20 s; every two seconds was meant", asked)
		}
		store.set(func() { store.hangs = "" })
		pass(2*time.Second + 300*time.Millisecond)
		for _, job := range names {
			if due := store.schedule(job).Due; due <= store.now() {
				t.Errorf("%s did not go on", job)
			}
		}
	})
}

// A pause of the whole process looks like a clock that jumps ahead.
func TestAPauseOfTheProcessMakesNoBurst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := scheduled(time.Second, "orders")
		_, stop := running(t, store, coordinator.Options{})
		defer stop()
		pass(3 * time.Second)
		before := store.schedule("orders")
		store.set(func() { store.skewMs += 60_000 })
		pass(1500 * time.Millisecond)
		after := store.schedule("orders")
		if triggered := after.Triggered - before.Triggered; triggered < 1 || triggered > 2 {
			t.Errorf("%d triggers in a period and a half after the pause", triggered)
		}
		if missed := after.Missed - before.Missed; missed < 58 || missed > 60 {
			t.Errorf("%d periods were missed in a minute", missed)
		}
	})
}

func TestOneJobsTroubleIsNotTheOthers(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(context.Context) error{
		"a call that the store refuses": func(context.Context) error { return errors.New("a damaged record") },
		"a call that a full store refuses": func(context.Context) error {
			return coordinator.ErrStoreFull(errors.New("no room"))
		},
		"a call that says canceled": func(context.Context) error { return context.Canceled },
		"a call that hangs": func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := scheduled(time.Second, "bad", "good")
				var bad, good atomic.Int64
				store.due = func(ctx context.Context, call coordinator.DueCall) (coordinator.DueResult, error) {
					if call.Job == "bad" {
						bad.Add(1)
						return coordinator.DueResult{}, trouble(ctx)
					}
					good.Add(1)
					return coordinator.DueResult{Schedule: coordinator.ScheduleState{Due: store.now() + 1000}, ObservedAt: store.now()}, nil
				}
				_, stop := running(t, store, coordinator.Options{Pace: coordinator.Pace{Health: time.Hour}})
				defer stop()
				pass(20*time.Second + time.Millisecond)
				if asked := bad.Load(); asked < 5 || asked > 60 {
					t.Errorf("the bad one was asked for %d times in 20 s", asked)
				}
				if asked := good.Load(); asked < 9 || asked > 22 {
					t.Errorf("the good one was asked for %d times in 20 s", asked)
				}
			})
		})
	}
}

func TestAThousandJobsThatAreDueTogetherAreAskedForSixteenAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const jobs = 1000
		store := newLogStore()
		settings := coordinator.DefaultSettings()
		settings.IntervalMs = 60_000
		for i := range jobs {
			name := fmt.Sprintf("job-%d", i)
			store.jobs[name] = newLogJob(name)
		}
		var mu sync.Mutex
		atOnce, most := 0, 0
		asked := map[string]int{}
		store.due = func(_ context.Context, call coordinator.DueCall) (coordinator.DueResult, error) {
			mu.Lock()
			atOnce++
			most = max(most, atOnce)
			asked[call.Job]++
			mu.Unlock()
			time.Sleep(10 * time.Millisecond) //nolint:forbidigo // Time is synctest's.
			mu.Lock()
			atOnce--
			mu.Unlock()
			if call.Defaults.IntervalMs != 60_000 || call.Token == "" || call.Jitter < 0 || call.Jitter >= 1 {
				t.Errorf("%+v", call)
			}
			return coordinator.DueResult{Schedule: coordinator.ScheduleState{Due: store.now() + 60_000}, ObservedAt: store.now()}, nil
		}
		_, stop := running(t, store, coordinator.Options{Settings: settings, Pace: coordinator.Pace{Health: time.Hour}})
		defer stop()
		pass(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if most != 16 {
			t.Errorf("%d calls ran at once", most)
		}
		if len(asked) != jobs+1 {
			t.Errorf("%d jobs were asked for", len(asked))
		}
		for job, times := range asked {
			if times != 1 {
				t.Errorf("%s was asked for %d times", job, times)
			}
		}
	})
}

func TestTheSchedulerEndsInTheMiddleOfACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := scheduled(time.Second, "orders", "paid", "sent")
		var seen failures
		store.due = func(ctx context.Context, _ coordinator.DueCall) (coordinator.DueResult, error) {
			<-ctx.Done()
			return coordinator.DueResult{}, context.Cause(ctx)
		}
		_, stop := running(t, store, coordinator.Options{Observer: &seen})
		pass(time.Second)
		began := time.Now()
		stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v to stop", took)
		}
		if told := seen.schedule.Load(); told != 0 {
			t.Errorf("stopping was reported as %d failures", told)
		}
	})
}
