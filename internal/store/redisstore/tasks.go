package redisstore

import (
	"context"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var (
	tasksScript = newScript("tasks", orderPreludes)
	taskScript  = newScript("task", findPreludes)
)

// Tasks reads a page of a checkpoint's tasks.
func (s *Store) Tasks(ctx context.Context, call coordinator.TasksCall) (coordinator.TasksResult, error) {
	// One more than the page holds tells whether there is a next one.
	r, err := s.runInOrder(ctx, tasksScript, call.Job, refText(call.Ref), string(call.Status), call.After, call.Limit+1)
	if err != nil {
		return coordinator.TasksResult{}, err
	}
	if r.word != wordOK {
		return coordinator.TasksResult{}, refusal(tasksScript.verb, call.Job, call.ID, r)
	}
	checkpoint, err := s.checkpoint(tasksScript.verb, call.Job, r)
	if err != nil {
		return coordinator.TasksResult{}, err
	}
	result, page := coordinator.TasksResult{Checkpoint: checkpoint}, coordinator.Page{Limit: call.Limit}
	body := cursor{values: r.body[1:]}
	rows := cursor{values: body.list(), err: body.err}
	for rows.more() {
		task := rows.text()
		state, err := taskState(task, rows.text(), rows.text(), &checkpoint)
		if err != nil {
			return coordinator.TasksResult{}, coordinator.ErrInconsistent(checkpoint.ID, storedAckOf(task), err)
		}
		if !page.Takes(state.Size()) {
			result.Next = result.Tasks[len(result.Tasks)-1].TaskID
			break
		}
		result.Tasks = append(result.Tasks, state)
	}
	if rows.err != nil {
		return coordinator.TasksResult{}, badReply(tasksScript.verb, r, rows.err)
	}
	return result, nil
}

// Task reads one task.
func (s *Store) Task(ctx context.Context, ref coordinator.Ref, taskID string) (coordinator.TaskState, error) {
	r, err := s.run(ctx, taskScript, reads, ref.Job, refText(ref), taskID)
	if err != nil {
		return coordinator.TaskState{}, err
	}
	switch r.word {
	case wordOK:
	case string(coordinator.CodeTaskNotInCheckpoint):
		body := cursor{values: r.body}
		return coordinator.TaskState{}, coordinator.ErrTaskNotInCheckpoint(body.number(), taskID)
	default:
		return coordinator.TaskState{}, refusal(taskScript.verb, ref.Job, ref.ID, r)
	}
	checkpoint, err := s.checkpoint(taskScript.verb, ref.Job, r)
	if err != nil {
		return coordinator.TaskState{}, err
	}
	body := cursor{values: r.body[1:]}
	state, err := taskState(taskID, body.text(), body.text(), &checkpoint)
	if err != nil {
		return coordinator.TaskState{}, coordinator.ErrInconsistent(checkpoint.ID, storedAckOf(taskID), err)
	}
	return state, nil
}

// taskState reads a task's stored acknowledgement and the stored part that waits for
// one; each is "" when there is none. Once the checkpoint has ended no part waits any
// more, although the sweeper may not have come to it yet.
func taskState(task, ack, part string, checkpoint *coordinator.Checkpoint) (coordinator.TaskState, error) {
	if ack != "" {
		parsed, err := parseAck(task, ack, checkpoint.Start)
		return coordinator.TaskState{TaskID: task, Status: coordinator.TaskAcknowledged, Ack: &parsed}, err
	}
	state := coordinator.TaskState{TaskID: task, Status: coordinator.TaskMissing}
	if part == "" || checkpoint.Status != coordinator.StatusPending {
		return state, nil
	}
	parsed, err := parsePart(part)
	state.Uploaded = &parsed.PartInfo
	return state, err
}
