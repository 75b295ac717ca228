package filestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// A record that cannot be read is an error for who asks for it, and is left out, or passed over, only by
// those who look at many. In both cases it is noted here, so that it shows in the log, in the metrics and in
// GET /readyz.

// sick names a checkpoint of which something cannot be read; noCheckpoint as its id is the job itself.
type sick struct {
	job string
	id  int64
}

const mostSick = 1000

// unreadable are those that were met and are still there.
type unreadable struct {
	mu  sync.Mutex
	all map[sick]error
	// tell is told of each once.
	tell func(error)
}

func (u *unreadable) note(job string, id int64, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := sick{job, id}
	if _, known := u.all[key]; known || len(u.all) >= mostSick {
		return
	}
	u.all[key] = err
	u.tell(fmt.Errorf("job %q: %w", job, err))
}

// still gives those of which something cannot be read now, after what was deleted or put right is forgotten.
func (s *Store) still(ctx context.Context) []sick {
	s.unreadable.mu.Lock()
	noted := slices.Collect(maps.Keys(s.unreadable.all))
	s.unreadable.mu.Unlock()
	var left []sick
	for _, key := range noted {
		_, err := read(ctx, s, func(st *step) (struct{}, error) { return struct{}{}, st.examine(key) })
		if err != nil {
			left = append(left, key)
			continue
		}
		s.unreadable.mu.Lock()
		delete(s.unreadable.all, key)
		s.unreadable.mu.Unlock()
	}
	return left
}

// examine looks at all records of a checkpoint, or at that of a job.
func (s *step) examine(key sick) error {
	j, err := s.readJob(key.job)
	if err != nil || j == nil || key.id == noCheckpoint {
		return err
	}
	c, err := j.checkpoint(key.id)
	if err != nil || c == nil {
		return err
	}
	return c.checkTotals()
}

// inconsistent is the refusal for a checkpoint of which something cannot be read or makes no sense.
func (j *job) inconsistent(id int64, what string, cause error) error {
	err := coordinator.ErrInconsistent(id, what, cause)
	j.unreadable(j.name, id, err)
	return err
}

// passOver takes a checkpoint without a whole record out of what is counted and waited for. What is there of
// it stays to be seen, until somebody deletes it; a completed one stays among the completed, where latest
// and recovery meet it.
func (s *step) passOver(j *job, id int64) {
	if get(child(j.b, bucketPending), idKey(id)) != nil {
		s.leave(j, bucketPending, id, &j.Pending)
		j.Counts.Aborted++ // so that what was triggered is what has ended or is pending
	}
	s.forgetTimes(j, bucketDeadlines, id)
	if get(child(j.b, bucketRetained), idKey(id)) != nil {
		s.leave(j, bucketRetained, id, &j.Retained)
		s.forgetTimes(j, bucketAges, id)
		j.Derived = false // its bytes are not known, so what sums them up is made anew
		s.touchJob(j)
	}
}

// forgetTimes takes an id out of an index by time.
func (s *step) forgetTimes(j *job, index []byte, id int64) {
	var gone [][]byte
	for k := range ascend(child(j.b, index), nil) {
		if idOf(k[min(len(k), len(idKey(0))):]) == id {
			gone = append(gone, slices.Clone(k))
		}
	}
	for _, k := range gone {
		s.delete(child(j.b, index), k)
	}
}

// removeRemnant takes away what is there of a checkpoint without a whole record.
func (s *step) removeRemnant(j *job, id int64, why coordinator.DeletionReason) {
	status := coordinator.StatusAborted
	if get(child(j.b, bucketCompleted), idKey(id)) != nil {
		status = coordinator.StatusCompleted
	}
	s.log(j, event{Type: coordinator.EventDeleted, ID: id, Status: status, Required: 1, Why: why, By: s.by})
	s.passOver(j, id)
	for _, set := range [][]byte{bucketCompleted, bucketEnded} {
		s.leave(j, set, id, nil)
	}
	s.forgetTimes(j, bucketImporting, id)
	b := child(child(j.b, bucketCheckpoints), idKey(id))
	for _, text := range ascend(child(b, bucketParts), nil) {
		if file := fileOf(text); file != "" && get(s.tx.Bucket(bucketFiles), []byte(file)) != nil {
			s.dropFile(file)
		}
	}
	s.drop(child(j.b, bucketCheckpoints), idKey(id))
	j.Counts.Deleted++
	j.Derived = false // whether it was pinned is not known
	s.touchJob(j)
	delete(j.unread, id)
	j.read[id] = nil
	s.report(func(o coordinator.Observer) { o.Deleted(j.name, id, why) })
}

// listed tells whether an index has the id.
func (j *job) listed(id int64) bool {
	return slices.ContainsFunc([][]byte{bucketPending, bucketCompleted, bucketEnded}, func(set []byte) bool {
		return get(child(j.b, set), idKey(id)) != nil
	})
}

// setOf is the index that has the checkpoints of a status; nil for what is no status.
func setOf(status coordinator.Status) []byte {
	switch status {
	case coordinator.StatusPending:
		return bucketPending
	case coordinator.StatusCompleted:
		return bucketCompleted
	case coordinator.StatusExpired, coordinator.StatusAborted:
		return bucketEnded
	}
	return nil
}

// has tells whether a bucket has a key, whatever its value is.
func has(b *bolt.Bucket, key string) bool { return get(b, []byte(key)) != nil }
