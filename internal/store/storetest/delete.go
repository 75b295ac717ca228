package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testDelete(t *testing.T, s suite) {
	s.rule(t, "a deleted checkpoint is gone for every reader", func(t *testing.T, r *rig) {
		c, other := r.completed(), r.completed()
		r.delete(c.ID)
		r.getRefused(coordinator.CodeCheckpointDeleted, c.ID)
		_, err := r.store.SharedState(t.Context(), r.ref(c.ID))
		r.refused(err, coordinator.CodeCheckpointDeleted)
		_, err = r.store.Tasks(t.Context(), coordinator.TasksCall{Ref: r.ref(c.ID), Limit: 10})
		r.refused(err, coordinator.CodeCheckpointDeleted)
		r.wantIDs("the list", r.list(coordinator.ListCall{}), other.ID)
		if why := r.seen.deletionOf(r.job, c.ID); len(why) != 1 || why[0] != coordinator.DeletedByRequest {
			t.Errorf("reported deletions = %q", why)
		}
	})
	s.rule(t, "a second deletion says that it is gone, one of an unknown id that there is none", func(t *testing.T, r *rig) {
		c := r.completed()
		r.delete(c.ID)
		r.refused(r.store.Delete(t.Context(), coordinator.DeleteCall{Job: r.job, ID: c.ID}), coordinator.CodeCheckpointDeleted)
		r.refused(r.store.Delete(t.Context(), coordinator.DeleteCall{Job: r.job, ID: c.ID + 1}), coordinator.CodeCheckpointNotFound)
	})
	s.rule(t, "a pending one is aborted and removed", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		r.upload(c.ID, "task-1", bigPart("task-1", 2*coordinator.ChunkBytes))
		r.accept(c.ID, "task-1")
		r.shared(c.ID, "k", "1")
		r.delete(c.ID)
		want := []coordinator.Transition{{Job: r.job, ID: c.ID, Status: coordinator.StatusAborted, Reason: coordinator.ReasonAborted, AcknowledgedTasks: 1}}
		if diff := cmp.Diff(want, r.seen.endOf(r.job, c.ID)); diff != "" {
			t.Errorf("reported ends (-want +got):\n%s", diff)
		}
		equal(t, "pending", r.state().Pending, 0)
	})
	s.rule(t, "a pinned one goes by force only", func(t *testing.T, r *rig) {
		c := r.completed(pinned())
		r.refused(r.store.Delete(t.Context(), coordinator.DeleteCall{Job: r.job, ID: c.ID}), coordinator.CodePinned)
		r.wantStatus(c.ID, coordinator.StatusCompleted)
		r.check("forced deletion", r.store.Delete(t.Context(), coordinator.DeleteCall{Job: r.job, ID: c.ID, Force: true}))
		r.getRefused(coordinator.CodeCheckpointDeleted, c.ID)
	})
	s.rule(t, "a precondition goes by the entity tag", func(t *testing.T, r *rig) {
		c := r.completed()
		err := r.store.Delete(t.Context(), coordinator.DeleteCall{Job: r.job, ID: c.ID, If: coordinator.Precondition{IfMatch: []string{c.Tag()}}})
		r.refused(err, coordinator.CodePreconditionFailed)
		tag := r.tag(c.ID)
		r.check("deletion with the tag", r.store.Delete(t.Context(), coordinator.DeleteCall{Job: r.job, ID: c.ID, If: coordinator.Precondition{IfMatch: []string{tag}}}))
	})
	s.rule(t, "a leased one can be deleted, unlike cleaned up", func(t *testing.T, r *rig) {
		c := r.completed()
		r.openRestore(r.restoreCall(c.ID))
		r.delete(c.ID)
		r.getRefused(coordinator.CodeCheckpointDeleted, c.ID)
	})
	s.rule(t, "nothing of it comes back with a later id", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b"))
		r.shared(c.ID, "k", "1")
		r.accept(c.ID, "a", with(part("a", "k", "1")))
		r.delete(c.ID)
		next := r.trigger(requires(2))
		equal(t, "acknowledged", r.get(next.ID).AcknowledgedTasks, 0)
		r.wantShared(next.ID)
	})
}
