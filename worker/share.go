package worker

import (
	"errors"
	"hash/fnv"
)

// Share is a worker's share of what a fleet of another size has handed in. Its zero value is no
// sharing: every task comes back to its own part.
//
// Restore is then given entries of all tasks of the checkpoint, task by task, of which each group
// comes back to exactly one of the workers 0 to Of-1. Two tasks may have handed in the same key;
// it comes back once from each, and Entry.TaskID tells them apart. Put such values together, such as
// by adding them up: IntoMap would keep the last.
//
// Every worker reads the whole checkpoint, in memory that does not grow with it, and drops what
// is not its own.
type Share struct {
	// Index is this worker's place in the fleet, 0 to Of-1.
	Index int
	// Of is how many workers the fleet has now, from 1; 0 is no sharing.
	Of int
	// Group names what must stay together: entries whose keys have the same group come back to
	// the same worker, whose task it was does not matter. It must give all workers the same
	// answer. A key is a group of its own when nil.
	Group func(key string) string
}

// Owns tells whether a group belongs to this worker: the 64-bit FNV-1a hash of its bytes, taken
// as an unsigned number, modulo Of is Index. So workers in any language can share with this one: "p0"
// hashes to 636582081219390573, which is worker 1 of 2 and worker 0 of 3. Without a fleet
// (Of is 0) everything belongs to everybody.
//
// A worker that reads partitions asks it, too, so that a partition and its offset come together.
func (s Share) Owns(group string) bool {
	if s.Of <= 0 {
		return true
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(group)) // never fails
	return hash.Sum64()%uint64(s.Of) == uint64(s.Index)
}

// check finds what can be no share.
func (s Share) check(recoveryKey string) error {
	switch {
	case s.Of < 0, s.Index < 0, s.Index >= s.Of && s.Index > 0:
		return errors.New("worker: Share.Index must be 0 to Share.Of-1")
	case s.Of > 1 && recoveryKey == "":
		return errors.New("worker: Share needs a RecoveryKey, or the shares might be of different checkpoints")
	}
	return nil
}

// selection is what a restore hands on of what it reads.
type selection struct {
	// owns tells what is in the worker's share, see Worker.owns.
	owns   func(Entry) bool
	shared bool
	// sharedOnly ends the restore where the shared state does, which comes first.
	sharedOnly bool
}

// judge tells whether an entry is handed on, and whether there may be more.
func (s selection) judge(entry Entry) (wanted, more bool) {
	switch {
	case entry.TaskID == "":
		return s.shared, true
	case s.sharedOnly:
		return false, false
	}
	return s.owns(entry), true
}
