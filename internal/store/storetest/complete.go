package storetest

import (
	"errors"
	"slices"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testComplete(t *testing.T, s suite) {
	s.rule(t, "missing acks refuse, with how many and the first names", func(t *testing.T, r *rig) {
		tasks := names(30)
		c := r.trigger(named(tasks...))
		r.accept(c.ID, tasks[0])
		_, err := r.store.Complete(t.Context(), r.completeCall(c.ID, false))
		r.refused(err, coordinator.CodeAcksMissing)
		refusal, ok := errors.AsType[*coordinator.Error](err)
		if !ok {
			t.Fatalf("%v is no refusal", err)
		}
		equal(t, "missing", refusal.Missing, 29)
		if want := tasks[1 : 1+coordinator.MissingTasksShown]; !slices.Equal(refusal.MissingTasks, want) {
			t.Errorf("missing names = %q, want %q", refusal.MissingTasks, want)
		}
		r.wantStatus(c.ID, coordinator.StatusPending)
	})
	s.rule(t, "without named tasks only the number is known", func(t *testing.T, r *rig) {
		c := r.trigger(requires(3))
		r.accept(c.ID, "task-1")
		_, err := r.store.Complete(t.Context(), r.completeCall(c.ID, false))
		r.refused(err, coordinator.CodeAcksMissing)
		if refusal, ok := errors.AsType[*coordinator.Error](err); !ok || refusal.Missing != 2 || len(refusal.MissingTasks) != 0 {
			t.Errorf("the refusal is %+v, want 2 missing and no names", err)
		}
	})
	s.rule(t, "force completes with what was acknowledged", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b"))
		p := part("a", "k", "1")
		r.accept(c.ID, "a", with(p))
		r.shared(c.ID, "s", "2")
		got := r.complete(c.ID, true)
		equal(t, "status", got.Status, coordinator.StatusCompleted)
		equal(t, "acknowledged", got.AcknowledgedTasks, 1)
		equal(t, "required", got.RequiredTaskAcks, 2)
		equal(t, "entries", got.Entries, 2)
		equal(t, "the snapshot", r.restored(c.ID), sharedLines("s", "2")+string(p.Content))
		r.ackRefused(coordinator.CodeCheckpointCompleted, c.ID, "b")
	})
	s.rule(t, "force completes with no ack at all", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		equal(t, "status", r.complete(c.ID, true).Status, coordinator.StatusCompleted)
		equal(t, "the snapshot", r.restored(c.ID), "")
		equal(t, "latest", r.get(coordinator.Latest).ID, c.ID)
	})
	s.rule(t, "a completed one stays as it is", func(t *testing.T, r *rig) {
		c := r.completed()
		before := r.get(c.ID)
		r.clock.Advance(10)
		r.complete(c.ID, false)
		r.complete(c.ID, true)
		after := r.get(c.ID)
		after.ObservedAt = before.ObservedAt
		wantSame(t, before, after)
		equal(t, "reported ends", len(r.seen.endOf(r.job, c.ID)), 1)
	})
	s.rule(t, "an ended one cannot be completed, not even by force", func(t *testing.T, r *rig) {
		gone, late := r.aborted(), r.trigger(timeout(10))
		r.clock.Advance(11)
		for _, force := range []bool{false, true} {
			_, err := r.store.Complete(t.Context(), r.completeCall(gone.ID, force))
			r.refused(err, coordinator.CodeCheckpointAborted)
			_, err = r.store.Complete(t.Context(), r.completeCall(late.ID, force))
			r.refused(err, coordinator.CodeCheckpointExpired)
		}
	})
	s.rule(t, "completing by hand applies retention too", func(t *testing.T, r *rig) {
		r.defaults.Keep = 1
		first := r.completed()
		r.complete(r.trigger(requires(2)).ID, true)
		r.getRefused(coordinator.CodeCheckpointDeleted, first.ID)
	})
}
