package filestore

import (
	"context"
	"errors"
	"math"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// everything is no limit.
const everything = math.MaxInt

// sweepStep bounds how many of each kind one change of the sweep handles, and with it
// how long acknowledgements wait for it.
const sweepStep = 100

// Sweep does the work that no request waits for. A job that fails does not keep the
// others from being swept.
func (s *Store) Sweep(ctx context.Context, call coordinator.SweepCall) error {
	due, err := read(ctx, s, func(st *step) ([]string, error) { return st.due(call.Retention), nil })
	if err != nil {
		return err
	}
	var failed []error
	for _, name := range due {
		for more := true; more; {
			if more, err = free(ctx, s, func(st *step) (bool, error) { return st.sweep(name, call.Retention), nil }); err != nil {
				failed = append(failed, err)
			}
		}
	}
	s.endSilentUploads()
	defer s.reserve.take(s.clock()) // after the files are gone, there may be room
	if err := s.folder.unlink(unlinkSweep); err != nil {
		failed = append(failed, storageError(err))
	}
	return errors.Join(failed...)
}

// due lists the jobs that have something to sweep: it looks at the first entry of each
// index, so that idle jobs cost next to nothing.
func (s *step) due(defaults coordinator.Retention) []string {
	var due []string
	for _, j := range s.readableJobs() {
		if s.isDue(j, defaults) {
			due = append(due, j.name)
		}
	}
	return due
}

func (s *step) isDue(j *job, defaults coordinator.Retention) bool {
	passed := func(index []byte) bool {
		for k := range ascend(child(j.b, index), nil) {
			return idOf(k) < s.now
		}
		return false
	}
	return s.now < j.Clock || passed(bucketDeadlines) || passed(bucketImporting) || passed(bucketCallExpiries) ||
		s.mayEvict(j, j.retention(defaults)) || j.Remains > coordinator.EndedKept || j.derived
}

// sweep is one bounded step in one job; more tells that there may be more to do.
func (s *step) sweep(name string, defaults coordinator.Retention) (more bool) {
	j := s.remains(name)
	if j == nil {
		return false
	}
	more = s.catchUp(j, sweepStep)
	more = s.dropImports(j, s.now, sweepStep) || more
	more = s.retain(j, defaults) || more
	more = s.forgetCalls(j, sweepStep) || more
	s.crowded = append(s.crowded, j) // unpinning may have left too many ended ones
	return more
}

// catchUp writes the expiry of at most limit overdue checkpoints, and moves the start of
// all pending ones after the clock stepped back. It tells whether there may be more.
func (s *step) catchUp(j *job, limit int) (more bool) {
	if s.now < j.Clock {
		for _, id := range ids(child(j.b, bucketPending)) {
			if c, err := j.checkpoint(id); err == nil && c != nil && s.now < c.Start {
				s.rebase(c)
			}
		}
		j.Clock = s.now
		s.touchJob(j)
	}
	var overdue []*checkpoint
	var lost []int64
	for k := range ascend(child(j.b, bucketDeadlines), nil) {
		if idOf(k) >= s.now || len(overdue) == limit {
			break
		}
		id := idOf(k[min(len(k), len(idKey(0))):])
		if c, err := j.checkpoint(id); err == nil && c != nil {
			overdue = append(overdue, c)
		} else {
			lost = append(lost, id)
		}
	}
	for _, id := range lost {
		s.passOver(j, id)
	}
	for _, c := range overdue {
		s.expire(c)
	}
	return len(overdue) == limit
}
