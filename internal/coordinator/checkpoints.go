package coordinator

import "context"

// Complete ends a pending checkpoint by hand; force does so although acknowledgements
// are missing.
func (c *Coordinator) Complete(ctx context.Context, job string, id int64, force bool) (Checkpoint, error) {
	var f faults
	f.ref(job, id)
	if err := f.err(); err != nil {
		return Checkpoint{}, err
	}
	return call(c, "complete", func() (Checkpoint, error) {
		return c.store.Complete(ctx, CompleteCall{Job: job, ID: id, Force: force, Keep: c.settings.CheckpointsToKeep, Token: newToken()})
	})
}

// Abort ends a pending checkpoint; with a TaskID it is that task's decline. The call's
// Token is filled in.
func (c *Coordinator) Abort(ctx context.Context, abort AbortCall) (Checkpoint, error) {
	var f faults
	f.ref(abort.Job, abort.ID)
	if abort.TaskID != "" {
		f.body("/taskId", CheckTaskID(abort.TaskID))
	}
	f.body("/attempt", CheckCounter(abort.Attempt))
	if abort.Epoch != nil {
		f.body("/epoch", CheckCounter(*abort.Epoch))
	}
	f.body("/reason", atMost(abort.Message, MaxReasonBytes))
	if err := f.err(); err != nil {
		return Checkpoint{}, err
	}
	abort.Token = newToken()
	return call(c, "abort", func() (Checkpoint, error) { return c.store.Abort(ctx, abort) })
}

// Extend gives a pending checkpoint more time, counted from now.
func (c *Coordinator) Extend(ctx context.Context, extend ExtendCall) (Checkpoint, error) {
	var f faults
	f.ref(extend.Job, extend.ID)
	f.body("/timeoutMs", between(extend.TimeoutMs, 1, MaxTimeoutMs, "milliseconds"))
	if err := f.err(); err != nil {
		return Checkpoint{}, err
	}
	return call(c, "extend", func() (Checkpoint, error) { return c.store.Extend(ctx, extend) })
}

// Update changes labels, description and pin of a checkpoint in any status.
func (c *Coordinator) Update(ctx context.Context, update UpdateCall) (Checkpoint, error) {
	var f faults
	f.ref(update.Job, update.ID)
	if update.Labels != nil {
		f.labels(*update.Labels)
	}
	if update.Description != nil {
		f.body("/description", atMost(*update.Description, MaxDescriptionBytes))
	}
	if err := f.err(); err != nil {
		return Checkpoint{}, err
	}
	checkpoint, err := call(c, "update", func() (Checkpoint, error) { return c.store.Update(ctx, update) })
	if err == nil {
		c.fillDigest(ctx, &checkpoint)
	}
	return checkpoint, err
}

// Delete removes a checkpoint.
func (c *Coordinator) Delete(ctx context.Context, deletion DeleteCall) error {
	var f faults
	f.ref(deletion.Job, deletion.ID)
	if err := f.err(); err != nil {
		return err
	}
	_, err := call(c, "delete", func() (struct{}, error) { return struct{}{}, c.store.Delete(ctx, deletion) })
	return err
}

// Cleanup removes checkpoints until keep unpinned ones survive, in atomic steps. It
// answers at most MaxCleanupAnswer ids and then says that there is more.
func (c *Coordinator) Cleanup(ctx context.Context, job string, keep int64, dryRun bool) (CleanupResult, error) {
	var f faults
	f.param("job", CheckJob(job))
	f.body("/keep", between(keep, 0, MaxID, "checkpoints"))
	if err := f.err(); err != nil {
		return CleanupResult{}, err
	}
	total := CleanupResult{Deleted: []int64{}, Skipped: []int64{}}
	for {
		step := min(CleanupStep, MaxCleanupAnswer-len(total.Deleted))
		if dryRun {
			step = MaxCleanupAnswer
		}
		result, err := call(c, "cleanup", func() (CleanupResult, error) {
			return c.store.Cleanup(ctx, CleanupCall{Job: job, Keep: int(keep), DryRun: dryRun, Max: step})
		})
		if err != nil {
			return total, err
		}
		total.Deleted = append(total.Deleted, result.Deleted...)
		total.Skipped = append([]int64{}, result.Skipped...) // each step names all that it passed over
		total.Kept, total.More = result.Kept, result.More
		if dryRun || !result.More || len(total.Deleted) >= MaxCleanupAnswer || len(result.Deleted) == 0 {
			return total, nil
		}
	}
}

// Get reads one checkpoint, or the latest completed one, with its first acknowledgements.
func (c *Coordinator) Get(ctx context.Context, ref Ref) (CheckpointDetail, error) {
	var f faults
	f.ref(ref.Job, ref.ID)
	if err := f.err(); err != nil {
		return CheckpointDetail{}, err
	}
	detail, err := call(c, "get", func() (CheckpointDetail, error) { return c.store.Get(ctx, ref) })
	if err == nil {
		c.fillDigest(ctx, &detail.Checkpoint)
	}
	return detail, err
}

// List reads a page of checkpoints, newest first.
func (c *Coordinator) List(ctx context.Context, list ListCall) (ListResult, error) {
	var f faults
	f.param("job", CheckJob(list.Job))
	f.param("limit", between(int64(list.Limit), 1, MaxListLimit, "checkpoints"))
	if list.Before >= 0 {
		f.param("before", CheckCounter(list.Before))
	}
	if list.NotAckedBy != "" {
		f.param("notAckedBy", CheckTaskID(list.NotAckedBy))
	}
	if err := f.err(); err != nil {
		return ListResult{}, err
	}
	return call(c, "list", func() (ListResult, error) { return c.store.List(ctx, list) })
}

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
