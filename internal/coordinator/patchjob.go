package coordinator

import "context"

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
	for round := range patchRounds {
		state, err := c.Job(ctx, job)
		if err != nil {
			return JobState{}, err
		}
		if len(tags) > 0 && round > 0 {
			return JobState{}, ErrPreconditionFailed()
		}
		condition := Precondition{IfMatch: tags}
		switch {
		case len(tags) > 0:
		case state.Configured:
			condition.IfMatch = []string{state.Tag()}
		default:
			condition.IfNoneMatch = true
		}
		result, err := c.PutJob(ctx, job, patch.over(state.Settings), condition)
		if CodeOf(err) != CodePreconditionFailed {
			return result.State, err
		}
		// Somebody was faster: once more, over what is there now.
	}
	return JobState{}, ErrPreconditionFailed()
}

// over gives settings with the changes made.
func (p *JobPatch) over(s JobSettings) JobSettings {
	if p.Tasks != nil || p.RequiredTaskAcks != nil {
		s.Tasks, s.RequiredTaskAcks = p.Tasks, p.RequiredTaskAcks
	}
	for _, field := range []struct{ change, to **int64 }{
		{&p.TimeoutMs, &s.TimeoutMs},
		{&p.IntervalMs, &s.IntervalMs},
		{&p.MinPauseMs, &s.MinPauseMs},
		{&p.StaleAfterMs, &s.StaleAfterMs},
		{&p.MaxAgeMs, &s.MaxAgeMs},
		{&p.MaxBytes, &s.MaxBytes},
	} {
		if *field.change != nil {
			*field.to = *field.change
		}
	}
	for _, field := range []struct{ change, to **int }{
		{&p.MaxConcurrent, &s.MaxConcurrent},
		{&p.TolerableFailures, &s.TolerableFailures},
		{&p.Keep, &s.Keep},
	} {
		if *field.change != nil {
			*field.to = *field.change
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
