package redisstore

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// The list of jobs lies in a slot of its own, so no script can change it together with a job.
// Who makes a job registers it before, and once more after it; who takes a deleted one out
// looks at it once more afterwards. Whichever comes last finds what the other did.

// jobNames lists all jobs in order: the default one, and those that somebody set out to
// write to, deleted ones among them that no sweep has seen yet. It is a superset of the jobs
// that exist; what cannot be a job is left out.
func (s *Store) jobNames(ctx context.Context) ([]string, error) {
	var names []string
	err := s.fetchFrom(ctx, "list jobs", jobsKey(s.prefix), func(ctx context.Context, node *redis.Client) error {
		var members *redis.StringSliceCmd
		_, err := proven(ctx, node, jobsKey(s.prefix), func(pipe redis.Pipeliner) { members = pipe.SMembers(ctx, jobsKey(s.prefix)) })
		if err != nil {
			return err
		}
		names, err = members.Result()
		return err
	})
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return coordinator.CheckJob(name) != nil })
	names = append(names, coordinator.DefaultJob)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// register puts a job into the list of jobs. It is called before anything of the job is
// written, so that the sweep finds whatever a job left.
func (s *Store) register(ctx context.Context, job string) error {
	ctx, cancel := context.WithTimeout(ctx, callBudget)
	defer cancel()
	return s.fetchFrom(ctx, "register_job", jobsKey(s.prefix), func(ctx context.Context, node *redis.Client) error {
		return node.SAdd(ctx, jobsKey(s.prefix), job).Err()
	})
}

// registerMade registers a job that was just made once more: a sweep may have taken it out in
// between, as deleted. The job is there whatever comes of it, so an error is none of the
// call's; the next sweep of this process finds that the job is not listed.
func (s *Store) registerMade(ctx context.Context, job string) {
	s.sweeps.know(job)
	_ = s.register(ctx, job)
}

// unlist takes a deleted job of which nothing waits for the sweep out of the list.
func (s *Store) unlist(ctx context.Context, job string) error {
	err := s.fetchFrom(ctx, "unlist_job", jobsKey(s.prefix), func(ctx context.Context, node *redis.Client) error {
		return node.SRem(ctx, jobsKey(s.prefix), job).Err()
	})
	if err != nil {
		return err
	}
	listed, err := s.needsListing(ctx, job)
	if err != nil {
		return err
	}
	if listed {
		return s.register(ctx, job)
	}
	s.sweeps.forget(job)
	return nil
}

// needsListing tells whether there is a job, or anything of one for the sweep.
func (s *Store) needsListing(ctx context.Context, job string) (bool, error) {
	keys, waiting := s.keys(job), int64(0)
	err := s.fetchFrom(ctx, "read what is left of a job", keys.job(), func(ctx context.Context, node *redis.Client) error {
		var err error
		waiting, err = node.Exists(ctx, keys.garbage(), keys.uploads(), keys.stages()).Result()
		return err
	})
	if err != nil {
		return false, err
	}
	seen, err := s.look(ctx, []string{job})
	if err != nil {
		return false, err
	}
	return waiting > 0 || seen[0].exists(job), nil
}
