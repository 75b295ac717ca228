package worker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
)

// Entry is one key of a task's state with its value.
type Entry struct {
	// Key has 1 to 1024 bytes of UTF-8 and is distinct within the part of a task.
	Key string
	// Value is JSON of at most 16 MiB. It comes back byte for byte, white space between its
	// tokens aside: numbers are not rounded and members keep their order.
	Value json.RawMessage
	// TaskID is the task that handed the entry in, where it comes back; empty for shared state. It
	// is not looked at where an entry is handed in.
	TaskID string
}

// Entries is a part of a checkpoint, entry by entry: what a task hands in, and what it gets
// back. It ends after the first error.
type Entries = iter.Seq2[Entry, error]

// Encode makes an entry of a key and a Go value, as encoding/json writes it but with <, >
// and & as they are. Its results can be yielded as they are:
//
//	return func(yield func(worker.Entry, error) bool) {
//		for _, user := range users { // in the same order each time, as a map does not have it
//			if !yield(worker.Encode(user.Name, user.Count)) {
//				return
//			}
//		}
//	}, nil
func Encode(key string, value any) (Entry, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return Entry{Key: key}, fmt.Errorf("encoding the value of %q: %w", key, err)
	}
	return Entry{Key: key, Value: bytes.TrimSuffix(out.Bytes(), []byte("\n"))}, nil
}

// FromMap hands in a map, in the order of its keys. It encodes while it is read, long after
// Snapshot has returned, so give it a map that nobody writes to any more, such as a
// maps.Clone of the state.
func FromMap[V any](m map[string]V) Entries {
	return func(yield func(Entry, error) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(Encode(key, m[key])) {
				return
			}
		}
	}
}

// IntoMap puts what comes back into a map, beside what is in it. Of keys that several tasks
// have, as a [Share] may bring them, the last remains.
func IntoMap[V any](m map[string]V, entries Entries) error {
	for entry, err := range entries {
		if err != nil {
			return err
		}
		var value V
		if err := json.Unmarshal(entry.Value, &value); err != nil {
			return fmt.Errorf("decoding the value of %q: %w", entry.Key, err)
		}
		m[entry.Key] = value
	}
	return nil
}

// Checkpoint is what a worker knows of a checkpoint.
type Checkpoint struct {
	// ID is None where there is no checkpoint, on a fresh start.
	ID int64
	// Epoch is the job's at the time of the trigger.
	Epoch int64
}

// None is the ID of no checkpoint. It is lower than every ID.
const None int64 = -1

func byID(a, b Checkpoint) int { return cmp.Compare(a.ID, b.ID) }
