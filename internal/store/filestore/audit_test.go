package filestore

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// audit lists what the indexes, counters and files of a store say against its records.
// Whatever a crash or a defect has left behind shows here.
func audit(t testing.TB, s *Store) []string {
	t.Helper()
	a := auditor{files: map[string]bool{}}
	err := s.db.View(func(tx *bolt.Tx) error {
		l := newLedger(tx, nil)
		for _, j := range l.readableJobs() {
			a.job(j)
		}
		for name := range ascend(tx.Bucket(bucketFiles), nil) {
			if !a.files[string(name)] {
				a.addf("file %s is in the index and in no record", name)
			}
			delete(a.files, string(name))
		}
		return nil
	})
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	for name := range a.files {
		a.addf("file %s is in a record and not in the index", name)
	}
	entries, err := os.ReadDir(s.folder.path)
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	err = s.db.View(func(tx *bolt.Tx) error {
		for _, entry := range entries {
			if tx.Bucket(bucketFiles).Get([]byte(entry.Name())) == nil {
				a.addf("file %s is in no record", entry.Name())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("audit: %v", err)
	}
	return a.findings
}

type auditor struct {
	findings []string
	files    map[string]bool // named by a record
}

func (a *auditor) addf(format string, args ...any) {
	a.findings = append(a.findings, fmt.Sprintf(format, args...))
}

func (a *auditor) job(j *job) {
	want := map[string]map[int64]bool{"pending": {}, "completed": {}, "retained": {}, "ages": {}, "ended": {}, "deadlines": {}}
	remains, pinned, present := 0, 0, 0
	retainedBytes := int64(0)
	for k := range ascend(child(j.b, bucketCheckpoints), nil) {
		c, err := j.checkpoint(idOf(k))
		if err != nil {
			a.addf("%v", err)
		}
		if under := j.underImport(idOf(k), ""); under != nil {
			if get(child(j.b, bucketImporting), timeKey(under.Lease, k)) == nil {
				a.addf("the lease of %d, which is under import, is not in importing", under.id)
			}
			continue
		}
		if c == nil {
			a.addf("checkpoint %d has no readable record", idOf(k))
			continue
		}
		if c.id >= j.NextID {
			a.addf("checkpoint %d is not below the next id %d", c.id, j.NextID)
		}
		a.checkpoint(c)
		present++
		if c.Pinned {
			pinned++
		}
		switch c.Status {
		case coordinator.StatusPending:
			want["pending"][c.id] = true
			want["deadlines"][c.id] = c.TimeoutMs > 0
		case coordinator.StatusCompleted:
			want["completed"][c.id] = true
			retained := !c.Pinned && c.usable()
			want["retained"][c.id], want["ages"][c.id] = retained, retained
			if retained {
				retainedBytes += c.Bytes
				if get(child(j.b, bucketAges), timeKey(c.EndedAt, idKey(c.id))) == nil {
					a.addf("the end of %d in job %s is not in ages", c.id, j.name)
				}
			}
			if c.id > j.Outcomes.Highest || j.Outcomes.At == 0 {
				a.addf("%d completed at %d, and job %s says %d and %d", c.id, c.EndedAt, j.name, j.Outcomes.Highest, j.Outcomes.At)
			}
		case coordinator.StatusExpired, coordinator.StatusAborted:
			want["ended"][c.id] = true
			if !c.Pinned {
				remains++
			}
		}
	}
	for set, members := range want {
		for k := range ascend(child(j.b, []byte(set)), nil) {
			id := idOf(k)
			if set == "deadlines" || set == "ages" {
				id = idOf(k[8:])
			}
			if !members[id] {
				a.addf("%d is in %s and should not be", id, set)
			}
			delete(members, id)
		}
		for id, wanted := range members {
			if wanted {
				a.addf("%d is not in %s and should be", id, set)
			}
		}
	}
	for what, counts := range map[string][2]int{
		"pending":  {j.Pending, len(ids(child(j.b, bucketPending)))},
		"retained": {j.Retained, len(ids(child(j.b, bucketRetained)))},
		"remains":  {j.Remains, remains},
		"pinned":   {j.Pinned, pinned},
		"bytes":    {int(j.RetainedBytes), int(retainedBytes)},
	} {
		if counts[0] != counts[1] {
			a.addf("job %s counts %d %s and has %d", j.name, counts[0], what, counts[1])
		}
	}
	for k := range ascend(child(j.b, bucketCallExpiries), nil) {
		if get(child(j.b, bucketCalls), k[8:]) == nil {
			a.addf("a call that is not remembered expires: %s", k[8:])
		}
	}
	a.log(j)
	a.history(j, present)
}

// log checks that a job's events are numbered without gaps up to where the record says.
func (a *auditor) log(j *job) {
	last := eventLog{}
	for k, text := range ascend(child(j.b, bucketEvents), nil) {
		var e event
		if err := json.Unmarshal(text, &e); err != nil {
			a.addf("event %d of job %s: %v", idOf(k), j.name, err)
		}
		if last.Seq != 0 && idOf(k) != last.Seq+1 || e.Epoch < last.Epoch {
			a.addf("event %d-%d of job %s follows %d-%d", e.Epoch, idOf(k), j.name, last.Epoch, last.Seq)
		}
		last = eventLog{Seq: idOf(k), Epoch: e.Epoch}
	}
	if last != j.Log || last.Epoch > j.Epoch {
		a.addf("the log of job %s ends at %+v, and its record in epoch %d says %+v", j.name, last, j.Epoch, j.Log)
	}
}

// history checks what is kept of checkpoints beyond their records.
func (a *auditor) history(j *job, present int) {
	for name, most := range map[string]int{"samples": coordinator.SamplesKept, "restores": coordinator.RestoresKept} {
		if n := len(ids(child(j.b, []byte(name)))); n > most {
			a.addf("job %s has %d %s", j.name, n, name)
		}
	}
	if named := len(j.ownTasks()); named != j.own().NamedTasks {
		a.addf("the settings of job %s name %d tasks and count %d", j.name, named, j.own().NamedTasks)
	}
	if j.Counts.Triggered != j.NextID {
		return // it was deleted once, or a server that did not count has worked on it
	}
	counts := coordinator.Counts(j.Counts)
	if ended := counts.Completed + counts.Failed(); ended+int64(j.Pending) != counts.Triggered {
		a.addf("job %s counts %d triggered, %d ended and %d pending", j.name, counts.Triggered, ended, j.Pending)
	}
	if counts.Triggered-counts.Deleted != int64(present) {
		a.addf("job %s counts %d triggered and %d deleted, and has %d", j.name, counts.Triggered, counts.Deleted, present)
	}
	if samples := len(ids(child(j.b, bucketSamples))); samples != int(min(counts.Completed, coordinator.SamplesKept)) {
		a.addf("job %s counts %d completed and has %d samples", j.name, counts.Completed, samples)
	}
}

func (a *auditor) checkpoint(c *checkpoint) {
	if c.Status == coordinator.StatusExpired || c.Status == coordinator.StatusAborted {
		for _, held := range [][]byte{bucketParts, bucketContent, bucketState} {
			if child(c.b, held) != nil {
				a.addf("%s checkpoint %d still has %s", c.Status, c.id, held)
			}
		}
	}
	acked, staged, files := 0, 0, 0
	var entries, size int64
	for name, text := range ascend(child(c.b, bucketAcks), nil) {
		task := string(name)
		given, err := c.readAck(task, text)
		if err != nil {
			a.addf("%v", err)
			continue
		}
		acked++
		entries, size = entries+given.Entries, size+given.Bytes
		if get(child(c.b, bucketMissing), []byte(task)) != nil {
			a.addf("task %q of checkpoint %d is missing and acknowledged", task, c.id)
		}
	}
	for task, text := range ascend(child(c.b, bucketParts), nil) {
		var p part
		if err := json.Unmarshal(text, &p); err != nil {
			a.addf("the part of task %q of checkpoint %d: %v", task, c.id, err)
		}
		if get(child(c.b, bucketAcks), task) == nil {
			staged++
		}
		content := get(child(c.b, bucketContent), task)
		if p.File {
			files++
			a.files[p.Upload] = true
			if content != nil {
				a.addf("the part of task %q of checkpoint %d lies in a file and in the database", task, c.id)
			}
		} else if int64(len(content)) != p.Bytes {
			a.addf("the part of task %q of checkpoint %d has %d bytes of %d", task, c.id, len(content), p.Bytes)
		}
	}
	for task := range ascend(child(c.b, bucketContent), nil) {
		if get(child(c.b, bucketParts), task) == nil {
			a.addf("the bytes of task %q of checkpoint %d belong to no part", task, c.id)
		}
	}
	if acked != c.Acked || staged != c.Staged || files != c.Files {
		a.addf("checkpoint %d counts %d acks, %d staged parts, %d files and has %d, %d, %d", c.id, c.Acked, c.Staged, c.Files, acked, staged, files)
	}
	if c.Status == coordinator.StatusCompleted && staged > 0 {
		a.addf("completed checkpoint %d has %d parts that nobody acknowledged", c.id, staged)
	}
	if (c.Status == coordinator.StatusPending || c.Status == coordinator.StatusCompleted) &&
		(c.Entries != entries+c.Shared.Entries || c.Bytes != size+c.Shared.Bytes) {
		a.addf("checkpoint %d sums up to %d entries of %d bytes and has %d of %d", c.id, c.Entries, c.Bytes, entries+c.Shared.Entries, size+c.Shared.Bytes)
	}
}
