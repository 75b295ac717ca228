package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// The rules of this file are what makes a call repeatable whose reply was lost: the
// store is sent the same call, same token, a second time.
func testRepeat(t *testing.T, s suite) {
	rule := func(t *testing.T, sentence string, body func(*testing.T, *rig)) {
		t.Helper()
		s.rule(t, sentence, func(t *testing.T, r *rig) {
			r.resent = true
			body(t, r)
		})
	}
	rule(t, "a trigger that was sent twice made one checkpoint", func(t *testing.T, r *rig) {
		call := r.triggerCall(named(names(3)...))
		first, err := r.store.Trigger(t.Context(), call)
		r.check("trigger", err)
		second, err := r.store.Trigger(t.Context(), call)
		r.check("the same trigger again", err)
		equal(t, "id", second.Checkpoint.ID, first.Checkpoint.ID)
		equal(t, "repeated", second.Repeated, false)
		equal(t, "pending checkpoints", r.state().Pending, 1)
	})
	rule(t, "a trigger that was sent twice with an Idempotency-Key was made by this call, not by an earlier one", func(t *testing.T, r *rig) {
		call := r.triggerCall(withKey("k", "body"))
		first, err := r.store.Trigger(t.Context(), call)
		r.check("trigger", err)
		second, err := r.store.Trigger(t.Context(), call)
		r.check("the same trigger again", err)
		equal(t, "id", second.Checkpoint.ID, first.Checkpoint.ID)
		equal(t, "repeated", second.Repeated, false)
	})
	rule(t, "an ack that was sent twice counts once and gets the same answer", func(t *testing.T, r *rig) {
		c := r.trigger(requires(3))
		call := r.ackCall(c.ID, item("task-1", with(part("task-1", "k", "1"))))
		first, err := r.store.Acknowledge(t.Context(), call)
		r.check("acknowledge", err)
		r.accept(c.ID, "task-2")
		second, err := r.store.Acknowledge(t.Context(), call)
		r.check("the same ack again", err)
		if diff := cmp.Diff(first.Outcomes, second.Outcomes); diff != "" {
			t.Errorf("the answers differ (-first +second):\n%s", diff)
		}
		equal(t, "acknowledged", r.get(c.ID).AcknowledgedTasks, 2)
	})
	rule(t, "the completing ack that was sent twice is the completing one both times, and the next is not", func(t *testing.T, r *rig) {
		c := r.trigger(requires(1))
		call := r.ackCall(c.ID, item("task-1"))
		first, err := r.store.Acknowledge(t.Context(), call)
		r.check("acknowledge", err)
		second, err := r.store.Acknowledge(t.Context(), call)
		r.check("the same ack again", err)
		if diff := cmp.Diff(first.Outcomes, second.Outcomes); diff != "" {
			t.Errorf("the answers differ (-first +second):\n%s", diff)
		}
		equal(t, "outcome", second.Outcomes[0].Outcome, coordinator.AckAccepted)
		equal(t, "outcome of another call", r.ack(c.ID, "task-1").Outcome, coordinator.AckDuplicate)
	})
	rule(t, "a bulk ack that was sent twice gets the same outcomes", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b", "c"))
		call := r.ackCall(c.ID, item("a"), item("stranger"), item("b"), item("a", with(part("a", "k", "1"))))
		first, err := r.store.Acknowledge(t.Context(), call)
		r.check("acknowledge", err)
		second, err := r.store.Acknowledge(t.Context(), call)
		r.check("the same bulk ack again", err)
		for i := range first.Outcomes {
			equal(t, "outcome", second.Outcomes[i].Outcome, first.Outcomes[i].Outcome)
			if first.Outcomes[i].Outcome == coordinator.AckAccepted {
				equal(t, "acknowledged", second.Outcomes[i].AcknowledgedTasks, first.Outcomes[i].AcknowledgedTasks)
			}
			equal(t, "refusal", refusalCode(second.Outcomes[i]), refusalCode(first.Outcomes[i]))
		}
		equal(t, "acknowledged", r.get(c.ID).AcknowledgedTasks, 2)
	})
	rule(t, "an upload that was committed twice is there once", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		p := part("task-1", "k", "1")
		upload := r.begin(c.ID, "task-1", p)
		for range 2 {
			equal(t, "refusal", r.commitCode(upload, p, false), "")
		}
		r.check("discard", upload.Discard(t.Context()))
		r.accept(c.ID, "task-1", digest(p.Digest))
	})
	rule(t, "an upload with ack that was committed twice counts once and gets the same answer", func(t *testing.T, r *rig) {
		c := r.trigger(requires(1))
		p := part("task-1", "k", "1")
		upload := r.begin(c.ID, "task-1", p)
		commit := coordinator.CommitCall{Part: info(p), Ack: true}
		first, err := upload.Commit(t.Context(), commit)
		r.check("commit", err)
		second, err := upload.Commit(t.Context(), commit)
		r.check("the same commit again", err)
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("the answers differ (-first +second):\n%s", diff)
		}
		r.check("discard", upload.Discard(t.Context()))
		equal(t, "the snapshot", r.restored(c.ID), string(p.Content))
	})
	rule(t, "a completion by hand that was sent twice changes nothing the second time", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		call := r.completeCall(c.ID, true)
		first, err := r.store.Complete(t.Context(), call)
		r.check("complete", err)
		r.clock.Advance(10)
		second, err := r.store.Complete(t.Context(), call)
		r.check("the same completion again", err)
		equal(t, "revision", second.Revision, first.Revision)
		equal(t, "end", second.EndedAt, first.EndedAt)
	})
	rule(t, "an abort that was sent twice changes nothing the second time", func(t *testing.T, r *rig) {
		c := r.trigger()
		call := coordinator.AbortCall{Job: r.job, ID: c.ID, Message: "why", Token: r.token()}
		first, err := r.store.Abort(t.Context(), call)
		r.check("abort", err)
		second, err := r.store.Abort(t.Context(), call)
		r.check("the same abort again", err)
		equal(t, "revision", second.Revision, first.Revision)
		equal(t, "message", second.Failure.Message, "why")
	})
	rule(t, "a recovery that was sent twice raised the epoch once", func(t *testing.T, r *rig) {
		done := r.completed()
		r.trigger()
		call := r.recoverCall("")
		first, err := r.store.Recover(t.Context(), call)
		r.check("recover", err)
		second, err := r.store.Recover(t.Context(), call)
		r.check("the same recovery again", err)
		equal(t, "epoch", second.Epoch, first.Epoch)
		equal(t, "repeated", second.Repeated, false)
		if second.Checkpoint == nil || second.Checkpoint.ID != done.ID {
			t.Errorf("the second answer names %v, want checkpoint %d", second.Checkpoint, done.ID)
		}
		equal(t, "the job's epoch", r.state().Epoch, 1)
	})
}

func refusalCode(o coordinator.AckOutcome) coordinator.Code {
	if o.Refusal == nil {
		return ""
	}
	return o.Refusal.Code
}
