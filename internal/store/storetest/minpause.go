package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testMinPause(t *testing.T, s suite) {
	rule := func(t *testing.T, sentence string, body func(*testing.T, *rig)) {
		t.Helper()
		s.rule(t, sentence, func(t *testing.T, r *rig) {
			r.defaults.MinPauseMs = 1000
			body(t, r)
		})
	}
	refused := func(r *rig, wait int64, options ...triggerOption) {
		r.t.Helper()
		_, err := r.store.Trigger(r.t.Context(), r.triggerCall(options...))
		r.refused(err, coordinator.CodeMinPause)
		if refusal, ok := errors.AsType[*coordinator.Error](err); ok {
			equal(r.t, "time to wait", refusal.RetryAfter, time.Duration(wait)*time.Millisecond)
		}
	}
	rule(t, "after a completion a trigger is refused until the pause is over, and told how long that is", func(t *testing.T, r *rig) {
		r.trigger() // before the first completion nothing rests
		r.completed()
		refused(r, 1000)
		r.clock.Advance(999)
		refused(r, 1)
		r.clock.Advance(1)
		r.trigger()
	})
	rule(t, "a forced trigger passes the pause, never the cap", func(t *testing.T, r *rig) {
		r.defaults.MaxConcurrent = 1
		r.completed()
		r.trigger(forced())
		_, err := r.store.Trigger(t.Context(), r.triggerCall(forced()))
		r.refused(err, coordinator.CodeTooManyPending)
	})
	rule(t, "where the pause ends before there is room, it says to wait for room", func(t *testing.T, r *rig) {
		r.defaults.MaxConcurrent = 1
		r.completed()
		r.trigger(forced(), timeout(5000))
		refused(r, 5000)
		r.clock.Advance(4500)
		_, err := r.store.Trigger(t.Context(), r.triggerCall())
		r.refused(err, coordinator.CodeTooManyPending)
	})
	rule(t, "the pause is judged before the cap", func(t *testing.T, r *rig) {
		r.defaults.MaxConcurrent = 2
		r.trigger(timeout(0))
		r.completed()
		r.trigger(forced(), timeout(0))
		refused(r, 1000)
	})
	rule(t, "an Idempotency-Key is looked up before the pause", func(t *testing.T, r *rig) {
		c := r.completed(withKey("k", "body"))
		result, err := r.store.Trigger(t.Context(), r.triggerCall(withKey("k", "body")))
		r.check("repeat in the pause", err)
		equal(t, "id", result.Checkpoint.ID, c.ID)
		equal(t, "repeated", result.Repeated, true)
		_, err = r.store.Trigger(t.Context(), r.triggerCall(withKey("k", "other body")))
		r.refused(err, coordinator.CodeIdempotencyKeyReused)
		r.delete(c.ID)
		_, err = r.store.Trigger(t.Context(), r.triggerCall(withKey("k", "body")))
		r.refused(err, coordinator.CodeIdempotencyTargetDeleted)
	})
	rule(t, "a trigger that the pause refused leaves nothing and does not burn its key", func(t *testing.T, r *rig) {
		r.completed()
		before := r.state()
		refused(r, 1000, withKey("k", "body"), named(names(1500)...))
		if diff := cmp.Diff(before, r.state()); diff != "" {
			t.Errorf("the job changed (-before +after):\n%s", diff)
		}
		r.clock.Advance(1000)
		result, err := r.store.Trigger(t.Context(), r.triggerCall(withKey("k", "other body")))
		r.check("trigger with the key of a refused one", err)
		equal(t, "repeated", result.Repeated, false)
	})
	rule(t, "it counts from the last completion, by ack or by hand, of any id, and from no other end", func(t *testing.T, r *rig) {
		older, old, late := r.trigger(), r.trigger(), r.trigger(timeout(2000))
		gone, c := r.trigger(), r.trigger()
		r.accept(c.ID, "task-1")
		r.clock.Advance(400)
		r.accept(old.ID, "task-1")
		refused(r, 1000)
		r.clock.Advance(500)
		r.complete(older.ID, true)
		refused(r, 1000)
		equal(t, "last completion", r.jobState().LastCompletedAt, r.clock.Now())
		r.clock.Advance(300)
		r.abort(gone.ID)
		refused(r, 700)
		r.clock.Advance(1000)
		r.sweep()
		r.wantStatus(late.ID, coordinator.StatusExpired)
		r.decline(r.trigger().ID, "a")
		r.trigger()
	})
	rule(t, "it counts on when the completed one is deleted, and after a restart", func(t *testing.T, r *rig) {
		c := r.completed()
		r.delete(c.ID)
		r.reopen()
		equal(t, "last completion", r.jobState().LastCompletedAt, r.clock.Now())
		refused(r, 1000)
	})
	rule(t, "the job's own pause comes before the server's", func(t *testing.T, r *rig) {
		r.putJob(coordinator.JobSettings{MinPauseMs: new(int64(3000))})
		r.completed()
		refused(r, 3000)
		r.putJob(coordinator.JobSettings{MinPauseMs: new(int64(0))})
		r.completed()
		r.trigger()
		r.putJob(coordinator.JobSettings{})
		refused(r, 1000)
	})
	rule(t, "a clock that steps back makes the pause longer by at most one pause", func(t *testing.T, r *rig) {
		r.completed()
		r.clock.Advance(-1000)
		refused(r, 2000)
		r.clock.Advance(1999)
		refused(r, 1)
		r.clock.Advance(1)
		r.completed()
		r.clock.Advance(-ms(time.Hour))
		r.trigger()
	})
	rule(t, "each job rests for itself", func(t *testing.T, r *rig) {
		r.completed()
		r.in("orders").trigger()
		refused(r, 1000)
	})
}
