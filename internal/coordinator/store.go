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

// TriggerCall asks for a new checkpoint.
type TriggerCall struct {
	Job              string
	RequiredTaskAcks int
	// Tasks are the only tasks that may acknowledge; nil lets any.
	Tasks         []string
	TimeoutMs     int64
	MaxConcurrent int
	Labels        map[string]string
	Description   string
	Pinned        bool
	Idempotency
}

// Idempotency makes a call repeatable. Key is the caller's Idempotency-Key ("" is
// none), Fingerprint identifies the body it came with, and Token identifies this very
// call, so that the store may be asked again after a lost reply.
type Idempotency struct {
	Key         string
	Fingerprint string
	Token       string
}

// TriggerResult is the checkpoint as it is now. Repeated is true when an earlier call
// with the same Idempotency-Key made it.
type TriggerResult struct {
	Checkpoint Checkpoint
	Repeated   bool
}

// AckCall acknowledges a checkpoint for one or more tasks.
type AckCall struct {
	Job   string
	ID    int64
	Items []AckItem
	// Keep is retention's number; 0 keeps all.
	Keep  int
	Token string
}

// AckItem is one task's word.
type AckItem struct {
	TaskID  string
	Attempt int64
	// Epoch is checked when given.
	Epoch *int64
	// Part replaces an uploaded part; nil lets the uploaded one count.
	Part *PartContent
	// Digest, when given, must be that of the part that would count.
	Digest string
}

// PartContent is a part held in memory, as its restore bytes.
type PartContent struct {
	Content []byte
	Entries int64
	Digest  string
}

// AckStatus is what became of one [AckItem].
type AckStatus string

// The three outcomes.
const (
	AckAccepted  AckStatus = "acknowledged"
	AckDuplicate AckStatus = "duplicate"
	AckRefused   AckStatus = "refused"
)

// AckOutcome is one item's answer, as of its own place in the order.
type AckOutcome struct {
	TaskID            string
	Outcome           AckStatus
	Refusal           *Error // with AckRefused
	Status            Status
	AcknowledgedTasks int
	RequiredTaskAcks  int
	// LatencyMs is the time since the checkpoint's start, with AckAccepted.
	LatencyMs int64
}

// AckResult has one outcome for each item, and where the checkpoint stands after them.
type AckResult struct {
	Outcomes          []AckOutcome
	Status            Status
	AcknowledgedTasks int
	RequiredTaskAcks  int
}

// CompleteCall completes by hand.
type CompleteCall struct {
	Job   string
	ID    int64
	Force bool
	Keep  int
	Token string
}

// AbortCall ends a pending checkpoint. With a TaskID it is that task's decline and is
// checked like an acknowledgement.
type AbortCall struct {
	Job     string
	ID      int64
	TaskID  string
	Attempt int64
	Epoch   *int64
	Message string
	Token   string
}

// ExtendCall gives a pending checkpoint TimeoutMs more, counted from now; > 0.
type ExtendCall struct {
	Job       string
	ID        int64
	TimeoutMs int64
}

// Precondition is If-Match and If-None-Match of a request. Tags are without quotes.
type Precondition struct {
	// IfMatch are the tags one of which the resource must have; "*" is any existing.
	IfMatch []string
	// IfNoneMatch demands that the resource does not exist (If-None-Match: *).
	IfNoneMatch bool
}

// UpdateCall changes what is not nil.
type UpdateCall struct {
	Job         string
	ID          int64
	Labels      *map[string]string
	Description *string
	Pinned      *bool
	If          Precondition
}

// DeleteCall removes a checkpoint; Force also a pinned one.
type DeleteCall struct {
	Job   string
	ID    int64
	Force bool
	If    Precondition
}

// CleanupCall removes checkpoints until Keep unpinned ones survive.
type CleanupCall struct {
	Job    string
	Keep   int
	DryRun bool
	// Max is how many may go in this call: CleanupStep, or MaxCleanupAnswer for DryRun.
	Max int
}

// CleanupResult names what went (or would go), what was skipped because a restore or a
// recovery holds it, and how many unpinned ones are left.
type CleanupResult struct {
	Deleted []int64
	Skipped []int64
	Kept    int
	More    bool
}

// RecoverCall restarts the fleet.
type RecoverCall struct {
	Job string
	// LeaseMs is how long the answered checkpoint is held.
	LeaseMs int64
	Idempotency
}

// RecoverResult is the job's new epoch and the checkpoint to go on from, as it is now;
// nil when the job truly has none.
type RecoverResult struct {
	Epoch      int64
	Checkpoint *Checkpoint
	Repeated   bool
	// Ended are the ids that this call aborted or expired.
	Ended []int64
}

// SharedOp is what a [SharedWrite] does.
type SharedOp int

// Put replaces the named keys, Delete removes exactly one, Clear removes all.
const (
	SharedPut SharedOp = iota + 1
	SharedDelete
	SharedClear
)

// SharedEntry is one key of shared state with its canonical JSON value.
type SharedEntry struct {
	Key   string
	Value []byte
}

// SharedWrite changes shared state. If is checked against the single entry when Single,
// else against the shared state as a whole.
type SharedWrite struct {
	Job     string
	ID      int64
	Op      SharedOp
	Entries []SharedEntry
	Single  bool
	If      Precondition
}

// SharedWritten is the state after a write. Created tells that a single put made its
// key; Tag is the entity tag of what was written (the entry's when Single).
type SharedWritten struct {
	Checkpoint Checkpoint
	Created    bool
	Tag        string
}

// SharedState is a checkpoint's whole shared state.
type SharedState struct {
	Checkpoint Checkpoint
	Entries    []SharedEntry
}

// SharedValue is one entry of shared state with its entity tag.
type SharedValue struct {
	Checkpoint Checkpoint
	Value      []byte
	Tag        string
}

// UploadCall begins the upload of a task's part.
type UploadCall struct {
	Job     string
	ID      int64
	TaskID  string
	Attempt int64
	Epoch   *int64
	// Token identifies the upload; the store keeps it with the part.
	Token string
}

// Upload is one running upload. Its methods are for one goroutine, except Check.
type Upload interface {
	// WriteChunk stores chunk number index (from 0, each ChunkBytes long but the last).
	// It may return before the chunk is durable and must not keep the slice; a failure
	// shows in a later call, at the latest in Commit.
	WriteChunk(ctx context.Context, index int, chunk []byte) error
	// ReadAt reads back bytes handed to WriteChunk earlier.
	ReadAt(ctx context.Context, p []byte, off int64) error
	// Check renews the lease and answers the refusal that Commit would answer now.
	Check(ctx context.Context) error
	// Commit makes the part the task's own, all of it at once, and with Ack also
	// acknowledges in the same step. Repeating it is harmless. Errors: the order above,
	// CodeAckConflict, CodeLimitExceeded (MaxTasksPerCheckpoint).
	Commit(ctx context.Context, call CommitCall) (CommitResult, error)
	// Discard gives the chunks back. It is harmless after Commit.
	Discard(ctx context.Context) error
}

// ChunkBytes is the size of every chunk of a part but the last.
const ChunkBytes = 256 << 10

// CommitCall ends an upload.
type CommitCall struct {
	Part PartInfo
	// Ack acknowledges too; Keep is retention's number then.
	Ack  bool
	Keep int
}

// CommitResult has the acknowledgement's outcome when CommitCall.Ack was set.
type CommitResult struct {
	Ack *AckOutcome
}

// ListCall filters a list. Zero values do not filter.
type ListCall struct {
	Job    string
	Status Status
	// Before lists ids below it; < 0 starts at the newest.
	Before int64
	Limit  int
	// NotAckedBy leaves out what this task has acknowledged, and what it may not.
	NotAckedBy string
}

// ListResult is one page; Next is the Before of the next one, < 0 when there is none.
type ListResult struct {
	Checkpoints []Checkpoint
	Next        int64
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

// RestoreCall opens a completed checkpoint for reading.
type RestoreCall struct {
	Ref
	// Tasks selects parts; nil selects all of them and the shared state.
	Tasks []string
	// Shared adds the shared state to selected Tasks.
	Shared bool
	// LeaseMs is how long the lease lives without Renew; 0 takes none, for a look at the
	// manifest only.
	LeaseMs int64
	// Token names the lease.
	Token string
}

// ManifestPart is one part of a snapshot in restore order. The shared state comes first
// with Shared set, also when it is empty.
type ManifestPart struct {
	TaskID string
	Shared bool
	PartInfo
}

// RestoreSource is an open restore. Its methods are for one goroutine, except Renew.
type RestoreSource interface {
	Checkpoint() Checkpoint
	// Parts are the selected parts in restore order.
	Parts() []ManifestPart
	// ReadAt fills p from part number part at off, and fails with CodeSnapshotDamaged
	// when the bytes are not there as recorded. One call never reads across a
	// ChunkBytes boundary's second; it may return fewer bytes than len(p) at a chunk's end.
	ReadAt(ctx context.Context, part int, p []byte, off int64) (int, error)
	// Renew prolongs the lease; an error means that the checkpoint is gone.
	Renew(ctx context.Context) error
	// Release gives the lease back at once.
	Release(ctx context.Context) error
	// Close frees what this process holds (files, buffers) and leaves the lease to its time.
	Close() error
}

// JobState is what gauges and the id floor need of a job.
type JobState struct {
	Job     string
	Epoch   int64
	NextID  int64
	Pending int
	// LatestID is the latest completed checkpoint and LatestAt when it completed (Unix
	// ms); LatestID < 0 is none.
	LatestID int64
	LatestAt int64
	// ObservedAt is the store's clock.
	ObservedAt int64
}

// SweepCall carries retention's number to the sweep; 0 keeps all.
type SweepCall struct {
	Keep int
}

// Warning is something about the store that an operator should change.
type Warning struct {
	// Code is stable: it labels the metric.
	Code string
	// Detail is a finished sentence with the remedy.
	Detail string
}
