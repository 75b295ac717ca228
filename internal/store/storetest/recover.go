package storetest

import (
	"slices"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testRecover(t *testing.T, s suite) {
	s.rule(t, "it aborts all pendings as superseded, raises the epoch, and names the latest completed", func(t *testing.T, r *rig) {
		r.completed()
		done := r.completed()
		one, two := r.trigger(requires(2)), r.trigger(timeout(0))
		r.accept(one.ID, "task-1", with(part("task-1", "k", "1")))
		gone := r.aborted()
		result := r.recover("")
		equal(t, "epoch", result.Epoch, 1)
		equal(t, "repeated", result.Repeated, false)
		if result.Checkpoint == nil || result.Checkpoint.ID != done.ID {
			t.Fatalf("checkpoint = %+v, want %d", result.Checkpoint, done.ID)
		}
		equal(t, "status", result.Checkpoint.Status, coordinator.StatusCompleted)
		ended := slices.Sorted(slices.Values(result.Ended))
		r.wantIDs("ended", ended, one.ID, two.ID)
		for _, id := range ended {
			got := r.get(id)
			equal(t, "status", got.Status, coordinator.StatusAborted)
			equal(t, "reason", got.Failure.Reason, coordinator.ReasonSuperseded)
			ends := r.seen.endOf(r.job, id)
			if len(ends) != 1 || ends[0].Reason != coordinator.ReasonSuperseded {
				t.Errorf("reported ends of %d = %+v", id, ends)
			}
		}
		equal(t, "the reason of one aborted before", r.get(gone.ID).Failure.Reason, coordinator.ReasonAborted)
		r.ackRefused(coordinator.CodeCheckpointAborted, one.ID, "task-2")
		r.ackRefused(coordinator.CodeStaleEpoch, one.ID, "task-2", epoch(0))
	})
	s.rule(t, "pendings past their deadline end as expired", func(t *testing.T, r *rig) {
		late, open := r.trigger(timeout(10)), r.trigger(timeout(1000))
		r.clock.Advance(11)
		result := r.recover("")
		r.wantIDs("ended", slices.Sorted(slices.Values(result.Ended)), late.ID, open.ID)
		r.wantStatus(late.ID, coordinator.StatusExpired)
		r.wantStatus(open.ID, coordinator.StatusAborted)
	})
	s.rule(t, "no checkpoint means that there truly is none yet", func(t *testing.T, r *rig) {
		r.aborted()
		r.trigger()
		result := r.recover("")
		if result.Checkpoint != nil {
			t.Errorf("checkpoint = %+v, want none", result.Checkpoint)
		}
		equal(t, "epoch", result.Epoch, 1)
	})
	s.rule(t, "it makes a job that is new", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		orders.getRefused(coordinator.CodeJobNotFound, 0)
		equal(t, "epoch", orders.recover("").Epoch, 1)
		orders.getRefused(coordinator.CodeCheckpointNotFound, 0)
		equal(t, "epoch of the first checkpoint", orders.trigger().Epoch, 1)
		equal(t, "epoch of another job", r.state().Epoch, 0)
	})
	s.rule(t, "with one key every worker gets the same epoch and checkpoint, whatever happens meanwhile", func(t *testing.T, r *rig) {
		done := r.completed()
		first := r.recover("crash-1")
		r.completed()
		pending := r.trigger()
		r.reopen()
		for range 2 {
			again := r.recover("crash-1")
			equal(t, "repeated", again.Repeated, true)
			equal(t, "epoch", again.Epoch, first.Epoch)
			if again.Checkpoint == nil || again.Checkpoint.ID != done.ID {
				t.Errorf("checkpoint = %+v, want %d", again.Checkpoint, done.ID)
			}
		}
		r.wantStatus(pending.ID, coordinator.StatusPending)
		equal(t, "the job's epoch", r.state().Epoch, 1)
	})
	s.rule(t, "a key of an earlier crash keeps its epoch after a later one", func(t *testing.T, r *rig) {
		r.completed()
		r.recover("crash-1")
		equal(t, "epoch", r.recover("crash-2").Epoch, 2)
		equal(t, "epoch of the earlier crash", r.recover("crash-1").Epoch, 1)
	})
	s.rule(t, "with one key nothing yet stays nothing", func(t *testing.T, r *rig) {
		r.recover("crash-1")
		r.completed()
		if again := r.recover("crash-1"); again.Checkpoint != nil {
			t.Errorf("checkpoint = %+v, want none, as the first worker was told", again.Checkpoint)
		}
	})
	s.rule(t, "a key whose checkpoint is gone says so", func(t *testing.T, r *rig) {
		done := r.completed()
		r.recover("crash-1")
		r.delete(done.ID)
		_, err := r.store.Recover(t.Context(), r.recoverCall("crash-1"))
		r.refused(err, coordinator.CodeIdempotencyTargetDeleted)
		equal(t, "epoch", r.state().Epoch, 1)
	})
	s.rule(t, "a key with another body is refused", func(t *testing.T, r *rig) {
		r.recover("crash-1")
		call := r.recoverCall("crash-1")
		call.Fingerprint = "another"
		_, err := r.store.Recover(t.Context(), call)
		r.refused(err, coordinator.CodeIdempotencyKeyReused)
		equal(t, "epoch", r.state().Epoch, 1)
	})
	s.rule(t, "its checkpoint is held against cleanup and retention for the time of the lease", func(t *testing.T, r *rig) {
		done := r.completed()
		r.recover("")
		r.defaults.Keep = 1
		r.completed()
		result := r.cleanup(0)
		r.wantIDs("skipped", result.Skipped, done.ID)
		r.clock.Advance(recoveryLease - 1)
		r.sweep()
		r.wantStatus(done.ID, coordinator.StatusCompleted)
		r.clock.Advance(2)
		r.wantIDs("deleted after the lease", r.cleanup(0).Deleted, done.ID)
	})
	s.rule(t, "each worker that asks with the key begins the lease anew, since it is about to restore", func(t *testing.T, r *rig) {
		done := r.completed()
		r.recover("crash-1")
		r.clock.Advance(recoveryLease - 1)
		r.recover("crash-1")
		r.clock.Advance(recoveryLease - 1)
		r.wantIDs("skipped", r.cleanup(0).Skipped, done.ID)
		r.clock.Advance(2)
		r.wantIDs("deleted after the lease", r.cleanup(0).Deleted, done.ID)
	})
	s.rule(t, "uploads and writes of before the recovery come too late", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		p := bigPart("task-1", 2*coordinator.ChunkBytes)
		upload := r.begin(c.ID, "task-1", p)
		r.shared(c.ID, "k", "1")
		r.recover("")
		equal(t, "refusal", r.commitCode(upload, p, true), coordinator.CodeCheckpointAborted)
		r.check("discard", upload.Discard(t.Context()))
		_, err := r.single(c.ID, coordinator.SharedPut, "k", "2", coordinator.Precondition{})
		r.refused(err, coordinator.CodeCheckpointAborted)
	})
}
