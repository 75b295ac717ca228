package filestore

import (
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// outcomes is what a job remembers of how its checkpoints ended.
type outcomes struct {
	// Highest is the highest id that ever completed, < 0 for none; At is when a checkpoint
	// last completed, 0 for never.
	Highest int64 `json:"highest"`
	At      int64 `json:"at,omitempty"`
	// Failed counts those that failed since then.
	Failed  int         `json:"failed,omitempty"`
	Failing bool        `json:"failing,omitempty"`
	Last    *jobFailure `json:"last,omitempty"`
}

// jobFailure is a checkpoint that failed.
type jobFailure struct {
	ID int64 `json:"id"`
	failure
	At int64 `json:"at"`
}

func (f *jobFailure) view() *coordinator.JobFailure {
	if f == nil {
		return nil
	}
	return &coordinator.JobFailure{CheckpointID: f.ID, Failure: coordinator.Failure(f.failure), At: f.At}
}

// ended follows every end of a checkpoint, in whatever way.
func (s *step) ended(c *checkpoint) {
	s.reportEnd(c)
	counts := &c.job.Counts
	switch c.Status {
	case coordinator.StatusCompleted:
		counts.Completed++
		s.logCheckpoint(c, coordinator.EventCompleted, "")
		s.succeeded(c)
	case coordinator.StatusExpired:
		counts.Expired++
		s.logCheckpoint(c, coordinator.EventExpired, "")
		s.failed(c)
	case coordinator.StatusAborted:
		s.logCheckpoint(c, coordinator.EventAborted, "")
		switch c.Failure.Reason {
		case coordinator.ReasonDeclined:
			counts.Declined++
			s.failed(c)
		case coordinator.ReasonSuperseded:
			counts.Superseded++
		case coordinator.ReasonEvicted:
			counts.Evicted++
		case coordinator.ReasonAborted, coordinator.ReasonExpired:
			counts.Aborted++
		}
	case coordinator.StatusPending:
	}
}

// succeeded ends a row of failures.
func (s *step) succeeded(c *checkpoint) {
	o := &c.job.Outcomes
	o.Highest, o.At, o.Failed = max(o.Highest, c.id), c.EndedAt, 0
	if o.Failing {
		o.Failing = false
		s.log(c.job, event{Type: coordinator.EventHealthy, ID: c.id})
	}
}

// failed adds to a row of failures, unless a newer checkpoint has completed already:
// then the job is past what went wrong.
func (s *step) failed(c *checkpoint) {
	o := &c.job.Outcomes
	o.Last = &jobFailure{ID: c.id, failure: *c.Failure, At: c.EndedAt}
	if c.id < o.Highest {
		return
	}
	o.Failed++
	s.judgeFailures(c.job, c.id, c.Failure)
}

// judgeFailures makes a job failing that has more failures in a row than it tolerates. id
// and why are those of the last one.
func (s *step) judgeFailures(j *job, id int64, why *failure) {
	o := &j.Outcomes
	tolerable := j.holds(coordinator.Settings{TolerableFailures: j.Noted.TolerableFailures}).TolerableFailures
	if o.Failed > tolerable && !o.Failing {
		o.Failing = true
		s.log(j, event{Type: coordinator.EventFailing, ID: id, Failure: why, Failures: o.Failed})
	}
}
