package coordinator

import (
	"cmp"
	"context"
)

// JobPatch changes some of a job's settings; nil fields leave what there is. Tasks and
// RequiredTaskAcks take each other's place.
type JobPatch struct {
	JobSettings
	Paused      *bool
	Description *string
}

// patchRounds bounds how often a patch is tried again because others change the same job.
const patchRounds = 10

// PatchJob changes some settings of a job, to what they are at that moment. Errors:
// CodeJobNotFound; CodePreconditionFailed for settings that do not have one of the tags.
func (c *Coordinator) PatchJob(ctx context.Context, job string, patch JobPatch, tags []string) (JobState, error) {
	for range patchRounds {
		state, err := c.Job(ctx, job)
		if err != nil {
			return JobState{}, err
		}
		if !(Precondition{IfMatch: tags}).Met(state.Tag(), state.Configured) {
			return JobState{}, ErrPreconditionFailed()
		}
		// Whatever the caller's tags let pass: only over the settings that were read here, or
		// what somebody else put since would be undone.
		unchanged := Precondition{IfNoneMatch: true}
		if state.Configured {
			unchanged = Precondition{IfMatch: []string{state.Tag()}}
		}
		result, err := c.PutJob(ctx, job, patch.over(state.Settings), unchanged)
		if CodeOf(err) != CodePreconditionFailed {
			return result.State, err
		}
	}
	return JobState{}, ErrPreconditionFailed()
}

// over gives settings with the changes made.
func (p *JobPatch) over(s JobSettings) JobSettings {
	if p.Tasks != nil || p.RequiredTaskAcks != nil {
		s.Tasks, s.RequiredTaskAcks = p.Tasks, p.RequiredTaskAcks
	}
	s.TimeoutMs = cmp.Or(p.TimeoutMs, s.TimeoutMs)
	s.IntervalMs = cmp.Or(p.IntervalMs, s.IntervalMs)
	s.MinPauseMs = cmp.Or(p.MinPauseMs, s.MinPauseMs)
	s.MaxConcurrent = cmp.Or(p.MaxConcurrent, s.MaxConcurrent)
	s.TolerableFailures = cmp.Or(p.TolerableFailures, s.TolerableFailures)
	s.StaleAfterMs = cmp.Or(p.StaleAfterMs, s.StaleAfterMs)
	s.Keep = cmp.Or(p.Keep, s.Keep)
	s.MaxAgeMs = cmp.Or(p.MaxAgeMs, s.MaxAgeMs)
	s.MaxBytes = cmp.Or(p.MaxBytes, s.MaxBytes)
	s.Paused = *cmp.Or(p.Paused, &s.Paused)
	s.Description = *cmp.Or(p.Description, &s.Description)
	return s
}
