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
		st.by = call.By
		return st.trigger(call)
	})
}

func (s *step) trigger(call coordinator.TriggerCall) (coordinator.TriggerResult, error) {
	// A deleted job still knows its calls: no key makes two checkpoints.
	if j := s.remains(call.Job); j != nil {
		known, err := s.recall(j, verbTrigger, call.Idempotency)
		if err != nil {
			return coordinator.TriggerResult{}, err
		}
		if known != nil {
			return s.triggeredBefore(j, call, known)
		}
		if named := j.own().NamedTasks; named > 0 && call.Tasks == nil && call.RequiredTaskAcks != 0 && call.RequiredTaskAcks != named {
			return coordinator.TriggerResult{}, coordinator.ErrTasksNamed(j.name, named, call.RequiredTaskAcks)
		}
		s.catchUp(j, everything)
		if refusal := s.tooEarly(j, call); refusal != nil {
			return coordinator.TriggerResult{}, refusal
		}
	}
	j := s.makeJob(call.Job)
	c, err := s.create(j, call)
	if err != nil {
		return coordinator.TriggerResult{}, err
	}
	s.remember(j, verbTrigger, call.Idempotency, remembered{ID: c.id})
	return coordinator.TriggerResult{Checkpoint: c.view(s.now)}, nil
}

// triggeredBefore answers a repeat.
func (s *step) triggeredBefore(j *job, call coordinator.TriggerCall, known *remembered) (coordinator.TriggerResult, error) {
	c, err := j.checkpoint(known.ID)
	if err != nil {
		return coordinator.TriggerResult{}, err
	}
	if c == nil {
		return coordinator.TriggerResult{}, coordinator.ErrIdempotencyTargetDeleted(known.ID)
	}
	return coordinator.TriggerResult{Checkpoint: c.view(s.now), Repeated: !known.madeBy(call.Idempotency)}, nil
}

// tooEarly refuses a trigger by hand while the job rests, or has too much to do already.
func (s *step) tooEarly(j *job, call coordinator.TriggerCall) error {
	holds := j.holds(call.Defaults)
	rest := coordinator.PauseEnds(j.Outcomes.At, holds.MinPauseMs, s.now) - s.now
	full := j.Pending >= holds.MaxConcurrent
	room := time.Duration(0)
	if full {
		room = s.firstDeadline(j)
	}
	switch {
	case rest > 0 && !call.Force:
		return coordinator.ErrMinPause(j.name, time.Duration(rest)*time.Millisecond, room)
	case full:
		return coordinator.ErrTooManyPending(j.name, j.Pending, holds.MaxConcurrent, room)
	}
	return nil
}

// firstDeadline is the time until the first pending checkpoint may expire; 0 if none does.
func (s *step) firstDeadline(j *job) time.Duration {
	for k := range ascend(child(j.b, bucketDeadlines), nil) {
		return time.Duration(idOf(k)-s.now) * time.Millisecond
	}
	return 0
}

// create writes a new pending checkpoint. What the call leaves open the job's settings
// say, and then the server's; the checkpoint keeps what is resolved. It refuses when the
// job has used up all ids, before it has written anything.
func (s *step) create(j *job, call coordinator.TriggerCall) (*checkpoint, error) {
	if j.NextID > coordinator.MaxID {
		return nil, coordinator.ErrInternal(errors.New("the job has used up all ids"))
	}
	s.note(j, call.Defaults)
	j.Timestamp = max(j.Timestamp, s.now)
	j.Clock = max(j.Clock, s.now)
	holds := j.holds(call.Defaults)
	tasks := call.Tasks
	if tasks == nil {
		tasks = j.ownTasks()
	}
	required := cmp.Or(call.RequiredTaskAcks, holds.RequiredTaskAcks)
	if tasks != nil {
		required = len(tasks)
	}
	timeoutMs := *cmp.Or(call.TimeoutMs, &holds.TimeoutMs)
	c := &checkpoint{job: j, id: j.NextID, record: record{
		Schema: schemaVersion, Status: coordinator.StatusPending, Epoch: j.Epoch, Revision: 1,
		Timestamp: j.Timestamp, Start: s.now, TimeoutMs: max(0, timeoutMs),
		Required: required, Named: tasks != nil, Pinned: call.Pinned,
		Labels: call.Labels, Description: call.Description, Version: coordinator.SnapshotVersion,
	}}
	j.NextID++
	j.Counts.Triggered++
	if c.Pinned {
		j.Pinned++
	}
	s.touchJob(j)
	c.b = s.bucket(s.bucket(j.b, bucketCheckpoints), idKey(c.id))
	if tasks != nil {
		missing := s.bucket(c.b, bucketMissing)
		for _, task := range tasks {
			s.put(missing, []byte(task), present)
		}
	}
	j.read[c.id] = c
	s.touch(c)
	s.join(j, bucketPending, c.id, &j.Pending)
	s.joinDeadlines(c)
	s.logCheckpoint(c, coordinator.EventTriggered, "")
	return c, nil
}
