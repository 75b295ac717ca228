package storetest

import (
	"context"
	"maps"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Get reads one checkpoint.
func (r *reference) Get(_ context.Context, ref coordinator.Ref) (coordinator.CheckpointDetail, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, v, err := r.read(ref)
	if err != nil {
		return coordinator.CheckpointDetail{}, err
	}
	detail := coordinator.CheckpointDetail{Checkpoint: v}
	for _, task := range slices.Sorted(maps.Keys(c.acks)) {
		if len(detail.Acks) < coordinator.AcksShown {
			detail.Acks = append(detail.Acks, c.ack(task))
		}
	}
	return detail, nil
}

func (r *reference) read(ref coordinator.Ref) (*refCheckpoint, coordinator.Checkpoint, error) {
	j, err := r.job(ref.Job)
	if err != nil {
		return nil, coordinator.Checkpoint{}, err
	}
	c, err := j.find(ref.ID)
	if err != nil {
		return nil, coordinator.Checkpoint{}, err
	}
	return c, r.view(c), nil
}

// ack is a task's acknowledgement as it is shown, with the time since the start.
func (c *refCheckpoint) ack(task string) coordinator.Ack {
	ack := c.acks[task].Ack
	ack.LatencyMs = max(0, ack.AcknowledgedAt-c.Start)
	return ack
}

// List reads newest first.
func (r *reference) List(_ context.Context, call coordinator.ListCall) (coordinator.ListResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, err := r.job(call.Job)
	if err != nil {
		return coordinator.ListResult{}, err
	}
	ids := j.ids(func(c *refCheckpoint) bool {
		task := call.NotAckedBy
		return (call.Before < 0 || c.ID < call.Before) &&
			(call.Status == "" || r.view(c).Status == call.Status) &&
			(task == "" || c.acks[task] == nil && (!c.NamedTasks || slices.Contains(c.names, task)))
	})
	slices.Reverse(ids)
	result := coordinator.ListResult{Next: -1}
	size := 0
	for i, id := range ids {
		v := r.view(j.checkpoints[id])
		size += v.Size()
		if i == call.Limit || i > 0 && size > coordinator.PageBytes {
			result.Next = ids[i-1]
			break
		}
		result.Checkpoints = append(result.Checkpoints, v)
	}
	return result, nil
}

// Tasks reads a page of tasks.
func (r *reference) Tasks(_ context.Context, call coordinator.TasksCall) (coordinator.TasksResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, v, err := r.read(call.Ref)
	if err != nil {
		return coordinator.TasksResult{}, err
	}
	result, size := coordinator.TasksResult{Checkpoint: v}, 0
	for _, id := range c.tasks() {
		state := c.task(id, v.Status)
		if id <= call.After || call.Status != "" && call.Status != state.Status {
			continue
		}
		size += state.Size()
		if n := len(result.Tasks); n == call.Limit || n > 0 && size > coordinator.PageBytes {
			result.Next = result.Tasks[n-1].TaskID
			break
		}
		result.Tasks = append(result.Tasks, state)
	}
	return result, nil
}

// tasks are the ids of the known tasks in byte order.
func (c *refCheckpoint) tasks() []string {
	if c.NamedTasks {
		return c.names
	}
	return slices.Sorted(maps.Keys(c.acks))
}

// task tells where a task stands in a checkpoint of that status: in one that has ended no
// part waits for its acknowledgement any more.
func (c *refCheckpoint) task(id string, status coordinator.Status) coordinator.TaskState {
	state := coordinator.TaskState{TaskID: id, Status: coordinator.TaskMissing}
	if ack := c.acks[id]; ack != nil {
		state.Status, state.Ack = coordinator.TaskAcknowledged, new(c.ack(id))
	} else if part, ok := c.uploaded[id]; ok && status == coordinator.StatusPending {
		state.Uploaded = new(info(part))
	}
	return state
}

// Task reads one task.
func (r *reference) Task(_ context.Context, ref coordinator.Ref, task string) (coordinator.TaskState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, v, err := r.read(ref)
	if err != nil {
		return coordinator.TaskState{}, err
	}
	if !slices.Contains(c.tasks(), task) {
		return coordinator.TaskState{}, coordinator.ErrTaskNotInCheckpoint(c.ID, task)
	}
	return c.task(task, v.Status), nil
}
