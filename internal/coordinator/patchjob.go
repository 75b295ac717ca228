package coordinator

import (
	"cmp"
	"context"
	"math/rand/v2"
)

// JobPatch changes some of a job's settings; nil fields leave what there is. Tasks and
// RequiredTaskAcks take each other's place.
type JobPatch struct {
	JobSettings
	Paused      *bool
	Description *string
}

// PatchJob changes some settings of a job, in one step of the store: of many who patch at the
// same moment all succeed, and no change is lost. Errors: CodeJobNotFound;
// CodePreconditionFailed for settings that do not have one of the tags.
func (c *Coordinator) PatchJob(ctx context.Context, job string, patch JobPatch, tags []string) (JobState, error) {
	var f faults
	f.param("job", CheckJob(job))
	patch.JobSettings.Description = *cmp.Or(patch.Description, new(""))
	patch.check(&f)
	if err := f.err(); err != nil {
		return JobState{}, err
	}
	if err := tooManyTasks("The settings name", patch.Tasks); err != nil {
		return JobState{}, err
	}
	result, err := call(c, "put_job", func() (PutJobResult, error) {
		return c.store.PutJob(ctx, PutJobCall{
			Job: job, Patch: &patch, If: Precondition{IfMatch: tags}, By: byOf(ctx), Defaults: c.settings,
			Jitter: rand.Float64(), //nolint:gosec // It only spreads load.
		})
	})
	if err == nil {
		c.heard(&result.State)
	}
	return result.State, err
}

// Participants tells whether the patch says who has to acknowledge.
func (p *JobPatch) Participants() bool { return p.Tasks != nil || p.RequiredTaskAcks != nil }

// Apply gives settings with the changes made.
func (p *JobPatch) Apply(s JobSettings) JobSettings {
	if p.Participants() {
		s.Tasks, s.NamedTasks, s.RequiredTaskAcks = p.Tasks, len(p.Tasks), p.RequiredTaskAcks
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
