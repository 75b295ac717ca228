package coordinator

import (
	"context"
	"math/rand/v2"
	"strconv"
)

// JobState is a job as a store saw it at one moment. All times are Unix milliseconds of
// the store's clock.
type JobState struct {
	Job     string
	Epoch   int64
	NextID  int64
	Pending int
	// LatestID is the latest completed checkpoint that is still there and LatestAt when it
	// completed; LatestID < 0 is none.
	LatestID int64
	LatestAt int64

	// Settings are the job's own; Revision counts their changes and is 0 for a job that
	// nobody configured yet. Configured is false for those, and again after a deletion.
	Settings   JobSettings
	Revision   int64
	Configured bool

	// ConsecutiveFailures counts checkpoints that failed (expired or declined) since the
	// last completion; Failing is set when they became more than tolerable.
	ConsecutiveFailures int
	Failing             bool
	// LastFailure stays after a later success; nil is none yet.
	LastFailure *JobFailure
	// LastCompletedAt is when a checkpoint last completed, whether or not it is still
	// there; 0 is never. The minimal pause counts from it.
	LastCompletedAt int64

	Schedule ScheduleState
	// LastEvent is the newest event of the job's log.
	LastEvent EventID

	// ObservedAt is the store's clock.
	ObservedAt int64
}

// JobFailure is a checkpoint that failed.
type JobFailure struct {
	CheckpointID int64
	Failure
	At int64
}

// Tag is the entity tag of the job's settings, without quotes.
func (j *JobState) Tag() string { return strconv.FormatInt(j.Revision, 10) }

// Freshness says how old the latest completed checkpoint of a job is.
type Freshness string

// A job is healthy while its latest completed checkpoint is young enough, stale after
// that, and has none in the beginning or after all were removed.
const (
	FreshnessHealthy Freshness = "healthy"
	FreshnessStale   Freshness = "stale"
	FreshnessNever   Freshness = "never"
)

// Freshness judges the job by what holds for it.
func (j *JobState) Freshness(effective Settings) Freshness {
	if j.LatestID < 0 {
		return FreshnessNever
	}
	limit := effective.StaleAfterMs
	if limit <= 0 {
		limit = StaleIntervals * effective.IntervalMs
	}
	if limit > 0 && j.ObservedAt-j.LatestAt > limit {
		return FreshnessStale
	}
	return FreshnessHealthy
}

// Jobs reads the state of every job, by name.
func (c *Coordinator) Jobs(ctx context.Context) ([]JobState, error) {
	jobs, err := call(c, "jobs", func() ([]JobState, error) { return c.store.Jobs(ctx) })
	if err != nil {
		return nil, err
	}
	for i := range jobs {
		c.heard(&jobs[i])
	}
	c.feeds.missed(jobs)
	return jobs, nil
}

// heard passes on what a state says to those who wait for it.
func (c *Coordinator) heard(state *JobState) {
	c.scheduler.learn(state)
	c.feeds.heard(state)
}

// Job reads one job with the names of its tasks.
func (c *Coordinator) Job(ctx context.Context, job string) (JobState, error) {
	var f faults
	f.param("job", CheckJob(job))
	if err := f.err(); err != nil {
		return JobState{}, err
	}
	return call(c, "job", func() (JobState, error) { return c.store.Job(ctx, job) })
}

// PutJob replaces the settings of a job, which exists from then on. Pending checkpoints
// stay as they were triggered.
func (c *Coordinator) PutJob(ctx context.Context, job string, settings JobSettings, condition Precondition) (PutJobResult, error) {
	var f faults
	f.param("job", CheckJob(job))
	settings.check(&f)
	if err := f.err(); err != nil {
		return PutJobResult{}, err
	}
	if err := tooManyTasks("The settings name", settings.Tasks); err != nil {
		return PutJobResult{}, err
	}
	settings.NamedTasks = len(settings.Tasks)
	result, err := call(c, "put_job", func() (PutJobResult, error) {
		return c.store.PutJob(ctx, PutJobCall{
			Job: job, Settings: settings, If: condition, By: byOf(ctx), Defaults: c.settings, Jitter: rand.Float64(), //nolint:gosec // It only spreads load.
		})
	})
	if err == nil {
		c.heard(&result.State)
	}
	return result, err
}

// PutJobCall replaces a job's settings, or changes some of them.
type PutJobCall struct {
	Job      string
	Settings JobSettings
	// Patch, where it is not nil, is made to what the settings are at that moment, and Settings
	// are none. Then the job must exist.
	Patch *JobPatch
	// If is about the settings: IfNoneMatch demands that nobody configured the job.
	If Precondition
	// By is who asks, for the events; "" where that is not known.
	By string
	// Defaults and Jitter are as in [DueCall]: a changed interval begins anew.
	Defaults Settings
	Jitter   float64
}

// PutJobResult is the job after the change; Created tells that it had no settings before.
type PutJobResult struct {
	State   JobState
	Created bool
}

// DeleteJob removes a job's settings, checkpoints and statistics, in atomic steps. Its
// counter of ids, its epoch, its attempts and its event log stay, so that nothing is given
// twice should the job come back.
func (c *Coordinator) DeleteJob(ctx context.Context, job string, force bool, condition Precondition) error {
	var f faults
	f.param("job", CheckJob(job))
	if err := f.err(); err != nil {
		return err
	}
	for {
		result, err := call(c, "delete_job", func() (DeleteJobResult, error) {
			return c.store.DeleteJob(ctx, DeleteJobCall{Job: job, Force: force, If: condition, Max: CleanupStep, By: byOf(ctx)})
		})
		if err != nil {
			return err
		}
		if !result.More {
			c.scheduler.forget(job)
			c.observer.JobGone(job)
			return nil
		}
		// The condition was for the deletion to begin: one that a PUT stopped halfway would
		// have taken checkpoints all the same.
		condition = Precondition{}
	}
}

// DeleteJobCall removes a job.
type DeleteJobCall struct {
	Job string
	// Force also removes pending and pinned checkpoints.
	Force bool
	If    Precondition
	// Max is how many checkpoints may go in this step.
	Max int
	// By is who asks, for the events; "" where that is not known.
	By string
}

// DeleteJobResult tells whether another step is needed; the job is there until the last.
type DeleteJobResult struct{ More bool }

// ForgetTask forgets the highest attempt of a task, which may then begin at 0 again.
func (c *Coordinator) ForgetTask(ctx context.Context, job, taskID string) error {
	var f faults
	f.param("job", CheckJob(job))
	f.param("taskId", CheckTaskID(taskID))
	if err := f.err(); err != nil {
		return err
	}
	_, err := call(c, "forget_task", func() (struct{}, error) { return struct{}{}, c.store.ForgetTask(ctx, job, taskID) })
	return err
}
