package storetest

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testRetention(t *testing.T, s suite) {
	s.rule(t, "after each completion the newest completed ones are kept", func(t *testing.T, r *rig) {
		r.defaults.Keep = 2
		ids := r.completedTimes(4)
		r.wantIDs("the list", r.list(coordinator.ListCall{}), ids[3], ids[2])
		for _, id := range ids[:2] {
			r.getRefused(coordinator.CodeCheckpointDeleted, id)
			if why := r.seen.deletionOf(r.job, id); len(why) != 1 || why[0] != coordinator.DeletedByRetention {
				t.Errorf("reported deletions of %d = %q", id, why)
			}
		}
	})
	s.rule(t, "0 keeps all", func(t *testing.T, r *rig) {
		r.completedTimes(30)
		r.sweep()
		equal(t, "completed ones", len(r.list(coordinator.ListCall{})), 30)
	})
	s.rule(t, "newest is by id, whatever completed last", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		first, second := r.trigger(), r.trigger()
		r.accept(second.ID, "task-1")
		outcome := r.accept(first.ID, "task-1")
		equal(t, "status of the ack", outcome.Status, coordinator.StatusCompleted)
		r.wantIDs("the list", r.list(coordinator.ListCall{}), second.ID)
		r.getRefused(coordinator.CodeCheckpointDeleted, first.ID)
	})
	s.rule(t, "pinned ones are neither counted nor touched", func(t *testing.T, r *rig) {
		r.defaults.Keep = 2
		kept := r.completed(pinned())
		ids := r.completedTimes(3)
		r.pin(ids[2], true)
		more := r.completedTimes(2)
		r.wantIDs("the list", r.list(coordinator.ListCall{}), more[1], more[0], ids[2], kept.ID)
	})
	s.rule(t, "unpinning evicts nothing at once, the next completion does", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		old := r.completed(pinned())
		r.completed()
		r.pin(old.ID, false)
		r.wantStatus(old.ID, coordinator.StatusCompleted)
		r.completed()
		r.getRefused(coordinator.CodeCheckpointDeleted, old.ID)
	})
	s.rule(t, "pending and failed ones are neither counted nor touched", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		open, gone := r.trigger(requires(2)), r.aborted()
		r.completed()
		last := r.completed()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), last.ID, gone.ID, open.ID)
	})
	s.rule(t, "a leased one waits, and the sweeper takes it when the lease is over", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		old := r.completed()
		source := r.openRestore(r.restoreCall(old.ID))
		next := r.completed()
		last := r.completed()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), last.ID, old.ID)
		r.getRefused(coordinator.CodeCheckpointDeleted, next.ID)
		r.sweep()
		r.wantStatus(old.ID, coordinator.StatusCompleted)
		r.check("release", source.Release(t.Context()))
		r.sweep()
		r.getRefused(coordinator.CodeCheckpointDeleted, old.ID)
		r.wantStatus(last.ID, coordinator.StatusCompleted)
	})
	s.rule(t, "the latest completed one always survives", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		c := r.completed()
		for range 3 {
			r.aborted()
			r.sweep()
		}
		equal(t, "latest", r.get(coordinator.Latest).ID, c.ID)
	})
	s.rule(t, "each job is kept for itself", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		c := r.completed()
		orders := r.in("orders")
		orders.completed()
		orders.completed()
		r.wantStatus(c.ID, coordinator.StatusCompleted)
		equal(t, "completed ones of the other job", len(orders.list(coordinator.ListCall{})), 1)
	})
	s.rule(t, "a smaller number takes all that are too many", func(t *testing.T, r *rig) {
		r.completedTimes(150)
		r.defaults.Keep = 2
		ids := r.completedTimes(1)
		for range 3 {
			r.sweep()
		}
		got := r.list(coordinator.ListCall{})
		equal(t, "completed ones left", len(got), 2)
		equal(t, "the newest", got[0], ids[0])
	})
}
