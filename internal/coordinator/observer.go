package coordinator

import "time"

// Observer is told what happened, after it is stored. Calls come from many goroutines
// and must return quickly. Internal/server turns them into logs and metrics.
type Observer interface {
	// Triggered tells of a new checkpoint; repeats of an Idempotency-Key are not new.
	Triggered(c Checkpoint)
	// Acknowledged tells of one item of an acknowledgement.
	Acknowledged(job string, id int64, outcome AckOutcome)
	// Ended tells of a checkpoint that reached a terminal state in this process.
	Ended(t Transition)
	// Extended tells of a deadline that a call was to move, and in whose name ("" is not known).
	Extended(c Checkpoint, by string)
	// Deleted tells of a checkpoint that is gone.
	Deleted(job string, id int64, why DeletionReason)
	// Damaged tells of a completed checkpoint that was found to have lost something.
	Damaged(job string, id int64, damage error)
	// Recovered tells of a raised epoch.
	Recovered(job string, r RecoverResult)
	// Restored tells of a restore that ran to its end, or broke off with err, and of the
	// bytes that it moved.
	Restored(job string, id, bytes int64, err error)
	// StoreCall tells of one call of the store.
	StoreCall(operation string, took time.Duration, err error)
	// StoreChanged tells that the store came or went, with the present warnings.
	StoreChanged(up bool, warnings []Warning, cause error)
	// JobChanged tells of a job that began or ceased to fail, or whose latest completed
	// checkpoint became stale or fresh; every replica tells, within a second or two.
	JobChanged(job string, failing bool, freshness Freshness)
	// JobGone tells of a job that is not there any more; every replica tells.
	JobGone(job string)
	// BackgroundFailed tells of an error that no request will see.
	BackgroundFailed(task string, err error)
}

// Transition is the end of a checkpoint.
type Transition struct {
	Job    string
	ID     int64
	Status Status
	Reason FailureReason // "" with StatusCompleted
	// DurationMs is how long it was pending.
	DurationMs        int64
	AcknowledgedTasks int
}

// DeletionReason says who removed a checkpoint.
type DeletionReason string

// A checkpoint goes by request, by a cleanup, or by retention.
const (
	DeletedByRequest   DeletionReason = "request"
	DeletedByCleanup   DeletionReason = "cleanup"
	DeletedByRetention DeletionReason = "retention"
)

// Silence is an [Observer] that drops everything.
type Silence struct{}

// Triggered drops the report.
func (Silence) Triggered(Checkpoint) {}

// Acknowledged drops the report.
func (Silence) Acknowledged(string, int64, AckOutcome) {}

// Ended drops the report.
func (Silence) Ended(Transition) {}

// Extended drops the report.
func (Silence) Extended(Checkpoint, string) {}

// Deleted drops the report.
func (Silence) Deleted(string, int64, DeletionReason) {}

// Damaged drops the report.
func (Silence) Damaged(string, int64, error) {}

// Recovered drops the report.
func (Silence) Recovered(string, RecoverResult) {}

// Restored drops the report.
func (Silence) Restored(string, int64, int64, error) {}

// StoreCall drops the report.
func (Silence) StoreCall(string, time.Duration, error) {}

// StoreChanged drops the report.
func (Silence) StoreChanged(bool, []Warning, error) {}

// JobChanged drops the report.
func (Silence) JobChanged(string, bool, Freshness) {}

// JobGone drops the report.
func (Silence) JobGone(string) {}

// BackgroundFailed drops the report.
func (Silence) BackgroundFailed(string, error) {}
