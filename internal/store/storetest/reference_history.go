package storetest

import (
	"cmp"
	"context"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

type refCounts struct{ coordinator.Counts }

// add counts an end without completion.
func (c *refCounts) add(reason coordinator.FailureReason) {
	*map[coordinator.FailureReason]*int64{
		coordinator.ReasonExpired: &c.Expired, coordinator.ReasonDeclined: &c.Declined, coordinator.ReasonAborted: &c.Aborted,
		coordinator.ReasonSuperseded: &c.Superseded, coordinator.ReasonEvicted: &c.Evicted,
	}[reason]++
}

// failed is the failure policy's half about failures. One that is older than a success
// says nothing about how the job is now.
func (r *reference) failed(j *refJob, c *refCheckpoint) {
	j.lastFailure = &coordinator.JobFailure{CheckpointID: c.ID, Failure: *c.Failure, At: c.EndedAt}
	if c.ID < j.highest {
		return
	}
	j.failures++
	r.judge(j)
}

// judge makes a job failing that has failed more often in a row than it tolerates.
func (r *reference) judge(j *refJob) {
	if j.failing || j.failures <= *cmp.Or(j.settings.TolerableFailures, &j.noted.TolerableFailures) {
		return
	}
	j.failing = true
	last := j.lastFailure
	r.emit(j, coordinator.Event{
		Type: coordinator.EventFailing, CheckpointID: last.CheckpointID, Failure: &last.Failure, ConsecutiveFailures: j.failures,
	})
}

// succeeded is its half about successes, which are remembered.
func (r *reference) succeeded(j *refJob, c *refCheckpoint, task string) {
	j.completedAt, j.highest = c.EndedAt, max(j.highest, c.ID)
	j.failures = 0
	j.counts.Completed++
	j.samples = append(j.samples, coordinator.Sample{
		CheckpointID: c.ID, CompletedAt: c.EndedAt, DurationMs: c.DurationMs(), Entries: c.Entries, Bytes: c.Bytes,
		Acks: c.AcknowledgedTasks, LastTask: task,
	})
	if j.failing {
		j.failing = false
		r.emit(j, coordinator.Event{Type: coordinator.EventHealthy, CheckpointID: c.ID})
	}
}

// newest gives the last n, the newest first.
func newest[T any](all []T, n int) []T {
	last := slices.Clone(all[max(0, len(all)-n):])
	slices.Reverse(last)
	return last
}

// History reads what was counted.
func (r *reference) History(_ context.Context, job string) (coordinator.History, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, err := r.job(job)
	if err != nil {
		return coordinator.History{}, err
	}
	return coordinator.History{
		State: r.state(j), Counts: j.counts.Counts,
		Samples: newest(j.samples, coordinator.SamplesKept), Restores: newest(j.restores, coordinator.RestoresKept),
	}, nil
}

// RecordRestore remembers a restore.
func (r *reference) RecordRestore(_ context.Context, job string, restore coordinator.RestoreRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if j, err := r.job(job); err == nil {
		restore.At = r.clock()
		j.restores = append(j.restores, restore)
		j.counts.Restores++
		j.counts.RestoredBytes += restore.Bytes
	}
	return nil
}
