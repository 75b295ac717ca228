package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testCleanup(t *testing.T, s suite) {
	s.rule(t, "those that did not complete go first, then completed ones, each oldest first", func(t *testing.T, r *rig) {
		one := r.completed()
		open := r.trigger(requires(2))
		two := r.completed()
		gone := r.aborted()
		three := r.completed()
		late := r.trigger(timeout(10))
		r.clock.Advance(11)
		result := r.cleanup(2)
		r.wantIDs("deleted", result.Deleted, open.ID, gone.ID, late.ID, one.ID)
		r.wantIDs("skipped", result.Skipped)
		equal(t, "kept", result.Kept, 2)
		equal(t, "more", result.More, false)
		r.wantIDs("the list", r.list(coordinator.ListCall{}), three.ID, two.ID)
		for _, id := range result.Deleted {
			r.getRefused(coordinator.CodeCheckpointDeleted, id)
			if why := r.seen.deletionOf(r.job, id); len(why) != 1 || why[0] != coordinator.DeletedByCleanup {
				t.Errorf("reported deletions of %d = %q", id, why)
			}
		}
	})
	s.rule(t, "an evicted pending one ends as aborted, evicted", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		r.accept(c.ID, "task-1", with(part("task-1", "k", "1")))
		r.clock.Advance(7)
		r.cleanup(0)
		want := []coordinator.Transition{{Job: r.job, ID: c.ID, Status: coordinator.StatusAborted, Reason: coordinator.ReasonEvicted, DurationMs: 7, AcknowledgedTasks: 1}}
		if diff := cmp.Diff(want, r.seen.endOf(r.job, c.ID)); diff != "" {
			t.Errorf("reported ends (-want +got):\n%s", diff)
		}
		_, err := r.store.Acknowledge(t.Context(), r.ackCall(c.ID, item("task-2")))
		r.refused(err, coordinator.CodeCheckpointDeleted)
		equal(t, "pending", r.state().Pending, 0)
	})
	s.rule(t, "a pending one past its deadline ends as expired before it goes", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(10))
		r.clock.Advance(11)
		r.cleanup(0)
		ends := r.seen.endOf(r.job, c.ID)
		if len(ends) != 1 || ends[0].Status != coordinator.StatusExpired {
			t.Errorf("reported ends = %+v, want one as expired", ends)
		}
	})
	s.rule(t, "enough survivors leave all as it is", func(t *testing.T, r *rig) {
		r.completed()
		open := r.trigger()
		result := r.cleanup(2)
		r.wantIDs("deleted", result.Deleted)
		equal(t, "kept", result.Kept, 2)
		r.wantStatus(open.ID, coordinator.StatusPending)
		equal(t, "kept of more than there are", r.cleanup(100).Kept, 2)
	})
	s.rule(t, "keep 0 may remove the latest", func(t *testing.T, r *rig) {
		c := r.completed()
		r.wantIDs("deleted", r.cleanup(0).Deleted, c.ID)
		r.getRefused(coordinator.CodeNoCompletedCheckpoint, coordinator.Latest)
	})
	s.rule(t, "pinned ones are neither counted nor touched, in any status", func(t *testing.T, r *rig) {
		done, open, gone := r.completed(pinned()), r.trigger(pinned()), r.aborted(pinned())
		plain := r.completed()
		result := r.cleanup(1)
		r.wantIDs("deleted", result.Deleted)
		equal(t, "kept", result.Kept, 1)
		r.wantIDs("deleted with keep 0", r.cleanup(0).Deleted, plain.ID)
		r.wantIDs("the list", r.list(coordinator.ListCall{}), gone.ID, open.ID, done.ID)
		r.wantStatus(open.ID, coordinator.StatusPending)
	})
	s.rule(t, "leased ones are skipped and named, and count among the survivors", func(t *testing.T, r *rig) {
		ids := r.completedTimes(5)
		r.openRestore(r.restoreCall(ids[0]))
		r.openRestore(r.restoreCall(ids[2]))
		result := r.cleanup(3)
		r.wantIDs("deleted", result.Deleted, ids[1], ids[3])
		r.wantIDs("skipped", result.Skipped, ids[0], ids[2])
		equal(t, "kept", result.Kept, 3)
		result = r.cleanup(0)
		r.wantIDs("deleted with keep 0", result.Deleted, ids[4])
		r.wantIDs("skipped with keep 0", result.Skipped, ids[0], ids[2])
		equal(t, "kept with keep 0", result.Kept, 2)
		equal(t, "more", result.More, false)
	})
	s.rule(t, "only keep 0 takes the latest, also where leases hold all places", func(t *testing.T, r *rig) {
		ids := r.completedTimes(3)
		r.openRestore(r.restoreCall(ids[0]))
		result := r.cleanup(1)
		r.wantIDs("deleted", result.Deleted, ids[1])
		r.wantIDs("skipped", result.Skipped, ids[0])
		equal(t, "kept", result.Kept, 2)
		equal(t, "more", result.More, false)
		equal(t, "latest", r.get(coordinator.Latest).ID, ids[2])
	})
	s.rule(t, "a dry run says what would go and changes nothing", func(t *testing.T, r *rig) {
		ids := r.completedTimes(3)
		open := r.trigger()
		late := r.trigger(timeout(10))
		r.clock.Advance(11)
		r.openRestore(r.restoreCall(ids[0]))
		result, err := r.store.Cleanup(t.Context(), coordinator.CleanupCall{Job: r.job, Keep: 2, DryRun: true, Max: coordinator.MaxCleanupAnswer})
		r.check("dry run", err)
		r.wantIDs("would go", result.Deleted, open.ID, late.ID, ids[1])
		r.wantIDs("would be skipped", result.Skipped, ids[0])
		equal(t, "would be kept", result.Kept, 2)
		r.wantStatus(open.ID, coordinator.StatusPending)
		equal(t, "checkpoints", len(r.list(coordinator.ListCall{})), 5)
		done := r.cleanup(2)
		r.wantIDs("deleted", done.Deleted, result.Deleted...)
	})
	s.rule(t, "work goes in bounded steps until there is no more", func(t *testing.T, r *rig) {
		ids := r.completedTimes(130)
		first := r.cleanup(5)
		r.wantIDs("deleted first", first.Deleted, ids[:coordinator.CleanupStep]...)
		equal(t, "more", first.More, true)
		second := r.cleanup(5)
		r.wantIDs("deleted second", second.Deleted, ids[coordinator.CleanupStep:125]...)
		equal(t, "more", second.More, false)
		equal(t, "kept", second.Kept, 5)
	})
	s.rule(t, "a step asks for fewer than it may", func(t *testing.T, r *rig) {
		ids := r.completedTimes(4)
		result, err := r.store.Cleanup(t.Context(), coordinator.CleanupCall{Job: r.job, Keep: 1, Max: 2})
		r.check("cleanup", err)
		r.wantIDs("deleted", result.Deleted, ids[:2]...)
		equal(t, "more", result.More, true)
	})
	s.rule(t, "another job is not touched", func(t *testing.T, r *rig) {
		c := r.completed()
		r.in("orders").completed()
		r.in("orders").cleanup(0)
		r.wantStatus(c.ID, coordinator.StatusCompleted)
	})
}
