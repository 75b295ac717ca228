package storetest

import (
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testIDs(t *testing.T, s suite) {
	s.rule(t, "the first id of a job is 0 and each later one is higher", func(t *testing.T, r *rig) {
		last := r.trigger()
		equal(t, "the first id", last.ID, 0)
		for range 5 {
			next := r.trigger()
			if next.ID <= last.ID {
				t.Errorf("id %d was given after %d", next.ID, last.ID)
			}
			last = next
		}
	})
	s.rule(t, "each job counts for itself", func(t *testing.T, r *rig) {
		r.trigger()
		r.trigger()
		equal(t, "the first id of another job", r.in("orders").trigger().ID, 0)
	})
	s.rule(t, "an id is not given again after its checkpoint was deleted", func(t *testing.T, r *rig) {
		r.trigger()
		highest := r.trigger().ID
		r.delete(highest)
		if next := r.trigger().ID; next <= highest {
			t.Errorf("id %d was given after the deletion of %d", next, highest)
		}
	})
	s.rule(t, "an id is not given again after everything was cleaned up and all servers restarted", func(t *testing.T, r *rig) {
		var highest int64
		for range 4 {
			highest = r.completed().ID
		}
		r.cleanup(0)
		r.reopen()
		if next := r.trigger().ID; next <= highest {
			t.Errorf("id %d was given after a cleanup of %d", next, highest)
		}
	})
	s.rule(t, "everything answered before a restart is there after it", func(t *testing.T, r *rig) {
		done := r.completed()
		pending := r.trigger(named("a", "b"), timeout(0))
		r.accept(pending.ID, "a", attempt(3))
		r.shared(pending.ID, "k", "1")
		r.recover("")
		other := r.in("orders").trigger()
		r.reopen()
		r.wantStatus(done.ID, coordinator.StatusCompleted)
		equal(t, "a pending one that a recovery aborted", r.get(pending.ID).Status, coordinator.StatusAborted)
		equal(t, "epoch", r.state().Epoch, 1)
		equal(t, "the status in another job", r.in("orders").get(other.ID).Status, coordinator.StatusPending)
		r.ackRefused(coordinator.CodeStaleAttempt, r.trigger().ID, "a", attempt(2))
	})
	s.rule(t, "a checkpoint that was pending at a restart is completed after it", func(t *testing.T, r *rig) {
		c := r.trigger(requires(3))
		r.accept(c.ID, "task-1", with(part("task-1", "k", "1")))
		r.shared(c.ID, "k", "2")
		r.upload(c.ID, "task-2", part("task-2", "k", "3"))
		r.reopen()
		r.accept(c.ID, "task-2")
		equal(t, "status after the last ack", r.accept(c.ID, "task-3").Status, coordinator.StatusCompleted)
		want := sharedLines("k", "2") + string(part("task-1", "k", "1").Content) + string(part("task-2", "k", "3").Content)
		equal(t, "the snapshot", r.restored(c.ID), want)
	})
	s.rule(t, "the shown timestamp never goes back although the clock does", func(t *testing.T, r *rig) {
		first := r.trigger()
		equal(t, "timestamp", first.Timestamp, r.clock.Now())
		r.clock.Advance(-ms(time.Hour))
		second := r.trigger()
		if second.Timestamp < first.Timestamp {
			t.Errorf("timestamp %d was given after %d", second.Timestamp, first.Timestamp)
		}
		equal(t, "the start that expiry counts from", second.Start, r.clock.Now())
	})
	s.rule(t, "latest is the highest completed id, whatever completed last", func(t *testing.T, r *rig) {
		first, second := r.trigger(), r.trigger()
		r.accept(second.ID, "task-1")
		r.clock.Advance(1000)
		r.accept(first.ID, "task-1")
		equal(t, "latest", r.get(coordinator.Latest).ID, second.ID)
		r.delete(second.ID)
		equal(t, "latest after the deletion", r.get(coordinator.Latest).ID, first.ID)
	})
	s.rule(t, "there is no latest before the first completion, and that has a refusal of its own", func(t *testing.T, r *rig) {
		r.getRefused(coordinator.CodeNoCompletedCheckpoint, coordinator.Latest)
		r.trigger()
		r.aborted()
		r.getRefused(coordinator.CodeNoCompletedCheckpoint, coordinator.Latest)
	})
	s.rule(t, "an id that was never given is not found, one that is gone is deleted", func(t *testing.T, r *rig) {
		r.getRefused(coordinator.CodeCheckpointNotFound, 0)
		c := r.trigger()
		r.getRefused(coordinator.CodeCheckpointNotFound, c.ID+1)
		r.getRefused(coordinator.CodeCheckpointNotFound, coordinator.MaxID)
		r.delete(c.ID)
		r.getRefused(coordinator.CodeCheckpointDeleted, c.ID)
	})
}
