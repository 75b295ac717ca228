package storetest

import (
	"context"
	"maps"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// refRecord is what the deletion of a job takes away, beside its checkpoints.
type refRecord struct {
	settings   coordinator.JobSettings
	configured bool

	failures    int
	failing     bool
	lastFailure *coordinator.JobFailure
	// completedAt is when a checkpoint last completed, highest the highest id that did.
	completedAt, highest int64

	schedule coordinator.ScheduleState
	counts   refCounts
	// samples and restores are in the order in which they came.
	samples  []coordinator.Sample
	restores []coordinator.RestoreRecord
}

func newRecord() refRecord {
	return refRecord{highest: -1, schedule: coordinator.ScheduleState{LastID: -1}}
}

// state is a job as a reader sees it.
func (r *reference) state(j *refJob) coordinator.JobState {
	state := coordinator.JobState{
		Job: j.name, Epoch: j.epoch, NextID: j.next, LatestID: -1,
		Settings: cloned(j.settings), Revision: j.revision, Configured: j.configured,
		ConsecutiveFailures: j.failures, Failing: j.failing, LastFailure: j.lastFailure, LastCompletedAt: j.completedAt,
		Schedule: j.schedule, LastEvent: j.position(), ObservedAt: r.clock(),
	}
	state.Pending = len(j.ids(func(c *refCheckpoint) bool { return c.alive(state.ObservedAt) }))
	if c := j.latest(); c != nil {
		state.LatestID, state.LatestAt = c.ID, c.EndedAt
	}
	return state
}

func cloned(s coordinator.JobSettings) coordinator.JobSettings {
	s.Tasks = slices.Clone(s.Tasks)
	return s
}

// Jobs reads the state of every job.
func (r *reference) Jobs(context.Context) ([]coordinator.JobState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var states []coordinator.JobState
	for _, name := range slices.Sorted(maps.Keys(r.jobs)) {
		if j := r.jobs[name]; j.exists {
			state := r.state(j)
			state.Settings.Tasks = nil
			states = append(states, state)
		}
	}
	return states, nil
}

// Job reads one job whole.
func (r *reference) Job(_ context.Context, job string) (coordinator.JobState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, err := r.job(job)
	if err != nil {
		return coordinator.JobState{}, err
	}
	return r.state(j), nil
}

// PutJob replaces a job's settings.
func (r *reference) PutJob(_ context.Context, call coordinator.PutJobCall) (coordinator.PutJobResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.askedBy(call.By)()
	j := r.entry(call.Job)
	if !met(call.If, new(r.state(j)).Tag(), j.configured) {
		return coordinator.PutJobResult{}, coordinator.ErrPreconditionFailed()
	}
	if call.Patch != nil && !j.exists {
		return coordinator.PutJobResult{}, coordinator.ErrJobNotFound(call.Job)
	}
	settings := cloned(call.Settings)
	if call.Patch != nil {
		settings = refPatch(j.settings, call.Patch)
	}
	before, after := j.settings.Over(call.Defaults), settings.Over(call.Defaults)
	changed := before.IntervalMs != after.IntervalMs || before.MinPauseMs != after.MinPauseMs
	switch {
	case after.IntervalMs == 0 || settings.Paused:
		j.schedule.Due = 0
	case j.schedule.Due == 0 || changed || j.settings.Paused:
		j.schedule.Due = refBegin(j.schedule, r.clock(), after.IntervalMs, call.Jitter)
	}
	created := !j.configured
	j.exists, j.configured, j.settings, j.noted = true, true, settings, call.Defaults
	j.revision++
	r.emit(j, coordinator.Event{Type: coordinator.EventConfigured, CheckpointID: -1, By: r.by})
	r.judge(j)
	return coordinator.PutJobResult{State: r.state(j), Created: created}, nil
}

// refPatch gives settings with what a patch names in place of what they had.
func refPatch(s coordinator.JobSettings, p *coordinator.JobPatch) coordinator.JobSettings {
	s = cloned(s)
	if p.Tasks != nil || p.RequiredTaskAcks != nil {
		s.Tasks, s.NamedTasks, s.RequiredTaskAcks = slices.Clone(p.Tasks), len(p.Tasks), p.RequiredTaskAcks
	}
	for _, field := range []struct{ own, patch **int64 }{
		{&s.TimeoutMs, &p.TimeoutMs},
		{&s.IntervalMs, &p.IntervalMs},
		{&s.MinPauseMs, &p.MinPauseMs},
		{&s.StaleAfterMs, &p.StaleAfterMs},
		{&s.MaxAgeMs, &p.MaxAgeMs},
		{&s.MaxBytes, &p.MaxBytes},
	} {
		if *field.patch != nil {
			*field.own = *field.patch
		}
	}
	for _, field := range []struct{ own, patch **int }{
		{&s.MaxConcurrent, &p.MaxConcurrent},
		{&s.TolerableFailures, &p.TolerableFailures},
		{&s.Keep, &p.Keep},
	} {
		if *field.patch != nil {
			*field.own = *field.patch
		}
	}
	if p.Paused != nil {
		s.Paused = *p.Paused
	}
	if p.Description != nil {
		s.Description = *p.Description
	}
	return s
}

// DeleteJob removes checkpoints, oldest first, and then what else there is of the job.
func (r *reference) DeleteJob(_ context.Context, call coordinator.DeleteJobCall) (coordinator.DeleteJobResult, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.askedBy(call.By)()
	j, err := r.job(call.Job)
	if err != nil {
		return coordinator.DeleteJobResult{}, err
	}
	if !met(call.If, new(r.state(j)).Tag(), j.configured) {
		return coordinator.DeleteJobResult{}, coordinator.ErrPreconditionFailed()
	}
	r.settle(j)
	pinned := j.ids(func(c *refCheckpoint) bool { return c.Pinned })
	switch pending := j.pending(); {
	case call.Force:
	case len(pinned) > 0:
		return coordinator.DeleteJobResult{}, coordinator.ErrJobPinned(j.name, len(pinned))
	case len(pending) > 0:
		return coordinator.DeleteJobResult{}, coordinator.ErrJobPending(j.name, len(pending))
	}
	all := j.ids(func(*refCheckpoint) bool { return true })
	for _, id := range all[:min(len(all), call.Max)] {
		r.remove(j, j.checkpoints[id], coordinator.ReasonAborted, coordinator.DeletedByRequest)
	}
	clear(j.imports)
	if len(j.checkpoints) > 0 {
		return coordinator.DeleteJobResult{More: true}, nil
	}
	r.emit(j, coordinator.Event{Type: coordinator.EventJobDeleted, CheckpointID: -1, By: r.by})
	j.refRecord = newRecord()
	j.revision++
	j.exists = j.name == coordinator.DefaultJob
	return coordinator.DeleteJobResult{}, nil
}

// ForgetTask forgets a task's attempt.
func (r *reference) ForgetTask(_ context.Context, job, task string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, err := r.job(job)
	if err == nil {
		delete(j.attempts, task)
	}
	return err
}
