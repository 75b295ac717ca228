package redisstore

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

// put writes n keys with one and the same value.
func (l *lab) put(s *Store, n int, value string) error {
	write := coordinator.SharedWrite{Job: l.job, ID: 7, Op: coordinator.SharedPut}
	for i := range n {
		write.Entries = append(write.Entries, coordinator.SharedEntry{Key: fmt.Sprintf("key-%05d", i), Value: []byte(value)})
	}
	_, err := s.WriteShared(l.Context(), write)
	return err
}

func TestLargeSharedStateIsReadAtOneMoment(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(7, values{})
	s := l.store()
	const keys, writes = sharedInScriptKeys + 1, 10
	l.ok(l.put(s, keys, "0"))

	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 1; n <= writes; n++ {
			if err := l.put(s, keys, fmt.Sprint(n)); err != nil {
				t.Errorf("write %d: %v", n, err)
				return
			}
		}
	})
	for done := false; !done; {
		state, err := s.SharedState(t.Context(), l.ref(7))
		l.ok(err)
		want := fmt.Sprint(state.Checkpoint.SharedRevision - 1)
		l.same("keys", len(state.Entries), keys)
		for i, entry := range state.Entries {
			if string(entry.Value) != want || i > 0 && state.Entries[i-1].Key >= entry.Key {
				t.Fatalf("entry %d is %s=%s at revision %d", i, entry.Key, entry.Value, state.Checkpoint.SharedRevision)
			}
		}
		done = want == fmt.Sprint(writes)
		if t.Failed() {
			break
		}
	}
	writer.Wait()
}

func TestLargeSharedStateOfAnEndedCheckpoint(t *testing.T) {
	t.Parallel()
	l := newLab(t, "orders")
	l.record(7, values{})
	s := l.store()
	l.ok(l.put(s, 2, `"`+strings.Repeat("x", sharedInScriptBytes)+`"`))
	state, err := s.SharedState(t.Context(), l.ref(7))
	l.ok(err)
	l.same("keys", len(state.Entries), 2)

	// It ends between the two steps.
	_, err = s.Abort(t.Context(), coordinator.AbortCall{Job: l.job, ID: 7})
	l.ok(err)
	entries, same, err := s.sharedAtRevision(t.Context(), state.Checkpoint)
	l.ok(err)
	l.same("the same", same, false)
	l.same("entries", len(entries), 0)
	_, err = s.SharedState(t.Context(), l.ref(7))
	l.refused(err, coordinator.CodeCheckpointAborted)
}
