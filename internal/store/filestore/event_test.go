package filestore

import (
	"testing"

	"github.com/checkpointd/checkpointd/internal/coordinator"
)

func TestTrimming(t *testing.T) {
	t.Parallel()

	t.Run("a lower number to keep is reached in bounded steps", func(t *testing.T) {
		t.Parallel()
		s := open(t, Options{})
		const before = 450
		for range before {
			trigger(t, s, 1)
		}
		held := func() int {
			n, err := read(t.Context(), s, func(st *step) (int, error) {
				return len(ids(child(st.job(coordinator.DefaultJob).b, bucketEvents))), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		last := held()
		for last > 2 {
			_, err := s.Trigger(t.Context(), coordinator.TriggerCall{Job: coordinator.DefaultJob, RequiredTaskAcks: 1, Defaults: coordinator.Settings{MaxConcurrent: 1000, EventsToKeep: 1}})
			if err != nil {
				t.Fatal(err)
			}
			now := held()
			if now >= last || last-now > trimStep {
				t.Fatalf("one change took the log from %d events to %d", last, now)
			}
			last = now
		}
		wantClean(t, s)
	})

	t.Run("a sweep has nothing to do where only the newest is too old or too large", func(t *testing.T) {
		t.Parallel()
		now := firstStart
		s := open(t, Options{Clock: func() int64 { return now }})
		ids := []int64{trigger(t, s, 1), trigger(t, s, 1), trigger(t, s, 1)}
		for _, id := range []int64{ids[2], ids[0], ids[1]} {
			acknowledge(t, s, id, "task-1", make([]byte, 1000))
			now += 100
		}
		if got := due(t, s, coordinator.Retention{MaxAgeMs: 200}); got != nil {
			t.Errorf("due where the newest completed first = %q", got)
		}
		now += 1000
		limits := coordinator.Retention{Keep: 5, MaxAgeMs: 999, MaxBytes: 10}
		if got := due(t, s, limits); len(got) != 1 {
			t.Errorf("due = %q", got)
		}
		sweep(t, s, limits)
		if got := due(t, s, limits); got != nil {
			t.Errorf("due after the sweep = %q", got)
		}
		if got := completedIDs(t, s); len(got) != 1 || got[0] != 2 {
			t.Errorf("completed ones left = %v", got)
		}
		wantClean(t, s)
	})
}
