package filestore

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // An entity tag, not a signature: whoever may write may read.
	"encoding/hex"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/checkpointd/checkpointd/internal/coordinator"
	"github.com/checkpointd/checkpointd/internal/snapshot"
)

// WriteShared changes the shared state of a pending checkpoint.
func (s *Store) WriteShared(ctx context.Context, call coordinator.SharedWrite) (coordinator.SharedWritten, error) {
	return mutate(ctx, s, func(st *step) (coordinator.SharedWritten, error) {
		c, err := st.subjectToChange(call.Job, call.ID, call.Import, false)
		if err != nil {
			return coordinator.SharedWritten{}, err
		}
		if c.Status != coordinator.StatusPending {
			return coordinator.SharedWritten{}, st.late(c)
		}
		return st.writeShared(c, call)
	})
}

func (s *step) writeShared(c *checkpoint, call coordinator.SharedWrite) (coordinator.SharedWritten, error) {
	state := child(c.b, bucketState)
	tag, exists := c.sharedTag(), true // the state as a whole always exists; it may be empty
	if call.Single {
		value := get(state, []byte(call.Entries[0].Key))
		tag, exists = entryTag(value), value != nil
	}
	if !call.If.Met(tag, exists) {
		return coordinator.SharedWritten{}, coordinator.ErrPreconditionFailed()
	}
	sum, err := c.sharedAfter(state, call)
	if err != nil {
		return coordinator.SharedWritten{}, err
	}

	switch call.Op {
	case coordinator.SharedPut:
		state = s.bucket(c.b, bucketState)
		for _, entry := range call.Entries {
			s.put(state, []byte(entry.Key), entry.Value)
		}
	case coordinator.SharedDelete:
		s.delete(state, []byte(call.Entries[0].Key))
	case coordinator.SharedClear:
		s.drop(c.b, bucketState)
	}
	c.Entries += sum.Entries - c.Shared.Entries
	c.Bytes += sum.Bytes - c.Shared.Bytes
	sum.Revision = c.Shared.Revision + 1
	c.Shared = sum
	s.touch(c)

	written := coordinator.SharedWritten{Checkpoint: c.view(s.now), Tag: c.sharedTag()}
	if call.Single && call.Op == coordinator.SharedPut {
		written.Created, written.Tag = !exists, entryTag(call.Entries[0].Value)
	}
	return written, nil
}

// sharedAfter sums up the shared state as the call would leave it, or refuses the call.
func (c *checkpoint) sharedAfter(state *bolt.Bucket, call coordinator.SharedWrite) (shared, error) {
	if call.Op == coordinator.SharedClear {
		return shared{}, nil
	}
	sum := shared{Entries: c.Shared.Entries, Bytes: c.Shared.Bytes}
	earlier := map[string][]byte{} // a key may stand twice in one call
	for _, entry := range call.Entries {
		value, known := earlier[entry.Key]
		if !known {
			value = get(state, []byte(entry.Key))
		}
		if value != nil {
			sum.Entries--
			sum.Bytes -= int64(snapshot.EntrySize(snapshot.Shared, entry.Key, value))
		}
		if call.Op == coordinator.SharedDelete {
			if value == nil {
				return shared{}, coordinator.ErrKeyNotFound(c.id, entry.Key)
			}
			continue
		}
		earlier[entry.Key] = entry.Value
		sum.Entries++
		sum.Bytes += int64(snapshot.EntrySize(snapshot.Shared, entry.Key, entry.Value))
	}
	if call.Op != coordinator.SharedPut {
		return sum, nil
	}
	if sum.Entries > coordinator.MaxSharedKeys {
		return shared{}, coordinator.ErrLimitExceeded("sharedKeys", coordinator.MaxSharedKeys, fmt.Sprintf("The shared state would have %d keys", sum.Entries))
	}
	if sum.Bytes > coordinator.MaxSharedBytes {
		return shared{}, coordinator.ErrTooLarge("sharedBytes", coordinator.MaxSharedBytes, fmt.Sprintf("The shared state would have %d bytes", sum.Bytes))
	}
	return sum, nil
}

// entryTag is the entity tag of one entry. It is made of the value alone, as a store
// that reads nothing but the value can make it.
func entryTag(value []byte) string {
	sum := sha1.Sum(value) //nolint:gosec // As above.
	return hex.EncodeToString(sum[:])
}

// findShared finds a checkpoint whose shared state can be read.
func (s *step) findShared(ref coordinator.Ref) (*checkpoint, error) {
	c, err := s.find(ref, false)
	if err != nil {
		return nil, err
	}
	switch status := c.at(s.now).Status; status {
	case coordinator.StatusExpired, coordinator.StatusAborted:
		return nil, s.nextSteps(c.job, coordinator.ErrEnded(c.id, status))
	case coordinator.StatusPending, coordinator.StatusCompleted:
	}
	return c, nil
}

// SharedState reads the whole shared state, entries by key in byte order.
func (s *Store) SharedState(ctx context.Context, ref coordinator.Ref) (coordinator.SharedState, error) {
	return read(ctx, s, func(st *step) (coordinator.SharedState, error) {
		c, err := st.findShared(ref)
		if err == nil {
			err = s.checkShared(c)
		}
		if err != nil {
			return coordinator.SharedState{}, err
		}
		state := coordinator.SharedState{Checkpoint: c.view(st.now)}
		for key, value := range ascend(child(c.b, bucketState), nil) {
			state.Entries = append(state.Entries, coordinator.SharedEntry{Key: string(key), Value: bytes.Clone(value)})
		}
		return state, nil
	})
}

// SharedEntry reads one entry.
func (s *Store) SharedEntry(ctx context.Context, ref coordinator.Ref, key string) (coordinator.SharedValue, error) {
	return read(ctx, s, func(st *step) (coordinator.SharedValue, error) {
		c, err := st.findShared(ref)
		if err == nil {
			err = s.checkShared(c)
		}
		if err != nil {
			return coordinator.SharedValue{}, err
		}
		value := get(child(c.b, bucketState), []byte(key))
		if value == nil {
			return coordinator.SharedValue{}, coordinator.ErrKeyNotFound(c.id, key)
		}
		return coordinator.SharedValue{Checkpoint: c.view(st.now), Value: bytes.Clone(value), Tag: entryTag(value)}, nil
	})
}
