package filestore

import (
	"context"
	"iter"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Tasks reads a page of a checkpoint's tasks in byte order of their ids.
func (s *Store) Tasks(ctx context.Context, call coordinator.TasksCall) (coordinator.TasksResult, error) {
	return read(ctx, s, func(st *step) (coordinator.TasksResult, error) {
		c, err := st.find(call.Ref, false)
		if err != nil {
			return coordinator.TasksResult{}, err
		}
		result, page := coordinator.TasksResult{Checkpoint: c.view(st.now)}, coordinator.Page{Limit: call.Limit}
		for task := range c.tasks(call.Status, call.After) {
			state, err := c.task(task, result.Checkpoint.Status)
			if err != nil {
				return coordinator.TasksResult{}, err
			}
			if !page.Takes(state.Size()) {
				result.Next = result.Tasks[len(result.Tasks)-1].TaskID
				break
			}
			result.Tasks = append(result.Tasks, state)
		}
		return result, nil
	})
}

// tasks yields the known tasks of a status ("" for both) behind the task afterTask, in
// byte order: acknowledged ones, and expected ones that are missing.
func (c *checkpoint) tasks(status coordinator.TaskStatus, afterTask string) iter.Seq[string] {
	return func(yield func(string) bool) {
		nextAcked, stopAcked := iter.Pull2(ascend(child(c.b, bucketAcks), after(afterTask)))
		defer stopAcked()
		nextMissing, stopMissing := iter.Pull2(ascend(child(c.b, bucketMissing), after(afterTask)))
		defer stopMissing()
		acked, _, isAcked := nextAcked()
		missing, _, isMissing := nextMissing()
		isAcked = isAcked && status != coordinator.TaskMissing
		isMissing = isMissing && status != coordinator.TaskAcknowledged
		for isAcked || isMissing {
			var task string
			if isAcked && (!isMissing || string(acked) < string(missing)) {
				task = string(acked)
				acked, _, isAcked = nextAcked()
			} else {
				task = string(missing)
				missing, _, isMissing = nextMissing()
			}
			if !yield(task) {
				return
			}
		}
	}
}

// task is the state of a known task; status is the checkpoint's as time has made it.
func (c *checkpoint) task(task string, status coordinator.Status) (coordinator.TaskState, error) {
	state := coordinator.TaskState{TaskID: task, Status: coordinator.TaskMissing}
	given, err := c.ack(task)
	switch {
	case err != nil:
		return state, err
	case given != nil:
		view := given.view(c, task)
		state.Status, state.Ack = coordinator.TaskAcknowledged, &view
		return state, nil
	case status != coordinator.StatusPending: // the parts of one that is overdue are as good as gone
		return state, nil
	}
	uploaded, err := c.part(task)
	if uploaded != nil {
		info := uploaded.info()
		state.Uploaded = &info
	}
	return state, err
}

// Task reads one task.
func (s *Store) Task(ctx context.Context, ref coordinator.Ref, taskID string) (coordinator.TaskState, error) {
	return read(ctx, s, func(st *step) (coordinator.TaskState, error) {
		c, err := st.find(ref, false)
		if err != nil {
			return coordinator.TaskState{}, err
		}
		if !c.hasAcked(taskID) && (!c.Named || !c.expects(taskID)) {
			if err := c.checkTotals(); err != nil { // it may be one that the list has lost
				return coordinator.TaskState{}, err
			}
			return coordinator.TaskState{}, coordinator.ErrTaskNotInCheckpoint(c.id, taskID)
		}
		return c.task(taskID, c.at(st.now).Status)
	})
}
