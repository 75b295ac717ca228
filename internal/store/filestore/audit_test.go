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
		l := newLedger(tx)
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
	want := map[string]map[int64]bool{"pending": {}, "completed": {}, "retained": {}, "ended": {}, "deadlines": {}}
	remains := 0
	for k := range ascend(child(j.b, bucketCheckpoints), nil) {
		c := j.checkpoint(idOf(k))
		if c == nil {
			a.addf("checkpoint %d has no readable record", idOf(k))
			continue
		}
		if c.id >= j.NextID {
			a.addf("checkpoint %d is not below the next id %d", c.id, j.NextID)
		}
		a.checkpoint(c)
		switch c.Status {
		case coordinator.StatusPending:
			want["pending"][c.id] = true
			want["deadlines"][c.id] = c.TimeoutMs > 0
		case coordinator.StatusCompleted:
			want["completed"][c.id] = true
			want["retained"][c.id] = !c.Pinned
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
			if set == "deadlines" {
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
		"pending":  {j.Pending, len(ids(child(j.b, bucketPending), everything))},
		"retained": {j.Retained, len(ids(child(j.b, bucketRetained), everything))},
		"remains":  {j.Remains, remains},
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
	for task, given := range c.acks("") {
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
