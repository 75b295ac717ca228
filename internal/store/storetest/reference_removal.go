package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Delete removes a checkpoint; a pending one ends first.
func (r *reference) Delete(_ context.Context, call coordinator.DeleteCall) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.askedBy(call.By)()
	j, c, err := r.find(call.Job, call.ID)
	switch {
	case err != nil:
		return err
	case !met(call.If, c.Tag(), true):
		return coordinator.ErrPreconditionFailed()
	case c.Pinned && !call.Force:
		return coordinator.ErrPinned(c.ID)
	}
	r.remove(j, c, coordinator.ReasonAborted, coordinator.DeletedByRequest)
	return nil
}

// remove ends a pending checkpoint and removes it.
func (r *reference) remove(j *refJob, c *refCheckpoint, reason coordinator.FailureReason, why coordinator.DeletionReason) {
	delete(j.checkpoints, c.ID) // first, so that its end does not push another record out
	if c.Status == coordinator.StatusPending {
		r.end(j, c, coordinator.StatusAborted, coordinator.Failure{Reason: reason})
	}
	r.gone(j, c, why)
	r.observer.Deleted(j.name, c.ID, why)
}

// Cleanup removes unpinned checkpoints until keep of them survive: first those that did
// not complete, then completed ones, each oldest first, and passes over held ones.
func (r *reference) Cleanup(_ context.Context, call coordinator.CleanupCall) (coordinator.CleanupResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.askedBy(call.By)()
	j, err := r.job(call.Job)
	if err != nil {
		return coordinator.CleanupResult{}, err
	}
	if !call.DryRun {
		r.settle(j)
	}
	order := append(
		j.ids(func(c *refCheckpoint) bool { return !c.Pinned && !c.Completed() }),
		j.ids(func(c *refCheckpoint) bool { return !c.Pinned && c.usable() })...)
	result := coordinator.CleanupResult{Kept: len(order)}
	for _, id := range order {
		c := j.checkpoints[id]
		switch {
		case result.Kept <= call.Keep:
			return result, nil
		case c.leased(r.clock()):
			result.Skipped = append(result.Skipped, id)
		case call.Keep > 0 && c == j.latest():
			// Only keep 0 may take the latest, also where leases hold all places.
		case len(result.Deleted) == call.Max:
			result.More = true
			return result, nil
		default:
			if !call.DryRun {
				r.remove(j, c, coordinator.ReasonEvicted, coordinator.DeletedByCleanup)
			}
			result.Deleted = append(result.Deleted, id)
			result.Kept--
		}
	}
	return result, nil
}

// Recover restarts the fleet.
func (r *reference) Recover(_ context.Context, call coordinator.RecoverCall) (coordinator.RecoverResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.askedBy(call.By)()
	j := r.entry(call.Job)
	return once(j, call.Token, func() (coordinator.RecoverResult, error) {
		if known, ok := j.keys["recover "+call.Key]; ok && call.Key != "" {
			return r.recoverAgain(j, known, call)
		}
		from, refusal := j.origin(r.clock(), call)
		if refusal != nil {
			return coordinator.RecoverResult{}, refusal
		}
		result := coordinator.RecoverResult{
			Ended: j.ids(func(c *refCheckpoint) bool { return c.Status == coordinator.StatusPending }),
		}
		r.settle(j)
		for _, id := range j.ids(func(c *refCheckpoint) bool { return c.Status == coordinator.StatusPending }) {
			r.end(j, j.checkpoints[id], coordinator.StatusAborted, coordinator.Failure{Reason: coordinator.ReasonSuperseded})
		}
		j.exists = true
		j.epoch++
		result.Epoch = j.epoch
		record := refKey{fingerprint: call.Fingerprint, id: -1, epoch: j.epoch}
		if c := from; c != nil {
			r.leaseForRecovery(c, j.epoch, call.LeaseMs)
			record.id, result.Checkpoint = c.ID, new(r.view(c))
		}
		if call.Key != "" {
			j.keys["recover "+call.Key] = record
		}
		r.emit(j, coordinator.Event{Type: coordinator.EventRecovered, CheckpointID: record.id, By: r.by})
		return result, nil
	})
}

// origin is what a recovery goes back to, nil for nothing.
func (j *refJob) origin(now int64, call coordinator.RecoverCall) (*refCheckpoint, error) {
	if call.CheckpointID == nil {
		if err := j.noLatest(); j.latest() == nil && coordinator.CodeOf(err) != coordinator.CodeNoCompletedCheckpoint {
			return nil, err
		}
		return j.latest(), nil
	}
	if !j.exists {
		return nil, coordinator.ErrJobNotFound(j.name)
	}
	c, err := j.find(*call.CheckpointID)
	switch {
	case err != nil:
		return nil, err
	case !c.Completed() && c.Status == coordinator.StatusPending && !c.alive(now):
		return nil, coordinator.ErrNotCompleted(c.ID, coordinator.StatusExpired)
	case !c.Completed():
		return nil, coordinator.ErrNotCompleted(c.ID, c.Status)
	case c.Damage != "":
		return nil, coordinator.ErrSnapshotDamaged(c.ID, c.Damage, nil)
	}
	return c, nil
}

// leaseForRecovery holds a checkpoint for a fleet that is about to restore it.
func (r *reference) leaseForRecovery(c *refCheckpoint, epoch, leaseMs int64) {
	c.leases[fmt.Sprintf("recovery %d", epoch)] = r.clock() + leaseMs
}

// recoverAgain answers a recovery whose Idempotency-Key is known. The worker that asks
// is about to restore like the first one, so the lease begins anew.
func (r *reference) recoverAgain(j *refJob, known refKey, call coordinator.RecoverCall) (coordinator.RecoverResult, error) {
	result := coordinator.RecoverResult{Epoch: known.epoch, Repeated: true}
	switch c := j.checkpoints[known.id]; {
	case known.fingerprint != call.Fingerprint:
		return coordinator.RecoverResult{}, coordinator.ErrIdempotencyKeyReused()
	case c != nil && c.Damage != "":
		return coordinator.RecoverResult{}, coordinator.ErrSnapshotDamaged(c.ID, c.Damage, nil)
	case c != nil:
		r.leaseForRecovery(c, known.epoch, call.LeaseMs)
		result.Checkpoint = new(r.view(c))
	case known.id >= 0:
		return coordinator.RecoverResult{}, coordinator.ErrIdempotencyTargetDeleted(known.id)
	}
	return result, nil
}

// Sweep writes expiry, applies retention where leases had held it up, and drops imports that were left alone.
func (r *reference) Sweep(_ context.Context, call coordinator.SweepCall) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.jobs)) {
		r.settle(r.jobs[name])
		maps.DeleteFunc(r.jobs[name].imports, func(_ int64, i *refImport) bool { return i.lease < r.clock() })
		r.retain(r.jobs[name], call.Retention)
	}
	return nil
}
