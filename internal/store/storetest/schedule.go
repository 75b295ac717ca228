package storetest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// every makes a schedule of the job's own.
func every(ms int64) coordinator.JobSettings {
	return coordinator.JobSettings{IntervalMs: new(ms)}
}

// beginSchedule puts a schedule that is due at the next millisecond, and gives that.
func (r *rig) beginSchedule(settings coordinator.JobSettings) int64 {
	r.t.Helper()
	call := r.putCall(settings)
	call.Jitter = 0
	result, err := r.store.PutJob(r.t.Context(), call)
	r.check("put job", err)
	return result.State.Schedule.Due
}

// tickMakes asks for a checkpoint, which must be made.
func (r *rig) tickMakes() coordinator.DueResult {
	r.t.Helper()
	result := r.tick()
	if result.Triggered == nil {
		r.t.Fatalf("nothing was triggered at %d: %+v", r.clock.Now(), result.Schedule)
	}
	return result
}

// tickIdles asks for a checkpoint, which must not be made.
func (r *rig) tickIdles() coordinator.DueResult {
	r.t.Helper()
	result := r.tick()
	if result.Triggered != nil {
		r.t.Fatalf("checkpoint %d was triggered at %d: %+v", result.Triggered.ID, r.clock.Now(), result.Schedule)
	}
	return result
}

// wantSchedule checks an answer, and that the job tells the same.
func (r *rig) wantSchedule(want coordinator.ScheduleState, got coordinator.DueResult) {
	r.t.Helper()
	if diff := cmp.Diff(want, got.Schedule); diff != "" {
		r.t.Errorf("schedule (-want +got):\n%s", diff)
	}
	equal(r.t, "time of the answer", got.ObservedAt, r.clock.Now())
	if diff := cmp.Diff(want, r.jobState().Schedule); diff != "" {
		r.t.Errorf("schedule as the job tells it (-want +got):\n%s", diff)
	}
}

func testSchedule(t *testing.T, s suite) {
	s.rule(t, "the first trigger falls within the interval, where the jitter says", func(t *testing.T, r *rig) {
		for i, begin := range []struct {
			jitter float64
			in     int64
		}{{0, 1}, {0.25, 251}, {0.999, 1000}, {0.9999999, 1000}} {
			job := r.in(fmt.Sprintf("job-%d", i))
			call := job.putCall(every(1000))
			call.Jitter = begin.jitter
			result, err := job.store.PutJob(t.Context(), call)
			r.check("put job", err)
			want := coordinator.ScheduleState{Due: r.clock.Now() + begin.in, LastID: -1}
			equal(t, "schedule in the answer", result.State.Schedule, want)
			job.wantSchedule(want, job.tickIdles())
		}
	})
	s.rule(t, "when it is due one checkpoint is made, as the job's settings say, and not before", func(t *testing.T, r *rig) {
		settings := every(1000)
		settings.Tasks, settings.TimeoutMs = []string{"b", "a"}, new(int64(5000))
		r.clock.Advance(70)
		due := r.putJob(settings).State.Schedule.Due
		r.clock.Set(due - 1)
		r.tickIdles()
		equal(t, "pending", r.state().Pending, 0)
		r.clock.Set(due)
		result := r.tickMakes()
		c := *result.Triggered
		equal(t, "status", c.Status, coordinator.StatusPending)
		equal(t, "required", c.RequiredTaskAcks, 2)
		equal(t, "timeout", c.TimeoutMs, 5000)
		equal(t, "start", c.Start, due)
		wantSame(t, []string{"a", "b"}, c.MissingTasks)
		wantSame(t, c, r.get(c.ID).Checkpoint)
		r.wantSchedule(coordinator.ScheduleState{
			Due: due + 1000, Last: coordinator.ScheduleTriggered, LastAt: due, LastID: c.ID, Triggered: 1,
		}, result)
		r.wantKinds(coordinator.EventID{}, kind(coordinator.EventConfigured, -1), kind(coordinator.EventTriggered, c.ID))
		r.ackRefused(coordinator.CodeTaskNotExpected, c.ID, "stranger")
		r.accept(c.ID, "a")
		equal(t, "status", r.accept(c.ID, "b").Status, coordinator.StatusCompleted)
	})
	s.rule(t, "of many who ask at the same moment exactly one triggers", func(t *testing.T, r *rig) {
		const callers = 8
		r.defaults.MaxConcurrent = 1000
		a, b := r.either()
		r.beginSchedule(every(1000))
		for round := range 20 {
			r.clock.Set(r.jobState().Schedule.Due)
			results := make([]coordinator.DueResult, callers)
			errs := make([]error, callers)
			var asking sync.WaitGroup
			for i := range callers {
				call := r.dueCall()
				asking.Go(func() { results[i], errs[i] = []coordinator.Store{a, b}[i%2].TriggerIfDue(t.Context(), call) })
			}
			asking.Wait()
			made := 0
			for i, result := range results {
				r.check("trigger if due", errs[i])
				equal(t, "due next", result.Schedule.Due, r.clock.Now()+1000)
				if result.Triggered != nil {
					made++
				}
			}
			equal(t, "callers that triggered", made, 1)
			equal(t, "pending", r.state().Pending, round+1)
			equal(t, "triggered periods", r.jobState().Schedule.Triggered, int64(round+1))
		}
	})
	s.rule(t, "the same tick again after a lost reply gets the same answer and triggers nothing", func(t *testing.T, r *rig) {
		r.clock.Set(r.beginSchedule(every(1000)))
		call := r.dueCall()
		first, err := r.store.TriggerIfDue(t.Context(), call)
		r.check("trigger if due", err)
		if first.Triggered == nil {
			t.Fatal("nothing was triggered")
		}
		second, err := r.store.TriggerIfDue(t.Context(), call)
		r.check("the same tick again", err)
		if second.Triggered == nil {
			t.Fatal("the answer lacks the checkpoint the second time")
		}
		wantSame(t, *first.Triggered, *second.Triggered)
		equal(t, "schedule", second.Schedule, first.Schedule)
		equal(t, "pending", r.state().Pending, 1)
		r.tickIdles()
	})
	s.rule(t, "the default job follows the server's interval with nobody having touched it", func(t *testing.T, r *rig) {
		r.defaults.IntervalMs, r.defaults.RequiredTaskAcks, r.defaults.TimeoutMs = 1000, 3, 7000
		equal(t, "due before any tick", r.jobState().Schedule.Due, 0)
		due := r.clock.Now() + 501
		r.wantSchedule(coordinator.ScheduleState{Due: due, LastID: -1}, r.tickIdles())
		r.clock.Set(due)
		result := r.tickMakes()
		equal(t, "required", result.Triggered.RequiredTaskAcks, 3)
		equal(t, "timeout", result.Triggered.TimeoutMs, 7000)
		equal(t, "due next", result.Schedule.Due, due+1000)
		equal(t, "configured", r.jobState().Configured, false)
	})
	s.rule(t, "so does a job that a trigger made, but not one with an interval of its own, 0 among them", func(t *testing.T, r *rig) {
		r.defaults.IntervalMs = 1000
		triggered, own, off := r.in("triggered"), r.in("own"), r.in("off")
		triggered.trigger()
		equal(t, "due by the server's interval", triggered.tickIdles().Schedule.Due, r.clock.Now()+501)
		equal(t, "due by its own", own.putJob(every(3000)).State.Schedule.Due, r.clock.Now()+1501)
		equal(t, "due when off", off.putJob(every(0)).State.Schedule.Due, 0)
		equal(t, "due when off, after a tick", off.tickIdles().Schedule.Due, 0)
		equal(t, "due by the server's interval after a put about something else", r.putJob(coordinator.JobSettings{}).State.Schedule.Due, r.clock.Now()+501)
	})
	s.rule(t, "a job without an interval has no schedule", func(t *testing.T, r *rig) {
		r.trigger()
		r.clock.Advance(100_000)
		r.wantSchedule(coordinator.ScheduleState{LastID: -1}, r.tickIdles())
	})
	s.rule(t, "an interval below 50 ms is 50 ms", func(t *testing.T, r *rig) {
		r.clock.Set(r.beginSchedule(every(1)))
		result := r.tickMakes()
		equal(t, "due next", result.Schedule.Due, r.clock.Now()+coordinator.MinIntervalMs)
		orders := r.in("orders")
		orders.defaults.IntervalMs = 7
		equal(t, "due by the server's", orders.putJob(coordinator.JobSettings{}).State.Schedule.Due, r.clock.Now()+1+coordinator.MinIntervalMs/2)
	})
	s.rule(t, "a pause stops the schedule and not triggers by hand, its end begins it anew", func(t *testing.T, r *rig) {
		settings := every(1000)
		due := r.beginSchedule(settings)
		r.clock.Set(due)
		c := r.tickMakes().Triggered
		settings.Paused = true
		paused := coordinator.ScheduleState{Last: coordinator.ScheduleTriggered, LastAt: due, LastID: c.ID, Triggered: 1}
		equal(t, "schedule when paused", r.putJob(settings).State.Schedule, paused)
		r.clock.Advance(10_000)
		r.wantSchedule(paused, r.tickIdles())
		r.trigger()
		settings.Paused = false
		resumed := paused
		resumed.Due = r.clock.Now() + 501
		equal(t, "schedule when resumed", r.putJob(settings).State.Schedule, resumed)
		r.wantSchedule(resumed, r.tickIdles())
		r.clock.Set(resumed.Due)
		result := r.tickMakes()
		equal(t, "missed", result.Schedule.Missed, 0)
	})
	s.rule(t, "a changed interval begins the schedule anew, a put that leaves it alone does not", func(t *testing.T, r *rig) {
		due := r.beginSchedule(every(1000))
		r.clock.Set(due)
		r.tickMakes()
		r.clock.Advance(300)
		same := every(1000)
		same.Description = "d"
		equal(t, "due after the same interval", r.putJob(same).State.Schedule.Due, due+1000)
		same.MinPauseMs = new(int64(5))
		equal(t, "due after another pause", r.putJob(same).State.Schedule.Due, r.clock.Now()+501)
		equal(t, "due after another", r.putJob(every(2000)).State.Schedule.Due, r.clock.Now()+1001)
		r.tickIdles()
		equal(t, "due after none", r.putJob(every(0)).State.Schedule.Due, 0)
		r.clock.Advance(10_000)
		r.tickIdles()
		equal(t, "due after one again", r.putJob(every(2000)).State.Schedule.Due, r.clock.Now()+1001)
	})
	s.rule(t, "an interval that a put makes the same as the server's is no change", func(t *testing.T, r *rig) {
		r.defaults.IntervalMs = 1000
		due := r.tickIdles().Schedule.Due
		r.clock.Advance(100)
		equal(t, "due", r.putJob(every(1000)).State.Schedule.Due, due)
		r.clock.Advance(100)
		equal(t, "due", r.putJob(coordinator.JobSettings{}).State.Schedule.Due, due)
	})
	s.rule(t, "at the cap a period is skipped, never refused", func(t *testing.T, r *rig) {
		settings := every(1000)
		settings.MaxConcurrent, settings.TimeoutMs = new(2), new(int64(0))
		due := r.beginSchedule(settings)
		r.clock.Set(due)
		r.tickMakes()
		r.clock.Set(due + 1000)
		last := r.tickMakes().Triggered.ID
		mark := r.position()
		for i := range int64(2) {
			r.clock.Set(due + 2000 + i*1000)
			r.wantSchedule(coordinator.ScheduleState{
				Due: r.clock.Now() + 1000, Last: coordinator.ScheduleSkipped, LastAt: r.clock.Now(), LastID: last, Triggered: 2, Skipped: i + 1,
			}, r.tickIdles())
		}
		r.wantEvents(mark)
		r.accept(last, "task-1")
		r.clock.Set(due + 4000)
		result := r.tickMakes()
		equal(t, "last", result.Schedule.Last, coordinator.ScheduleTriggered)
		equal(t, "skipped", result.Schedule.Skipped, 2)
	})
	s.rule(t, "pendings past their deadline take no place of a scheduled one", func(t *testing.T, r *rig) {
		settings := every(1000)
		settings.MaxConcurrent, settings.TimeoutMs = new(1), new(int64(999))
		due := r.beginSchedule(settings)
		r.clock.Set(due)
		first := r.tickMakes().Triggered.ID
		r.clock.Set(due + 1000)
		r.tickMakes()
		r.wantStatus(first, coordinator.StatusExpired)
	})
	s.rule(t, "in the pause after a completion a trigger is put off to its end, before the cap is looked at", func(t *testing.T, r *rig) {
		settings := every(1000)
		settings.MinPauseMs, settings.MaxConcurrent = new(int64(1500)), new(1)
		due := r.beginSchedule(settings)
		r.clock.Set(due)
		first := r.tickMakes().Triggered.ID
		r.clock.Set(due + 400)
		r.accept(first, "task-1")
		blocking := r.trigger(forced())
		r.clock.Set(due + 1000)
		putOff := coordinator.ScheduleState{
			Due: due + 1900, Last: coordinator.SchedulePutOff, LastAt: due + 1000, LastID: first, Triggered: 1,
		}
		r.wantSchedule(putOff, r.tickIdles())
		r.clock.Set(due + 1899)
		r.wantSchedule(putOff, r.tickIdles())
		r.abort(blocking.ID)
		r.clock.Set(due + 1900)
		result := r.tickMakes()
		r.wantSchedule(coordinator.ScheduleState{
			Due: due + 2900, Last: coordinator.ScheduleTriggered, LastAt: due + 1900, LastID: result.Triggered.ID, Triggered: 2,
		}, result)
	})
	s.rule(t, "a pause longer than the interval is waited for, however often it is asked", func(t *testing.T, r *rig) {
		settings := every(100)
		settings.MinPauseMs = new(int64(10_000))
		due := r.beginSchedule(settings)
		r.clock.Set(due)
		r.accept(r.tickMakes().Triggered.ID, "task-1")
		for range 20 {
			r.clock.Advance(450)
			equal(t, "due", r.tickIdles().Schedule.Due, due+10_000)
		}
		r.clock.Set(due + 9_999)
		equal(t, "due", r.tickIdles().Schedule.Due, due+10_000)
		r.clock.Set(due + 10_000)
		r.tickMakes()
	})
	s.rule(t, "a trigger by hand moves nothing", func(t *testing.T, r *rig) {
		before := coordinator.ScheduleState{Due: r.beginSchedule(every(1000)), LastID: -1}
		r.trigger()
		r.completed()
		r.recover("")
		equal(t, "schedule", r.jobState().Schedule, before)
		equal(t, "schedule among all jobs", r.state().Schedule, before)
	})
}
