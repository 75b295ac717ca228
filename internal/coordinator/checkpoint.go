package coordinator

import "strconv"

// DefaultJob is the job of calls that name none. It always exists.
const DefaultJob = "default"

// MaxTakenCounter is the highest next id and epoch that is taken over from elsewhere: it leaves 2^32 up to [MaxID], or the
// next trigger or recovery could find no number.
const MaxTakenCounter = MaxID - 1<<32

// SnapshotVersion is the version of snapshots written now. Version 0 marks records of
// the seed library; anything above is from a newer server and is not restored.
const SnapshotVersion = 1

// Status is where a checkpoint stands.
type Status string

// A checkpoint is pending until it reaches one of the three terminal states.
const (
	StatusPending   Status = "pending"
	StatusCompleted Status = "completed"
	StatusExpired   Status = "expired"
	StatusAborted   Status = "aborted"
)

// FailureReason says why a checkpoint ended without completing.
type FailureReason string

// The reasons. Expired belongs to StatusExpired, all others to StatusAborted.
const (
	ReasonExpired    FailureReason = "expired"
	ReasonDeclined   FailureReason = "declined"
	ReasonAborted    FailureReason = "aborted"
	ReasonSuperseded FailureReason = "superseded"
	ReasonEvicted    FailureReason = "evicted"
)

// Failure is kept with a checkpoint that expired or was aborted.
type Failure struct {
	Reason FailureReason
	// TaskID is the task that declined.
	TaskID string
	// Message is the caller's free text.
	Message string
}

// Checkpoint is one consistent cut of a job as a store saw it at one moment. All times
// are Unix milliseconds of the store's clock.
type Checkpoint struct {
	Job      string
	ID       int64
	Epoch    int64
	Status   Status
	Revision int64 // counts visible changes; part of the entity tag
	// Timestamp is when it was triggered, for display: never lower than that of an
	// earlier checkpoint of the job, even if the clock stepped back.
	Timestamp int64
	// Start is the raw start that expiry counts from.
	Start int64
	// TimeoutMs is how long it may stay pending; ≤ 0 is for ever.
	TimeoutMs int64

	RequiredTaskAcks  int
	AcknowledgedTasks int
	// NamedTasks is true when the trigger named the tasks; only those may acknowledge.
	NamedTasks bool
	// MissingTasks is the first MissingTasksShown names that have not acknowledged, in
	// byte order; only with NamedTasks and only while pending or ended uncompleted.
	MissingTasks []string

	EndedAt int64 // 0 while pending
	Pinned  bool
	// SetAside takes a completed one out: it is nobody's latest, no recovery goes back to it unless it is asked for by
	// its id, and retention and cleanup neither count nor remove it.
	SetAside    bool
	Labels      map[string]string
	Description string
	Failure     *Failure

	// SnapshotVersion, Entries, Bytes and Digest describe the snapshot of a completed
	// checkpoint: restore lines, restore bytes, and the digest of its manifest
	// ("sha256:<hex>"; empty until it was first needed).
	SnapshotVersion int
	Entries         int64
	Bytes           int64
	Digest          string
	// Damage is what of the snapshot was found missing or not as recorded, "" for nothing:
	// see [Store.MarkDamaged].
	Damage string
	// SharedEntries and SharedBytes are the shared state's share of Entries and Bytes;
	// they are current while pending too. SharedRevision counts its changes.
	SharedEntries  int64
	SharedBytes    int64
	SharedRevision int64

	// ObservedAt is the store's clock when this was read.
	ObservedAt int64
}

// Completed tells whether the checkpoint can be restored.
func (c *Checkpoint) Completed() bool { return c.Status == StatusCompleted }

// Deadline is when a pending checkpoint expires, and false when it never does. It is
// still alive in the very millisecond of the deadline.
func (c *Checkpoint) Deadline() (int64, bool) { return c.Start + c.TimeoutMs, c.TimeoutMs > 0 }

// DurationMs is how long it was pending; 0 for one that still is.
func (c *Checkpoint) DurationMs() int64 {
	if c.EndedAt == 0 {
		return 0
	}
	return max(0, c.EndedAt-c.Start)
}

// Tag is the entity tag of the checkpoint as a resource, without quotes.
func (c *Checkpoint) Tag() string {
	return strconv.FormatInt(c.ID, 10) + "-" + strconv.FormatInt(c.Revision, 10)
}

// SharedTag is the entity tag of the shared state as a whole, without quotes.
func (c *Checkpoint) SharedTag() string {
	return strconv.FormatInt(c.ID, 10) + "-s" + strconv.FormatInt(c.SharedRevision, 10)
}

// Ack is a task's accepted acknowledgement.
type Ack struct {
	TaskID         string
	Attempt        int64
	AcknowledgedAt int64 // Unix ms
	LatencyMs      int64 // since the checkpoint's start
	Part           PartInfo
}

// PartInfo describes one part: its restore lines, restore bytes and their SHA-256 as
// "sha256:<hex>".
type PartInfo struct {
	Entries int64
	Bytes   int64
	Digest  string
}

// EmptyDigest is the digest of a part without entries.
const EmptyDigest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// CheckpointDetail is a checkpoint with its first AcksShown acknowledgements, by task id.
type CheckpointDetail struct {
	Checkpoint
	Acks []Ack
}

// Expired is the rule of the deadline: alive in its very millisecond, gone after it.
func Expired(start, timeoutMs, now int64) bool { return timeoutMs > 0 && now-start > timeoutMs }

// Rebase is the rule for a clock that stepped back behind the start: the start moves to
// now, so that the step delays the deadline by at most one timeout.
func Rebase(start, now int64) int64 { return min(start, now) }
