package filestore

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Get reads one checkpoint with its first acknowledgements.
func (s *Store) Get(ctx context.Context, ref coordinator.Ref) (coordinator.CheckpointDetail, error) {
	return read(ctx, s, func(st *step) (coordinator.CheckpointDetail, error) {
		c, err := st.find(ref, false)
		if err != nil {
			return coordinator.CheckpointDetail{}, err
		}
		detail := coordinator.CheckpointDetail{Checkpoint: c.view(st.now)}
		for task, text := range ascend(child(c.b, bucketAcks), nil) {
			if len(detail.Acks) == coordinator.AcksShown {
				break
			}
			given, err := c.readAck(string(task), text)
			if err != nil {
				return coordinator.CheckpointDetail{}, err
			}
			detail.Acks = append(detail.Acks, given.view(c, string(task)))
		}
		if found := len(detail.Acks); found != min(c.Acked, coordinator.AcksShown) {
			return coordinator.CheckpointDetail{}, c.job.inconsistent(c.id, "the list of acknowledgements", fmt.Errorf("%d of %d are there", found, c.Acked))
		}
		return detail, nil
	})
}

// listScan is how many checkpoints a call of List looks at. A filter that hardly any passes would else look
// at all of a job while others wait; the cursor leads on from the last that was looked at.
const listScan = 1000

// List reads checkpoints newest first.
func (s *Store) List(ctx context.Context, call coordinator.ListCall) (coordinator.ListResult, error) {
	return read(ctx, s, func(st *step) (coordinator.ListResult, error) {
		j := st.job(call.Job)
		if j == nil {
			return coordinator.ListResult{}, coordinator.ErrJobNotFound(call.Job)
		}
		result, page := coordinator.ListResult{Next: -1}, coordinator.Page{Limit: call.Limit}
		seen, last := 0, int64(noCheckpoint)
		for c := range j.newestFirst(call.Status, call.Before) {
			if seen++; seen > listScan {
				result.Next = last
				break
			}
			if last = c.id; !c.matches(call, st.now) {
				continue
			}
			view := c.view(st.now)
			if !page.Takes(view.Size()) {
				result.Next = result.Checkpoints[len(result.Checkpoints)-1].ID
				break
			}
			result.Checkpoints = append(result.Checkpoints, view)
		}
		return result, nil
	})
}

// newestFirst yields the checkpoints below the id before that may have the status. Those
// that are overdue stand among the pending ones until somebody writes their expiry. One without a whole
// record is left out, which inconsistent has noted: nobody could say anything of it.
func (j *job) newestFirst(status coordinator.Status, before int64) iter.Seq[*checkpoint] {
	var limit []byte
	if before >= 0 {
		limit = idKey(before)
	}
	readable := func(sources ...iter.Seq[int64]) iter.Seq[*checkpoint] {
		return func(yield func(*checkpoint) bool) {
			for _, source := range sources {
				for id := range source {
					if c, err := j.checkpoint(id); err == nil && c != nil && !yield(c) {
						return
					}
				}
			}
		}
	}
	set := func(name []byte) iter.Seq[int64] {
		return func(yield func(int64) bool) {
			for k := range descend(child(j.b, name), limit) {
				if !yield(idOf(k)) {
					return
				}
			}
		}
	}
	switch status {
	case coordinator.StatusPending:
		return readable(set(bucketPending))
	case coordinator.StatusCompleted:
		return readable(set(bucketCompleted))
	case coordinator.StatusExpired, coordinator.StatusAborted:
		// Both sets are small: what ended is trimmed, what is pending is capped.
		merged := slices.Concat(slices.Collect(set(bucketPending)), slices.Collect(set(bucketEnded)))
		slices.Sort(merged)
		slices.Reverse(merged)
		return readable(slices.Values(merged))
	}
	return readable(set(bucketCheckpoints))
}

func (c *checkpoint) matches(call coordinator.ListCall, now int64) bool {
	if call.Status != "" && c.at(now).Status != call.Status {
		return false
	}
	task := call.NotAckedBy
	return task == "" || !c.hasAcked(task) && c.expects(task)
}

// Jobs reads the state of every job.
func (s *Store) Jobs(ctx context.Context) ([]coordinator.JobState, error) {
	return read(ctx, s, func(st *step) ([]coordinator.JobState, error) {
		jobs := st.readableJobs()
		states := make([]coordinator.JobState, 0, len(jobs))
		for _, j := range jobs {
			if !j.Gone {
				states = append(states, st.jobState(j))
			}
		}
		return states, nil
	})
}

// Job reads one job with the names of its tasks.
func (s *Store) Job(ctx context.Context, job string) (coordinator.JobState, error) {
	return read(ctx, s, func(st *step) (coordinator.JobState, error) {
		j := st.job(job)
		if j == nil {
			return coordinator.JobState{}, coordinator.ErrJobNotFound(job)
		}
		return st.wholeState(j), nil
	})
}

// wholeState is jobState with the names of tasks.
func (s *step) wholeState(j *job) coordinator.JobState {
	state := s.jobState(j)
	state.Settings.Tasks = j.ownTasks()
	return state
}

func (s *step) jobState(j *job) coordinator.JobState {
	state := coordinator.JobState{
		Job: j.name, Epoch: j.Epoch, NextID: j.NextID, Pending: j.Pending, LatestID: -1, ObservedAt: s.now,
		Settings: j.own(), Revision: j.Revision, Configured: j.Settings != nil,
		ConsecutiveFailures: j.Outcomes.Failed, Failing: j.Outcomes.Failing, LastFailure: j.Outcomes.Last.view(),
		LastCompletedAt: j.Outcomes.At, Schedule: coordinator.ScheduleState(j.Schedule), LastEvent: j.Log.position(),
	}
	for k := range ascend(child(j.b, bucketDeadlines), nil) {
		if idOf(k) >= s.now {
			break
		}
		state.Pending-- // its expiry is not written yet
	}
	if c := j.latest(); c != nil {
		state.LatestID, state.LatestAt = c.id, c.EndedAt
	}
	return state
}
