package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var (
	jobPreludes    = append(slices.Clip(readPreludes), "prelude_job")
	jobStateScript = newScript("job_state", jobPreludes)
)

// jobsStep is how many jobs are asked for in one round trip.
const jobsStep = 100

// Jobs reads the state of every job and raises the floors of ids, which is why every
// server calls it once a second: what another server gave is known here soon after.
func (s *Store) Jobs(ctx context.Context) ([]coordinator.JobState, error) {
	names, err := s.jobNames(ctx)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return coordinator.CheckJob(name) != nil })
	states := make([]coordinator.JobState, 0, len(names))
	for some := range slices.Chunk(names, jobsStep) {
		replies, err := s.askJobs(ctx, some)
		if err != nil {
			return nil, err
		}
		for i, r := range replies {
			if r.word == string(coordinator.CodeJobNotFound) {
				continue // named before its first write, which did not follow
			}
			state, err := s.jobState(some[i], r)
			if err != nil {
				return nil, err
			}
			states = append(states, state.JobState)
		}
	}
	return states, nil
}

// askJobs runs the script for some jobs in one round trip.
func (s *Store) askJobs(ctx context.Context, names []string) ([]reply, error) {
	replies := make([]reply, len(names))
	err := s.fetch(ctx, jobStateScript.verb, func(ctx context.Context) error {
		cmds := make([]*redis.Cmd, len(names))
		_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, name := range names {
				cmds[i] = p.EvalSha(ctx, jobStateScript.text.Hash(), []string{s.keys(name).job()}, s.now())
			}
			return nil
		})
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			// The server knows no scripts yet: fetch comes back after the load.
			return errors.Join(err, jobStateScript.text.Load(ctx, s.client).Err())
		}
		if err != nil {
			return err
		}
		for i, cmd := range cmds {
			if replies[i], err = parseReply(jobStateScript.verb, names[i], cmd.Val()); err != nil {
				return err
			}
		}
		return nil
	})
	return replies, err
}

// Job reads one job whole. The names of its tasks come by themselves, since a script would
// keep everybody else waiting with ten thousand of them.
func (s *Store) Job(ctx context.Context, job string) (coordinator.JobState, error) {
	for range maxRounds {
		r, err := s.run(ctx, jobStateScript, reads, job)
		if err != nil {
			return coordinator.JobState{}, err
		}
		if r.word != wordOK {
			return coordinator.JobState{}, refusal(jobStateScript.verb, job, coordinator.Latest, r)
		}
		state, err := s.jobState(job, r)
		if err != nil || state.names == "" {
			return state.JobState, err
		}
		err = s.fetch(ctx, "read the names of tasks", func(ctx context.Context) error {
			var err error
			state.Settings.Tasks, err = s.client.ZRange(ctx, s.keys(job).tasks(state.names), 0, -1).Result()
			return err
		})
		if err != nil {
			return coordinator.JobState{}, err
		}
		// A list that is gone belonged to settings that were replaced meanwhile.
		if len(state.Settings.Tasks) == state.Settings.NamedTasks {
			return state.JobState, nil
		}
	}
	return coordinator.JobState{}, coordinator.ErrInternal(fmt.Errorf("job %q: %w", job, placeError(wordUnlisted)))
}

// storedJob is a job, and the token of the list of tasks that its settings name.
type storedJob struct {
	coordinator.JobState
	names string
}

// jobState reads the job that a reply's body begins with, and raises its floor of ids.
func (s *Store) jobState(job string, r reply) (storedJob, error) {
	if len(r.body) == 0 {
		return storedJob{}, badReply(jobStateScript.verb, r, errWord)
	}
	state, err := parseJob(job, r.now, r.body[0])
	if err != nil {
		return storedJob{}, badReply(jobStateScript.verb, r, fmt.Errorf("job %q: %w", job, err))
	}
	s.floors.see(job, state.NextID-1)
	return state, nil
}

// parseJob reads what job_view of prelude_job.lua answered at the time now (Unix ms).
func parseJob(job string, now int64, view any) (storedJob, error) {
	values, _ := view.([]any)
	c := cursor{values: values}
	state := coordinator.JobState{Job: job, Pending: int(c.number()), LatestID: -1, ObservedAt: now}
	if latest := c.id(); latest != nil {
		state.LatestID = *latest
	}
	state.LatestAt = c.number()
	f := parseFields(&c)
	state.Epoch, state.NextID = f.optional("epoch"), f.optional("next")
	state.Configured, state.Revision = f.values["configured"] == "1", f.optional("srev")
	state.Settings = parseSettings(&f)
	state.ConsecutiveFailures, state.Failing = int(f.optional("fails")), f.values["failing"] == "1"
	if f.values["f_id"] != "" {
		state.LastFailure = &coordinator.JobFailure{
			CheckpointID: f.number("f_id"), At: f.number("f_at"),
			Failure: coordinator.Failure{Reason: coordinator.FailureReason(f.values["f_reason"]), TaskID: f.values["f_task"], Message: f.values["f_msg"]},
		}
	}
	state.LastCompletedAt = f.optional("okat")
	state.Schedule = coordinator.ScheduleState{
		Due: f.optional("due"), Last: coordinator.ScheduleResult(f.values["sch_last"]), LastAt: f.optional("sch_at"), LastID: -1,
		Triggered: f.optional("sch_triggered"), Skipped: f.optional("sch_skipped"), Missed: f.optional("sch_missed"),
	}
	if f.values["sch_id"] != "" {
		state.Schedule.LastID = f.number("sch_id")
	}
	var err error
	state.LastEvent, err = parseEventID(f.values["evlast"])
	return storedJob{JobState: state, names: f.values["s_names"]}, errors.Join(c.err, f.err, err)
}

func parseSettings(f *fields) coordinator.JobSettings {
	small := func(name string) *int {
		if f.values[name] == "" {
			return nil
		}
		return new(int(f.number(name)))
	}
	number := func(name string) *int64 {
		if f.values[name] == "" {
			return nil
		}
		return new(f.number(name))
	}
	return coordinator.JobSettings{
		RequiredTaskAcks: small("s_required"), NamedTasks: int(f.optional("s_named")), TimeoutMs: number("s_timeout"),
		IntervalMs: number("s_interval"), MinPauseMs: number("s_minpause"), MaxConcurrent: small("s_pending"),
		TolerableFailures: small("s_tolerate"), StaleAfterMs: number("s_stale"), Keep: small("s_keep"),
		MaxAgeMs: number("s_age"), MaxBytes: number("s_bytes"), Paused: f.values["s_paused"] == "1", Description: f.values["s_desc"],
	}
}
