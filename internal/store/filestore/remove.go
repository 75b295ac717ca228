package filestore

import (
	"context"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// remove takes a checkpoint out of the store; one that is pending must have ended before.
func (s *step) remove(c *checkpoint, why coordinator.DeletionReason) {
	j := c.job
	j.Counts.Deleted++
	if c.Pinned {
		j.Pinned--
	}
	s.logCheckpoint(c, coordinator.EventDeleted, why)
	s.dropFiles(c, func(string) bool { return true })
	s.leave(j, bucketCompleted, c.id, nil)
	s.leaveRetained(c)
	if get(child(j.b, bucketEnded), idKey(c.id)) != nil {
		s.leave(j, bucketEnded, c.id, nil)
		if !c.Pinned {
			j.Remains--
			s.touchJob(j)
		}
	}
	s.drop(child(j.b, bucketCheckpoints), idKey(c.id))
	j.read[c.id] = nil
	job, id := j.name, c.id
	s.report(func(o coordinator.Observer) { o.Deleted(job, id, why) })
}

// evict removes a checkpoint of any status. One that is pending ends first, so that
// whoever waits for it is told.
func (s *step) evict(c *checkpoint, reason coordinator.FailureReason, why coordinator.DeletionReason) {
	if c.Status == coordinator.StatusPending {
		s.leavePending(c)
		c.Status, c.EndedAt, c.Failure = coordinator.StatusAborted, s.now, &failure{Reason: reason}
		s.ended(c)
	}
	s.remove(c, why)
}

// trimEnded keeps the newest of the unpinned checkpoints that ended uncompleted.
func (s *step) trimEnded(j *job) {
	if j.Remains <= coordinator.EndedKept {
		return
	}
	kept := 0
	var over []*checkpoint
	for k := range descend(child(j.b, bucketEnded), nil) {
		c, err := j.checkpoint(idOf(k))
		if err != nil || c == nil || c.Pinned { // one without a whole record is only deleted by name
			continue
		}
		if kept++; kept > coordinator.EndedKept {
			over = append(over, c)
		}
	}
	for _, c := range slices.Backward(over) { // oldest first
		s.remove(c, coordinator.DeletedByRetention)
	}
}

// Delete removes a checkpoint.
func (s *Store) Delete(ctx context.Context, call coordinator.DeleteCall) error {
	_, err := free(ctx, s, func(st *step) (struct{}, error) {
		st.by = call.By
		if j := st.job(call.Job); j != nil {
			if _, unread := j.checkpoint(call.ID); unread != nil {
				// Who names it has been told of it. Its tag is not known, so no condition holds.
				if !call.If.Met("", false) {
					return struct{}{}, coordinator.ErrPreconditionFailed()
				}
				st.removeRemnant(j, call.ID, coordinator.DeletedByRequest)
				return struct{}{}, nil
			}
		}
		c, err := st.findToChange(call.Job, call.ID, false)
		switch {
		case err != nil:
			return struct{}{}, err
		case !call.If.Met(c.tag(), true):
			return struct{}{}, coordinator.ErrPreconditionFailed()
		case c.Pinned && !call.Force:
			return struct{}{}, coordinator.ErrPinned(c.id)
		}
		st.evict(c, coordinator.ReasonAborted, coordinator.DeletedByRequest)
		return struct{}{}, nil
	})
	return err
}
