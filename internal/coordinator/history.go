package coordinator

// History is what a store remembers of a job's checkpoints beyond their records.
type History struct {
	State  JobState
	Counts Counts
	// Samples are the last SamplesKept completions, newest first.
	Samples []Sample
	// Restores are the last RestoresKept restores, newest first.
	Restores []RestoreRecord
}

// Counts are totals since the job's beginning, or since it was last deleted.
type Counts struct {
	Triggered, Completed                            int64
	Expired, Declined, Aborted, Superseded, Evicted int64
	// Deleted counts checkpoints that are gone, for whatever reason.
	Deleted int64
	// Restores counts transfers, RestoredBytes what they moved.
	Restores, RestoredBytes int64
}

// Failed is how many ended without completing.
func (c Counts) Failed() int64 {
	return c.Expired + c.Declined + c.Aborted + c.Superseded + c.Evicted
}

// Sample is one completion.
type Sample struct {
	CheckpointID int64
	CompletedAt  int64 // Unix ms
	DurationMs   int64
	Entries      int64
	Bytes        int64
	Acks         int
	// LastTask is the task whose acknowledgement completed it; "" when it was completed by hand.
	LastTask string
}
