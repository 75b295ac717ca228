package filestore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Trigger makes a pending checkpoint, or finds the one that an Idempotency-Key made.
func (s *Store) Trigger(ctx context.Context, call coordinator.TriggerCall) (coordinator.TriggerResult, error) {
	return mutate(ctx, s, func(st *step) (coordinator.TriggerResult, error) {
		return st.trigger(call)
	})
}

func (s *step) trigger(call coordinator.TriggerCall) (coordinator.TriggerResult, error) {
	if j := s.remains(call.Job); j != nil {
		known, err := s.recall(j, verbTrigger, call.Idempotency)
		if err != nil {
			return coordinator.TriggerResult{}, err
		}
		if known != nil {
			c := j.checkpoint(known.ID)
			if c == nil {
				return coordinator.TriggerResult{}, coordinator.ErrIdempotencyTargetDeleted(known.ID)
			}
			return coordinator.TriggerResult{Checkpoint: c.view(s.now), Repeated: !known.madeBy(call.Idempotency)}, nil
		}
		s.catchUp(j, everything)
		if j.Pending >= call.Defaults.MaxConcurrent {
			return coordinator.TriggerResult{}, coordinator.ErrTooManyPending(call.Job, j.Pending, call.Defaults.MaxConcurrent, s.firstDeadline(j))
		}
	}
	j := s.makeJob(call.Job)
	if j.NextID > coordinator.MaxID {
		return coordinator.TriggerResult{}, coordinator.ErrInternal(errors.New("the job has used up all ids"))
	}
	s.note(j, call.Defaults)
	c := s.create(j, call)
	s.remember(j, verbTrigger, call.Idempotency, remembered{ID: c.id})
	return coordinator.TriggerResult{Checkpoint: c.view(s.now)}, nil
}

// firstDeadline is the time until the first pending checkpoint may expire; 0 if none does.
func (s *step) firstDeadline(j *job) time.Duration {
	for k := range ascend(child(j.b, bucketDeadlines), nil) {
		return time.Duration(idOf(k)-s.now) * time.Millisecond
	}
	return 0
}

// create writes a new pending checkpoint.
func (s *step) create(j *job, call coordinator.TriggerCall) *checkpoint {
	j.Timestamp = max(j.Timestamp, s.now)
	j.Clock = max(j.Clock, s.now)
	required := cmp.Or(call.RequiredTaskAcks, call.Defaults.RequiredTaskAcks)
	timeoutMs := *cmp.Or(call.TimeoutMs, &call.Defaults.TimeoutMs)
	c := &checkpoint{job: j, id: j.NextID, record: record{
		Schema: schemaVersion, Status: coordinator.StatusPending, Epoch: j.Epoch, Revision: 1,
		Timestamp: j.Timestamp, Start: s.now, TimeoutMs: max(0, timeoutMs),
		Required: required, Named: call.Tasks != nil, Pinned: call.Pinned,
		Labels: call.Labels, Description: call.Description, Version: coordinator.SnapshotVersion,
	}}
	j.NextID++
	s.touchJob(j)
	c.b = s.bucket(s.bucket(j.b, bucketCheckpoints), idKey(c.id))
	if call.Tasks != nil {
		c.Required = len(call.Tasks)
		missing := s.bucket(c.b, bucketMissing)
		for _, task := range call.Tasks {
			s.put(missing, []byte(task), present)
		}
	}
	j.read[c.id] = c
	s.touch(c)
	s.join(j, bucketPending, c.id, &j.Pending)
	s.joinDeadlines(c)
	if c.Pinned {
		j.Pinned++
	}
	j.Counts.Triggered++
	s.logCheckpoint(c, coordinator.EventTriggered, "")
	return c
}
