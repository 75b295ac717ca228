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
//   - A record that cannot be read as ours, or that an index has and that is gone, is an error and never "none":
//     CodeSnapshotDamaged for a checkpoint, see [ErrInconsistent]. It does not disturb others; who looks at many
//     leaves it out, and the observer and Health tell of it.
type Store interface {
	// Trigger makes a pending checkpoint, or finds the one that an Idempotency-Key made.
	// Errors: CodeInvalidRequest for another number of acknowledgements than the job's settings
	// name tasks, CodeMinPause unless Force, CodeTooManyPending, CodeIdempotencyKeyReused,
	// CodeIdempotencyTargetDeleted. Makes the job if it is new, or was deleted.
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
	// stays so. Errors: CodeCheckpoint<Status> for one that ended, CodeInvalidRequest for more
	// than [ExtensionLeft].
	Extend(ctx context.Context, call ExtendCall) (Checkpoint, error)

	// Update changes labels, description and pin in any status, and sets a completed one aside
	// or takes it back. Errors: CodePreconditionFailed, CodeCheckpointNotCompleted for setting
	// aside what is not. Unpinning does not evict at once; the next retention does.
	Update(ctx context.Context, call UpdateCall) (Checkpoint, error)

	// Delete removes a checkpoint; a pending one ends as aborted first. Errors:
	// CodePinned unless Force, CodePreconditionFailed.
	Delete(ctx context.Context, call DeleteCall) error

	// Cleanup is one atomic step that removes at most CleanupStep checkpoints; the caller
	// repeats it while More. With DryRun it changes nothing and answers in one call.
	Cleanup(ctx context.Context, call CleanupCall) (CleanupResult, error)

	// Recover aborts everything pending, raises the epoch, and leases the latest
	// completed checkpoint, in one step. Makes the job if it is new. With a CheckpointID it
	// leases that one, which may be set aside, and makes no job. Errors:
	// CodeIdempotencyKeyReused, CodeIdempotencyTargetDeleted, CodeSnapshotDamaged and
	// CodeAllSetAside where there is no latest for that reason; with a CheckpointID
	// CodeJobNotFound, CodeCheckpointNotFound, CodeCheckpointDeleted,
	// CodeCheckpointNotCompleted, CodeUnsupportedVersion.
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
	// CodeTaskNotInCheckpoint, CodeTaskAbsent for a task that a completion by force did
	// without, CodeSnapshotDamaged where damage shows without reading. One
	// that is deleted meanwhile is CodeCheckpointDeleted, also as Latest, and not damaged.
	OpenRestore(ctx context.Context, call RestoreCall) (RestoreSource, error)

	// SaveDigest keeps the digest of a completed checkpoint's manifest in its record,
	// without a new revision. Unknown or uncompleted: nothing happens.
	SaveDigest(ctx context.Context, ref Ref, digest string) error

	// MarkDamaged notes in a completed checkpoint's record what of its snapshot was found
	// missing. From then on it is nobody's [Latest], nor the checkpoint of a recovery, and
	// retention leaves it and counts it no more; by its id it can still be opened. Where a
	// job's completed checkpoints are all damaged, Latest is CodeSnapshotDamaged, and so is
	// Recover, since a fleet that took it for none would begin with nothing. Unknown,
	// uncompleted or marked already: nothing happens.
	MarkDamaged(ctx context.Context, call DamageCall) error

	// Import is one atomic step of bringing finished checkpoints into a job; [ImportStep] says which, with
	// its errors.
	Import(ctx context.Context, call ImportCall) error

	// TriggerIfDue makes a pending checkpoint if the job's schedule says so, and moves the
	// schedule on, in one step: of all replicas that call at the same moment one triggers.
	// The rules are [ScheduleState.Lost], [ScheduleState.Mend], PauseEnds and [ScheduleState.Next], in
	// this order; a job that is paused or without an interval has no schedule, and its Due
	// is forgotten. Error: CodeJobNotFound; never CodeMinPause or CodeTooManyPending.
	TriggerIfDue(ctx context.Context, call DueCall) (DueResult, error)

	// Jobs reads the state of every job by name, DefaultJob always among them, without the
	// names in Settings.Tasks.
	Jobs(ctx context.Context) ([]JobState, error)

	// Job reads one job whole. Error: CodeJobNotFound.
	Job(ctx context.Context, job string) (JobState, error)

	// PutJob replaces a job's settings and makes the job if it is new; or makes a Patch to them.
	// Where the interval or the minimal pause changes, or a pause ends, the schedule begins
	// anew ([ScheduleState.Begin]). A
	// job that has more failures in a row than it tolerates now is failing from then on; only
	// a completion ends that. Errors: CodeJobNotFound for a
	// Patch, CodePreconditionFailed.
	PutJob(ctx context.Context, call PutJobCall) (PutJobResult, error)

	// DeleteJob is one atomic step that removes at most Max checkpoints, oldest first, and,
	// when none is left, settings, schedule, failures and history. The job does not exist
	// then, except DefaultJob; its counters of ids, epochs, settings and events, its
	// attempts and its log stay. Pending ones end as aborted by request first. Errors:
	// CodeJobNotFound, CodePreconditionFailed, CodePinned and CodeCheckpointNotCompleted
	// unless Force.
	DeleteJob(ctx context.Context, call DeleteJobCall) (DeleteJobResult, error)

	// ForgetTask forgets a task's highest attempt; unknown tasks are fine. Error: CodeJobNotFound.
	ForgetTask(ctx context.Context, job, taskID string) error

	// Events reads a job's log. Every change of the types in [EventTypes] writes its events
	// in its own step, in the order of the changes; the log keeps at least
	// Settings.EventsToKeep of the last trigger. The log of a deleted job can be read on from
	// an event to its end, so that who followed it hears of that. Error: CodeJobNotFound, also
	// at that end.
	Events(ctx context.Context, call EventsCall) (EventsResult, error)

	// Listen calls wake with the name of each job that has a new event, or with "" where it
	// may be any, until ctx ends. It may miss some and call in vain; wake returns quickly.
	Listen(ctx context.Context, wake func(job string))

	// History reads what a job's statistics are made of. Error: CodeJobNotFound.
	History(ctx context.Context, job string) (History, error)

	// RecordRestore adds to a job's history; an unknown job is no error.
	RecordRestore(ctx context.Context, job string, restore RestoreRecord) error

	// Sweep does the work that no request waits for, in bounded atomic steps: writes
	// expiry, applies retention where leases had held it up, unlinks what deletion,
	// abort and broken uploads left. Called about once a second by every replica.
	Sweep(ctx context.Context, call SweepCall) error

	// Health reaches for the store: CodeStoreUnavailable when it does not answer, else
	// the warnings about how it is configured.
	Health(ctx context.Context) ([]Warning, error)

	// Alive is nil unless only a new start of the process can make the store work again; the error
	// is a [Cause] that says why. It answers at once and reaches for nothing: a storage that is away
	// and comes back by itself is no reason.
	Alive() error

	// Close releases the store after the last call has returned.
	Close() error
}
