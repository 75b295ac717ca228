package storetest

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func raceTicks(t *testing.T, r *rig, round int) {
	if round == 0 {
		settings := every(1000)
		settings.MaxConcurrent = new(coordinator.MaxConcurrentUpper)
		settings.TimeoutMs = new(int64(5000))
		r.beginSchedule(settings)
	}
	before := r.jobState().Schedule
	r.clock.Set(before.Due)
	a, b := r.either()
	calls := []coordinator.DueCall{r.dueCall(), r.dueCall(), r.dueCall(), r.dueCall()}
	results := make([]coordinator.DueResult, len(calls))
	errs := make([]error, len(calls))
	callers := make([]func(), len(calls))
	for i := range calls {
		callers[i] = func() {
			results[i], errs[i] = []coordinator.Store{a, b}[i%2].TriggerIfDue(t.Context(), calls[i])
		}
	}
	meet(round, callers...)
	made := []int64{}
	for i, result := range results {
		r.check("trigger if due", errs[i])
		equal(t, "due next", result.Schedule.Due, before.Due+1000)
		if result.Triggered != nil {
			made = append(made, result.Triggered.ID)
		}
	}
	if len(made) != 1 {
		t.Fatalf("the ticks made %v, want one", made)
	}
	after := r.jobState().Schedule
	equal(t, "triggered periods", after.Triggered, before.Triggered+1)
	equal(t, "the last that was triggered", after.LastID, made[0])
	equal(t, "skipped and missed", after.Skipped+after.Missed, 0)
}

func raceTickTrigger(t *testing.T, r *rig, round int) {
	r.defaults.MaxConcurrent = 1
	if round == 0 {
		r.beginSchedule(every(1000))
	}
	for _, id := range r.list(coordinator.ListCall{Status: coordinator.StatusPending}) {
		r.abort(id)
	}
	before := r.jobState()
	r.clock.Set(before.Schedule.Due)
	a, b := r.either()
	call, due := r.triggerCall(), r.dueCall()
	var byHand coordinator.TriggerResult
	var scheduled coordinator.DueResult
	var refused, failed error
	meet(round,
		func() { byHand, refused = a.Trigger(t.Context(), call) },
		func() { scheduled, failed = b.TriggerIfDue(t.Context(), due) },
	)
	r.check("trigger if due", failed)
	var want int64
	if refused != nil {
		r.refused(refused, coordinator.CodeTooManyPending)
		equal(t, "what the tick came to", scheduled.Schedule.Last, coordinator.ScheduleTriggered)
		if scheduled.Triggered == nil {
			t.Fatal("neither of the two made a checkpoint")
		}
		want = scheduled.Triggered.ID
	} else {
		equal(t, "what the tick came to", scheduled.Schedule.Last, coordinator.ScheduleSkipped)
		equal(t, "the tick made one", scheduled.Triggered != nil, false)
		want = byHand.Checkpoint.ID
	}
	r.wantIDs("pending", r.list(coordinator.ListCall{Status: coordinator.StatusPending}), want)
	r.wantKinds(before.LastEvent, kind(coordinator.EventTriggered, want))
}

func racePutTrigger(t *testing.T, r *rig, round int) {
	r.putJob(coordinator.JobSettings{RequiredTaskAcks: new(3), TimeoutMs: new(int64(1000))})
	a, b := r.either()
	put := r.putCall(coordinator.JobSettings{Tasks: []string{"a", "b"}, TimeoutMs: new(int64(2000))})
	call := r.triggerCall(leftOpen())
	var result coordinator.TriggerResult
	var changed, triggered error
	meet(round,
		func() { _, changed = a.PutJob(t.Context(), put) },
		func() { result, triggered = b.Trigger(t.Context(), call) },
	)
	r.check("put job", changed)
	r.check("trigger", triggered)
	c := r.get(result.Checkpoint.ID)
	if c.NamedTasks {
		equal(t, "required", c.RequiredTaskAcks, 2)
		equal(t, "timeout", c.TimeoutMs, 2000)
		r.ackRefused(coordinator.CodeTaskNotExpected, c.ID, "stranger")
	} else {
		equal(t, "required", c.RequiredTaskAcks, 3)
		equal(t, "timeout", c.TimeoutMs, 1000)
		r.accept(c.ID, "stranger")
	}
	r.abort(c.ID)
}

func raceDeleteJobTrigger(t *testing.T, r *rig, round int) {
	orders := r.in("orders")
	old := orders.completed()
	mark := orders.position()
	a, b := r.either()
	call := orders.triggerCall()
	remove := orders.deleteJobCall(true)
	var result coordinator.TriggerResult
	var triggered, removed error
	meet(round,
		func() { result, triggered = a.Trigger(t.Context(), call) },
		func() { _, removed = b.DeleteJob(t.Context(), remove) },
	)
	r.check("trigger", triggered)
	r.check("delete job", removed)
	id := result.Checkpoint.ID
	if id <= old.ID {
		t.Errorf("id %d was given after %d", id, old.ID)
	}
	_, err := r.store.Get(t.Context(), orders.ref(id))
	if err == nil {
		orders.wantKinds(mark, kind(coordinator.EventDeleted, old.ID), kind(coordinator.EventJobDeleted, -1), kind(coordinator.EventTriggered, id))
		orders.deleteJob(true)
	} else {
		r.refused(err, coordinator.CodeJobNotFound)
	}
	orders.getRefused(coordinator.CodeJobNotFound, old.ID)
	equal(t, "reported deletions", len(r.seen.deletionOf("orders", id)), 1)
}

func raceReader(t *testing.T, r *rig, round int) {
	mark := r.position()
	c, other := r.trigger(requires(2)), r.trigger()
	r.accept(c.ID, "task-0")
	a, b := r.either()
	ack := r.ackCall(c.ID, item("task-1"))
	abort := coordinator.AbortCall{Job: r.job, ID: other.ID, Token: r.token()}
	crash := r.recoverCall("")
	var read []coordinator.Event
	gap := false
	var errs [4]error
	meet(round,
		func() { _, errs[0] = a.Acknowledge(t.Context(), ack) },
		func() { _, errs[1] = b.Abort(t.Context(), abort) },
		func() { _, errs[2] = a.Recover(t.Context(), crash) },
		func() {
			place := mark
			for range 10 {
				var page coordinator.EventsResult
				page, errs[3] = b.Events(t.Context(), coordinator.EventsCall{Job: r.job, After: &place, Limit: 2})
				if errs[3] != nil || page.Gap {
					gap = page.Gap
					return
				}
				read = append(read, page.Events...)
				if len(page.Events) > 0 {
					place = page.Events[len(page.Events)-1].ID
				}
			}
		},
	)
	for _, err := range errs {
		r.check("a call of the race", err)
	}
	equal(t, "gap", gap, false)
	all := r.eventsAfter(mark)
	if diff := diffEvents(all[:min(len(all), len(read))], read); diff != "" {
		t.Errorf("what was read while the log grew (-want +got):\n%s", diff)
	}
	for i := range read {
		equal(t, "id of an event", read[i].ID, coordinator.EventID{Epoch: read[i].ID.Epoch, Seq: mark.Seq + int64(i) + 1})
	}
}
