package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

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
	// sweepJobs is how many jobs one sweep runs scripts for, those with a deadline behind them
	// first: a server that has just started meets thousands of jobs and must not make
	// an expiry wait for all of them.
	sweepJobs = 500
	// sweepAtOnce is how many scripts go in one round trip. Redis runs them without a break.
	sweepAtOnce = 8
)

// Sweep looks at all jobs, and goes over those that have changed or where something was to
// happen by now. What is wrong with one job does not keep it from the others; a store that does
// not answer does. Its scripts may run twice, so they are sent again when a reply was
// lost; only the observer then misses what the first run ended.
func (s *Store) Sweep(ctx context.Context, call coordinator.SweepCall) error {
	names, err := s.jobNames(ctx)
	if err != nil {
		return err
	}
	listed := len(names)
	names = append(names, s.sweeps.missing(names)...)
	seen, err := s.look(ctx, names)
	if err != nil {
		return err
	}
	if err := s.relist(ctx, names[listed:], seen[listed:]); err != nil {
		return err
	}
	limits := retentionText(call.Retention)
	wanted := s.sweeps.wanted(names[:listed], seen, limits)
	if wanted, err = s.urgent(ctx, wanted); err != nil {
		return err
	}
	var failures []error
	for some := range slices.Chunk(wanted, sweepAtOnce) {
		first := s.sweepTogether(ctx, some, limits)
		for i, w := range some {
			err := s.sweepJob(ctx, w, limits, first[i])
			switch {
			case err == nil:
			case coordinator.CodeOf(err) == coordinator.CodeStoreUnavailable, ctx.Err() != nil:
				return err
			default:
				failures = append(failures, fmt.Errorf("sweep job %q: %w", w.job, err))
			}
		}
	}
	return errors.Join(failures...)
}

// relist registers jobs that this process knows and that are not listed any more, if they are
// still there: whoever took them out was cut off before it looked at them again.
func (s *Store) relist(ctx context.Context, jobs []string, glances []glance) error {
	for i, job := range jobs {
		if g := &glances[i]; g.err != nil || !g.exists(job) {
			s.sweeps.forget(job)
			continue
		}
		if err := s.register(ctx, job); err != nil {
			return err
		}
	}
	return nil
}

// urgent gives the jobs that this sweep goes over, in order. Of many it takes those that have a
// deadline behind them, and then those that have waited longest.
func (s *Store) urgent(ctx context.Context, wanted []candidate) ([]candidate, error) {
	if len(wanted) <= sweepJobs {
		return wanted, nil
	}
	for some := range slices.Chunk(wanted, lookStep) {
		err := s.fetch(ctx, "look at deadlines", func(ctx context.Context) error {
			return s.client.spread(ctx, s.candidateKeys(some), func(ctx context.Context, node *redis.Client, at []int) error {
				return s.findLate(ctx, node, some, at)
			})
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(wanted, candidate.compare)
	late := 0
	for late < len(wanted) && wanted[late].late {
		late++
	}
	return wanted[:max(late, sweepJobs)], nil
}

// findLate asks one server which of its jobs, at those places, have a deadline behind them.
func (s *Store) findLate(ctx context.Context, node *redis.Client, some []candidate, at []int) error {
	cmds := make([]*redis.ZSliceCmd, len(at))
	_, err := node.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, place := range at {
			cmds[i] = pipe.ZRangeWithScores(ctx, s.keys(some[place].job).deadlines(), 0, 0)
		}
		return nil
	})
	if concernsAll(err) {
		return err
	}
	for i, cmd := range cmds {
		w, first := &some[at[i]], cmd.Val()
		w.late = len(first) > 0 && int64(first[0].Score) < w.now
	}
	return nil
}

func (s *Store) candidateKeys(some []candidate) []string {
	keys := make([]string, len(some))
	for i := range some {
		keys[i] = s.keys(some[i].job).job()
	}
	return keys
}

// sweepTogether runs the script once for some jobs in one round trip. Where no reply came that
// can be read, the value is nil: the script runs again by itself, with all the care of run.
func (s *Store) sweepTogether(ctx context.Context, some []candidate, limits string) []*reply {
	within, cancel := context.WithTimeout(ctx, callBudget/2)
	defer cancel()
	replies := make([]*reply, len(some))
	// What fails runs again.
	_ = s.client.spread(within, s.candidateKeys(some), func(ctx context.Context, node *redis.Client, at []int) error {
		pipe := node.Pipeline()
		cmds := make([]*redis.Cmd, len(at))
		for i, place := range at {
			cmds[i] = pipe.EvalSha(ctx, s.form(sweepScript).text.Hash(), []string{s.keys(some[place].job).job()}, s.now(), limits, sweepStep)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		for i, cmd := range cmds {
			if cmd.Err() != nil {
				continue
			}
			job := some[at[i]].job
			if r, err := parseReply(sweepScript.verb, job, cmd.Val()); err == nil {
				s.report(job, r, r.ended)
				replies[at[i]] = &r
			}
		}
		return nil
	})
	return replies
}

// sweepJob goes on with a job after the first run of its script, and notes when it wants the
// next one.
func (s *Store) sweepJob(ctx context.Context, w candidate, limits string, first *reply) error {
	done, err := s.sweepRest(ctx, w.job, limits, first)
	if err != nil {
		return err
	}
	if w.gone && done.idle {
		return s.unlist(ctx, w.job)
	}
	s.sweeps.done(w, limits, done)
	return nil
}

// swept is what the sweep of a job came to.
type swept struct {
	// wake is when the job has something to do though nothing of it changes; 0 is at once.
	wake int64
	// idle is that there is no such moment.
	idle bool
}

func (s *Store) sweepRest(ctx context.Context, job, limits string, first *reply) (swept, error) {
	var done swept
	more, garbage := "1", int64(0)
	for run := 0; run < sweepRuns && more == "1"; run++ {
		if run > 0 || first == nil {
			r, err := s.run(ctx, sweepScript, reads, job, limits, sweepStep)
			if err != nil {
				return swept{}, err
			}
			first = &r
		}
		body := cursor{values: first.body}
		more, garbage = body.text(), body.number()
		wake := body.id()
		if first.word != wordOK || body.err != nil {
			return swept{}, badReply(sweepScript.verb, *first, errors.Join(errWord, body.err))
		}
		if done = (swept{idle: wake == nil}); wake != nil {
			done.wake = *wake
		}
	}
	for run := 0; run < drainRuns && garbage > 0; run++ {
		r, err := s.run(ctx, drainScript, reads, job, drainStep)
		if err != nil {
			return swept{}, err
		}
		body := cursor{values: r.body}
		garbage = body.number()
		if r.word != wordOK || body.err != nil {
			return swept{}, badReply(drainScript.verb, r, errors.Join(errWord, body.err))
		}
	}
	if more == "1" || garbage > 0 {
		done = swept{}
	}
	return done, nil
}

// retentionText is retention as prelude_end.lua takes it; the job's own settings win there.
func retentionText(r coordinator.Retention) string {
	text := strconv.AppendInt(make([]byte, 0, 64), int64(max(0, r.Keep)), 10)
	text = strconv.AppendInt(append(text, '|'), max(0, r.MaxAgeMs), 10)
	text = strconv.AppendInt(append(text, '|'), max(0, r.MaxBytes), 10)
	return string(text)
}
