package storetest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// testEventsBy is about who asked for what a job's log tells of.
func testEventsBy(t *testing.T, rule func(*testing.T, string, func(*testing.T, *rig))) {
	t.Helper()
	rule(t, "each event names who asked for the change, and nobody for what workers, time and retention bring about", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		ctx := t.Context()
		triggered := func(by string, options ...triggerOption) int64 {
			call := r.triggerCall(options...)
			call.By = by
			result, err := r.store.Trigger(ctx, call)
			r.check("trigger", err)
			return result.Checkpoint.ID
		}
		first := triggered("ann")
		r.accept(first, "task-1")
		second := triggered("")
		complete := r.completeCall(second, true)
		complete.By = "ben"
		_, err := r.store.Complete(ctx, complete)
		r.check("complete", err)
		_, err = r.store.Update(ctx, coordinator.UpdateCall{Job: r.job, ID: second, Pinned: new(true), By: "cat"})
		r.check("update", err)
		triggered("dan", timeout(10))
		r.clock.Advance(11)
		aborted := triggered("dan")
		_, err = r.store.Abort(ctx, coordinator.AbortCall{Job: r.job, ID: aborted, Token: r.token(), By: "eve"})
		r.check("abort", err)
		triggered("dan")
		recovery := r.recoverCall("")
		recovery.By = "fay"
		_, err = r.store.Recover(ctx, recovery)
		r.check("recover", err)
		r.wantBy(t, coordinator.EventID{},
			"checkpoint.triggered 0 ann", "checkpoint.completed 0 ",
			"checkpoint.triggered 1 ", "checkpoint.completed 1 ben", "checkpoint.deleted 0 ",
			"checkpoint.updated 1 cat", "checkpoint.triggered 2 dan",
			"checkpoint.expired 2 ", "checkpoint.triggered 3 dan", "checkpoint.aborted 3 eve",
			"checkpoint.triggered 4 dan", "checkpoint.aborted 4 fay", "job.recovered_epoch 1 fay")

		mark := r.position()
		pending := triggered("")
		r.check("delete", r.store.Delete(ctx, coordinator.DeleteCall{Job: r.job, ID: pending, By: "gus"}))
		_, err = r.store.Cleanup(ctx, coordinator.CleanupCall{Job: r.job, Max: coordinator.CleanupStep, By: "hal"})
		r.check("cleanup", err)
		put := r.putCall(coordinator.JobSettings{Paused: true})
		put.By = "ida"
		_, err = r.store.PutJob(ctx, put)
		r.check("put job", err)
		deletion := r.deleteJobCall(true)
		deletion.By = "jan"
		_, err = r.store.DeleteJob(ctx, deletion)
		r.check("delete job", err)
		r.wantBy(t, mark,
			"checkpoint.triggered 5 ", "checkpoint.aborted 5 gus", "checkpoint.deleted 5 gus",
			"checkpoint.deleted 2 hal", "checkpoint.deleted 3 hal", "checkpoint.deleted 4 hal",
			"job.configured -1 ida", "checkpoint.deleted 1 jan", "job.deleted -1 jan")
	})
	rule(t, "a call that finds what another one made does not put its own name there", func(t *testing.T, r *rig) {
		for _, by := range []string{"ann", "ben"} {
			call := r.triggerCall(withKey("k", "body"))
			call.By = by
			_, err := r.store.Trigger(t.Context(), call)
			r.check("trigger", err)
			recovery := r.recoverCall("crash")
			recovery.By = by
			_, err = r.store.Recover(t.Context(), recovery)
			r.check("recover", err)
		}
		r.wantBy(t, coordinator.EventID{}, "checkpoint.triggered 0 ann", "checkpoint.aborted 0 ann", "job.recovered_epoch -1 ann")
	})
}

// wantBy checks what stands behind a place in the job's log, and who asked for it.
func (r *rig) wantBy(t *testing.T, place coordinator.EventID, want ...string) {
	t.Helper()
	var got []string
	for _, e := range r.eventsAfter(place) {
		got = append(got, fmt.Sprintf("%s %s", kind(e.Type, e.CheckpointID), e.By))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events and who asked for them (-want +got):\n%s", diff)
	}
}
