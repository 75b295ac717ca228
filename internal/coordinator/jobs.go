package coordinator

import "context"

// Jobs reads the state of every job.
func (c *Coordinator) Jobs(ctx context.Context) ([]JobState, error) {
	return call(c, "jobs", func() ([]JobState, error) { return c.store.Jobs(ctx) })
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
