package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var jobStateScript = newScript("job_state", readPreludes)

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
			state, err := parseJobState(some[i], r)
			if err != nil {
				return nil, err
			}
			s.floors.see(state.Job, state.NextID-1)
			states = append(states, state)
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

func parseJobState(job string, r reply) (coordinator.JobState, error) {
	if r.word != wordOK {
		return coordinator.JobState{}, badReply(jobStateScript.verb, r, errWord)
	}
	body := cursor{values: r.body}
	state := coordinator.JobState{
		Job: job, Epoch: body.number(), NextID: body.number(), Pending: int(body.number()),
		LatestID: -1, ObservedAt: r.now,
	}
	if latest := body.id(); latest != nil {
		state.LatestID = *latest
	}
	state.LatestAt = body.number()
	if body.err != nil {
		return coordinator.JobState{}, badReply(jobStateScript.verb, r, fmt.Errorf("job %q: %w", job, body.err))
	}
	return state, nil
}
