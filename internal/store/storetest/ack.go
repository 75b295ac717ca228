package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testAck(t *testing.T, s suite) {
	s.rule(t, "distinct tasks count, each once, and the answer is as of its own place", func(t *testing.T, r *rig) {
		c := r.trigger(requires(3))
		for i, task := range []string{"task-1", "task-2", "task-3"} {
			outcome := r.accept(c.ID, task)
			equal(t, "acknowledged", outcome.AcknowledgedTasks, i+1)
			equal(t, "required", outcome.RequiredTaskAcks, 3)
			status := coordinator.StatusPending
			if i == 2 {
				status = coordinator.StatusCompleted
			}
			equal(t, "status", outcome.Status, status)
			r.wantStatus(c.ID, status)
		}
	})
	s.rule(t, "the completing ack completes in the same step, with the totals of all parts", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		one, two := part("task-1", "k", "1", "l", "2"), part("task-2", "k", "3")
		r.shared(c.ID, "s", "0")
		r.clock.Advance(100)
		r.accept(c.ID, "task-1", with(one))
		r.clock.Advance(50)
		r.accept(c.ID, "task-2", with(two))
		got := r.get(c.ID)
		equal(t, "status", got.Status, coordinator.StatusCompleted)
		equal(t, "entries", got.Entries, 4)
		equal(t, "bytes", got.Bytes, int64(len(sharedLines("s", "0"))+len(one.Content)+len(two.Content)))
		equal(t, "version", got.SnapshotVersion, coordinator.SnapshotVersion)
		equal(t, "end", got.EndedAt, r.clock.Now())
		equal(t, "duration", got.DurationMs(), 150)
		if got.Failure != nil {
			t.Errorf("a completed checkpoint has the failure %+v", got.Failure)
		}
	})
	s.rule(t, "an accepted ack is shown with attempt, time, latency and part", func(t *testing.T, r *rig) {
		c := r.trigger(requires(3))
		p := part("b", "k", "1")
		r.clock.Advance(70)
		equal(t, "latency", r.accept(c.ID, "b", with(p), attempt(4)).LatencyMs, 70)
		r.clock.Advance(5)
		r.accept(c.ID, "a")
		want := []coordinator.Ack{
			{TaskID: "a", AcknowledgedAt: c.Start + 75, LatencyMs: 75, Part: coordinator.PartInfo{Digest: coordinator.EmptyDigest}},
			{TaskID: "b", Attempt: 4, AcknowledgedAt: c.Start + 70, LatencyMs: 70, Part: info(p)},
		}
		if diff := cmp.Diff(want, r.get(c.ID).Acks); diff != "" {
			t.Errorf("acks (-want +got):\n%s", diff)
		}
	})
	s.rule(t, "the end is reported once, with how long it took and how many acknowledged", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		r.clock.Advance(40)
		r.accept(c.ID, "task-1")
		r.accept(c.ID, "task-2")
		r.ack(c.ID, "task-2")
		want := []coordinator.Transition{{Job: r.job, ID: c.ID, Status: coordinator.StatusCompleted, DurationMs: 40, AcknowledgedTasks: 2}}
		if diff := cmp.Diff(want, r.seen.endOf(r.job, c.ID)); diff != "" {
			t.Errorf("reported ends (-want +got):\n%s", diff)
		}
	})
	s.rule(t, "a repeated ack without state is a duplicate that counts nothing", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		r.accept(c.ID, "task-1", with(part("task-1", "k", "1")))
		before := r.get(c.ID)
		outcome := r.ack(c.ID, "task-1")
		equal(t, "outcome", outcome.Outcome, coordinator.AckDuplicate)
		equal(t, "acknowledged", outcome.AcknowledgedTasks, 1)
		equal(t, "status", outcome.Status, coordinator.StatusPending)
		wantSame(t, before, r.get(c.ID))
	})
	s.rule(t, "a repeated ack with an equal part is a duplicate, also after completion", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		p := part("task-1", "k", "1")
		r.accept(c.ID, "task-1", with(p))
		equal(t, "outcome", r.ack(c.ID, "task-1", with(p)).Outcome, coordinator.AckDuplicate)
		r.accept(c.ID, "task-2")
		outcome := r.ack(c.ID, "task-1", with(p))
		equal(t, "outcome after completion", outcome.Outcome, coordinator.AckDuplicate)
		equal(t, "status after completion", outcome.Status, coordinator.StatusCompleted)
		equal(t, "acknowledged after completion", outcome.AcknowledgedTasks, 2)
		equal(t, "outcome of the completing task", r.ack(c.ID, "task-2").Outcome, coordinator.AckDuplicate)
	})
	s.rule(t, "a repeated ack with another part is a conflict, and the first stands", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		p := part("task-1", "k", "1")
		r.accept(c.ID, "task-1", with(p))
		r.ackRefused(coordinator.CodeAckConflict, c.ID, "task-1", with(part("task-1", "k", "2")))
		r.accept(c.ID, "task-2")
		r.ackRefused(coordinator.CodeAckConflict, c.ID, "task-1", with(part("task-1", "k", "2")))
		equal(t, "the snapshot", r.restored(c.ID), string(p.Content))
	})
	s.rule(t, "a repeated ack that names the digest of another part is a conflict too", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		p := part("task-1", "k", "1")
		r.accept(c.ID, "task-1", with(p))
		equal(t, "outcome", r.ack(c.ID, "task-1", digest(p.Digest)).Outcome, coordinator.AckDuplicate)
		r.ackRefused(coordinator.CodeAckConflict, c.ID, "task-1", digest(part("task-1", "k", "2").Digest))
	})
	s.rule(t, "an empty part and an absent one are equal", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		r.accept(c.ID, "task-1")
		equal(t, "outcome", r.ack(c.ID, "task-1", with(part("task-1"))).Outcome, coordinator.AckDuplicate)
		r.ackRefused(coordinator.CodeAckConflict, c.ID, "task-1", with(part("task-1", "k", "1")))
	})
	s.rule(t, "an ack with state replaces the uploaded part", func(t *testing.T, r *rig) {
		c := r.trigger()
		r.upload(c.ID, "task-1", part("task-1", "old", "1", "older", "2"))
		p := part("task-1", "new", "3")
		r.accept(c.ID, "task-1", with(p))
		equal(t, "the snapshot", r.restored(c.ID), string(p.Content))
		equal(t, "entries", r.get(c.ID).Entries, 1)
	})
	s.rule(t, "an ack with an empty state replaces the uploaded part too", func(t *testing.T, r *rig) {
		c := r.trigger()
		r.upload(c.ID, "task-1", part("task-1", "old", "1"))
		r.accept(c.ID, "task-1", with(part("task-1")))
		equal(t, "the snapshot", r.restored(c.ID), "")
	})
	s.rule(t, "without state the uploaded part counts", func(t *testing.T, r *rig) {
		c := r.trigger()
		p := part("task-1", "k", "1")
		r.upload(c.ID, "task-1", p)
		r.accept(c.ID, "task-1")
		equal(t, "the snapshot", r.restored(c.ID), string(p.Content))
	})
	s.rule(t, "a digest must be that of the part that would count", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		p, other := part("task-1", "k", "1"), part("task-1", "k", "2")
		r.ackRefused(coordinator.CodePartChanged, c.ID, "task-1", digest(p.Digest))
		r.upload(c.ID, "task-1", other)
		r.ackRefused(coordinator.CodePartChanged, c.ID, "task-1", digest(p.Digest))
		r.ackRefused(coordinator.CodePartChanged, c.ID, "task-1", digest(p.Digest), with(other))
		equal(t, "acknowledged after refusals", r.get(c.ID).AcknowledgedTasks, 0)
		r.accept(c.ID, "task-1", digest(other.Digest))
		r.accept(c.ID, "task-2", digest(p.Digest), with(p))
	})
	s.rule(t, "a refused ack leaves nothing behind", func(t *testing.T, r *rig) {
		c := r.trigger(named("task-1", "task-2"))
		r.accept(c.ID, "task-1", attempt(2))
		before := r.get(c.ID)
		big := with(bigPart("x", 3*coordinator.ChunkBytes))
		r.ackRefused(coordinator.CodeTaskNotExpected, c.ID, "x", big)
		r.ackRefused(coordinator.CodeStaleEpoch, c.ID, "task-2", big, epoch(1))
		r.ackRefused(coordinator.CodeStaleAttempt, c.ID, "task-1", big, attempt(1))
		r.ackRefused(coordinator.CodeAckConflict, c.ID, "task-1", big, attempt(2))
		wantSame(t, before, r.get(c.ID))
		r.accept(c.ID, "task-2")
		r.ackRefused(coordinator.CodeTaskNotExpected, c.ID, "x", big)
		equal(t, "the snapshot", r.restored(c.ID), "")
	})
	s.rule(t, "a late ack is refused and told the way on, also when the task had acknowledged", func(t *testing.T, r *rig) {
		done := r.completed()
		gone := r.aborted()
		deleted := r.trigger()
		r.delete(deleted.ID)
		expired := r.trigger(requires(2), timeout(10))
		r.accept(expired.ID, "task-1")
		r.clock.Advance(11)
		r.trigger()
		current := r.trigger()
		for _, late := range []struct {
			id   int64
			want coordinator.Code
		}{
			{done.ID, coordinator.CodeCheckpointCompleted},
			{gone.ID, coordinator.CodeCheckpointAborted},
			{expired.ID, coordinator.CodeCheckpointExpired},
		} {
			refusal := r.ackRefused(late.want, late.id, "task-late", with(bigPart("task-late", 2*coordinator.ChunkBytes)))
			wantNextSteps(t, refusal, current.ID, done.ID)
		}
		wantNextSteps(t, r.ackRefused(coordinator.CodeCheckpointExpired, expired.ID, "task-1"), current.ID, done.ID)
		_, err := r.store.Acknowledge(t.Context(), r.ackCall(deleted.ID, item("task-1")))
		r.refused(err, coordinator.CodeCheckpointDeleted)
		wantNextSteps(t, err, current.ID, done.ID)
	})
	s.rule(t, "an epoch is checked when given, the job's own only", func(t *testing.T, r *rig) {
		r.recover("")
		c := r.trigger(requires(3))
		r.accept(c.ID, "task-1", epoch(1))
		r.accept(c.ID, "task-2")
		r.ackRefused(coordinator.CodeStaleEpoch, c.ID, "task-3", epoch(0))
		r.ackRefused(coordinator.CodeStaleEpoch, c.ID, "task-3", epoch(2))
		r.ackRefused(coordinator.CodeStaleEpoch, c.ID, "task-1", epoch(0))
		r.in("orders").accept(r.in("orders").trigger().ID, "task-1", epoch(0))
	})
	s.rule(t, "messages of an older attempt of a task are refused, in every later checkpoint of the job", func(t *testing.T, r *rig) {
		first := r.trigger(requires(2))
		r.accept(first.ID, "task-1", attempt(5))
		second := r.trigger(requires(2))
		r.ackRefused(coordinator.CodeStaleAttempt, second.ID, "task-1", attempt(4))
		r.ackRefused(coordinator.CodeStaleAttempt, second.ID, "task-1") // an absent attempt is 0
		r.accept(second.ID, "task-2", attempt(1))
		r.recover("")
		third := r.trigger(requires(2))
		r.ackRefused(coordinator.CodeStaleAttempt, third.ID, "task-1", attempt(4))
		r.accept(third.ID, "task-1", attempt(5))
		orders := r.in("orders")
		orders.accept(orders.trigger().ID, "task-1", attempt(1))
	})
	s.rule(t, "a refused message does not raise the attempt", func(t *testing.T, r *rig) {
		gone := r.aborted()
		r.ackRefused(coordinator.CodeCheckpointAborted, gone.ID, "task-1", attempt(9))
		c := r.trigger(requires(2))
		r.ackRefused(coordinator.CodeStaleEpoch, c.ID, "task-1", attempt(9), epoch(7))
		r.ackRefused(coordinator.CodePartChanged, c.ID, "task-1", attempt(9), digest(part("task-1", "k", "1").Digest))
		r.accept(c.ID, "task-1", attempt(1))
	})
	s.rule(t, "the highest counters are kept exactly", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		r.accept(c.ID, "task-1", attempt(coordinator.MaxID))
		r.ackRefused(coordinator.CodeStaleAttempt, r.trigger().ID, "task-1", attempt(coordinator.MaxID-1))
		equal(t, "attempt", r.get(c.ID).Acks[0].Attempt, coordinator.MaxID)
	})
	s.rule(t, "any legal task id counts as itself", func(t *testing.T, r *rig) {
		ids := awkwardNames()
		c := r.trigger(requires(len(ids)))
		for i, id := range ids {
			equal(t, fmt.Sprintf("acknowledged after %q", id), r.accept(c.ID, id, with(part(id, "k", "1"))).AcknowledgedTasks, i+1)
		}
		for _, id := range ids {
			state, err := r.store.Task(t.Context(), r.ref(c.ID), id)
			r.check(fmt.Sprintf("task %q", id), err)
			equal(t, "id", state.TaskID, id)
			equal(t, "status", state.Status, coordinator.TaskAcknowledged)
			equal(t, "the part of "+id, r.restored(c.ID, id), string(part(id, "k", "1").Content))
		}
	})
}

func wantNextSteps(t *testing.T, err error, current, latest int64) {
	t.Helper()
	refusal, ok := errors.AsType[*coordinator.Error](err)
	if !ok {
		t.Fatalf("%v is no refusal", err)
	}
	if refusal.Current == nil || *refusal.Current != current {
		t.Errorf("%s: current = %s, want %d", refusal.Code, show(refusal.Current), current)
	}
	if refusal.Latest == nil || *refusal.Latest != latest {
		t.Errorf("%s: latest = %s, want %d", refusal.Code, show(refusal.Latest), latest)
	}
}

func show(id *int64) string {
	if id == nil {
		return "none"
	}
	return fmt.Sprint(*id)
}
