package filestore

import (
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// counts are totals since the job's beginning.
type counts struct {
	Triggered     int64 `json:"triggered,omitempty"`
	Completed     int64 `json:"completed,omitempty"`
	Expired       int64 `json:"expired,omitempty"`
	Declined      int64 `json:"declined,omitempty"`
	Aborted       int64 `json:"aborted,omitempty"`
	Superseded    int64 `json:"superseded,omitempty"`
	Evicted       int64 `json:"evicted,omitempty"`
	Deleted       int64 `json:"deleted,omitempty"`
	Restores      int64 `json:"restores,omitempty"`
	RestoredBytes int64 `json:"restoredBytes,omitempty"`
}

// sample is one completion.
type sample struct {
	CheckpointID int64  `json:"id"`
	CompletedAt  int64  `json:"at"`
	DurationMs   int64  `json:"ms"`
	Entries      int64  `json:"entries,omitempty"`
	Bytes        int64  `json:"bytes,omitempty"`
	Acks         int    `json:"acks,omitempty"`
	LastTask     string `json:"last,omitempty"`
}

// addSample keeps a completion for the statistics.
func (s *step) addSample(c *checkpoint, lastTask string) {
	s.appendJSON(s.bucket(c.job.b, bucketSamples), &sample{
		CheckpointID: c.id, CompletedAt: c.EndedAt, DurationMs: max(0, c.EndedAt-c.Start),
		Entries: c.Entries, Bytes: c.Bytes, Acks: c.Acked, LastTask: lastTask,
	}, coordinator.SamplesKept)
}

var _ = coordinator.Counts(counts{})
