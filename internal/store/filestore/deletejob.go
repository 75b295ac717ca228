package filestore

import (
	"context"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// DeleteJob removes some checkpoints of a job, and the job when none is left.
func (s *Store) DeleteJob(ctx context.Context, call coordinator.DeleteJobCall) (coordinator.DeleteJobResult, error) {
	return free(ctx, s, func(st *step) (coordinator.DeleteJobResult, error) {
		st.by = call.By
		j := st.job(call.Job)
		switch {
		case j == nil:
			return coordinator.DeleteJobResult{}, coordinator.ErrJobNotFound(call.Job)
		case !call.If.Met(jobTag(j.Revision), j.Settings != nil):
			return coordinator.DeleteJobResult{}, coordinator.ErrPreconditionFailed()
		case j.Pinned > 0 && !call.Force:
			return coordinator.DeleteJobResult{}, coordinator.ErrJobPinned(call.Job, j.Pinned)
		}
		st.catchUp(j, everything)
		if j.Pending > 0 && !call.Force {
			return coordinator.DeleteJobResult{}, coordinator.ErrJobPending(call.Job, j.Pending)
		}
		return coordinator.DeleteJobResult{More: st.deleteJob(st.makeJob(call.Job), call.Max)}, nil
	})
}

// deleteJob removes at most limit checkpoints, the oldest first, and then what else the job
// is made of. It tells whether checkpoints are left.
func (s *step) deleteJob(j *job, limit int) (more bool) {
	if s.dropImports(j, everything, limit) {
		return true
	}
	var gone []*checkpoint
	var remnants []int64
	for k := range ascend(child(j.b, bucketCheckpoints), nil) {
		if len(gone)+len(remnants) == limit {
			more = true
			break
		}
		c, err := j.checkpoint(idOf(k))
		if err != nil || c == nil {
			remnants = append(remnants, idOf(k))
			continue
		}
		gone = append(gone, c)
	}
	for _, id := range remnants {
		s.removeRemnant(j, id, coordinator.DeletedByRequest)
	}
	for _, c := range gone {
		s.evict(c, coordinator.ReasonAborted, coordinator.DeletedByRequest)
	}
	if more {
		return true
	}
	s.log(j, event{Type: coordinator.EventJobDeleted, ID: noCheckpoint, By: s.by})
	for _, name := range [][]byte{bucketTasks, bucketSamples, bucketRestores} {
		s.drop(j.b, name)
	}
	j.Settings, j.Schedule, j.Ticked, j.Counts = nil, never(), "", counts{}
	j.Outcomes = outcomes{Highest: j.Outcomes.Highest}
	// A tag from before the deletion must not fit what is configured after it.
	j.Revision++
	j.Gone = j.name != coordinator.DefaultJob
	s.touchJob(j)
	return false
}

// ForgetTask forgets a task's highest attempt.
func (s *Store) ForgetTask(ctx context.Context, job, taskID string) error {
	_, err := free(ctx, s, func(st *step) (struct{}, error) {
		j := st.job(job)
		if j == nil {
			return struct{}{}, coordinator.ErrJobNotFound(job)
		}
		st.delete(child(j.b, bucketAttempts), []byte(taskID))
		return struct{}{}, nil
	})
	return err
}
