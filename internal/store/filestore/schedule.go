package filestore

import (
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// schedule is where a job's schedule stands.
type schedule struct {
	Due       int64                      `json:"due,omitempty"`
	Last      coordinator.ScheduleResult `json:"last,omitempty"`
	LastAt    int64                      `json:"at,omitempty"`
	LastID    int64                      `json:"id"`
	Triggered int64                      `json:"triggered,omitempty"`
	Skipped   int64                      `json:"skipped,omitempty"`
	Missed    int64                      `json:"missed,omitempty"`
}

// never is the schedule of a job in which none has triggered yet.
func never() schedule { return schedule{LastID: noCheckpoint} }
