package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testBulkAck(t *testing.T, s suite) {
	s.rule(t, "items apply in order, each answered as of its place, and one refused item undoes no other", func(t *testing.T, r *rig) {
		c := r.trigger(named("a", "b", "c"))
		r.accept(c.ID, "a", attempt(2))
		result := r.acks(c.ID,
			item("b"),
			item("stranger"),
			item("a", attempt(1)),
			item("a", attempt(2)),
			item("a", attempt(2), with(part("a", "k", "1"))),
			item("c", epoch(5)),
			item("b"),
		)
		want := []struct {
			outcome coordinator.AckStatus
			code    coordinator.Code
		}{
			{coordinator.AckAccepted, ""},
			{coordinator.AckRefused, coordinator.CodeTaskNotExpected},
			{coordinator.AckRefused, coordinator.CodeStaleAttempt},
			{coordinator.AckDuplicate, ""},
			{coordinator.AckRefused, coordinator.CodeAckConflict},
			{coordinator.AckRefused, coordinator.CodeStaleEpoch},
			{coordinator.AckDuplicate, ""},
		}
		for i, outcome := range result.Outcomes {
			equal(t, fmt.Sprintf("outcome %d", i), outcome.Outcome, want[i].outcome)
			equal(t, fmt.Sprintf("code %d", i), refusalCode(outcome), want[i].code)
		}
		equal(t, "acknowledged as of the first item", result.Outcomes[0].AcknowledgedTasks, 2)
		equal(t, "status", result.Status, coordinator.StatusPending)
		equal(t, "acknowledged", result.AcknowledgedTasks, 2)
		equal(t, "required", result.RequiredTaskAcks, 3)
	})
	s.rule(t, "items after the completing one are refused as completed, repeats are duplicates", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		result := r.acks(c.ID, item("a"), item("b"), item("c"), item("a"), item("d"))
		for i, want := range []coordinator.AckStatus{
			coordinator.AckAccepted, coordinator.AckAccepted, coordinator.AckRefused, coordinator.AckDuplicate, coordinator.AckRefused,
		} {
			equal(t, fmt.Sprintf("outcome %d", i), result.Outcomes[i].Outcome, want)
		}
		equal(t, "status as of the first item", result.Outcomes[0].Status, coordinator.StatusPending)
		equal(t, "status as of the completing item", result.Outcomes[1].Status, coordinator.StatusCompleted)
		equal(t, "code", refusalCode(result.Outcomes[2]), coordinator.CodeCheckpointCompleted)
		equal(t, "code", refusalCode(result.Outcomes[4]), coordinator.CodeCheckpointCompleted)
		equal(t, "status", result.Status, coordinator.StatusCompleted)
		equal(t, "acknowledged", r.get(c.ID).AcknowledgedTasks, 2)
		equal(t, "acks", len(r.get(c.ID).Acks), 2)
	})
	s.rule(t, "one task twice in a call counts once", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		result := r.acks(c.ID, item("a", with(part("a", "k", "1"))), item("a"), item("a", with(part("a", "k", "2"))))
		equal(t, "second", result.Outcomes[1].Outcome, coordinator.AckDuplicate)
		equal(t, "third", refusalCode(result.Outcomes[2]), coordinator.CodeAckConflict)
		equal(t, "acknowledged", result.AcknowledgedTasks, 1)
	})
	s.rule(t, "an attempt accepted in a call holds for the items after it", func(t *testing.T, r *rig) {
		c := r.trigger(requires(3))
		result := r.acks(c.ID, item("a", attempt(3)), item("a", attempt(2)))
		equal(t, "code", refusalCode(result.Outcomes[1]), coordinator.CodeStaleAttempt)
	})
	s.rule(t, "a thousand items are one call", func(t *testing.T, r *rig) {
		c := r.trigger(requires(coordinator.MaxBulkAcks))
		items := make([]coordinator.AckItem, 0, coordinator.MaxBulkAcks)
		for i, task := range names(coordinator.MaxBulkAcks) {
			items = append(items, item(task, with(part(task, "n", fmt.Sprint(i)))))
		}
		result := r.acks(c.ID, items...)
		equal(t, "status", result.Status, coordinator.StatusCompleted)
		equal(t, "entries", r.get(c.ID).Entries, coordinator.MaxBulkAcks)
		var want strings.Builder
		for _, i := range items {
			want.Write(i.Part.Content)
		}
		equal(t, "the snapshot is as acknowledged", r.restored(c.ID) == want.String(), true)
	})
	s.rule(t, "of an ended checkpoint every item says how it ended", func(t *testing.T, r *rig) {
		c := r.aborted(requires(3))
		result := r.acks(c.ID, item("a"), item("b"))
		equal(t, "status", result.Status, coordinator.StatusAborted)
		for _, outcome := range result.Outcomes {
			equal(t, "code", refusalCode(outcome), coordinator.CodeCheckpointAborted)
		}
	})
	s.rule(t, "an unknown checkpoint is one refusal of the whole call", func(t *testing.T, r *rig) {
		_, err := r.store.Acknowledge(t.Context(), r.ackCall(3, item("a"), item("b")))
		r.refused(err, coordinator.CodeCheckpointNotFound)
	})
}
