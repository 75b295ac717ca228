package filestore

import (
	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// removalStep bounds how many checkpoints one change removes, and with it how long
// acknowledgements wait for it.
const removalStep = coordinator.CleanupStep

// joinRetained puts a completed, unpinned checkpoint among those that retention is about,
// and leaveRetained takes it out.
func (l *ledger) joinRetained(c *checkpoint) {
	j := c.job
	if get(child(j.b, bucketRetained), idKey(c.id)) != nil {
		return
	}
	l.join(j, bucketRetained, c.id, &j.Retained)
	j.RetainedBytes += c.Bytes
	l.put(l.bucket(j.b, bucketAges), timeKey(c.EndedAt, idKey(c.id)), present)
}

func (l *ledger) leaveRetained(c *checkpoint) {
	j := c.job
	if get(child(j.b, bucketRetained), idKey(c.id)) == nil {
		return
	}
	l.leave(j, bucketRetained, c.id, &j.Retained)
	j.RetainedBytes -= c.Bytes
	l.delete(child(j.b, bucketAges), timeKey(c.EndedAt, idKey(c.id)))
}

// retention gives what holds for the job.
func (j *job) retention(defaults coordinator.Retention) coordinator.Retention {
	return j.holds(coordinator.Settings{Retention: defaults}).Retention
}

// mayEvict tells, without reading any record, whether some checkpoints are too many, too
// old or too large. Leases may still hold all of them.
func (s *step) mayEvict(j *job, limits coordinator.Retention) bool {
	if j.Retained <= 1 {
		return false
	}
	if limits.Keep > 0 && j.Retained > limits.Keep || limits.MaxBytes > 0 && j.RetainedBytes > limits.MaxBytes {
		return true
	}
	newest := newestID(child(j.b, bucketRetained))
	for id := range s.aged(j, limits) {
		if id != newest {
			return true
		}
	}
	return false
}

// aged yields the retained checkpoints that are too old, the oldest first.
func (s *step) aged(j *job, limits coordinator.Retention) func(yield func(id int64) bool) {
	return func(yield func(int64) bool) {
		if limits.MaxAgeMs <= 0 {
			return
		}
		for k := range ascend(child(j.b, bucketAges), nil) {
			if s.now-idOf(k) <= limits.MaxAgeMs || !yield(idOf(k[len(idKey(0)):])) {
				return
			}
		}
	}
}

func newestID(set *bolt.Bucket) int64 {
	for k := range descend(set, nil) {
		return idOf(k)
	}
	return noCheckpoint
}

// retain removes completed, unpinned checkpoints that are too many, too old or too large,
// the oldest first; the newest always stays. Leased ones wait for a later call: they take
// no newer one's place among those to keep, but their bytes are there. One call removes at
// most removalStep; it tells whether it removed that many and there may be more.
func (s *step) retain(j *job, defaults coordinator.Retention) (more bool) {
	limits := j.retention(defaults)
	if !s.mayEvict(j, limits) {
		return false
	}
	gone := s.evictable(j, limits)
	for _, c := range gone {
		s.remove(c, coordinator.DeletedByRetention)
	}
	return len(gone) == removalStep
}

// evictable gives the first removalStep checkpoints that retention removes.
func (s *step) evictable(j *job, limits coordinator.Retention) []*checkpoint {
	// One without a whole record takes no place among those to keep, as one that is damaged does not.
	var lost []int64
	defer func() {
		for _, id := range lost {
			s.passOver(j, id)
		}
	}()
	free := func(id int64) *checkpoint {
		c, err := j.listedCheckpoint(id)
		if err != nil {
			lost = append(lost, id)
			return nil
		}
		if c.leased(s.now) {
			return nil
		}
		return c
	}
	// Ages need not be in the order of ids: what was triggered later may have completed
	// earlier, and the clock may have stepped back.
	old := map[int64]bool{}
	for id := range s.aged(j, limits) {
		if free(id) != nil {
			old[id] = true
		}
		if len(old) == removalStep {
			break
		}
	}
	over := 0
	if limits.Keep > 0 {
		over = max(0, j.Retained-limits.Keep)
	}
	size := j.RetainedBytes
	newest := newestID(child(j.b, bucketRetained))
	var out []*checkpoint
	place := 0
	for k := range ascend(child(j.b, bucketRetained), nil) {
		id := idOf(k)
		large := limits.MaxBytes > 0 && size > limits.MaxBytes
		if id == newest || len(out) == removalStep || place >= over && !large && len(old) == 0 {
			break
		}
		if place < over || large || old[id] {
			if c := free(id); c != nil {
				out = append(out, c)
				size -= c.Bytes
			}
		}
		delete(old, id)
		place++
	}
	return out
}
