package coordinator

import (
	"fmt"
	"time"
)

// The refusals that stores give, one constructor each, so that every store says the
// same and every detail ends with the next step.

// ErrJobNotFound is for reading or acknowledging in a job that nothing was triggered in.
func ErrJobNotFound(job string) *Error {
	return &Error{Code: CodeJobNotFound, Detail: fmt.Sprintf("There is no job %q. Check its spelling; a job exists from its first trigger, recover or PUT /jobs/{job}.", job)}
}

// ErrCheckpointNotFound is for an id that was never given.
func ErrCheckpointNotFound(job string, id int64) *Error {
	return &Error{Code: CodeCheckpointNotFound, Detail: fmt.Sprintf("Job %q has no checkpoint %d: no such id was given yet. List the job's checkpoints with GET /checkpoints.", job, id)}
}

// ErrCheckpointDeleted is for an id that was given and is gone: deleted, evicted by
// retention or cleanup, or skipped.
func ErrCheckpointDeleted(job string, id int64) *Error {
	return &Error{Code: CodeCheckpointDeleted, Detail: fmt.Sprintf("Checkpoint %d of job %q is gone: it was deleted, or evicted by retention or cleanup. Go on with a newer one; GET /checkpoints/latest names the latest completed.", id, job)}
}

// ErrNoCompletedCheckpoint is the true "none yet" of a job.
func ErrNoCompletedCheckpoint(job string) *Error {
	return &Error{Code: CodeNoCompletedCheckpoint, Detail: fmt.Sprintf("Job %q has no completed checkpoint yet. Check ?job= if it should have one: a recover or trigger with a mistyped name makes a new job. Otherwise start from the beginning.", job)}
}

// ErrTaskNotExpected is for a task that the trigger did not name.
func ErrTaskNotExpected(id int64, taskID string) *Error {
	return &Error{Code: CodeTaskNotExpected, Detail: fmt.Sprintf("Checkpoint %d was triggered for named tasks, and %q is not one of them. GET /checkpoints/%d/tasks lists them.", id, taskID, id)}
}

// ErrStaleEpoch is for a message from before a recovery, or from a future that this job
// has not seen.
func ErrStaleEpoch(given, current int64) *Error {
	if given > current {
		return &Error{Code: CodeStaleEpoch, Detail: fmt.Sprintf("The message names epoch %d, but the job is only in epoch %d. Check ?job=; if it is right, the storage has lost data, and the run must start again from what POST /checkpoints/recover names.", given, current)}
	}
	return &Error{Code: CodeStaleEpoch, Detail: fmt.Sprintf("The message names epoch %d, the job is in epoch %d: the fleet has recovered since. Stop this run and start from the checkpoint that POST /checkpoints/recover names.", given, current)}
}

// ErrStaleAttempt is for a message of an attempt that a newer one of the same task replaced.
func ErrStaleAttempt(taskID string, given, highest int64) *Error {
	return &Error{Code: CodeStaleAttempt, Detail: fmt.Sprintf("Task %q sent attempt %d, but attempt %d was heard from already. Stop this instance if a newer one has taken over; a message without attempt counts as attempt 0, so send it with every call. To begin counting anew: DELETE /jobs/{job}/tasks/{taskId}.", taskID, given, highest)}
}

// ErrEnded is for changing a checkpoint that reached the terminal status.
func ErrEnded(id int64, status Status) *Error {
	switch status {
	case StatusCompleted:
		return &Error{Code: CodeCheckpointCompleted, Detail: fmt.Sprintf("Checkpoint %d is completed and cannot be changed any more. Go on with the next one.", id)}
	case StatusExpired:
		return &Error{Code: CodeCheckpointExpired, Detail: fmt.Sprintf("Checkpoint %d expired: its deadline passed before all acknowledgements were in. Go on and take part in the next one.", id)}
	case StatusAborted:
		return &Error{Code: CodeCheckpointAborted, Detail: fmt.Sprintf("Checkpoint %d was aborted; GET /checkpoints/%d says why. Go on and take part in the next one.", id, id)}
	case StatusPending:
	}
	return &Error{Code: CodeInternal, Detail: "The server took a pending checkpoint for an ended one."}
}

// ErrAckConflict is for a second acknowledgement with another part, and for any upload
// after the first one: its bytes are not read, so it may be a repeat.
func ErrAckConflict(id int64, taskID string) *Error {
	return &Error{Code: CodeAckConflict, Detail: fmt.Sprintf("Task %q has acknowledged checkpoint %d, and its part cannot be replaced any more. The earlier acknowledgement stands, also if this was a repeat of it; go on.", taskID, id)}
}

// ErrPartChanged is for an acknowledgement whose digest is not that of the stored part.
func ErrPartChanged(id int64, taskID, have string) *Error {
	stored := "no part is stored"
	if have != "" {
		stored = "the stored part has digest " + have
	}
	return &Error{Code: CodePartChanged, Detail: fmt.Sprintf("The acknowledgement of task %q for checkpoint %d names a digest, but %s. Upload the part again, then acknowledge with the digest that the upload answers.", taskID, id, stored)}
}

// ErrAcksMissing is for completing by hand too early.
func ErrAcksMissing(id int64, missing int, names []string) *Error {
	return &Error{
		Code:    CodeAcksMissing,
		Detail:  fmt.Sprintf("Checkpoint %d still misses %d acknowledgements. Wait for them, or complete it as it is with ?force=true: its snapshot will lack those tasks.", id, missing),
		Missing: missing, MissingTasks: names,
	}
}

// ErrTooManyPending is for the cap; retryAfter is until the first deadline, 0 if none.
func ErrTooManyPending(job string, pending, limit int, retryAfter time.Duration) *Error {
	return &Error{
		Code:       CodeTooManyPending,
		Detail:     fmt.Sprintf("Job %q has %d pending checkpoints, the limit is %d. Wait for one to end, or abort one.", job, pending, limit),
		RetryAfter: max(time.Second, retryAfter), Limit: "maxConcurrentCheckpoints",
	}
}

// ErrIdempotencyKeyReused is for one key with two bodies.
func ErrIdempotencyKeyReused() *Error {
	return &Error{
		Code:   CodeIdempotencyKeyReused,
		Detail: "This Idempotency-Key was used with another body or query. Use a new key for a new request, or repeat the first request unchanged.",
		Fields: []FieldError{{Parameter: "Idempotency-Key", Detail: "It belongs to another request."}},
	}
}

// ErrIdempotencyTargetDeleted is for a key whose checkpoint is gone.
func ErrIdempotencyTargetDeleted(id int64) *Error {
	return &Error{Code: CodeIdempotencyTargetDeleted, Detail: fmt.Sprintf("This Idempotency-Key belongs to checkpoint %d, which was deleted since. Use a new key.", id), CheckpointID: &id}
}

// ErrPreconditionFailed is for If-Match and If-None-Match.
func ErrPreconditionFailed() *Error {
	return &Error{Code: CodePreconditionFailed, Detail: "The resource is not in the state that If-Match or If-None-Match asks for. Read it again and decide anew."}
}

// ErrPinned is for deleting a pinned checkpoint.
func ErrPinned(id int64) *Error {
	return &Error{Code: CodePinned, Detail: fmt.Sprintf("Checkpoint %d is pinned. Unpin it with PATCH /checkpoints/%d, or delete it with ?force=true.", id, id)}
}

// ErrMinPause is for a trigger too soon after the last completion. room is until the first
// deadline where as many are pending as may be, else 0: coming back sooner would be in vain.
func ErrMinPause(job string, wait, room time.Duration) *Error {
	return &Error{Code: CodeMinPause, Detail: fmt.Sprintf("Job %q rests for minPauseMs after each completion, for another %d ms. Trigger again then, or with ?force=true.", job, wait.Milliseconds()), RetryAfter: max(wait, room)}
}

// ErrJobPinned is for deleting a job that has pinned checkpoints.
func ErrJobPinned(job string, pinned int) *Error {
	return &Error{Code: CodePinned, Detail: fmt.Sprintf("Job %q has %d pinned checkpoints. Unpin or delete them, or delete the job with ?force=true.", job, pinned)}
}

// ErrJobPending is for deleting a job that has pending checkpoints.
func ErrJobPending(job string, pending int) *Error {
	return &Error{Code: CodeCheckpointNotCompleted, Detail: fmt.Sprintf("Job %q has %d pending checkpoints. Wait for them or abort them, or delete the job with ?force=true.", job, pending)}
}

// ErrJobNotEmpty is for an import into a job that has checkpoints.
func ErrJobNotEmpty(job string) *Error {
	return &Error{Code: CodeJobNotEmpty, Detail: fmt.Sprintf("Job %q has checkpoints, and an import does not mix with them. Import into another job, or first delete this one: DELETE /jobs/%s?force=true.", job, job)}
}

// ErrJobImporting is for an import into a job where another one has begun a checkpoint and not finished it.
func ErrJobImporting(job string) *Error {
	return &Error{Code: CodeJobNotEmpty, Detail: fmt.Sprintf("An import into job %q is at work, or broke off a short while ago. Wait for its end; or import into another job, or first delete this one: DELETE /jobs/%s?force=true.", job, job)}
}

// ErrImportTakenBack is for an import during which the store failed, and of which nothing is left.
func ErrImportTakenBack(cause error) *Error {
	return &Error{Code: CodeStoreUnavailable, Detail: "The storage or its replicas failed during the import, and nothing of it is left. Import again when GET /readyz says that all is well.", RetryAfter: time.Second, Err: cause}
}

// ErrImportLeft is for an import that failed, and of which nobody knows that nothing is left.
func ErrImportLeft(job string, cause error) *Error {
	return &Error{Code: CodeOutcomeUnknown, Detail: fmt.Sprintf("The import failed, and what had come in could not be removed again: some checkpoints, the newest ones, may be there. Delete the job when the storage is back (GET /readyz), and import again: DELETE /jobs/%s?force=true.", job), RetryAfter: time.Second, Err: cause}
}

// ErrKeyNotFound is for an absent key of shared state.
func ErrKeyNotFound(id int64, key string) *Error {
	return &Error{Code: CodeKeyNotFound, Detail: fmt.Sprintf("The shared state of checkpoint %d has no key %q. GET /checkpoints/%d/state lists what is there.", id, key, id)}
}

// ErrTaskNotInCheckpoint is for a task that neither acknowledged nor was named.
func ErrTaskNotInCheckpoint(id int64, taskID string) *Error {
	return &Error{Code: CodeTaskNotInCheckpoint, Detail: fmt.Sprintf("Task %q has not acknowledged checkpoint %d and is not among its named tasks. GET /checkpoints/%d/tasks lists its tasks.", taskID, id, id)}
}

// ErrTaskAbsent is for restoring a task whose acknowledgement a completion by force did without: named tells that
// the trigger named the task. Its state is not in the snapshot, which is no reason to begin without any.
func ErrTaskAbsent(id int64, taskID string, named bool) *Error {
	who := fmt.Sprintf("Task %q was named by the trigger of checkpoint %d and has not acknowledged it", taskID, id)
	if !named {
		who = fmt.Sprintf("Checkpoint %d has fewer acknowledgements than it required, and task %q may be one of those that are missing", id, taskID)
	}
	return &Error{
		Code:         CodeTaskAbsent,
		Detail:       who + ": it was completed by force. The task's state is not in it, and beginning without would lose that state. Recover the fleet from an older checkpoint (POST /checkpoints/recover with its checkpointId), or decide by hand that the task begins anew.",
		CheckpointID: &id,
	}
}

// ErrTasksNamed is for a trigger that asks for so many acknowledgements in a job whose settings name its tasks.
func ErrTasksNamed(job string, named, asked int) *Error {
	return &Error{
		Code:   CodeInvalidRequest,
		Detail: fmt.Sprintf("The settings of job %q name its %d tasks, and a number alone would let others take their place.", job, named),
		Fields: []FieldError{{
			Pointer: "/requiredTaskAcks",
			Detail:  fmt.Sprintf("It is %d, and the settings name %d tasks. Leave it out, or give %d: then the named tasks have to acknowledge. For a checkpoint of other tasks name them in tasks.", asked, named, named),
		}},
	}
}

// ErrNotCompleted is for reading the snapshot of a checkpoint that is not completed.
func ErrNotCompleted(id int64, status Status) *Error {
	return &Error{Code: CodeCheckpointNotCompleted, Detail: fmt.Sprintf("Checkpoint %d is %s; only completed checkpoints can be restored. GET /checkpoints/latest names the latest completed.", id, status)}
}

// ErrUnsupportedVersion is for a snapshot of a newer server.
func ErrUnsupportedVersion(id int64, version int) *Error {
	return &Error{Code: CodeUnsupportedVersion, Detail: fmt.Sprintf("Checkpoint %d has snapshot version %d; this server reads up to version %d. Restore it with a newer server.", id, version, SnapshotVersion)}
}

// ErrInconsistent is for a checkpoint that cannot be understood: the job's indexes have it, and what, such as its
// record, is missing, not whole, or says something else. Nobody knows then what became of it, so that it is
// neither completed nor restored, and latest and recovery do not pass it over.
func ErrInconsistent(id int64, what string, cause error) *Error {
	return &Error{Code: CodeSnapshotDamaged, Detail: fmt.Sprintf("Checkpoint %d makes no sense as it is stored: %s is missing or not as recorded. It is neither completed nor restored. Look at the store; DELETE /checkpoints/%d takes it away, and latest and recovery then go on with an older one.", id, what, id), CheckpointID: &id, Damage: what, Err: cause}
}

// ErrSnapshotDamaged is for a part that is not there as it was recorded. The cause is logged.
func ErrSnapshotDamaged(id int64, what string, cause error) *Error {
	return &Error{Code: CodeSnapshotDamaged, Detail: fmt.Sprintf("Checkpoint %d cannot be restored: %s is missing or not as recorded. Restore an older completed checkpoint (GET /checkpoints?status=completed) and look at the store.", id, what), CheckpointID: &id, Damage: what, Err: cause}
}

// ErrExtendedTooFar is for moving a deadline further than [MaxExtension] allows; left is how many ms it may still be
// moved, counted from now.
func ErrExtendedTooFar(id, asked, left int64) *Error {
	return &Error{
		Code:   CodeInvalidRequest,
		Detail: fmt.Sprintf("The deadline of checkpoint %d cannot be moved so far: it may lie at most %d times the checkpoint's timeout after its start.", id, MaxExtension),
		Fields: []FieldError{{Pointer: "/timeoutMs", Detail: fmt.Sprintf("It is %d, and at most %d are left. Ask for no more; for longer checkpoints trigger with a longer timeoutMs.", asked, left)}},
	}
}

// ErrAllSetAside is for the latest where completed checkpoints are there and each is set aside or damaged; id is the
// highest of them, which is set aside.
func ErrAllSetAside(id int64) *Error {
	return &Error{
		Code:         CodeAllSetAside,
		Detail:       fmt.Sprintf("The job has completed checkpoints, and each is set aside or damaged; the newest is %d. Take one back with PATCH /checkpoints/%d and {\"setAside\":false}, or name one: POST /checkpoints/recover with {\"checkpointId\":%d}.", id, id, id),
		CheckpointID: &id,
	}
}

// ErrNotToSetAside is for setting a checkpoint aside that is not completed: nobody would go back to it anyway.
func ErrNotToSetAside(id int64, status Status) *Error {
	return &Error{Code: CodeCheckpointNotCompleted, Detail: fmt.Sprintf("Checkpoint %d is %s; only completed checkpoints can be set aside. End a pending one with POST /checkpoints/%d/abort.", id, status, id)}
}

// ErrLimitExceeded is for a count; limit is its name in GET /limits.
func ErrLimitExceeded(limit string, most int64, what string) *Error {
	return &Error{Code: CodeLimitExceeded, Detail: fmt.Sprintf("%s: the limit is %d (%s in GET /limits).", what, most, limit), Limit: limit}
}

// ErrTooLarge is for a size; limit is its name in GET /limits.
func ErrTooLarge(limit string, most int64, what string) *Error {
	return &Error{Code: CodeTooLarge, Detail: fmt.Sprintf("%s: the limit is %d bytes (%s in GET /limits).", what, most, limit), Limit: limit}
}

// ErrStoreUnavailable says that nothing was changed and the call may be repeated. Where the cause has a
// [Cause] the caller reads that.
func ErrStoreUnavailable(cause error) *Error {
	detail := "The storage does not answer; nothing was changed. Repeat the request; GET /readyz tells when the storage is back."
	if known, is := CauseOf(cause); is {
		then := "Repeat the request; GET /readyz tells when the storage is back."
		if known.Restart {
			then = "Start the server again: it takes no changes before that."
		}
		detail = fmt.Sprintf("The storage cannot be used: %s. Nothing was changed. %s", known.Says, then)
	}
	return &Error{Code: CodeStoreUnavailable, Detail: detail, RetryAfter: time.Second, Err: cause}
}

// ErrOutcomeUnknown says that a change may or may not have happened.
func ErrOutcomeUnknown(cause error) *Error {
	return &Error{Code: CodeOutcomeUnknown, Detail: "The storage took the request but its answer was lost, so the change may or may not have happened. Read the resource, then repeat the request if needed.", RetryAfter: time.Second, Err: cause}
}

// ErrNotReplicated says that a change was made, now or by an earlier call that this one repeats, and may yet be lost.
func ErrNotReplicated(cause error) *Error {
	return &Error{Code: CodeNotReplicated, Detail: "The change was made, but too few replicas of the storage have it: a failover could lose it. Repeat the request until it is answered otherwise; GET /readyz tells about the replicas.", RetryAfter: time.Second, Err: cause}
}

// ErrStoreFull is for a store without room. Deleting, aborting and cleaning up still work.
func ErrStoreFull(cause error) *Error {
	return &Error{Code: CodeStoreFull, Detail: "The storage is full; nothing was changed. Free room with POST /checkpoints/cleanup or DELETE /checkpoints/{id}, or give the storage more.", RetryAfter: 5 * time.Second, Err: cause}
}

// ErrInternal hides a cause that is our own fault; it is logged.
func ErrInternal(cause error) *Error {
	return &Error{Code: CodeInternal, Detail: "The server failed. The log has the cause under this request's id.", Err: cause}
}

// WithNextSteps adds the ids that tell a late sender where to go on.
func (e *Error) WithNextSteps(current, latest *int64) *Error {
	e.Current, e.Latest = current, latest
	return e
}
