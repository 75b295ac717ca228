package storetest

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testExtend(t *testing.T, s suite) {
	s.rule(t, "the deadline moves to now plus the time given", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(1000))
		r.clock.Advance(900)
		got := r.extend(c.ID, 500)
		deadline, limited := got.Deadline()
		equal(t, "limited", limited, true)
		equal(t, "deadline", deadline, c.Start+1400)
		r.clock.Advance(500)
		r.wantStatus(c.ID, coordinator.StatusPending)
		r.clock.Advance(1)
		r.wantStatus(c.ID, coordinator.StatusExpired)
		r.sweep()
		r.wantStatus(c.ID, coordinator.StatusExpired)
	})
	s.rule(t, "the deadline never moves to an earlier time", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(1000))
		r.extend(c.ID, 1)
		r.clock.Advance(1000)
		r.sweep()
		r.wantStatus(c.ID, coordinator.StatusPending)
	})
	s.rule(t, "the sweeper goes by the extended deadline", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(1000))
		r.extend(c.ID, 5000)
		r.clock.Advance(5000)
		r.sweep()
		r.wantStatus(c.ID, coordinator.StatusPending)
		equal(t, "pending", r.state().Pending, 1)
		equal(t, "reported ends", len(r.seen.endOf(r.job, c.ID)), 0)
	})
	s.rule(t, "one that never expires stays so", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(0))
		extended := r.extend(c.ID, 10)
		_, limited := extended.Deadline()
		equal(t, "limited", limited, false)
		r.clock.Advance(1_000_000_000)
		r.sweep()
		r.wantStatus(c.ID, coordinator.StatusPending)
	})
	s.rule(t, "an extension is possible in the very millisecond of the deadline", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(1000))
		r.clock.Advance(1000)
		r.extend(c.ID, 1000)
		r.clock.Advance(1000)
		r.wantStatus(c.ID, coordinator.StatusPending)
	})
	s.rule(t, "one that ended cannot be extended", func(t *testing.T, r *rig) {
		done, gone, late := r.completed(), r.aborted(), r.trigger(timeout(10))
		r.clock.Advance(11)
		for id, want := range map[int64]coordinator.Code{
			done.ID: coordinator.CodeCheckpointCompleted,
			gone.ID: coordinator.CodeCheckpointAborted,
			late.ID: coordinator.CodeCheckpointExpired,
		} {
			_, err := r.store.Extend(t.Context(), coordinator.ExtendCall{Job: r.job, ID: id, TimeoutMs: 1000})
			r.refused(err, want)
		}
		r.wantStatus(late.ID, coordinator.StatusExpired)
	})
	s.rule(t, "a deadline can be moved up to a hundred timeouts of the trigger behind the start, however often it is moved", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(1000))
		extend := func(ms int64) error {
			_, err := r.store.Extend(t.Context(), coordinator.ExtendCall{Job: r.job, ID: c.ID, TimeoutMs: ms})
			return err
		}
		mark := r.position()
		r.refused(extend(100_001), coordinator.CodeInvalidRequest)
		r.refused(extend(coordinator.MaxTimeoutMs), coordinator.CodeInvalidRequest)
		equal(t, "timeout", r.get(c.ID).TimeoutMs, 1000)
		r.clock.Advance(1000)
		r.check("extend to the furthest", extend(99_000))
		r.clock.Advance(98_000)
		r.refused(extend(1001), coordinator.CodeInvalidRequest)
		r.check("extend by what is left", extend(1000))
		deadline, _ := new(r.get(c.ID).Checkpoint).Deadline()
		equal(t, "deadline", deadline, c.Start+100_000)
		r.clock.Advance(1001)
		r.wantStatus(c.ID, coordinator.StatusExpired)
		r.sweep()
		r.wantKinds(mark, kind(coordinator.EventExtended, c.ID), kind(coordinator.EventExpired, c.ID), kind(coordinator.EventFailing, c.ID))
		r.check("extend a long one", func() error {
			c = r.trigger(timeout(coordinator.MaxTimeoutMs / 10))
			return extend(coordinator.MaxTimeoutMs)
		}())
	})
	s.rule(t, "the event of an extension has the new deadline, and says who asked", func(t *testing.T, r *rig) {
		c := r.trigger(timeout(1000))
		mark := r.position()
		for _, ms := range []int64{5000, 10} { // the second moves nothing
			_, err := r.store.Extend(t.Context(), coordinator.ExtendCall{Job: r.job, ID: c.ID, TimeoutMs: ms, By: "ops"})
			r.check("extend", err)
		}
		got := r.eventsAfter(mark)
		if len(got) != 1 || got[0].Type != coordinator.EventExtended || got[0].Deadline != c.Start+5000 || got[0].By != "ops" {
			t.Errorf("the events are %+v", got)
		}
	})
}
