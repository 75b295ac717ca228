package handlers

import (
	"net/url"
	"strconv"

	"github.com/checkpointd/checkpointd/api"
	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/load"
)

// present gives a pointer to a value that an answer has, and nil for the zero value,
// which stands for one that it has not.
func present[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// listed makes an empty list of none, so that clients read [] and never null.
func listed[T any](values []T) []T {
	if values == nil {
		return []T{}
	}
	return values
}

func checkpointOf(c coordinator.Checkpoint) api.Checkpoint {
	out := api.Checkpoint{
		CheckpointID: c.ID, Job: c.Job, Epoch: c.Epoch, Status: api.CheckpointStatus(c.Status), Completed: c.Completed(),
		Timestamp: c.Timestamp, RequiredTaskAcks: c.RequiredTaskAcks, AcknowledgedTasks: c.AcknowledgedTasks,
		MissingTasks: c.MissingTasks, Pinned: c.Pinned, SetAside: present(c.SetAside), Labels: api.Labels(c.Labels), Description: present(c.Description),
	}
	if out.Labels == nil {
		out.Labels = api.Labels{}
	}
	if deadline, has := c.Deadline(); has {
		out.Deadline = &deadline
	}
	if c.Status != coordinator.StatusPending {
		duration := c.DurationMs()
		out.EndedAt, out.DurationMs = &c.EndedAt, &duration
	}
	if c.Completed() {
		out.CompletedAt = &c.EndedAt
		out.Snapshot = &api.SnapshotSummary{Version: c.SnapshotVersion, Entries: c.Entries, Bytes: c.Bytes, Digest: present(c.Digest), Damage: present(c.Damage)}
	}
	out.Failure = failureOf(c.Failure)
	return out
}

func failureOf(failure *coordinator.Failure) *api.Failure {
	if failure == nil {
		return nil
	}
	return &api.Failure{
		Reason: api.FailureReason(failure.Reason), TaskID: present(failure.TaskID), Message: present(failure.Message),
	}
}

func detailsOf(detail coordinator.CheckpointDetail) api.CheckpointDetails {
	out := api.CheckpointDetails{Checkpoint: checkpointOf(detail.Checkpoint), Acks: make([]api.Ack, len(detail.Acks))}
	for i, ack := range detail.Acks {
		out.Acks[i] = ackOf(ack)
	}
	return out
}

func ackOf(ack coordinator.Ack) api.Ack {
	return api.Ack{
		TaskID: ack.TaskID, Attempt: present(ack.Attempt), AcknowledgedAt: ack.AcknowledgedAt, LatencyMs: ack.LatencyMs,
		Entries: ack.Part.Entries, Bytes: ack.Part.Bytes, Digest: ack.Part.Digest,
	}
}

func taskOf(task coordinator.TaskState) api.Task {
	out := api.Task{TaskID: task.TaskID, Status: api.TaskStatus(task.Status)}
	if ack := task.Ack; ack != nil {
		out.Attempt, out.AcknowledgedAt, out.LatencyMs = present(ack.Attempt), &ack.AcknowledgedAt, &ack.LatencyMs
		out.Entries, out.Bytes, out.Digest = &ack.Part.Entries, &ack.Part.Bytes, &ack.Part.Digest
	}
	if part := task.Uploaded; part != nil {
		out.Uploaded = &api.PartSummary{Entries: part.Entries, Bytes: part.Bytes, Digest: part.Digest}
	}
	return out
}

// ackResultOf is the answer to a single acknowledgement that was not refused.
func ackResultOf(id int64, outcome coordinator.AckOutcome) api.AckResult {
	return api.AckResult{
		CheckpointID: id, Status: api.CheckpointStatus(outcome.Status), AcknowledgedTasks: outcome.AcknowledgedTasks,
		RequiredTaskAcks: outcome.RequiredTaskAcks, Duplicate: outcome.Outcome == coordinator.AckDuplicate,
	}
}

// uploadResultOf is the answer to an upload; outcome is nil when it did not acknowledge.
func uploadResultOf(id int64, part coordinator.PartInfo, outcome *coordinator.AckOutcome) api.UploadResult {
	out := api.UploadResult{Entries: part.Entries, Bytes: part.Bytes, Digest: part.Digest}
	if outcome != nil {
		ack := ackResultOf(id, *outcome)
		out.CheckpointID, out.Status, out.Duplicate = &ack.CheckpointID, &ack.Status, &ack.Duplicate
		out.AcknowledgedTasks, out.RequiredTaskAcks = &ack.AcknowledgedTasks, &ack.RequiredTaskAcks
	}
	return out
}

func recoveryOf(result coordinator.RecoverResult) api.Recovery {
	out := api.Recovery{Epoch: result.Epoch}
	if result.Checkpoint != nil {
		out.Checkpoint = new(checkpointOf(*result.Checkpoint))
	}
	return out
}

func cleanupResultOf(result coordinator.CleanupResult) api.CleanupResult {
	return api.CleanupResult{Deleted: listed(result.Deleted), Skipped: listed(result.Skipped), Kept: result.Kept, More: result.More}
}

// triggerOf maps a trigger; body is nil when there was none.
func triggerOf(params api.TriggerCheckpointParams, body *api.TriggerRequest) coordinator.TriggerRequest {
	out := coordinator.TriggerRequest{Job: jobOf(params.Job), Force: valueOr(params.Force, false), IdempotencyKey: params.IdempotencyKey}
	if body == nil {
		return out
	}
	out.Tasks, out.TimeoutMs = body.Tasks, body.TimeoutMs
	out.Labels, out.Description, out.Pinned = valueOr(body.Labels, nil), valueOr(body.Description, ""), valueOr(body.Pinned, false)
	if body.RequiredTaskAcks != nil {
		out.RequiredTaskAcks = new(int64(*body.RequiredTaskAcks))
	}
	return out
}

// locationOf is where a checkpoint is. The default job needs no naming.
func locationOf(c coordinator.Checkpoint) string {
	location := "/checkpoints/" + strconv.FormatInt(c.ID, 10)
	if c.Job != coordinator.DefaultJob {
		location += "?job=" + url.QueryEscape(c.Job)
	}
	return location
}

// abortOf maps an abort or decline. A task that is named but empty is no plain abort.
func abortOf(request api.AbortCheckpointRequestObject) (coordinator.AbortCall, error) {
	out := coordinator.AbortCall{Job: jobOf(request.Params.Job), ID: int64(request.ID)}
	body := request.Body
	if body == nil {
		return out, nil
	}
	if body.TaskID != nil && *body.TaskID == "" {
		return out, invalidRequest("/taskId", "A task id must not be empty.")
	}
	if body.TaskID == nil && body.Attempt != nil {
		return out, invalidRequest("/taskId", "An attempt is one of a task; name the task that declines.")
	}
	out.TaskID, out.Attempt, out.Epoch = valueOr(body.TaskID, ""), valueOr(body.Attempt, 0), body.Epoch
	out.Message = valueOr(body.Reason, "")
	return out, nil
}

// updateOf maps a change; description: null takes it away.
func updateOf(request api.UpdateCheckpointRequestObject) (coordinator.UpdateCall, error) {
	condition, err := precondition(request.Params.IfMatch, nil)
	out := coordinator.UpdateCall{
		Job: jobOf(request.Params.Job), ID: int64(request.ID),
		Pinned: request.Body.Pinned, SetAside: request.Body.SetAside, Repaired: valueOr(request.Body.Repaired, false), If: condition,
	}
	if request.Body.Labels != nil {
		out.Labels = new(map[string]string(*request.Body.Labels))
	}
	if description := request.Body.Description; description.Present {
		out.Description = new(valueOr(description.Value, ""))
	}
	return out, err
}

// listOf maps a list's filters; the cursor is the id to go on below.
func listOf(params api.ListCheckpointsParams) (coordinator.ListCall, error) {
	out := coordinator.ListCall{
		Job: jobOf(params.Job), Status: coordinator.Status(valueOr(params.Status, "")), Before: -1,
		Limit: valueOr(params.Limit, coordinator.DefaultListLimit), NotAckedBy: valueOr(params.NotAckedBy, ""),
	}
	if params.NotAckedBy != nil && *params.NotAckedBy == "" {
		return out, invalidParameter("notAckedBy", "A task id must not be empty.")
	}
	if params.Before != nil {
		var before api.ID
		if before.UnmarshalText([]byte(*params.Before)) != nil {
			return out, invalidParameter("before", parameterForms["before"])
		}
		out.Before = int64(before)
	}
	return out, nil
}

func checkpointListOf(result coordinator.ListResult) api.CheckpointList {
	out := api.CheckpointList{Checkpoints: make([]api.Checkpoint, len(result.Checkpoints))}
	for i, c := range result.Checkpoints {
		out.Checkpoints[i] = checkpointOf(c)
	}
	if result.Next >= 0 {
		out.Next = new(strconv.FormatInt(result.Next, 10))
	}
	return out
}

func tasksOf(request api.ListTasksRequestObject) coordinator.TasksCall {
	return coordinator.TasksCall{
		Ref:    coordinator.Ref{Job: jobOf(request.Params.Job), ID: int64(request.ID)},
		Status: coordinator.TaskStatus(valueOr(request.Params.Status, "")), After: valueOr(request.Params.After, ""),
		Limit: valueOr(request.Params.Limit, coordinator.DefaultTasksLimit),
	}
}

func taskListOf(result coordinator.TasksResult) api.TaskList {
	out := api.TaskList{CheckpointID: result.Checkpoint.ID, Tasks: make([]api.Task, len(result.Tasks)), Next: present(result.Next)}
	for i, task := range result.Tasks {
		out.Tasks[i] = taskOf(task)
	}
	return out
}

func warningsOf(warnings []coordinator.Warning) []api.Warning {
	out := make([]api.Warning, len(warnings))
	for i, warning := range warnings {
		out[i] = api.Warning{Code: warning.Code, Detail: warning.Detail}
	}
	return out
}

func limitsOf(settings coordinator.Settings, bounds load.Limits) api.Limits {
	return api.Limits{
		TaskIDBytes: coordinator.MaxTaskIDBytes, KeyBytes: coordinator.MaxKeyBytes, JobBytes: coordinator.MaxJobNameBytes,
		Counter: coordinator.MaxID, AckBodyBytes: coordinator.MaxAckBody, BodyBytes: coordinator.MaxBodyBytes, BulkAcks: coordinator.MaxBulkAcks,
		ValueBytes: coordinator.MaxValueBytes, Nesting: maxNesting, SharedKeys: coordinator.MaxSharedKeys,
		SharedBytes: coordinator.MaxSharedBytes, PartBytes: settings.MaxPartBytes, ObjectUploadBytes: coordinator.MaxObjectUpload,
		SnapshotDocumentBytes: coordinator.MaxSnapshotDocument, Tasks: coordinator.MaxTasks,
		RequiredTaskAcks: coordinator.MaxRequiredTaskAcks, TasksPerCheckpoint: coordinator.MaxTasksPerCheckpoint,
		MaxConcurrentCheckpoints: int64(settings.MaxConcurrent), TimeoutMs: coordinator.MaxTimeoutMs,
		ListLimit: coordinator.MaxListLimit, Labels: coordinator.MaxLabels, LabelNameBytes: coordinator.MaxLabelNameBytes,
		LabelValueBytes: coordinator.MaxLabelValueBytes, DescriptionBytes: coordinator.MaxDescriptionBytes,
		ReasonBytes: coordinator.MaxReasonBytes, IdempotencyKeyBytes: coordinator.MaxIdempotencyKeyBytes,
		Requests: int64(bounds.Requests), Lists: int64(bounds.Lists), HeavyRequests: int64(bounds.HeavyRequests), Uploads: int64(bounds.Uploads),
		Restores: int64(bounds.Restores), Streams: int64(bounds.Streams), BufferedBytes: bounds.BufferedBytes,
		JobShare: int64(bounds.JobShare), ClientShare: int64(bounds.ClientShare),
	}
}
