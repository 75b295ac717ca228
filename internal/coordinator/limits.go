package coordinator

// Limits of requests. GET /limits serves them, refusals name the one that was hit.
const (
	MaxTaskIDBytes         = 1024
	MaxKeyBytes            = 1024
	MaxAckBody             = 8 << 20
	MaxValueBytes          = 16 << 20
	MaxSharedKeys          = 10_000
	MaxSharedBytes         = 16 << 20
	MaxObjectUpload        = 8 << 20
	MaxSnapshotDocument    = 8 << 20
	MaxBulkAcks            = 1000
	MaxTasks               = 10_000
	MaxRequiredTaskAcks    = 100_000
	MaxTasksPerCheckpoint  = 100_000
	MaxConcurrentUpper     = 1000
	MaxListLimit           = 1000
	DefaultListLimit       = 20
	MaxLabels              = 64
	MaxLabelNameBytes      = 128
	MaxLabelValueBytes     = 1024
	MaxDescriptionBytes    = 4096
	MaxReasonBytes         = 4096
	MaxIdempotencyKeyBytes = 255
	MaxJobNameBytes        = 128
	// MaxTimeoutMs is a hundred years: beyond it "never" (0) is meant.
	MaxTimeoutMs = 100 * 365 * 24 * 3600 * 1000
	// EndedKept is how many records of checkpoints that ended uncompleted are kept.
	EndedKept = 20
	// CleanupStep is how many checkpoints one atomic step of a cleanup removes.
	CleanupStep = 100
	// MaxCleanupAnswer is how many ids one cleanup call answers.
	MaxCleanupAnswer = 1000
)

// Settings are a server's defaults for what a trigger leaves open.
type Settings struct {
	// RequiredTaskAcks is used when a trigger names neither a number nor tasks; ≥ 1.
	RequiredTaskAcks int
	// TimeoutMs is how long a checkpoint may stay pending; ≤ 0 is for ever.
	TimeoutMs int64
	// CheckpointsToKeep is how many completed, unpinned checkpoints retention keeps in
	// each job; 0 keeps all.
	CheckpointsToKeep int
	// MaxConcurrent is how many checkpoints of a job may be pending; 1 … MaxConcurrentUpper.
	MaxConcurrent int
	// MaxPartBytes is how many restore bytes one part may have.
	MaxPartBytes int64
}

// DefaultSettings are the documented defaults.
func DefaultSettings() Settings {
	return Settings{
		RequiredTaskAcks:  1,
		TimeoutMs:         60_000,
		CheckpointsToKeep: 5,
		MaxConcurrent:     16,
		MaxPartBytes:      4 << 30,
	}
}
