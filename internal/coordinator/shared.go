package coordinator

import (
	"context"
	"fmt"
)

// SharedOp is what a [SharedWrite] does.
type SharedOp int

// Put replaces the named keys, Delete removes exactly one, Clear removes all.
const (
	SharedPut SharedOp = iota + 1
	SharedDelete
	SharedClear
)

// SharedEntry is one key of shared state with its canonical JSON value.
type SharedEntry struct {
	Key   string
	Value []byte
}

// SharedWrite changes shared state. If is checked against the single entry when Single,
// else against the shared state as a whole.
type SharedWrite struct {
	Job     string
	ID      int64
	Op      SharedOp
	Entries []SharedEntry
	Single  bool
	If      Precondition
	// Import is the token of the import that makes the checkpoint, see [ImportStep]; "" for everybody else.
	// What an import writes has no condition, so it may reach the store twice, and the answer is empty.
	Import string
}

// SharedWritten is the state after a write. Created tells that a single put made its
// key; Tag is the entity tag of what was written (the entry's when Single).
type SharedWritten struct {
	Checkpoint Checkpoint
	Created    bool
	Tag        string
}

// SharedState is a checkpoint's whole shared state.
type SharedState struct {
	Checkpoint Checkpoint
	Entries    []SharedEntry
}

// SharedValue is one entry of shared state with its entity tag.
type SharedValue struct {
	Checkpoint Checkpoint
	Value      []byte
	Tag        string
}

// WriteShared changes the shared state of a pending checkpoint. Values must be
// canonical JSON.
func (c *Coordinator) WriteShared(ctx context.Context, write SharedWrite) (SharedWritten, error) {
	var f faults
	f.ref(write.Job, write.ID)
	for _, entry := range write.Entries {
		if write.Single {
			f.param("key", CheckKey(entry.Key))
		} else {
			f.body("/state/"+escapePointer(entry.Key), CheckKey(entry.Key))
		}
	}
	if err := f.err(); err != nil {
		return SharedWritten{}, err
	}
	if len(write.Entries) > MaxSharedKeys {
		return SharedWritten{}, ErrLimitExceeded("sharedKeys", MaxSharedKeys, fmt.Sprintf("The call writes %d keys", len(write.Entries)))
	}
	for _, entry := range write.Entries {
		if len(entry.Value) > MaxValueBytes {
			return SharedWritten{}, ErrTooLarge("valueBytes", MaxValueBytes, fmt.Sprintf("The value of key %q has %d bytes", entry.Key, len(entry.Value)))
		}
	}
	return call(c, "write_shared", func() (SharedWritten, error) { return c.store.WriteShared(ctx, write) })
}

// SharedState reads the whole shared state, entries by key in byte order.
func (c *Coordinator) SharedState(ctx context.Context, ref Ref) (SharedState, error) {
	var f faults
	f.ref(ref.Job, ref.ID)
	if err := f.err(); err != nil {
		return SharedState{}, err
	}
	return call(c, "shared_state", func() (SharedState, error) { return c.store.SharedState(ctx, ref) })
}

// SharedEntry reads one entry of the shared state.
func (c *Coordinator) SharedEntry(ctx context.Context, ref Ref, key string) (SharedValue, error) {
	var f faults
	f.ref(ref.Job, ref.ID)
	f.param("key", CheckKey(key))
	if err := f.err(); err != nil {
		return SharedValue{}, err
	}
	return call(c, "shared_entry", func() (SharedValue, error) { return c.store.SharedEntry(ctx, ref, key) })
}
