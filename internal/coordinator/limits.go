package coordinator

// Limits that the contract does not name. Those that it does are in limits.gen.go.
const (
	// EndedKept is how many records of checkpoints that ended uncompleted are kept.
	EndedKept = 20
	// CleanupStep is how many checkpoints one atomic step of a cleanup removes.
	CleanupStep = 100
	// MaxEvents is how many events one read of a job's log answers.
	MaxEvents = 1000
	// SamplesKept is how many completed checkpoints the statistics of a job look back on.
	SamplesKept = 1000
	// RestoresKept is how many restores a job remembers.
	RestoresKept = 100
)
