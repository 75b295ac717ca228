package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// WriteShared changes the shared state of a pending checkpoint.
func (r *reference) WriteShared(_ context.Context, call coordinator.SharedWrite) (coordinator.SharedWritten, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	j, c, err := r.subject(call.Job, call.ID, call.Import)
	if err != nil {
		return coordinator.SharedWritten{}, err
	}
	if c.Status != coordinator.StatusPending {
		return coordinator.SharedWritten{}, r.late(j, c)
	}
	tag, exists := c.SharedTag(), true
	var before refEntry
	if call.Single {
		before, exists = c.shared[call.Entries[0].Key]
		tag = entryTag(before)
	}
	if !met(call.If, tag, exists) {
		return coordinator.SharedWritten{}, coordinator.ErrPreconditionFailed()
	}
	changed := maps.Clone(c.shared)
	switch call.Op {
	case coordinator.SharedPut:
		for _, entry := range call.Entries {
			changed[entry.Key] = refEntry{value: slices.Clone(entry.Value), revision: c.SharedRevision + 1}
		}
	case coordinator.SharedDelete:
		key := call.Entries[0].Key
		if _, ok := changed[key]; !ok {
			return coordinator.SharedWritten{}, coordinator.ErrKeyNotFound(c.ID, key)
		}
		delete(changed, key)
	case coordinator.SharedClear:
		clear(changed)
	}
	size := int64(len(renderShared(changed)))
	switch {
	case len(changed) > coordinator.MaxSharedKeys:
		return coordinator.SharedWritten{}, coordinator.ErrLimitExceeded("sharedKeys", coordinator.MaxSharedKeys, "The shared state has too many keys")
	case size > coordinator.MaxSharedBytes:
		return coordinator.SharedWritten{}, coordinator.ErrTooLarge("sharedBytes", coordinator.MaxSharedBytes, "The shared state is too large")
	}
	c.shared, c.SharedEntries, c.SharedBytes = changed, int64(len(changed)), size
	c.SharedRevision++
	written := coordinator.SharedWritten{Checkpoint: r.view(c), Created: call.Single && call.Op == coordinator.SharedPut && !exists, Tag: c.SharedTag()}
	if call.Single && call.Op == coordinator.SharedPut {
		written.Tag = entryTag(changed[call.Entries[0].Key])
	}
	return written, nil
}

func entryTag(e refEntry) string { return fmt.Sprintf("e%d", e.revision) }

// renderShared renders shared state as its restore bytes.
func renderShared(shared map[string]refEntry) []byte {
	var lines []byte
	for _, key := range slices.Sorted(maps.Keys(shared)) {
		lines = snapshot.AppendEntry(lines, snapshot.Shared, key, shared[key].value)
	}
	return lines
}

// readable finds a checkpoint whose shared state can be read.
func (r *reference) readable(ref coordinator.Ref) (*refCheckpoint, coordinator.Checkpoint, error) {
	j, err := r.job(ref.Job)
	if err != nil {
		return nil, coordinator.Checkpoint{}, err
	}
	c, err := j.find(ref.ID)
	if err != nil {
		return nil, coordinator.Checkpoint{}, err
	}
	v := r.view(c)
	if v.Status == coordinator.StatusExpired || v.Status == coordinator.StatusAborted {
		return nil, v, coordinator.ErrEnded(c.ID, v.Status)
	}
	return c, v, nil
}

// SharedState reads all of it.
func (r *reference) SharedState(_ context.Context, ref coordinator.Ref) (coordinator.SharedState, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, v, err := r.readable(ref)
	if err != nil {
		return coordinator.SharedState{}, err
	}
	state := coordinator.SharedState{Checkpoint: v}
	for _, key := range slices.Sorted(maps.Keys(c.shared)) {
		state.Entries = append(state.Entries, coordinator.SharedEntry{Key: key, Value: slices.Clone(c.shared[key].value)})
	}
	return state, nil
}

// SharedEntry reads one entry.
func (r *reference) SharedEntry(_ context.Context, ref coordinator.Ref, key string) (coordinator.SharedValue, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, v, err := r.readable(ref)
	if err != nil {
		return coordinator.SharedValue{}, err
	}
	entry, ok := c.shared[key]
	if !ok {
		return coordinator.SharedValue{}, coordinator.ErrKeyNotFound(c.ID, key)
	}
	return coordinator.SharedValue{Checkpoint: v, Value: slices.Clone(entry.value), Tag: entryTag(entry)}, nil
}
