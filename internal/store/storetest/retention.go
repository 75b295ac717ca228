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
		r.completedAtOnce(150)
		r.defaults.Keep = 2
		ids := r.completedTimes(1)
		for range 3 {
			r.sweep()
		}
		got := r.list(coordinator.ListCall{})
		equal(t, "completed ones left", len(got), 2)
		equal(t, "the newest", got[0], ids[0])
	})
	s.rule(t, "ids are numbers: of 9, 10, 11 and 100 the newest two are 11 and 100, and a pinned one of old stays", func(t *testing.T, r *rig) {
		kept := r.completed(pinned())
		until := func(id int64) {
			for r.state().NextID < id {
				r.delete(r.trigger().ID)
			}
			if next := r.state().NextID; next != id {
				t.Skipf("this storage gives %d after an id below %d", next, id)
			}
		}
		until(9)
		r.completedTimes(3)
		until(100)
		r.defaults.Keep = 2
		r.completed()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), 100, 11, kept.ID)
	})
	s.rule(t, "after a restart with a smaller number the sweeper takes what is too many, no pending and no pinned one", func(t *testing.T, r *rig) {
		kept, open := r.completed(pinned()), r.trigger(timeout(0))
		ids := r.completedTimes(4)
		gone := r.aborted()
		r.defaults.Keep = 1
		r.reopen()
		r.sweep()
		r.wantIDs("the list", r.list(coordinator.ListCall{}), gone.ID, ids[3], open.ID, kept.ID)
	})
	s.rule(t, "the job's own number comes before the server's, 0 too", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		all, two := r.in("all"), r.in("two")
		all.putJob(coordinator.JobSettings{Keep: new(0)})
		two.putJob(coordinator.JobSettings{Keep: new(2)})
		for _, job := range []*rig{r, all, two} {
			job.completedTimes(3)
			job.complete(job.trigger().ID, true)
		}
		equal(t, "kept by the server's number", len(r.list(coordinator.ListCall{})), 1)
		equal(t, "kept of all", len(all.list(coordinator.ListCall{})), 4)
		equal(t, "kept of two", len(two.list(coordinator.ListCall{})), 2)
		all.putJob(coordinator.JobSettings{})
		two.putJob(coordinator.JobSettings{Keep: new(1)})
		equal(t, "kept right after a put", len(two.list(coordinator.ListCall{})), 2)
		r.sweep()
		equal(t, "kept of all, swept", len(all.list(coordinator.ListCall{})), 1)
		equal(t, "kept of two, swept", len(two.list(coordinator.ListCall{})), 1)
	})
	s.rule(t, "a leased one blocks no other from going, and takes no newer one's place", func(t *testing.T, r *rig) {
		r.defaults.Keep = 2
		ids := r.completedTimes(2)
		r.openRestore(r.restoreCall(ids[0]))
		ids = append(ids, r.completedTimes(3)...)
		r.wantIDs("the list", r.list(coordinator.ListCall{}), ids[4], ids[3], ids[0])
	})
}
