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
	// MaxWaitSeconds is how long a long poll may wait.
	MaxWaitSeconds = 60
	// MaxErrorsShown is how many wrong places of a request a refusal lists.
	MaxErrorsShown = 20
	// MaxEvents is how many events one read of a job's log answers.
	MaxEvents = 1000
	// SamplesKept is how many completed checkpoints the statistics of a job look back on.
	SamplesKept = 1000
	// RestoresKept is how many restores a job remembers.
	RestoresKept = 100
)
