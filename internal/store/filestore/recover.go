package filestore

import (
	"context"
	"slices"
	"strconv"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Recover aborts everything pending, raises the epoch, and leases the latest completed
// checkpoint.
func (s *Store) Recover(ctx context.Context, call coordinator.RecoverCall) (coordinator.RecoverResult, error) {
	return free(ctx, s, func(st *step) (coordinator.RecoverResult, error) {
		st.by = call.By
		if j := st.remains(call.Job); j != nil {
			known, err := st.recall(j, verbRecover, call.Idempotency)
			if err != nil {
				return coordinator.RecoverResult{}, err
			}
			if known != nil {
				return st.recoveredBefore(j, call, known)
			}
		}
		if call.CheckpointID != nil {
			from, err := st.goBack(call)
			if err != nil {
				return coordinator.RecoverResult{}, err
			}
			return st.recover(from.job, from, call), nil
		}
		j := st.makeJob(call.Job)
		from, err := j.latestWhole()
		if err != nil && coordinator.CodeOf(err) != coordinator.CodeNoCompletedCheckpoint {
			return coordinator.RecoverResult{}, err
		}
		return st.recover(j, from, call), nil
	})
}

// goBack finds the checkpoint that a recovery names by its id.
func (s *step) goBack(call coordinator.RecoverCall) (*checkpoint, error) {
	c, err := s.find(coordinator.Ref{Job: call.Job, ID: *call.CheckpointID}, false)
	if err != nil {
		return nil, err
	}
	switch status := c.at(s.now).Status; {
	case status != coordinator.StatusCompleted:
		return nil, coordinator.ErrNotCompleted(c.id, status)
	case c.Damage != "":
		return nil, coordinator.ErrSnapshotDamaged(c.id, c.Damage, nil)
	case c.Version > coordinator.SnapshotVersion:
		return nil, coordinator.ErrUnsupportedVersion(c.id, c.Version)
	}
	return c, nil
}

// recover goes back to a completed checkpoint, nil where there is none.
func (s *step) recover(j *job, from *checkpoint, call coordinator.RecoverCall) coordinator.RecoverResult {
	var result coordinator.RecoverResult
	for _, id := range ids(child(j.b, bucketPending)) {
		c, err := j.checkpoint(id)
		if err != nil || c == nil {
			s.passOver(j, id)
			continue
		}
		if s.settle(c); c.Status == coordinator.StatusPending {
			s.abort(c, failure{Reason: coordinator.ReasonSuperseded})
		}
		result.Ended = append(result.Ended, id)
	}
	j.Epoch++
	s.touchJob(j)
	result.Epoch = j.Epoch
	did := remembered{ID: noCheckpoint, Epoch: j.Epoch, Ended: result.Ended}
	if from != nil {
		s.leaseForRecovery(from, j.Epoch, call.LeaseMs)
		view := from.view(s.now)
		did.ID, result.Checkpoint = from.id, &view
	}
	s.log(j, event{Type: coordinator.EventRecovered, ID: did.ID, By: call.By})
	s.remember(j, verbRecover, call.Idempotency, did)
	return result
}

// recoveredBefore answers a repeat: the same epoch and checkpoint for every worker of
// one crash. Each of them is about to restore, so the lease starts anew.
func (s *step) recoveredBefore(j *job, call coordinator.RecoverCall, known *remembered) (coordinator.RecoverResult, error) {
	result := coordinator.RecoverResult{Epoch: known.Epoch, Repeated: !known.madeBy(call.Idempotency)}
	if !result.Repeated {
		result.Ended = slices.Clone(known.Ended)
	}
	if known.ID == noCheckpoint {
		return result, nil
	}
	c, err := j.checkpoint(known.ID)
	if err != nil {
		return coordinator.RecoverResult{}, err
	}
	if c == nil {
		return coordinator.RecoverResult{}, coordinator.ErrIdempotencyTargetDeleted(known.ID)
	}
	if c.Damage != "" {
		return coordinator.RecoverResult{}, coordinator.ErrSnapshotDamaged(c.id, c.Damage, nil)
	}
	s.leaseForRecovery(c, known.Epoch, call.LeaseMs)
	view := c.view(s.now)
	result.Checkpoint = &view
	return result, nil
}

func (s *step) leaseForRecovery(c *checkpoint, epoch, leaseMs int64) {
	if leaseMs > 0 {
		s.lease(c, "recover "+strconv.FormatInt(epoch, 10), s.now+leaseMs)
	}
}
