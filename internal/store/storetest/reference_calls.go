package storetest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Trigger makes a pending checkpoint or finds that of an Idempotency-Key.
func (r *reference) Trigger(_ context.Context, call coordinator.TriggerCall) (coordinator.TriggerResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.askedBy(call.By)()
	j := r.entry(call.Job)
	return once(j, call.Token, func() (coordinator.TriggerResult, error) {
		if known, ok := j.keys["trigger "+call.Key]; ok && call.Key != "" {
			return r.triggerAgain(j, known, call.Fingerprint)
		}
		if names := len(j.settings.Tasks); names > 0 && call.Tasks == nil && call.RequiredTaskAcks > 0 && call.RequiredTaskAcks != names {
			return coordinator.TriggerResult{}, coordinator.ErrTasksNamed(j.name, names, call.RequiredTaskAcks)
		}
		r.settle(j)
		now, effective := r.clock(), j.settings.Over(call.Defaults)
		pending := j.pending()
		if ends := coordinator.PauseEnds(j.completedAt, effective.MinPauseMs, now); now < ends && !call.Force {
			room := time.Duration(0)
			if len(pending) >= effective.MaxConcurrent {
				room = time.Duration(j.firstDeadline(now)) * time.Millisecond
			}
			return coordinator.TriggerResult{}, coordinator.ErrMinPause(j.name, time.Duration(ends-now)*time.Millisecond, room)
		}
		if len(pending) >= effective.MaxConcurrent {
			return coordinator.TriggerResult{}, coordinator.ErrTooManyPending(j.name, len(pending), effective.MaxConcurrent, time.Second)
		}
		c := r.begin(j, call)
		if call.Key != "" {
			j.keys["trigger "+call.Key] = refKey{fingerprint: call.Fingerprint, id: c.ID}
		}
		return coordinator.TriggerResult{Checkpoint: r.view(c)}, nil
	})
}

// pending are the ids of what is pending, overdue or not.
func (j *refJob) pending() []int64 {
	return j.ids(func(c *refCheckpoint) bool { return c.Status == coordinator.StatusPending })
}

// begin makes a checkpoint. What the call leaves open the job's settings say, and then the
// server's.
func (r *reference) begin(j *refJob, call coordinator.TriggerCall) *refCheckpoint {
	now, effective := r.clock(), j.settings.Over(call.Defaults)
	tasks, required := call.Tasks, call.RequiredTaskAcks
	if tasks == nil {
		tasks, required = j.settings.Tasks, cmp.Or(required, effective.RequiredTaskAcks)
	}
	if len(tasks) > 0 {
		required = len(tasks)
	}
	j.exists, j.noted = true, call.Defaults
	j.shown = max(j.shown, now)
	c := &refCheckpoint{
		Checkpoint: coordinator.Checkpoint{
			Job: j.name, ID: j.next, Epoch: j.epoch, Status: coordinator.StatusPending, Revision: 1,
			Timestamp: j.shown, Start: now, TimeoutMs: *cmp.Or(call.TimeoutMs, &effective.TimeoutMs),
			RequiredTaskAcks: required, NamedTasks: len(tasks) > 0,
			Pinned: call.Pinned, Labels: maps.Clone(call.Labels), Description: call.Description,
		},
		names: slices.Sorted(slices.Values(tasks)), acks: map[string]*refAck{},
		uploaded: map[string]coordinator.PartContent{}, shared: map[string]refEntry{}, leases: map[string]int64{},
	}
	j.next++
	j.checkpoints[c.ID] = c
	j.counts.Triggered++
	r.tell(j, c, coordinator.EventTriggered, "")
	return c
}

// firstDeadline is how long until the first pending checkpoint may expire, in ms; 0 if none does.
func (j *refJob) firstDeadline(now int64) int64 {
	first := int64(0)
	for _, id := range j.pending() {
		if deadline, limited := j.checkpoints[id].Deadline(); limited && (first == 0 || deadline-now < first) {
			first = deadline - now
		}
	}
	return first
}

// triggerAgain answers a trigger whose Idempotency-Key is known.
func (r *reference) triggerAgain(j *refJob, known refKey, fingerprint string) (coordinator.TriggerResult, error) {
	c := j.checkpoints[known.id]
	switch {
	case known.fingerprint != fingerprint:
		return coordinator.TriggerResult{}, coordinator.ErrIdempotencyKeyReused()
	case c == nil:
		return coordinator.TriggerResult{}, coordinator.ErrIdempotencyTargetDeleted(known.id)
	}
	return coordinator.TriggerResult{Checkpoint: r.view(c), Repeated: true}, nil
}

// Acknowledge applies the items in order.
func (r *reference) Acknowledge(_ context.Context, call coordinator.AckCall) (coordinator.AckResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, err := r.job(call.Job)
	if err != nil {
		return coordinator.AckResult{}, err
	}
	return once(j, call.Token, func() (coordinator.AckResult, error) {
		j, c, err := r.find(call.Job, call.ID)
		if err != nil {
			return coordinator.AckResult{}, err
		}
		var result coordinator.AckResult
		for _, item := range call.Items {
			result.Outcomes = append(result.Outcomes, r.ackOne(j, c, item, call.Retention))
		}
		result.Status, result.AcknowledgedTasks, result.RequiredTaskAcks = c.Status, c.AcknowledgedTasks, c.RequiredTaskAcks
		return result, nil
	})
}

// ackOne applies one item and answers as of its place.
func (r *reference) ackOne(j *refJob, c *refCheckpoint, item coordinator.AckItem, retention coordinator.Retention) coordinator.AckOutcome {
	outcome := coordinator.AckOutcome{TaskID: item.TaskID, Outcome: coordinator.AckAccepted}
	part := item.Part
	if uploaded, ok := c.uploaded[item.TaskID]; ok && part == nil {
		part = &uploaded
	}
	refusal := r.refusal(j, c, item.TaskID, item.Attempt, item.Epoch)
	acked := c.acks[item.TaskID]
	switch {
	case refusal != nil:
	case acked != nil && sameAgain(item, acked.Part.Digest):
		outcome.Outcome = coordinator.AckDuplicate
	case acked != nil:
		refusal = coordinator.ErrAckConflict(c.ID, item.TaskID)
	case c.Completed():
		refusal = r.late(j, c)
	case item.Digest != "" && part == nil:
		refusal = coordinator.ErrPartChanged(c.ID, item.TaskID, "")
	case item.Digest != "" && part.Digest != item.Digest:
		refusal = coordinator.ErrPartChanged(c.ID, item.TaskID, part.Digest)
	default:
		if part == nil {
			part = &coordinator.PartContent{Digest: coordinator.EmptyDigest}
		}
		outcome.LatencyMs = r.accept(j, c, item.TaskID, item.Attempt, *part, retention)
	}
	if refusal != nil {
		outcome.Outcome, outcome.Refusal = coordinator.AckRefused, refusal
	}
	outcome.Status, outcome.AcknowledgedTasks, outcome.RequiredTaskAcks = c.Status, c.AcknowledgedTasks, c.RequiredTaskAcks
	return outcome
}

// sameAgain tells whether an item says nothing else than an earlier one of its task. A
// digest alone names a part as well.
func sameAgain(item coordinator.AckItem, standing string) bool {
	if item.Part != nil {
		return item.Part.Digest == standing
	}
	return item.Digest == "" || item.Digest == standing
}

// refusal is the first half of the order of refusals, which all messages of a task
// share: who sends it comes before what has become of the checkpoint.
func (r *reference) refusal(j *refJob, c *refCheckpoint, task string, attempt int64, epoch *int64) *coordinator.Error {
	switch {
	case task != "" && c.NamedTasks && !slices.Contains(c.names, task):
		return coordinator.ErrTaskNotExpected(c.ID, task)
	case epoch != nil && *epoch != j.epoch:
		return coordinator.ErrStaleEpoch(*epoch, j.epoch)
	case task != "" && attempt < j.attempts[task]:
		return coordinator.ErrStaleAttempt(task, attempt, j.attempts[task])
	case c.Status == coordinator.StatusExpired, c.Status == coordinator.StatusAborted:
		return r.late(j, c)
	}
	return nil
}

// late is the refusal of what came after the end.
func (r *reference) late(j *refJob, c *refCheckpoint) *coordinator.Error {
	return coordinator.ErrEnded(c.ID, c.Status).WithNextSteps(j.nextSteps(r.clock()))
}

// accept counts a task and completes the checkpoint when it was the last. It gives the
// time since the start in ms.
func (r *reference) accept(j *refJob, c *refCheckpoint, task string, attempt int64, p coordinator.PartContent, retention coordinator.Retention) int64 {
	now := r.clock()
	delete(c.uploaded, task)
	c.acks[task] = &refAck{
		Ack:     coordinator.Ack{TaskID: task, Attempt: attempt, AcknowledgedAt: now, Part: info(p)},
		content: slices.Clone(p.Content),
	}
	j.attempts[task] = max(j.attempts[task], attempt)
	c.AcknowledgedTasks++
	c.Revision++
	if c.AcknowledgedTasks >= c.RequiredTaskAcks {
		r.complete(j, c, task, retention)
	}
	return now - c.Start
}

// Complete completes by hand.
func (r *reference) Complete(_ context.Context, call coordinator.CompleteCall) (coordinator.Checkpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.askedBy(call.By)()
	j, c, err := r.find(call.Job, call.ID)
	if err != nil {
		return coordinator.Checkpoint{}, err
	}
	switch missing := c.missing(); {
	case c.Completed():
	case c.Status != coordinator.StatusPending:
		return coordinator.Checkpoint{}, r.late(j, c)
	case !call.Force && c.AcknowledgedTasks < c.RequiredTaskAcks:
		return coordinator.Checkpoint{}, coordinator.ErrAcksMissing(c.ID, c.RequiredTaskAcks-c.AcknowledgedTasks, missing[:min(len(missing), coordinator.MissingTasksShown)])
	default:
		r.complete(j, c, "", call.Retention)
	}
	return r.view(c), nil
}

// Abort ends a pending checkpoint, by hand or as a task's decline.
func (r *reference) Abort(_ context.Context, call coordinator.AbortCall) (coordinator.Checkpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.askedBy(call.By)()
	j, c, err := r.find(call.Job, call.ID)
	if err != nil {
		return coordinator.Checkpoint{}, err
	}
	refusal := r.refusal(j, c, call.TaskID, call.Attempt, call.Epoch)
	switch {
	case refusal != nil && refusal.Code != coordinator.CodeCheckpointAborted:
		return coordinator.Checkpoint{}, refusal
	case c.Completed():
		return coordinator.Checkpoint{}, r.late(j, c)
	case c.Status == coordinator.StatusPending:
		failure := coordinator.Failure{Reason: coordinator.ReasonAborted, TaskID: call.TaskID, Message: call.Message}
		if call.TaskID != "" {
			failure.Reason = coordinator.ReasonDeclined
			j.attempts[call.TaskID] = max(j.attempts[call.TaskID], call.Attempt)
		}
		r.end(j, c, coordinator.StatusAborted, failure)
	}
	return r.view(c), nil
}

// Extend moves the deadline, never to an earlier time.
func (r *reference) Extend(_ context.Context, call coordinator.ExtendCall) (coordinator.Checkpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.askedBy(call.By)()
	j, c, err := r.find(call.Job, call.ID)
	if err != nil {
		return coordinator.Checkpoint{}, err
	}
	if c.Status != coordinator.StatusPending {
		return coordinator.Checkpoint{}, r.late(j, c)
	}
	deadline, limited := c.Deadline()
	triggered := cmp.Or(c.triggered, c.TimeoutMs)
	if furthest := c.Start + coordinator.MaxExtension*triggered; limited && r.clock()+call.TimeoutMs > furthest {
		return coordinator.Checkpoint{}, coordinator.ErrExtendedTooFar(c.ID, call.TimeoutMs, max(0, furthest-r.clock()))
	}
	if limited && r.clock()+call.TimeoutMs > deadline {
		c.TimeoutMs, c.triggered = r.clock()+call.TimeoutMs-c.Start, triggered
		c.Revision++
		r.tell(j, c, coordinator.EventExtended, "")
	}
	return r.view(c), nil
}

// Update changes what the call names.
func (r *reference) Update(_ context.Context, call coordinator.UpdateCall) (coordinator.Checkpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.askedBy(call.By)()
	j, c, err := r.find(call.Job, call.ID)
	if err != nil {
		return coordinator.Checkpoint{}, err
	}
	if !met(call.If, c.Tag(), true) {
		return coordinator.Checkpoint{}, coordinator.ErrPreconditionFailed()
	}
	if aside := call.SetAside; aside != nil && *aside && !c.Completed() {
		return coordinator.Checkpoint{}, coordinator.ErrNotToSetAside(c.ID, c.Status)
	}
	if call.Labels != nil {
		c.Labels = maps.Clone(*call.Labels)
	}
	c.SetAside = *cmp.Or(call.SetAside, &c.SetAside)
	c.Description = *cmp.Or(call.Description, &c.Description)
	c.Pinned = *cmp.Or(call.Pinned, &c.Pinned)
	if call.Repaired {
		c.Damage = ""
	}
	c.Revision++
	r.tell(j, c, coordinator.EventUpdated, "")
	return r.view(c), nil
}

// met tells whether a resource with this tag meets a precondition.
func met(p coordinator.Precondition, tag string, exists bool) bool {
	if p.IfNoneMatch && exists {
		return false
	}
	return len(p.IfMatch) == 0 || exists && (slices.Contains(p.IfMatch, "*") || slices.Contains(p.IfMatch, tag))
}
