package storetest

import (
	"context"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// emit writes an event.
func (r *reference) emit(j *refJob, e coordinator.Event) {
	j.seq++
	e.ID, e.Job, e.At = coordinator.EventID{Epoch: j.epoch, Seq: j.seq}, j.name, r.clock()
	j.log = append(j.log, e)
	if over := len(j.log) - j.noted.EventsToKeep; over > 0 {
		j.log = j.log[over:]
	}
	for wake := range r.listeners {
		(*wake)(j.name)
	}
}

// askedBy names who asks for what is done until done is called.
func (r *reference) askedBy(name string) (done func()) {
	r.by = name
	return func() { r.by = "" }
}

// tell writes an event about a checkpoint as it is.
func (r *reference) tell(j *refJob, c *refCheckpoint, kind coordinator.EventType, why coordinator.DeletionReason) {
	v := r.view(c)
	e := coordinator.Event{
		Type: kind, CheckpointID: c.ID, Status: c.Status, RequiredTaskAcks: c.RequiredTaskAcks, AcknowledgedTasks: c.AcknowledgedTasks,
		MissingTasks: v.MissingTasks, Why: why, Failure: c.Failure, DurationMs: c.DurationMs(),
	}
	if deadline, limited := c.Deadline(); limited && c.Status == coordinator.StatusPending {
		e.Deadline = deadline
	}
	if c.Completed() {
		e.Entries, e.Bytes = c.Entries, c.Bytes
	}
	e.Pinned, e.SetAside = kind == coordinator.EventUpdated && c.Pinned, kind == coordinator.EventUpdated && c.SetAside
	if kind != coordinator.EventExpired && why != coordinator.DeletedByRetention {
		e.By = r.by
	}
	r.emit(j, e)
}

// position is the newest event.
func (j *refJob) position() coordinator.EventID {
	if len(j.log) == 0 {
		return coordinator.EventID{}
	}
	return j.log[len(j.log)-1].ID
}

// Events reads what follows an event.
func (r *reference) Events(_ context.Context, call coordinator.EventsCall) (coordinator.EventsResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, err := r.job(call.Job)
	if gone := r.jobs[call.Job]; err != nil && gone != nil && call.After != nil {
		// The log of a deleted job is read on to its end.
		if rest, has := gone.follows(*call.After); has && len(rest) > 0 {
			j, err = gone, nil
		}
	}
	if err != nil {
		return coordinator.EventsResult{}, err
	}
	result := coordinator.EventsResult{Position: j.position()}
	if call.After == nil {
		return result, nil
	}
	rest, has := j.follows(*call.After)
	if !has {
		result.Gap = true
		for _, id := range j.ids(func(c *refCheckpoint) bool { return c.alive(r.clock()) }) {
			result.Pending = append(result.Pending, r.view(j.checkpoints[id]))
		}
		return result, nil
	}
	result.Events = slices.Clone(rest[:min(len(rest), call.Limit)])
	return result, nil
}

// follows gives what follows an event; has tells whether the log knows.
func (j *refJob) follows(id coordinator.EventID) (rest []coordinator.Event, has bool) {
	place := slices.IndexFunc(j.log, func(e coordinator.Event) bool { return e.ID == id })
	fromTheBeginning := id == coordinator.EventID{} && (j.seq == 0 || j.log[0].ID.Seq == 1)
	return j.log[place+1:], place >= 0 || fromTheBeginning
}

// Listen wakes at every event.
func (r *reference) Listen(ctx context.Context, wake func(job string)) {
	r.mu.Lock()
	r.listeners[&wake] = true
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.listeners, &wake)
}
