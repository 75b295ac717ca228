package storetest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// journal is the observer of every handle of a test: it keeps what the store reported
// about ends and deletions, which nothing else would show.
type journal struct {
	coordinator.Silence

	mu        sync.Mutex
	ends      []coordinator.Transition
	deletions []deletion
}

type deletion struct {
	Job string
	ID  int64
	Why coordinator.DeletionReason
}

// Ended keeps the report.
func (j *journal) Ended(t coordinator.Transition) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ends = append(j.ends, t)
}

// Deleted keeps the report.
func (j *journal) Deleted(job string, id int64, why coordinator.DeletionReason) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.deletions = append(j.deletions, deletion{Job: job, ID: id, Why: why})
}

// endOf gives every reported end of one checkpoint.
func (j *journal) endOf(job string, id int64) []coordinator.Transition {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []coordinator.Transition
	for _, end := range j.ends {
		if end.Job == job && end.ID == id {
			found = append(found, end)
		}
	}
	return found
}

// deletionOf gives every reported deletion of one checkpoint.
func (j *journal) deletionOf(job string, id int64) []coordinator.DeletionReason {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []coordinator.DeletionReason
	for _, gone := range j.deletions {
		if gone.Job == job && gone.ID == id {
			found = append(found, gone.Why)
		}
	}
	return found
}

// contradictions lists checkpoints that ended or went more than once: a terminal state
// never changes, so each is reported by exactly one of the replicas, once.
func (j *journal) contradictions() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	type checkpoint struct {
		job string
		id  int64
	}
	ended, deleted := map[checkpoint]int{}, map[checkpoint]int{}
	for _, end := range j.ends {
		ended[checkpoint{end.Job, end.ID}]++
	}
	for _, gone := range j.deletions {
		deleted[checkpoint{gone.Job, gone.ID}]++
	}
	var found []string
	for of, times := range ended {
		if times > 1 {
			found = append(found, fmt.Sprintf("the end of %s/%d was reported %d times", of.job, of.id, times))
		}
	}
	for of, times := range deleted {
		if times > 1 {
			found = append(found, fmt.Sprintf("the deletion of %s/%d was reported %d times", of.job, of.id, times))
		}
	}
	slices.Sort(found)
	return found
}
