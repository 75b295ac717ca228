package coordinator

import (
	"context"
)

// Latest is the ID of a [Ref] to the latest completed checkpoint of the job.
const Latest int64 = -1

// Ref names a checkpoint of a job: by its id, or as [Latest].
type Ref struct {
	Job string
	ID  int64
}

// Store keeps jobs and checkpoints. It is called by [Coordinator] only, which has
// validated names, ranges and limits before; a store decides everything that depends
// on what is stored.
//
// Rules for every method:
//   - One call is one atomic step, however many replicas call, except where the comment
//     names steps. It validates everything, then writes: an error means nothing changed.
//   - Errors are *[Error]: the refusals of refusals.go in the order of design section 2
//     (unknown job, unknown checkpoint, task not expected, stale epoch, stale attempt,
//     expired or aborted, duplicate or conflict, completed, part changed), or
//     CodeStoreUnavailable (nothing was changed, safe to repeat), CodeOutcomeUnknown
//     (the reply was lost and the verb cannot be repeated), CodeStoreFull.
//   - Time is the store's clock. Reads derive expiry ([Expired]); what changes a
//     checkpoint writes it first and then refuses.
//   - A call with a Token may reach the store twice and answers the same both times.
//   - A record that cannot be read as ours does not exist, and never disturbs others.
type Store interface {
	// Trigger makes a pending checkpoint, or finds the one that an Idempotency-Key made.
	// Errors: CodeTooManyPending, CodeIdempotencyKeyReused, CodeIdempotencyTargetDeleted.
	// Makes the job if it is new.
	Trigger(ctx context.Context, call TriggerCall) (TriggerResult, error)

	// Acknowledge applies the items in order as one step and runs retention when one of
	// them completes the checkpoint. Item refusals are in the outcomes; the error is for
	// an unknown job or checkpoint and for the store itself.
	Acknowledge(ctx context.Context, call AckCall) (AckResult, error)

	// Complete ends a pending checkpoint as completed. Errors: CodeAcksMissing unless
	// Force, CodeCheckpointExpired, CodeCheckpointAborted. Completed already: unchanged.
	Complete(ctx context.Context, call CompleteCall) (Checkpoint, error)

	// Abort ends a pending checkpoint as aborted; its parts and shared state go at once.
	// Errors: the order above; CodeCheckpointCompleted, CodeCheckpointExpired. Aborted
	// already: unchanged.
	Abort(ctx context.Context, call AbortCall) (Checkpoint, error)

	// Extend moves the deadline to max(present, now + TimeoutMs); one that never expires
	// stays so. Errors: CodeCheckpoint<Status> for one that ended.
	Extend(ctx context.Context, call ExtendCall) (Checkpoint, error)

	// Update changes labels, description and pin in any status. Error:
	// CodePreconditionFailed. Unpinning does not evict at once; the next retention does.
	Update(ctx context.Context, call UpdateCall) (Checkpoint, error)

	// Delete removes a checkpoint; a pending one ends as aborted first. Errors:
	// CodePinned unless Force, CodePreconditionFailed.
	Delete(ctx context.Context, call DeleteCall) error

	// Cleanup is one atomic step that removes at most CleanupStep checkpoints; the caller
	// repeats it while More. With DryRun it changes nothing and answers in one call.
	Cleanup(ctx context.Context, call CleanupCall) (CleanupResult, error)

	// Recover aborts everything pending, raises the epoch, and leases the latest
	// completed checkpoint, in one step. Makes the job if it is new. Errors:
	// CodeIdempotencyKeyReused, CodeIdempotencyTargetDeleted.
	Recover(ctx context.Context, call RecoverCall) (RecoverResult, error)

	// WriteShared changes the shared state of a pending checkpoint. Errors: the order
	// above, CodeCheckpointCompleted, CodePreconditionFailed, CodeKeyNotFound (delete),
	// CodeLimitExceeded and CodeTooLarge for MaxSharedKeys and MaxSharedBytes.
	WriteShared(ctx context.Context, call SharedWrite) (SharedWritten, error)

	// SharedState reads the whole shared state, entries by key in byte order. Errors:
	// CodeNoCompletedCheckpoint for Latest, CodeCheckpointExpired, CodeCheckpointAborted.
	SharedState(ctx context.Context, ref Ref) (SharedState, error)

	// SharedEntry reads one entry. Errors as SharedState, and CodeKeyNotFound.
	SharedEntry(ctx context.Context, ref Ref, key string) (SharedValue, error)

	// BeginUpload checks that the task may hand in a part and names the upload in a
	// leased index before its first chunk. Errors: the order above, CodeAckConflict when
	// the task has acknowledged, CodeLimitExceeded.
	BeginUpload(ctx context.Context, call UploadCall) (Upload, error)

	// Get reads one checkpoint with its first AcksShown acknowledgements. Errors:
	// CodeJobNotFound, CodeCheckpointNotFound, CodeCheckpointDeleted,
	// CodeNoCompletedCheckpoint for Latest.
	Get(ctx context.Context, ref Ref) (CheckpointDetail, error)

	// List reads checkpoints newest first, by id. Error: CodeJobNotFound.
	List(ctx context.Context, call ListCall) (ListResult, error)

	// Tasks reads a page of a checkpoint's tasks in byte order of their ids.
	Tasks(ctx context.Context, call TasksCall) (TasksResult, error)

	// Task reads one task. Error: CodeTaskNotInCheckpoint.
	Task(ctx context.Context, ref Ref, taskID string) (TaskState, error)

	// OpenRestore leases a completed checkpoint and reads its manifest. Errors:
	// CodeNoCompletedCheckpoint, CodeCheckpointNotCompleted, CodeUnsupportedVersion,
	// CodeTaskNotInCheckpoint, CodeSnapshotDamaged where damage shows without reading.
	OpenRestore(ctx context.Context, call RestoreCall) (RestoreSource, error)

	// SaveDigest keeps the digest of a completed checkpoint's manifest in its record,
	// without a new revision. Unknown or uncompleted: nothing happens.
	SaveDigest(ctx context.Context, ref Ref, digest string) error

	// Jobs reads the state of every job, DefaultJob always among them.
	Jobs(ctx context.Context) ([]JobState, error)

	// Sweep does the work that no request waits for, in bounded atomic steps: writes
	// expiry, applies retention where leases had held it up, unlinks what deletion,
	// abort and broken uploads left. Called about once a second by every replica.
	Sweep(ctx context.Context, call SweepCall) error

	// Health reaches for the store: CodeStoreUnavailable when it does not answer, else
	// the warnings about how it is configured.
	Health(ctx context.Context) ([]Warning, error)

	// Close releases the store after the last call has returned.
	Close() error
}
