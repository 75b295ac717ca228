package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

var (
	sweepScript = newScript("sweep", uploadPreludes)
	drainScript = newScript("drain", readPreludes)
)

const (
	// sweepStep is how many of each kind one run of the sweep script handles, drainStep
	// how many chunks one run of the drain script unlinks.
	sweepStep = 100
	drainStep = 1000
	// sweepRuns and drainRuns bound how long one job keeps the others waiting; the next
	// sweep goes on.
	sweepRuns = 20
	drainRuns = 100
)

// Sweep goes over all jobs. What is wrong with one job does not keep it from the others;
// a store that does not answer does. Its scripts may run twice, so they are sent again
// when a reply was lost; only the observer then misses what the first run ended.
func (s *Store) Sweep(ctx context.Context, call coordinator.SweepCall) error {
	jobs, err := s.jobNames(ctx)
	if err != nil {
		return err
	}
	var failures []error
	for _, job := range jobs {
		err := s.sweepJob(ctx, job, retentionText(call.Retention))
		switch {
		case err == nil:
		case coordinator.CodeOf(err) == coordinator.CodeStoreUnavailable, ctx.Err() != nil:
			return err
		default:
			failures = append(failures, fmt.Errorf("sweep job %q: %w", job, err))
		}
	}
	return errors.Join(failures...)
}

func (s *Store) sweepJob(ctx context.Context, job, limits string) error {
	garbage := int64(0)
	for range sweepRuns {
		r, err := s.run(ctx, sweepScript, reads, job, limits, sweepStep)
		if err != nil {
			return err
		}
		body := cursor{values: r.body}
		more := body.text()
		garbage = body.number()
		if r.word != wordOK || body.err != nil {
			return badReply(sweepScript.verb, r, errors.Join(errWord, body.err))
		}
		if more != "1" {
			break
		}
	}
	for run := 0; run < drainRuns && garbage > 0; run++ {
		r, err := s.run(ctx, drainScript, reads, job, drainStep)
		if err != nil {
			return err
		}
		body := cursor{values: r.body}
		garbage = body.number()
		if r.word != wordOK || body.err != nil {
			return badReply(drainScript.verb, r, errors.Join(errWord, body.err))
		}
	}
	return nil
}

// retentionText is retention as prelude_end.lua takes it; the job's own settings win there.
func retentionText(r coordinator.Retention) string {
	return fmt.Sprintf("%d|%d|%d", max(0, r.Keep), max(0, r.MaxAgeMs), max(0, r.MaxBytes))
}

// jobNames lists all jobs in order: the default one, and those that somebody set out to
// write to, deleted ones among them. It is a superset of the jobs that exist; what cannot be a
// job is left out.
func (s *Store) jobNames(ctx context.Context) ([]string, error) {
	var names []string
	err := s.fetch(ctx, "list jobs", func(ctx context.Context) error {
		var err error
		names, err = s.client.SMembers(ctx, jobsKey(s.prefix)).Result()
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
