package filestore

import (
	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// derive makes up, from what is there, what servers before this one did not write into a
// job's record. The sweep soon meets each job and writes it down; until then every reader
// does this again.
//
// Such a server may also have worked on the directory after this one. It drops members of
// the record that it does not know, and leaves behind buckets that it does not know.
func (l *ledger) derive(j *job) {
	j.Derived, j.derived = true, true
	j.Pinned, j.RetainedBytes = 0, 0
	var retained []*checkpoint
	for k := range ascend(child(j.b, bucketCheckpoints), nil) {
		c, err := j.checkpoint(idOf(k))
		if err != nil || c == nil {
			continue // of one that cannot be read there is nothing to count
		}
		if c.Pinned {
			j.Pinned++
		}
		if c.Status != coordinator.StatusCompleted {
			continue
		}
		j.Outcomes.Highest, j.Outcomes.At = max(j.Outcomes.Highest, c.id), max(j.Outcomes.At, c.EndedAt)
		if !c.Pinned && c.usable() {
			retained = append(retained, c)
			j.RetainedBytes += c.Bytes
		}
	}
	for k, text := range descend(child(j.b, bucketEvents), nil) {
		var e event
		_ = decode(text, &e) // the number counts, or it would be given again
		j.Log = eventLog{Seq: idOf(k), Epoch: e.Epoch}
		break
	}
	if !l.tx.Writable() {
		return
	}
	l.drop(j.b, bucketAges)
	for _, c := range retained {
		l.put(l.bucket(j.b, bucketAges), timeKey(c.EndedAt, idKey(c.id)), present)
	}
	l.touchJob(j)
}
