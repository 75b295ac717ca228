package filestore

import (
	"context"
	"errors"
	"maps"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// Import does one step of an import.
func (s *Store) Import(ctx context.Context, call coordinator.ImportCall) error {
	_, err := mutate(ctx, s, func(st *step) (struct{}, error) {
		switch call.Step {
		case coordinator.ImportOpen:
			return struct{}{}, st.openImport(call)
		case coordinator.ImportBegin:
			return struct{}{}, st.beginImport(call)
		case coordinator.ImportDrop:
			return struct{}{}, st.dropImport(call)
		case coordinator.ImportRenew, coordinator.ImportTasks, coordinator.ImportFinish:
		}
		c, err := st.subject(coordinator.Ref{Job: call.Job, ID: call.Checkpoint.ID}, call.Token, true)
		switch {
		case err != nil && call.Step == coordinator.ImportFinish && st.imported(call):
			return struct{}{}, nil
		case err != nil:
			return struct{}{}, err
		case call.Step == coordinator.ImportRenew:
			st.leaseImport(c, st.now+call.LeaseMs)
			return struct{}{}, nil
		case call.Step == coordinator.ImportTasks:
			st.importTasks(c, call)
			return struct{}{}, nil
		}
		return struct{}{}, st.finishImport(c, call)
	})
	return err
}

// underImport finds what the import with this token has begun and not finished; nil when there is none. With
// "" it finds that of any import.
func (j *job) underImport(id int64, token string) *checkpoint {
	c, known := j.importing[id]
	if !known {
		c = &checkpoint{job: j, id: id, b: child(child(j.b, bucketCheckpoints), idKey(id))}
		if c.b == nil || decode(c.b.Get(keyRecord), &c.record) != nil || c.Schema != importSchema {
			c = nil
		}
		j.importing[id] = c
	}
	if c == nil || token != "" && c.Import != token {
		return nil
	}
	return c
}

// subject is find for what workers do to a checkpoint, and an import to its own: token is "" for the former.
func (s *step) subject(ref coordinator.Ref, token string, late bool) (*checkpoint, error) {
	if token == "" {
		return s.find(ref, late)
	}
	j := s.job(ref.Job)
	if j == nil {
		return nil, coordinator.ErrJobNotFound(ref.Job)
	}
	if c := j.underImport(ref.ID, token); c != nil {
		return c, nil
	}
	return nil, s.absent(j, ref.ID, late)
}

// subjectToChange is subject for a change, as findToChange is find for one. Time does nothing to what is under
// import.
func (s *step) subjectToChange(job string, id int64, token string, late bool) (*checkpoint, error) {
	if token == "" {
		return s.findToChange(job, id, late)
	}
	return s.subject(coordinator.Ref{Job: job, ID: id}, token, late)
}

// imported tells whether the call's checkpoint was finished before.
func (s *step) imported(call coordinator.ImportCall) bool {
	j := s.job(call.Job)
	if j == nil {
		return false
	}
	c, err := j.checkpoint(call.Checkpoint.ID)
	return err == nil && c != nil && c.Import == call.Token && c.Status == call.Checkpoint.Status
}

func (s *step) openImport(call coordinator.ImportCall) error {
	if j := s.remains(call.Job); j != nil {
		for k := range ascend(child(j.b, bucketCheckpoints), nil) {
			if c, err := j.checkpoint(idOf(k)); err != nil || c != nil {
				return coordinator.ErrJobNotEmpty(call.Job)
			}
		}
		for range ascend(child(j.b, bucketImporting), nil) {
			return coordinator.ErrJobImporting(call.Job)
		}
	}
	j := s.makeJob(call.Job)
	j.NextID, j.Epoch = max(j.NextID, call.NextID), max(j.Epoch, call.Epoch)
	s.drop(j.b, bucketAttempts)
	s.touchJob(j)
	return nil
}

func (s *step) beginImport(call coordinator.ImportCall) error {
	id := call.Checkpoint.ID
	j := s.job(call.Job)
	switch {
	case j == nil:
		return coordinator.ErrJobNotFound(call.Job)
	case j.underImport(id, call.Token) != nil: // repeated
		return nil
	case child(child(j.b, bucketCheckpoints), idKey(id)) != nil:
		return coordinator.ErrJobNotEmpty(call.Job)
	}
	j = s.makeJob(call.Job)
	j.NextID = max(j.NextID, id+1)
	s.touchJob(j)
	// It does not expire: time does nothing to it but end its lease.
	c := &checkpoint{job: j, id: id, record: record{
		Schema: importSchema, Import: call.Token, Status: coordinator.StatusPending, Epoch: j.Epoch, Revision: 1, Timestamp: s.now, Start: s.now,
		Required: 1, Version: coordinator.SnapshotVersion,
	}}
	c.b = s.bucket(s.bucket(j.b, bucketCheckpoints), idKey(id))
	j.importing[id] = c
	s.leaseImport(c, s.now+call.LeaseMs)
	return nil
}

// leaseImport moves the end of the lease, 0 is none.
func (s *step) leaseImport(c *checkpoint, until int64) {
	leases := s.bucket(c.job.b, bucketImporting)
	s.delete(leases, timeKey(c.Lease, idKey(c.id)))
	if c.Lease = until; until > 0 {
		s.put(leases, timeKey(until, idKey(c.id)), present)
	}
	s.touch(c)
}

func (s *step) dropImport(call coordinator.ImportCall) error {
	j := s.job(call.Job)
	if j == nil {
		return coordinator.ErrJobNotFound(call.Job)
	}
	if c := j.underImport(call.Checkpoint.ID, call.Token); c != nil {
		s.removeImport(c)
	}
	return nil
}

// dropImports removes at most limit of those under import of which the lease ended before a time, and tells
// whether there may be more.
func (s *step) dropImports(j *job, before int64, limit int) (more bool) {
	var over []int64
	for k := range ascend(child(j.b, bucketImporting), nil) {
		if idOf(k) >= before || len(over) == limit {
			break
		}
		over = append(over, idOf(k[len(idKey(0)):]))
	}
	for _, id := range over {
		if c := j.underImport(id, ""); c != nil {
			s.removeImport(c)
		}
	}
	return len(over) == limit
}

// removeImport takes one out that is not finished. Nobody is told: nobody knew of it.
func (s *step) removeImport(c *checkpoint) {
	s.dropFiles(c, func(string) bool { return true })
	s.leaseImport(c, 0)
	s.drop(child(c.job.b, bucketCheckpoints), idKey(c.id))
	c.job.importing[c.id] = nil
}

func (s *step) importTasks(c *checkpoint, call coordinator.ImportCall) {
	c.Named = call.Checkpoint.NamedTasks
	for _, task := range call.Tasks {
		key := []byte(task.TaskID)
		if task.Ack == nil {
			s.put(s.bucket(c.b, bucketMissing), key, present)
			continue
		}
		if !c.hasAcked(task.TaskID) {
			if c.Staged > 0 && has(child(c.b, bucketParts), task.TaskID) {
				c.Staged--
			}
			c.Acked++
		}
		info := task.Ack.Part
		s.putJSON(s.bucket(c.b, bucketAcks), key, &ack{
			Attempt: task.Ack.Attempt, At: task.Ack.AcknowledgedAt, Entries: info.Entries, Bytes: info.Bytes, Digest: newPart("", info, false).Digest,
		})
		s.hearAttempt(c.job, task.TaskID, task.Ack.Attempt)
	}
	s.touch(c)
}

// size counts what is in a bucket.
func size(b *bolt.Bucket) int {
	n := 0
	for range ascend(b, nil) {
		n++
	}
	return n
}

var errNotCounted = errors.New("the acknowledgements, the parts or the shared state are not those that the record counts")

func (s *step) finishImport(c *checkpoint, call coordinator.ImportCall) error {
	final := call.Checkpoint
	acks, parts := size(child(c.b, bucketAcks)), size(child(c.b, bucketParts))
	if c.Acked != final.AcknowledgedTasks || acks != c.Acked || c.Staged != 0 || parts != call.Parts ||
		c.Shared.Entries != final.SharedEntries || c.Shared.Bytes != final.SharedBytes {
		return coordinator.ErrSnapshotDamaged(c.id, "what was imported", errNotCounted)
	}
	s.leaseImport(c, 0)
	delete(c.job.importing, c.id)
	c.Schema, c.job.read[c.id] = schemaVersion, c
	c.Status, c.Epoch, c.Revision, c.Timestamp = final.Status, final.Epoch, final.Revision, final.Timestamp
	c.Start, c.TimeoutMs, c.EndedAt, c.Required = final.Start, final.TimeoutMs, final.EndedAt, final.RequiredTaskAcks
	c.Pinned, c.SetAside = final.Pinned, final.SetAside
	c.Labels, c.Description, c.Version = maps.Clone(final.Labels), final.Description, final.SnapshotVersion
	c.Entries, c.Bytes, c.Digest, c.Shared.Revision = final.Entries, final.Bytes, final.Digest, final.SharedRevision
	if f := final.Failure; f != nil {
		c.Failure = &failure{Reason: f.Reason, TaskID: f.TaskID, Message: f.Message}
	}
	s.touch(c)
	j := c.job
	j.Timestamp = max(j.Timestamp, min(final.Timestamp, s.now))
	if c.Pinned {
		j.Pinned++
	}
	s.touchJob(j)
	if c.Status == coordinator.StatusCompleted {
		j.Outcomes.Highest, j.Outcomes.At = max(j.Outcomes.Highest, c.id), max(j.Outcomes.At, c.EndedAt)
		s.join(j, bucketCompleted, c.id, nil)
		if !c.Pinned && c.usable() {
			s.joinRetained(c)
		}
	} else {
		s.join(j, bucketEnded, c.id, nil)
		if !c.Pinned {
			j.Remains++
		}
	}
	s.logCheckpoint(c, map[coordinator.Status]coordinator.EventType{
		coordinator.StatusCompleted: coordinator.EventCompleted, coordinator.StatusExpired: coordinator.EventExpired,
		coordinator.StatusAborted: coordinator.EventAborted,
	}[c.Status], "")
	return nil
}
