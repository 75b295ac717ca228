package coordinator

import "context"

// Tasks reads a page of a checkpoint's tasks.
func (c *Coordinator) Tasks(ctx context.Context, tasks TasksCall) (TasksResult, error) {
	var f faults
	f.ref(tasks.Job, tasks.ID)
	f.param("limit", between(int64(tasks.Limit), 1, MaxListLimit, "tasks"))
	if tasks.After != "" {
		f.param("after", CheckTaskID(tasks.After))
	}
	if err := f.err(); err != nil {
		return TasksResult{}, err
	}
	return call(c, "tasks", func() (TasksResult, error) { return c.store.Tasks(ctx, tasks) })
}

// Task reads one task of a checkpoint.
func (c *Coordinator) Task(ctx context.Context, ref Ref, taskID string) (TaskState, error) {
	var f faults
	f.ref(ref.Job, ref.ID)
	f.param("taskId", CheckTaskID(taskID))
	if err := f.err(); err != nil {
		return TaskState{}, err
	}
	return call(c, "task", func() (TaskState, error) { return c.store.Task(ctx, ref, taskID) })
}

// TaskStatus is where a task of a checkpoint stands.
type TaskStatus string

// Acknowledged and missing tasks.
const (
	TaskAcknowledged TaskStatus = "acknowledged"
	TaskMissing      TaskStatus = "missing"
)

// TaskState is a task of a checkpoint: its Ack when acknowledged; while it is missing,
// Uploaded is the part that waits for the acknowledgement, if there is one.
type TaskState struct {
	TaskID   string
	Status   TaskStatus
	Ack      *Ack
	Uploaded *PartInfo
}

// TasksCall pages through tasks. Status "" gives named tasks of both kinds; of a
// checkpoint without named tasks only acknowledged ones are known.
type TasksCall struct {
	Ref
	Status TaskStatus
	// After is the last task id of the page before; "" starts at the first.
	After string
	Limit int
}

// TasksResult is one page; Next is the After of the next one, "" when there is none.
type TasksResult struct {
	Checkpoint Checkpoint
	Tasks      []TaskState
	Next       string
}
