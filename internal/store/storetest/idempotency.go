package storetest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func testIdempotency(t *testing.T, s suite) {
	again := func(r *rig, key, fingerprint string) (coordinator.TriggerResult, error) {
		return r.store.Trigger(r.t.Context(), r.triggerCall(withKey(key, fingerprint)))
	}
	// found checks that a key still finds its checkpoint.
	found := func(r *rig, key string, want int64) coordinator.Checkpoint {
		r.t.Helper()
		result, err := again(r, key, "body")
		r.check("trigger with a known key", err)
		equal(r.t, "the id that the key finds", result.Checkpoint.ID, want)
		equal(r.t, "repeated", result.Repeated, true)
		return result.Checkpoint
	}
	s.rule(t, "the same key and body find the same checkpoint as it is now", func(t *testing.T, r *rig) {
		c := r.trigger(withKey("k", "body"), requires(2))
		equal(t, "status", found(r, "k", c.ID).Status, coordinator.StatusPending)
		r.accept(c.ID, "task-1")
		equal(t, "acknowledged", found(r, "k", c.ID).AcknowledgedTasks, 1)
		r.accept(c.ID, "task-2")
		equal(t, "status after completion", found(r, "k", c.ID).Status, coordinator.StatusCompleted)
		r.reopen()
		equal(t, "status after a restart", found(r, "k", c.ID).Status, coordinator.StatusCompleted)
	})
	s.rule(t, "a repeat after the deadline finds an expired checkpoint, not a new one", func(t *testing.T, r *rig) {
		c := r.trigger(withKey("k", "body"), timeout(10))
		r.clock.Advance(11)
		equal(t, "status", found(r, "k", c.ID).Status, coordinator.StatusExpired)
	})
	s.rule(t, "the same key with another body is refused", func(t *testing.T, r *rig) {
		r.trigger(withKey("k", "body"))
		_, err := again(r, "k", "other body")
		r.refused(err, coordinator.CodeIdempotencyKeyReused)
	})
	s.rule(t, "a key whose checkpoint is gone says so and names it, and never makes a new one", func(t *testing.T, r *rig) {
		r.trigger()
		c := r.trigger(withKey("k", "body"))
		r.delete(c.ID)
		for range 2 {
			_, err := again(r, "k", "body")
			r.refused(err, coordinator.CodeIdempotencyTargetDeleted)
			refusal, ok := errors.AsType[*coordinator.Error](err)
			if !ok || refusal.CheckpointID == nil || *refusal.CheckpointID != c.ID {
				t.Errorf("the refusal %+v does not name checkpoint %d", refusal, c.ID)
			}
		}
		equal(t, "pending checkpoints", r.state().Pending, 1)
	})
	s.rule(t, "a key outlives the eviction of its checkpoint", func(t *testing.T, r *rig) {
		c := r.trigger(withKey("k", "body"))
		r.accept(c.ID, "task-1")
		r.defaults.Keep = 1
		r.completed()
		_, err := again(r, "k", "body")
		r.refused(err, coordinator.CodeIdempotencyTargetDeleted)
	})
	s.rule(t, "a key is looked up before the cap", func(t *testing.T, r *rig) {
		c := r.trigger(withKey("k", "body"), atMostPending(1))
		result, err := r.store.Trigger(t.Context(), r.triggerCall(withKey("k", "body"), atMostPending(1)))
		r.check("repeat at the cap", err)
		equal(t, "id", result.Checkpoint.ID, c.ID)
	})
	s.rule(t, "a failed trigger does not burn the key", func(t *testing.T, r *rig) {
		first := r.trigger(atMostPending(1))
		_, err := r.store.Trigger(t.Context(), r.triggerCall(withKey("k", "body"), atMostPending(1)))
		r.refused(err, coordinator.CodeTooManyPending)
		r.abort(first.ID)
		// Another body under the key is fine, since the first attempt left nothing.
		result, err := r.store.Trigger(t.Context(), r.triggerCall(withKey("k", "other body"), atMostPending(1)))
		r.check("trigger with the key of a failed one", err)
		equal(t, "repeated", result.Repeated, false)
	})
	s.rule(t, "keys are for one job and one verb", func(t *testing.T, r *rig) {
		r.completed(withKey("k", "body"))
		r.trigger(withKey("k2", "body"))
		other, err := again(r.in("orders"), "k", "other body")
		r.check("the same key in another job", err)
		equal(t, "repeated", other.Repeated, false)
		recovered := r.recover("k")
		equal(t, "repeated by a recovery", recovered.Repeated, false)
		equal(t, "epoch", recovered.Epoch, 1)
	})
	s.rule(t, "keys that differ in a byte are different keys", func(t *testing.T, r *rig) {
		seen := map[int64]string{}
		for _, key := range []string{"k", "K", "k:", "k*", "k{}", "k|1", `k"`, "k\\", "~"} {
			c := r.trigger(withKey(key, "body"))
			if before, ok := seen[c.ID]; ok {
				t.Errorf("the keys %q and %q found one checkpoint", before, key)
			}
			seen[c.ID] = key
			found(r, key, c.ID)
		}
	})
	s.rule(t, "a key is kept for at least 24 hours after its last use", func(t *testing.T, r *rig) {
		c := r.completed(withKey("k", "body"))
		for range 3 {
			r.clock.Advance(ms(24*time.Hour - time.Second))
			r.sweep()
			found(r, "k", c.ID)
		}
	})
	s.rule(t, "twenty callers with one key at once get one checkpoint, and one of them made it", func(t *testing.T, r *rig) {
		calls := make([]coordinator.TriggerCall, 20)
		for i := range calls {
			calls[i] = r.triggerCall(withKey("k", "body"))
		}
		results := make([]coordinator.TriggerResult, len(calls))
		errs := make([]error, len(calls))
		var callers sync.WaitGroup
		for i := range calls {
			callers.Go(func() { results[i], errs[i] = r.store.Trigger(t.Context(), calls[i]) })
		}
		callers.Wait()
		made := 0
		for i := range calls {
			r.check("trigger", errs[i])
			equal(t, "id", results[i].Checkpoint.ID, results[0].Checkpoint.ID)
			if !results[i].Repeated {
				made++
			}
		}
		equal(t, "callers that made it", made, 1)
		equal(t, "pending checkpoints", r.state().Pending, 1)
	})
}
