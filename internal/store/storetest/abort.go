package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testAbort(t *testing.T, s suite) {
	s.rule(t, "an abort ends a pending checkpoint and keeps the caller's words", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		r.accept(c.ID, "task-1")
		r.clock.Advance(30)
		got, err := r.store.Abort(t.Context(), coordinator.AbortCall{Job: r.job, ID: c.ID, Message: "disk \"full\"\n", Token: r.token()})
		r.check("abort", err)
		equal(t, "status", got.Status, coordinator.StatusAborted)
		equal(t, "end", got.EndedAt, r.clock.Now())
		want := &coordinator.Failure{Reason: coordinator.ReasonAborted, Message: "disk \"full\"\n"}
		if diff := cmp.Diff(want, got.Failure); diff != "" {
			t.Errorf("failure (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, r.get(c.ID).Failure); diff != "" {
			t.Errorf("failure as read (-want +got):\n%s", diff)
		}
		ends := []coordinator.Transition{{Job: r.job, ID: c.ID, Status: coordinator.StatusAborted, Reason: coordinator.ReasonAborted, DurationMs: 30, AcknowledgedTasks: 1}}
		if diff := cmp.Diff(ends, r.seen.endOf(r.job, c.ID)); diff != "" {
			t.Errorf("reported ends (-want +got):\n%s", diff)
		}
	})
	s.rule(t, "a task's abort is a decline that names it", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b"))
		got, err := r.store.Abort(t.Context(), coordinator.AbortCall{Job: r.job, ID: c.ID, TaskID: "a", Message: "busy", Token: r.token()})
		r.check("decline", err)
		want := &coordinator.Failure{Reason: coordinator.ReasonDeclined, TaskID: "a", Message: "busy"}
		if diff := cmp.Diff(want, got.Failure); diff != "" {
			t.Errorf("failure (-want +got):\n%s", diff)
		}
	})
	s.rule(t, "a decline is checked like an ack, and raises the attempt like one", func(t *testing.T, r *rig) {
		decline := func(id int64, task string, attempt int64, epoch *int64) error {
			_, err := r.store.Abort(t.Context(), coordinator.AbortCall{Job: r.job, ID: id, TaskID: task, Attempt: attempt, Epoch: epoch, Token: r.token()})
			return err
		}
		c := r.trigger(named("a", "b"))
		r.accept(c.ID, "a", attempt(2))
		r.refused(decline(c.ID, "stranger", 0, nil), coordinator.CodeTaskNotExpected)
		r.refused(decline(c.ID, "b", 0, new(int64(1))), coordinator.CodeStaleEpoch)
		r.refused(decline(c.ID, "a", 1, nil), coordinator.CodeStaleAttempt)
		r.wantStatus(c.ID, coordinator.StatusPending)
		r.check("decline", decline(c.ID, "b", 7, new(int64(0))))
		r.ackRefused(coordinator.CodeStaleAttempt, r.trigger().ID, "b", attempt(6))
	})
	s.rule(t, "a given epoch is checked of any abort", func(t *testing.T, r *rig) {
		c := r.trigger()
		_, err := r.store.Abort(t.Context(), coordinator.AbortCall{Job: r.job, ID: c.ID, Epoch: new(int64(3)), Token: r.token()})
		r.refused(err, coordinator.CodeStaleEpoch)
		r.wantStatus(c.ID, coordinator.StatusPending)
	})
	s.rule(t, "an aborted one stays as it is", func(t *testing.T, r *rig) {
		c := r.trigger()
		first, err := r.store.Abort(t.Context(), coordinator.AbortCall{Job: r.job, ID: c.ID, Message: "first", Token: r.token()})
		r.check("abort", err)
		second, err := r.store.Abort(t.Context(), coordinator.AbortCall{Job: r.job, ID: c.ID, Message: "second", Token: r.token()})
		r.check("abort again", err)
		wantSame(t, first, second)
	})
	s.rule(t, "a completed or expired one cannot be aborted", func(t *testing.T, r *rig) {
		done, late := r.completed(), r.trigger(timeout(10))
		r.clock.Advance(11)
		_, err := r.store.Abort(t.Context(), coordinator.AbortCall{Job: r.job, ID: done.ID, Token: r.token()})
		r.refused(err, coordinator.CodeCheckpointCompleted)
		_, err = r.store.Abort(t.Context(), coordinator.AbortCall{Job: r.job, ID: late.ID, Token: r.token()})
		r.refused(err, coordinator.CodeCheckpointExpired)
		r.wantStatus(done.ID, coordinator.StatusCompleted)
	})
	s.rule(t, "parts and shared state go at once, record and acks stay", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b", "c"))
		p := bigPart("a", 2*coordinator.ChunkBytes)
		r.upload(c.ID, "a", p)
		r.accept(c.ID, "a")
		r.upload(c.ID, "b", bigPart("b", 2*coordinator.ChunkBytes))
		r.shared(c.ID, "k", "1")
		r.abort(c.ID)
		_, err := r.store.SharedState(t.Context(), r.ref(c.ID))
		r.refused(err, coordinator.CodeCheckpointAborted)
		_, err = r.store.SharedEntry(t.Context(), r.ref(c.ID), "k")
		r.refused(err, coordinator.CodeCheckpointAborted)
		_, err = r.store.OpenRestore(t.Context(), r.restoreCall(c.ID))
		r.refused(err, coordinator.CodeCheckpointNotCompleted)
		got := r.get(c.ID)
		equal(t, "acknowledged", got.AcknowledgedTasks, 1)
		if len(got.Acks) != 1 || got.Acks[0].TaskID != "a" || got.Acks[0].Part != info(p) {
			t.Errorf("acks = %+v", got.Acks)
		}
		if diff := cmp.Diff([]string{"b", "c"}, got.MissingTasks); diff != "" {
			t.Errorf("missing (-want +got):\n%s", diff)
		}
	})
	s.rule(t, "of checkpoints that ended uncompleted the newest records stay", func(t *testing.T, r *rig) {
		done := r.completed()
		kept := r.aborted(pinned())
		var ids []int64
		for i := range coordinator.EndedKept + 3 {
			c := r.trigger(timeout(1000), requires(2))
			r.accept(c.ID, "task-1", with(part("task-1", "k", "1")))
			if i%2 == 0 {
				r.abort(c.ID)
			} else {
				r.clock.Advance(1001)
				r.sweep()
			}
			ids = append(ids, c.ID)
		}
		for i, id := range ids {
			if i < 3 {
				r.getRefused(coordinator.CodeCheckpointDeleted, id)
			} else {
				equal(t, "acks kept", len(r.get(id).Acks), 1)
			}
		}
		r.wantStatus(kept.ID, coordinator.StatusAborted)
		r.wantStatus(done.ID, coordinator.StatusCompleted)
	})
}
