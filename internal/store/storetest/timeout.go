package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testTimeout(t *testing.T, s suite) {
	s.rule(t, "a checkpoint is alive in the very millisecond of its deadline", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(1000), requires(2))
		r.clock.Advance(1000)
		r.sweep()
		r.wantStatus(c.ID, coordinator.StatusPending)
		r.accept(c.ID, "task-1")
		equal(t, "status", r.accept(c.ID, "task-2").Status, coordinator.StatusCompleted)
		r.clock.Advance(1)
		r.sweep()
		r.wantStatus(c.ID, coordinator.StatusCompleted)
	})
	s.rule(t, "a checkpoint is expired one millisecond later, for readers before anything wrote it", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(1000), requires(2))
		r.accept(c.ID, "task-1")
		r.clock.Advance(1001)
		got := r.get(c.ID)
		equal(t, "status", got.Status, coordinator.StatusExpired)
		if diff := cmp.Diff(&coordinator.Failure{Reason: coordinator.ReasonExpired}, got.Failure); diff != "" {
			t.Errorf("failure (-want +got):\n%s", diff)
		}
		if got.EndedAt < c.Start+1000 || got.EndedAt > r.clock.Now() {
			t.Errorf("it ended at %d, want it after its deadline %d and not in the future of %d", got.EndedAt, c.Start+1000, r.clock.Now())
		}
		r.wantIDs("expired ones", r.list(coordinator.ListCall{Status: coordinator.StatusExpired}), c.ID)
		r.wantIDs("pending ones", r.list(coordinator.ListCall{Status: coordinator.StatusPending}))
		_, err := r.store.SharedState(t.Context(), r.ref(c.ID))
		r.refused(err, coordinator.CodeCheckpointExpired)
		_, err = r.store.OpenRestore(t.Context(), r.restoreCall(c.ID))
		r.refused(err, coordinator.CodeCheckpointNotCompleted)
		r.ackRefused(coordinator.CodeCheckpointExpired, c.ID, "task-2")
		r.ackRefused(coordinator.CodeCheckpointExpired, c.ID, "task-1")
	})
	s.rule(t, "the sweeper writes expiry with no request arriving, and reports it once", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(1000), requires(2))
		r.accept(c.ID, "task-1")
		open := r.trigger(timeout(2000))
		r.clock.Advance(1001)
		r.sweep()
		r.sweep()
		ends := r.seen.endOf(r.job, c.ID)
		if len(ends) != 1 {
			t.Fatalf("reported ends = %+v, want one", ends)
		}
		equal(t, "status", ends[0].Status, coordinator.StatusExpired)
		equal(t, "reason", ends[0].Reason, coordinator.ReasonExpired)
		equal(t, "acknowledged", ends[0].AcknowledgedTasks, 1)
		r.wantStatus(c.ID, coordinator.StatusExpired)
		r.wantStatus(open.ID, coordinator.StatusPending)
		equal(t, "pending", r.state().Pending, 1)
	})
	s.rule(t, "the sweeper writes expiry in every job", func(t *testing.T, r *rig) {
		orders := r.in("orders")
		c := orders.trigger(timeout(1000))
		r.clock.Advance(1001)
		r.sweep()
		equal(t, "reported ends", len(r.seen.endOf("orders", c.ID)), 1)
	})
	s.rule(t, "hundreds of deadlines at once are all written by one pass of the sweeper or a few", func(t *testing.T, r *rig) {
		var ids []int64
		for range 300 {
			ids = append(ids, r.trigger(timeout(1000), atMostPending(1000)).ID)
		}
		r.clock.Advance(1001)
		for range 5 {
			r.sweep()
		}
		for _, id := range ids {
			if len(r.seen.endOf(r.job, id)) != 1 {
				t.Fatalf("the end of %d was not reported once", id)
			}
		}
	})
	s.rule(t, "a refused late ack is what writes the expiry, and reports it once", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(1000))
		r.clock.Advance(1001)
		r.ackRefused(coordinator.CodeCheckpointExpired, c.ID, "task-1")
		equal(t, "reported ends", len(r.seen.endOf(r.job, c.ID)), 1)
		r.ackRefused(coordinator.CodeCheckpointExpired, c.ID, "task-1")
		r.sweep()
		equal(t, "reported ends", len(r.seen.endOf(r.job, c.ID)), 1)
	})
	s.rule(t, "a timeout of 0 never expires", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(0))
		r.clock.Advance(ms(1000 * 24 * time.Hour))
		r.sweep()
		r.wantStatus(c.ID, coordinator.StatusPending)
		_, limited := c.Deadline()
		equal(t, "limited", limited, false)
		r.accept(c.ID, "task-1")
	})
	s.rule(t, "an expired checkpoint stays expired when the clock steps back", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(1000))
		r.clock.Advance(1001)
		r.sweep()
		r.clock.Advance(-500)
		r.wantStatus(c.ID, coordinator.StatusExpired)
		r.ackRefused(coordinator.CodeCheckpointExpired, c.ID, "task-1")
	})
	for _, seen := range []struct {
		by  string
		see func(r *rig, id int64)
	}{
		{"an ack", func(r *rig, id int64) { r.accept(id, "task-1") }},
		{"the sweeper", func(r *rig, _ int64) { r.sweep() }},
	} {
		s.rule(t, "a step back of the clock that "+seen.by+" sees delays a deadline by at most one timeout", func(t *testing.T, r *rig) {
			c := r.trigger(timeout(1000), requires(2))
			r.clock.Advance(700 - ms(time.Hour))
			seen.see(r, c.ID)
			r.clock.Advance(1000)
			r.wantStatus(c.ID, coordinator.StatusPending)
			r.clock.Advance(1)
			r.wantStatus(c.ID, coordinator.StatusExpired)
			r.sweep()
			equal(t, "reported ends", len(r.seen.endOf(r.job, c.ID)), 1)
		})
	}
	s.rule(t, "a step back does not make the latency of an ack or the duration negative", func(t *testing.T, r *rig) {
		c := r.trigger(requires(2))
		r.clock.Advance(-5000)
		if latency := r.accept(c.ID, "task-1").LatencyMs; latency < 0 {
			t.Errorf("latency = %d", latency)
		}
		r.accept(c.ID, "task-2")
		got := r.get(c.ID)
		if got.DurationMs() < 0 {
			t.Errorf("duration = %d", got.DurationMs())
		}
		for _, ack := range got.Acks {
			if ack.LatencyMs < 0 {
				t.Errorf("latency of %s = %d", ack.TaskID, ack.LatencyMs)
			}
		}
	})
}
